//! `millstream ctl`: what is in force and what says so, files that are changed and stay what they were, and live pipes.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Scratch, Seen, millstream, output, set_mode};
use millstream_pipe::settings::TABLE;
use serde_json::Value;

/// A user's directory for settings.
struct Home(Scratch);

impl Home {
    fn new() -> Home {
        Home(Scratch::new())
    }

    fn with(text: &str) -> Home {
        let home = Home::new();
        fs::create_dir(home.0.path("millstream")).unwrap();
        fs::write(home.file(), text).unwrap();
        home
    }

    fn file(&self) -> PathBuf {
        self.0.path("millstream/millstream.conf")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = millstream([&["ctl"], arguments].concat());
        command.env("XDG_CONFIG_HOME", self.0.path(""));
        TABLE.iter().for_each(|setting| {
            command.env_remove(format!("MILLSTREAM_{}", setting.name.to_uppercase()));
        });
        command
    }

    fn ctl(&self, arguments: &[&str]) -> Seen {
        output(&mut self.command(arguments))
    }
}

fn said(seen: &Seen) -> (Option<i32>, &str) {
    (seen.code, seen.stderr.as_str())
}

fn setting(json: &str, name: &str) -> Value {
    let all: Value = serde_json::from_str(json).unwrap();
    let found = all["settings"].as_array().unwrap().iter().find(|setting| setting["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {json}")).clone()
}

/// Runs a command of ctl where `text` is in the system's file, in a mount namespace of its own.
fn with_system_file(scratch: &Scratch, text: &str, command: &Command) -> Seen {
    let etc = scratch.path("etc");
    fs::create_dir_all(&etc).unwrap();
    fs::write(etc.join("millstream.conf"), text).unwrap();
    let mut inside = Command::new("unshare");
    inside.args(["-m", "sh", "-c", "mount --bind \"$0\" /etc && exec \"$@\""]).arg(etc);
    inside.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => inside.env(name, value),
            None => inside.env_remove(name),
        };
    }
    output(&mut inside)
}

#[test]
fn every_setting_is_listed_with_its_value_and_what_is_allowed() {
    let home = Home::new();
    let seen = home.ctl(&[]);
    assert_eq!(said(&seen), (Some(0), ""), "{seen:?}");
    for setting in TABLE {
        let row = seen.stdout.lines().find(|line| line.split_whitespace().next() == Some(setting.name));
        let row = row.unwrap_or_else(|| panic!("no row for {}: {}", setting.name, seen.stdout));
        assert!(row.contains(&setting.kind.show(setting.default)) && row.contains("default"), "{row}");
        assert!(row.contains(&setting.kind.to_string()), "{row}");
    }
    assert!(!seen.stdout.contains('\x1b'), "no colours without a terminal");
    assert!(!home.0.path("millstream").exists(), "looking makes nothing");
}

#[test]
fn json_names_the_source_of_each_value() {
    let home = Home::with("\nwait = block\n");
    let seen = output(home.command(&["--json"]).env("MILLSTREAM_CAPACITY", "100000"));
    assert_eq!(said(&seen), (Some(0), ""), "{seen:?}");
    let capacity = setting(&seen.stdout, "capacity");
    assert_eq!((&capacity["value"], &capacity["default"]), (&131_072.into(), &524_288.into()));
    assert_eq!(capacity["source"]["kind"], "environment");
    assert_eq!(capacity["source"]["variable"], "MILLSTREAM_CAPACITY");
    let wait = setting(&seen.stdout, "wait");
    assert_eq!((&wait["value"], &wait["source"]["line"]), (&"block".into(), &2.into()));
    assert_eq!(wait["source"]["file"], home.file().to_str().unwrap());
    assert_eq!(wait["choices"], serde_json::json!(["adaptive", "spin", "block"]));
    let only = home.ctl(&["--json", "pipes_max"]);
    assert_eq!(serde_json::from_str::<Value>(&only.stdout).unwrap()["settings"].as_array().unwrap().len(), 1);
}

#[test]
fn each_source_goes_before_those_below_it_and_none_beyond_the_system_s_limit() {
    let home = Home::with("capacity = 128K\nwait = spin\n");
    let system = "capacity = 64K\nwait = block\npipes_max = 7\ncapacity_max = 256K\ncapacity_max.limit = 256K\n";
    let mut command = home.command(&["--json"]);
    command.env("MILLSTREAM_WAIT", "adaptive");
    let seen = with_system_file(&home.0, system, &command);
    assert_eq!(said(&seen), (Some(0), ""), "{seen:?}");
    let from = |name: &str| {
        let setting = setting(&seen.stdout, name);
        (setting["value"].to_string(), setting["source"]["kind"].as_str().unwrap().to_owned())
    };
    assert_eq!(from("wait"), ("\"adaptive\"".into(), "environment".into()));
    assert_eq!(from("capacity"), ("131072".into(), "file".into()));
    assert_eq!(from("pipes_max"), ("7".into(), "file".into()));
    assert_eq!(setting(&seen.stdout, "pipes_max")["source"]["file"], "/etc/millstream.conf");

    command.env("MILLSTREAM_CAPACITY", "512K");
    let seen = with_system_file(&home.0, system, &command);
    assert_eq!(setting(&seen.stdout, "capacity")["value"], 262_144);
    assert_eq!(
        said(&seen),
        (
            Some(1),
            "millstream: MILLSTREAM_CAPACITY: capacity = 512K is above the limit of 256K in /etc/millstream.conf:5, \
             which counts instead\n"
        )
    );
}

#[test]
fn setuid_program_reads_the_system_file_alone() {
    let home = Home::with("capacity = 128K\n");
    set_mode(&home.file(), 0o644);
    let installed = home.0.installed();
    let chown = Command::new("chown").arg("65534").arg(&installed).status().unwrap();
    assert!(chown.success());
    let capacity = |mode| {
        set_mode(&installed, mode);
        let mut command = Command::new(&installed);
        command.args(["ctl", "--json", "capacity"]).env("XDG_CONFIG_HOME", home.0.path(""));
        let seen = output(command.env("MILLSTREAM_CAPACITY", "256K"));
        assert_eq!(said(&seen), (Some(0), ""), "{seen:?}");
        setting(&seen.stdout, "capacity")["value"].as_u64().unwrap()
    };
    assert_eq!(capacity(0o755), 256 << 10);
    assert_eq!(
        capacity(0o4755),
        512 << 10,
        "this test needs root, and a directory for files that is not mounted nosuid"
    );
}

#[test]
fn unusable_line_is_named_with_file_and_line() {
    let home = Home::with("capacity = much\n\nspeed = 9\nwait == spin\nwait\ncapacity = 32K\n");
    let seen = home.ctl(&["capacity"]);
    let file = home.file().display().to_string();
    let expected = [
        format!(
            "millstream: {file}:1: 'much' is no value for capacity: allowed is 4K to 1G, a number of bytes or one with K, M or G"
        ),
        format!("millstream: {file}:3: there is no setting 'speed'; there are "),
        format!("millstream: {file}:4: '= spin' is no value for wait: allowed is adaptive, spin, block"),
        format!("millstream: {file}:5: not understood; a line is 'NAME = VALUE'"),
    ];
    let lines: Vec<_> = seen.stderr.lines().collect();
    assert_eq!((seen.code, lines.len()), (Some(1), 4), "{seen:?}");
    for (line, expected) in lines.iter().zip(&expected) {
        assert!(line.starts_with(expected), "{line}");
    }
    assert!(seen.stdout.starts_with("capacity = 32K\n"), "{seen:?}");
    let json: Value = serde_json::from_str(&home.ctl(&["--json"]).stdout).unwrap();
    assert_eq!(json["complaints"][3]["source"]["line"], 5);
}

#[test]
fn a_setting_is_written_among_the_comments_and_taken_out_again() {
    let home = Home::with("# ours\n\ncapacity = 64K # small\nwhat is this\n");
    set_mode(&home.file(), 0o600);
    let seen = home.ctl(&["capacity=1m", "wait=block"]);
    assert_eq!(said(&seen).0, Some(0), "{seen:?}");
    assert!(seen.stdout.contains("capacity = 1M\n") && seen.stdout.contains("wait = block\n"), "{seen:?}");
    assert_eq!(home.text(), "# ours\n\ncapacity = 1m # small\nwhat is this\nwait = block\n");
    assert_eq!(fs::metadata(home.file()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(home.ctl(&["--unset", "capacity"]).code, Some(0));
    assert_eq!(home.text(), "# ours\n\n# small\nwhat is this\nwait = block\n");
    let left: Vec<_> = fs::read_dir(home.0.path("millstream")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn the_first_setting_makes_the_file_and_a_link_stays_a_link() {
    let home = Home::new();
    assert_eq!(said(&home.ctl(&["pipes_max=5"])), (Some(0), ""));
    assert_eq!(home.text(), "pipes_max = 5\n");
    let real = home.0.path("real.conf");
    fs::rename(home.file(), &real).unwrap();
    std::os::unix::fs::symlink(&real, home.file()).unwrap();
    assert_eq!(said(&home.ctl(&["pipes_max=6"])), (Some(0), ""));
    assert!(home.file().is_symlink());
    assert_eq!(fs::read_to_string(real).unwrap(), "pipes_max = 6\n");
}

#[test]
fn concurrent_writers_lose_nothing() {
    let home = Home::with("# begin\n");
    let names = ["capacity=64K", "capacity_max=2M", "pipes_max=9", "wait=spin"];
    let children: Vec<_> = names.iter().map(|word| home.command(&[word]).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let text = home.text();
    let mut lines: Vec<_> = text.lines().map(|line| line.replace(' ', "")).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["#begin", "capacity=64K", "capacity_max=2M", "pipes_max=9", "wait=spin"]);
}

#[test]
fn file_that_is_not_text_is_left_alone() {
    let home = Home::with("");
    fs::write(home.file(), b"\xff\xfe").unwrap();
    let seen = home.ctl(&["wait=block"]);
    assert_eq!(seen.code, Some(125));
    assert!(seen.stderr.contains("is not text in UTF-8"), "{seen:?}");
    assert_eq!(fs::read(home.file()).unwrap(), b"\xff\xfe");
}

#[test]
fn wrong_use_changes_nothing_and_says_what_to_do() {
    let home = Home::with("wait = block\n");
    for (arguments, says) in [
        (&["speed=1"][..], "there is no setting 'speed'; there are capacity, "),
        (&["speed"], "there is no setting 'speed'"),
        (&["capacity=3"], "'3' is no value for capacity: allowed is 4K to 1G"),
        (&["wait=later"], "allowed is adaptive, spin, block"),
        (&["wait=spin", "capacity"], "to what capacity is to be set is missing"),
        (&["--unset", "wait=spin"], "--unset takes no value: wait"),
        (&["capacity.limit=1M"], "capacity.limit belongs into /etc/millstream.conf; add --system"),
        (&["--system", "wait.limit=spin"], "wait is a word"),
        (&["--user"], "say what: NAME=VALUE"),
        (&["--user", "--system", "wait=spin"], "cannot be used with"),
        (&["--pipe", "1:x", "capacity=1M"], "PROCESS:DESCRIPTOR"),
        (&["--pipe", "1:2"], "were not provided"),
        (&["--pipe", "1:2", "wait=spin"], "only capacity can be set"),
        (&["--pipe", "1:2", "capacity=1"], "'1' is no value for capacity"),
    ] {
        let seen = home.ctl(arguments);
        assert_eq!((seen.code, seen.stdout.as_str()), (Some(2), ""), "{arguments:?}: {seen:?}");
        assert!(seen.stderr.contains(says) && seen.stderr.lines().count() == 1, "{arguments:?}: {}", seen.stderr);
    }
    assert_eq!(home.text(), "wait = block\n");
}

#[test]
fn overridden_setting_causes_a_warning() {
    let home = Home::new();
    let seen = output(home.command(&["wait=spin"]).env("MILLSTREAM_WAIT", "block"));
    let expected = format!("millstream: for wait, MILLSTREAM_WAIT counts more than {}\n", home.file().display());
    assert_eq!(said(&seen), (Some(0), expected.as_str()));
    assert_eq!(home.text(), "wait = spin\n");
}

#[test]
fn the_system_s_file_is_changed_with_the_option_for_it() {
    let home = Home::new();
    let command = home.command(&["--system", "capacity_max.limit=2M", "wait=block"]);
    let seen = with_system_file(&home.0, "# for all\n", &command);
    assert_eq!(said(&seen), (Some(0), ""), "{seen:?}");
    let text = fs::read_to_string(home.0.path("etc/millstream.conf")).unwrap();
    assert_eq!(text, "# for all\ncapacity_max.limit = 2M\nwait = block\n");
    assert!(!home.file().exists());
}

#[test]
fn file_keeps_its_owner_when_root_changes_it() {
    let home = Home::with("wait = block\n");
    let chown = Command::new("chown").arg("65534:65534").arg(home.file()).status().unwrap();
    assert!(chown.success(), "this test has to run as root");
    assert_eq!(home.ctl(&["wait=spin"]).code, Some(0));
    let status = fs::metadata(home.file()).unwrap();
    assert_eq!((status.uid(), status.gid(), home.text().as_str()), (65_534, 65_534, "wait = spin\n"));
}

/// A descriptor of this process that is an end of the pipe.
fn descriptor_of(reader: &millstream_pipe::Reader) -> String {
    use std::os::fd::AsRawFd;
    format!("{}:{}", std::process::id(), reader.readiness().unwrap().as_raw_fd())
}

#[test]
fn resized_live_pipe_keeps_its_bytes() {
    let home = Home::new();
    let (mut reader, mut writer) = millstream_pipe::pipe().unwrap();
    writer.write_all(&[7; 100_000]).unwrap();
    let end = descriptor_of(&reader);
    let seen = home.ctl(&["--pipe", &end, "capacity=1M"]);
    assert_eq!((said(&seen), seen.stdout.as_str()), ((Some(0), ""), "capacity = 1M\n"));
    assert_eq!(writer.capacity().unwrap(), 1 << 20);
    let seen = home.ctl(&["--pipe", &end, "capacity=64K"]);
    assert_eq!(seen.code, Some(125));
    assert!(seen.stderr.contains("holds more than 64K now"), "{seen:?}");
    let seen = home.ctl(&["--pipe", &end, "capacity=4M"]);
    assert!(seen.stderr.contains("cannot be made so large") && seen.code == Some(125), "{seen:?}");
    let mut bytes = vec![0; 100_000];
    reader.read_exact(&mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 7));
    let gone = home.ctl(&["--pipe", &format!("{}:999999", std::process::id()), "capacity=1M"]);
    assert!(gone.code == Some(2) && gone.stderr.contains("there is no descriptor 999999 of process"), "{gone:?}");
    let null = fs::File::open(Path::new("/dev/null")).unwrap();
    let other = format!("{}:{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&null));
    let seen = home.ctl(&["--pipe", &other, "capacity=1M"]);
    assert!(seen.code == Some(125) && seen.stderr.contains("no pipe"), "{seen:?}");
}

#[test]
fn the_document_has_the_table_of_the_program() {
    let document = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md")).unwrap();
    let rows: Vec<Vec<_>> =
        document.lines().map(|line| line.split('|').map(|cell| cell.trim().replace('`', "")).collect()).collect();
    for setting in TABLE {
        let row = rows.iter().find(|row| row.get(1).is_some_and(|name| name == setting.name));
        let row = row.unwrap_or_else(|| panic!("{} is not described", setting.name));
        assert!(row[2].starts_with(&setting.kind.to_string()), "{}: {}", setting.name, row[2]);
        assert_eq!(row[3], setting.kind.show(setting.default), "{}", setting.name);
    }
}
