//! Every command does under `millstream run` what it does without: output, errors, exit status, signals.

mod common;

use std::process::Command;

use common::{Seen, millstream, output};

/// Runs a script bare, under `run`, with `--stats` and with `--no-ring`, and wants the same each time.
fn same_everywhere(shell: &str, script: &str) -> Seen {
    let bare = output(Command::new(shell).args(["-c", script]).stdin(std::process::Stdio::null()));
    let run = output(&mut millstream(["run", "--shell", shell, "-c", script]));
    assert_eq!(bare, run, "{shell}: {script}");
    let stats =
        output(&mut millstream(["run", "--stats", "--stats-file", "/dev/null", "--shell", shell, "-c", script]));
    assert_eq!(bare, stats, "with --stats, {shell}: {script}");
    for options in [&["--no-ring"][..], &["--no-ring", "--stats", "--stats-file", "/dev/null"]] {
        let without = [&["run"], options, &["--shell", shell, "-c", script]].concat();
        assert_eq!(bare, output(&mut millstream(without)), "with {options:?}, {shell}: {script}");
    }
    run
}

const SCRIPTS: [&str; 16] = [
    "seq 200000 | sort -rn | head -n 3",
    "seq 100000 | tr 1-5 a-e | grep -c a | cat",
    "head -c 5000000 /dev/zero | cksum",
    "head -c 5000000 /dev/urandom | tee /dev/null | wc -c",
    "yes | head -n 1",
    "yes | head -c 1000000 | tail -c 5",
    "echo one | (read x; echo got $x)",
    "(echo out; echo err >&2) 2>&1 | sort",
    "false | true; echo $?",
    "true | false; echo $?",
    "sh -c 'kill -9 $$' | cat; echo $?",
    "x=$(seq 30000 | tail -n 1); echo $x",
    "exit 3 | exit 4",
    "seq 10 | while read n; do echo $((n * n)); done | paste -s -d +",
    "no-such-command-at-all | wc -l",
    "cat <<EOF | cat | cat | cat\nhere\nEOF",
];

#[test]
fn pipelines_in_dash() {
    SCRIPTS.iter().for_each(|script| drop(same_everywhere("dash", script)));
}

#[test]
fn pipelines_in_bash() {
    SCRIPTS.iter().for_each(|script| drop(same_everywhere("bash", script)));
    for script in [
        "set -o pipefail; false | true",
        "set -o pipefail; yes | head -n 1; echo $?",
        "set -o pipefail; seq 1000000 | head -n 1 >/dev/null; echo ${PIPESTATUS[@]}",
        "shopt -s lastpipe; echo value | read x; echo $x",
        "diff <(seq 1000) <(seq 1001)",
        "coproc tr a-z A-Z; echo hello >&${COPROC[1]}; exec {COPROC[1]}>&-; cat <&${COPROC[0]}",
        "mapfile -t lines < <(seq 5000); echo ${#lines[@]}",
        "seq 1000 | tee >(cat >/dev/null) | tail -n 1",
        "trap 'echo caught' TERM; kill -TERM $$; echo after",
        "ulimit -n 20; echo x | cat | cat | cat",
    ] {
        same_everywhere("bash", script);
    }
}

#[test]
fn pipelines_in_python() {
    for script in [
        "import subprocess\nprint(subprocess.check_output('seq 50000 | tail -n 2', shell=True))",
        "import subprocess as s\np = s.Popen(['cat'], stdin=s.PIPE, stdout=s.PIPE)\nprint(len(p.communicate(b'x' * 3000000)[0]))",
        "import subprocess as s\np = s.Popen(['sh', '-c', 'kill -15 $$'])\nprint(p.wait())",
        "import os\nprint(os.popen('echo popen').read(), end='')",
        "import os\nr, w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)\ntry: os.read(r, 1)\nexcept BlockingIOError as e: print(e)",
        "import os\nr, w = os.pipe()\nos.close(r)\ntry: os.write(w, b'x')\nexcept BrokenPipeError as e: print(e)",
        "import os\nr, w = os.pipe()\nprint(os.get_inheritable(r), os.fstat(r).st_mode == os.fstat(w).st_mode)",
        "import resource, os\nresource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))\ntry: os.pipe()\nexcept OSError as e: print(e)",
        "import multiprocessing as m\nif __name__ == '__main__':\n a, b = m.Pipe(False)\n p = m.get_context('fork').Process(target=b.send_bytes, args=(b'y' * 500000,))\n p.start(); print(len(a.recv_bytes())); p.join()",
    ] {
        same_everywhere("python3", script);
    }
}

#[test]
fn the_name_of_the_program_is_unchanged() {
    same_everywhere("sh", "cat /proc/$$/comm; echo $0");
}

#[test]
fn the_order_and_the_oddities_of_the_environment_are_kept() {
    let show = "print(open('/proc/self/environ').read().replace('\\0', ' '))";
    let seen = output(Command::new("env").args(["-i", "Z=1", "A=2", "=odd", "M=3"]).arg(common::program()).args([
        "run",
        "--",
        "/usr/bin/python3",
        "-c",
        show,
    ]));
    assert!(seen.stdout.starts_with("Z=1 A=2 =odd M=3 MILLSTREAM_RUN="), "{seen:?}");
}

/// In `bash -c` the first command of a pipeline that is left early dies of SIGPIPE: 141.
#[test]
fn sigpipe_kills_as_ever() {
    let seen = same_everywhere("bash", "yes | head -n 1; echo ${PIPESTATUS[0]}");
    assert_eq!(seen.stdout, "y\n141\n");
}

#[test]
fn a_sigpipe_that_is_ignored_stays_ignored() {
    let script = |inner: &str| {
        format!(
            "trap '' PIPE; {inner}bash -c '(yes; echo $? >&2) 2>&1 >/dev/full | tail -n 1; grep SigIgn /proc/self/status'"
        )
    };
    let bare = output(Command::new("bash").args(["-c", &script("")]));
    for options in ["run --", "run --stats --stats-file /dev/null --"] {
        let run = output(Command::new("bash").args(["-c", &script(&format!("{} {options} ", common::program()))]));
        assert_eq!(bare, run);
    }
    let ignored = bare.stdout.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim().to_owned();
    assert_ne!(u64::from_str_radix(&ignored, 16).unwrap() & (1 << 12), 0, "the test itself must ignore SIGPIPE");
}

#[test]
fn masks_and_dispositions_of_signals_are_handed_on() {
    let show = "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status";
    let python = concat!(
        "import signal, os, sys\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM])\n",
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\nos.execvp(sys.argv[1], sys.argv[1:])"
    );
    let seen = |prefix: &[&str]| {
        let words = [prefix, &["sh", "-c", show]].concat();
        output(Command::new("python3").args(["-c", python]).args(words))
    };
    let bare = seen(&[]);
    assert_eq!(bare, seen(&[common::program(), "run", "--"]));
    assert_eq!(bare, seen(&[common::program(), "run", "--stats", "--stats-file", "/dev/null", "--"]));
}

#[test]
fn standard_descriptors_that_are_closed_stay_closed() {
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let script = |prefix: &str| {
            format!(
                "exec 7>&1; {{ {prefix} bash -c 'for fd in 0 1 2; do [ -e /proc/$$/fd/$fd ] && echo $fd >&7; done; :' {closed}; }}"
            )
        };
        let bare = output(Command::new("bash").args(["-c", &script("")]));
        for options in ["run --", "run --stats --stats-file /dev/null --"] {
            let run = output(Command::new("bash").args(["-c", &script(&format!("{} {options}", common::program()))]));
            assert_eq!(bare, run, "{closed} {options}");
        }
    }
}

#[test]
fn no_descriptor_is_added() {
    let script = "ls /proc/self/fd | wc -l; python3 -c 'import os; print(sorted(os.listdir(\"/proc/self/fd\")))'";
    same_everywhere("sh", script);
}

/// Two variables more, and nothing else in the environment is touched.
#[test]
fn the_environment_is_the_users_own_plus_what_the_run_needs() {
    let show = "import os; print(sorted(k for k in os.environ))";
    let keys = |command: &mut Command| {
        output(command.env_clear().env("PATH", "/usr/bin:/bin").env("MINE", "1").args(["python3", "-c", show])).stdout
    };
    let bare = keys(Command::new("env").arg("--"));
    let run = keys(&mut millstream(["run", "--"]));
    assert_eq!(run.replace("'LD_PRELOAD', ", "").replace("'MILLSTREAM_RUN', ", ""), bare);
    assert!(run.contains("LD_PRELOAD") && run.contains("MILLSTREAM_RUN"));
}

#[test]
fn a_preload_of_the_users_own_stays_and_comes_first() {
    let scratch = common::Scratch::new();
    let source = "#include <unistd.h>\npid_t getppid(void) { return 4242; }\n";
    let mine = scratch.c_program("mine.so", source, &["-shared", "-fPIC"]);
    let script = "import os, fcntl; print(os.getppid(), fcntl.fcntl(os.pipe2(0)[0], 1032) > 65536); print(os.environ['LD_PRELOAD'])";
    let seen = output(millstream(["run", "--", "python3", "-c", script]).env("LD_PRELOAD", &mine));
    assert!(seen.stdout.starts_with(&format!("4242 True\n{mine}:")), "{seen:?}");
    assert_eq!(seen.stderr, "");
}

#[test]
fn a_run_inside_a_run_is_a_run() {
    let inner = format!(
        "{} run -- python3 -c 'import os; print(os.environ[\"LD_PRELOAD\"].count(\"libmillstream_\"))'",
        common::program()
    );
    let seen = output(&mut millstream(["run", "-c", &inner]));
    assert_eq!((seen.stdout.as_str(), seen.stderr.as_str()), ("1\n", ""));
}
