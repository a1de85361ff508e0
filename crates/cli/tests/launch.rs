//! The small program that a run begins with does what the whole program does, word for word.

mod common;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Scratch, Seen, output, program};

/// What the small one becomes for all that is not usual.
fn whole_program() -> PathBuf {
    let whole = Path::new(program()).with_file_name("lib/millstream/millstream");
    assert!(whole.exists(), "{} is missing: run the tests with 'make test'", whole.display());
    whole
}

/// Both, with the same arguments in the same surroundings.
fn both(prepare: impl Fn(&mut Command)) -> [Seen; 2] {
    [PathBuf::from(program()), whole_program()].map(|program| {
        let mut command = Command::new(program);
        command.arg0("millstream").stdin(Stdio::null());
        for name in ["LD_PRELOAD", "MILLSTREAM_RUN", "MILLSTREAM_PROGRAM"] {
            command.env_remove(name);
        }
        command.env("SHELL", "/bin/sh");
        prepare(&mut command);
        output(&mut command)
    })
}

fn assert_same(what: &str, prepare: impl Fn(&mut Command)) -> Seen {
    let [small, whole] = both(prepare);
    assert_eq!(small, whole, "{what}");
    small
}

/// Everything that a program can see of how it was started, but what differs from run to run. Of programs that the shell
/// starts: between two of them it does this and that to its own signals and descriptors.
const SURROUNDINGS: &str = r#"
    printf '<%s>' "$0" "$@"; echo
    tr '\0' '\n' </proc/$$/environ | sed 's/^\(MILLSTREAM_RUN=[^:]*:[^:]*:[^:]*\).*/\1/' | grep -v '^_='
    grep -E '^(Name|Sig[BI]|Cap|NoNew)' /proc/self/status
    ls /proc/self/fd
    cat /proc/$$/comm
    ulimit -a"#;

#[test]
fn arguments_mean_the_same() {
    let cases: [&[&str]; 48] = [
        &[],
        &["run"],
        &["run", "--"],
        &["run", ""],
        &["run", "--", ""],
        &["run", "-c"],
        &["run", "-c", ""],
        &["run", "-c", "-x"],
        &["run", "-c", SURROUNDINGS],
        &["run", "-c", SURROUNDINGS, "zero", "one two", "", "-x", "--ring", "--", "-c"],
        &["run", "-c", SURROUNDINGS, "--", "zero", "one"],
        &["run", "-c", SURROUNDINGS, "--", "--", "one"],
        &["run", "-c", SURROUNDINGS, "--", "-x"],
        &["run", "-c", SURROUNDINGS, "-x"],
        &["run", "-c", "echo a", "-c", "echo b"],
        &["run", "-cecho a"],
        &["run", "--ring", "-c", SURROUNDINGS],
        &["run", "-c", SURROUNDINGS, "--ring"],
        &["run", "-c", "echo a", "--ring", "b"],
        &["run", "--ring", "--ring", "--", "true"],
        &["run", "--no-ring", "-c", SURROUNDINGS],
        &["run", "--no-ring", "--no-ring", "--", "true"],
        &["run", "--ring", "--no-ring", "--", "true"],
        &["run", "--no-ring", "--", "cat", "/proc/self/comm", "/proc/self/limits"],
        &["run", "--shell", "bash", "-c", SURROUNDINGS],
        &["run", "--shell=bash", "-c", SURROUNDINGS],
        &["run", "--shell", "/nonexistent/sh", "-c", "echo a"],
        &["run", "--shell", "no-such-shell", "-c", "echo a"],
        &["run", "--shell", "bash"],
        &["run", "--shell", "bash", "--", "true"],
        &["run", "--shell", "-c", "echo a"],
        &["run", "--", "sh", "-c", SURROUNDINGS, "--", "a", "--", "b"],
        &["run", "sh", "-c", SURROUNDINGS, "--", "a", "--", "b"],
        &["run", "sh", "--", "-c", "echo a"],
        &["run", "--", "sh", "-c", "exit 3"],
        &["run", "sh", "-c", "kill -9 $$"],
        &["run", "-"],
        &["run", "--", "-"],
        &["run", "--no-such-option", "true"],
        &["run", "--", "env"],
        &["run", "--ring", "--", "cat", "/proc/self/comm", "/proc/self/limits"],
        &["run", "--", "no-such-command"],
        &["run", "--", "/nonexistent/command"],
        &["run", "--", "/"],
        &["run", "--", "/etc/passwd"],
        &["run", "--", "/etc/passwd/command"],
        &["run", "--help"],
        &["--version"],
    ];
    for arguments in cases {
        // The whole of them but for what only `env` shows.
        let without_token = |seen: Seen| {
            let stdout =
                seen.stdout.lines().filter(|line| !line.starts_with("MILLSTREAM_RUN=")).collect::<Vec<_>>().join("\n");
            Seen { stdout, ..seen }
        };
        let [small, whole] = both(|command| {
            command.args(arguments);
        })
        .map(without_token);
        assert_eq!(small, whole, "{arguments:?}");
    }
    let seen = assert_same("settings", |command| {
        command.args(["run", "-c", SURROUNDINGS]);
    });
    assert!(seen.stdout.contains("\nMILLSTREAM_RUN=4:") && seen.stdout.contains("\nLD_PRELOAD=/"), "{seen:?}");
}

#[test]
fn the_environment_means_the_same() {
    type Variables = &'static [(&'static str, Option<&'static str>)];
    let changes: [(&str, Variables); 11] = [
        ("no shell", &[("SHELL", None)]),
        ("an empty shell", &[("SHELL", Some(""))]),
        ("another shell", &[("SHELL", Some("bash"))]),
        ("a shell that is not there", &[("SHELL", Some("/nonexistent/sh"))]),
        ("no path", &[("PATH", None)]),
        ("a path with all sorts of things", &[("PATH", Some("/etc/passwd::.:/nonexistent:relative:/usr/bin:/bin"))]),
        ("an empty preload", &[("LD_PRELOAD", Some(""))]),
        ("a preload of the user's own", &[("LD_PRELOAD", Some("libm.so.6"))]),
        ("a run around it", &[("MILLSTREAM_RUN", Some("4:262144:0:0:1:0"))]),
        ("a preload of ours", &[("LD_PRELOAD", Some("/old/libmillstream_preload.so")), ("MILLSTREAM_RUN", Some("x"))]),
        (
            "names that begin alike",
            &[("SHEL", Some("a")), ("SHELLS", Some("b")), ("PATHS", Some("c")), ("LD_PRELOADED", Some("d"))],
        ),
    ];
    let without_path = assert_same("an empty path", |command| {
        command.args(["run", "-c", "echo $PATH; ls"]).env("PATH", "");
    });
    assert_eq!(without_path.code, Some(127));
    for (what, variables) in changes {
        for arguments in
            [["run", "-c", SURROUNDINGS].as_slice(), &["run", "--", "sh", "-c", SURROUNDINGS], &["run", "--", "true"]]
        {
            assert_same(what, |command| {
                command.args(arguments);
                for (name, value) in variables {
                    match value {
                        Some(value) => command.env(name, value),
                        None => command.env_remove(name),
                    };
                }
            });
        }
    }
}

#[test]
fn more_than_its_room_is_no_limit() {
    let count = "echo $#; env | grep -c ^MANY";
    for (arguments, variables) in [(0, 2000), (5000, 0), (1020, 1000), (1019, 970)] {
        let seen = assert_same("many", |command| {
            command.args(["run", "-c", count, "name"]).args((0..arguments).map(|number| number.to_string()));
            command.envs((0..variables).map(|number| (format!("MANY{number}"), "value")));
        });
        assert_eq!(seen.stdout, format!("{arguments}\n{variables}\n"));
    }
    let long = "x".repeat(100_000);
    let seen = assert_same("long", |command| {
        command.args(["run", "-c", "echo ${#1} ${#LONG}", "name", &long]).env("LONG", &long);
    });
    assert_eq!(seen.stdout, "100000 100000\n");
    let in_a_long_directory = format!("/{}:/usr/bin:/bin", "y/".repeat(2000));
    assert_same("a long path", |command| {
        command.args(["run", "--", "sh", "-c", "echo a"]).env("PATH", &in_a_long_directory);
    });
}

/// `execvp` gives it to the shell.
#[test]
fn a_script_without_a_first_line_runs() {
    let scratch = Scratch::new();
    let script = scratch.executable("script", "echo ran \"$@\"\n");
    let path = format!("{}:/usr/bin:/bin", scratch.path("").display());
    for name in [script.as_str(), "script"] {
        let seen = assert_same("script", |command| {
            command.args(["run", "--", name, "a", "b"]).env("PATH", &path);
        });
        assert_eq!((seen.stdout.as_str(), seen.code), ("ran a b\n", Some(0)));
    }
}

#[test]
fn descriptors_are_handed_on_as_they_are() {
    for redirections in ["", "0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-", "3</dev/null 7>/dev/null"] {
        let [small, whole] = [PathBuf::from(program()), whole_program()].map(|program| {
            let scratch = Scratch::new();
            let seen = scratch.path("seen");
            let script = format!("\"$1\" run -- sh -c 'ls -l /proc/$$/fd >\"$0\" 2>/dev/null' \"$2\" {redirections}");
            output(
                Command::new("sh")
                    .arg("-c")
                    .arg(script)
                    .arg("sh")
                    .arg(program)
                    .arg(&seen)
                    .env_remove("LD_PRELOAD")
                    .stdin(Stdio::null()),
            );
            let listed = std::fs::read_to_string(&seen).unwrap();
            let numbers =
                listed.lines().filter_map(|line| line.split_once(" -> ")?.0.rsplit(' ').next().map(str::to_owned));
            numbers.collect::<Vec<_>>()
        });
        assert_eq!(small, whole, "{redirections}");
    }
}

/// Without the whole program: so it is not always that one which did it.
#[test]
fn the_usual_run_needs_only_the_small_one_and_its_library() {
    let scratch = Scratch::new();
    let small = scratch.installed();
    std::fs::remove_file(scratch.path("lib/millstream/millstream")).unwrap();
    let run = |arguments: &[&str]| {
        output(
            Command::new(&small)
                .args(arguments)
                .env("SHELL", "/bin/sh")
                .env_remove("LD_PRELOAD")
                .env_remove("MILLSTREAM_RUN"),
        )
    };
    for arguments in [
        ["run", "-c", "seq 1000 | wc -l"].as_slice(),
        &["run", "--ring", "-c", "seq 1000 | wc -l"],
        &["run", "--no-ring", "-c", "seq 1000 | wc -l"],
        &["run", "--", "sh", "-c", "seq 1000 | wc -l"],
        &["run", "sh", "-c", "seq 1000 | wc -l"],
    ] {
        let seen = run(arguments);
        assert_eq!((seen.stdout.as_str(), seen.stderr.as_str(), seen.code), ("1000\n", "", Some(0)), "{arguments:?}");
    }
    for arguments in [["run", "--stats", "-c", "true"].as_slice(), &["run", "--", "no-such-command"], &["--version"]] {
        let seen = run(arguments);
        assert_eq!((seen.stdout.as_str(), seen.code), ("", Some(125)), "{arguments:?}");
        assert!(
            seen.stderr.starts_with("millstream: its library is missing") && seen.stderr.lines().count() == 1,
            "{seen:?}"
        );
    }
}
