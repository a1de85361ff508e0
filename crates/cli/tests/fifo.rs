//! `millstream fifo`: its own two ends, and any other program at either.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::process::{Child, Command, Stdio};

use common::{Scratch, Seen, millstream, output, state, wait_for};

fn fifo(arguments: &[&str]) -> Seen {
    output(&mut millstream([&["fifo"], arguments].concat()))
}

fn made(scratch: &Scratch) -> String {
    let path = scratch.path("fifo").to_str().unwrap().to_owned();
    assert_eq!(fifo(&["create", &path]).code, Some(0));
    path
}

fn start(arguments: &[&str]) -> Child {
    let mut command = millstream([&["fifo"], arguments].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn wait_until_asleep(child: &Child) {
    wait_for("a process to sleep", || state(child.id()) == Some('S'));
}

fn assert_refused(seen: &Seen, code: i32, says: &str) {
    assert_eq!(seen.code, Some(code), "{seen:?}");
    assert!(seen.stderr.starts_with("millstream: ") && seen.stderr.contains(says), "{says:?} in {seen:?}");
    assert_eq!((seen.stderr.lines().count(), seen.stdout.as_str()), (1, ""), "{seen:?}");
}

#[test]
fn fifo_is_made_with_the_permissions_asked_for() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.path("one"), scratch.path("two"));
    let seen = fifo(&["create", "--mode", "0620", one.to_str().unwrap(), two.to_str().unwrap()]);
    assert_eq!(seen, Seen { stdout: String::new(), stderr: String::new(), code: Some(0), signal: None });
    for path in [one, two] {
        let metadata = fs::metadata(path).unwrap();
        assert!(metadata.file_type().is_fifo());
        assert_eq!(metadata.mode() & 0o777, 0o620 & !0o022);
    }
}

#[test]
fn existing_file_is_not_overwritten() {
    let scratch = Scratch::new();
    let path = made(&scratch);
    assert_refused(&fifo(&["create", &path]), 125, "fifo stat");
    assert_refused(&fifo(&["create", "--mode", "rw", &path]), 2, "octal");
    assert_refused(&fifo(&["read", &format!("{path}-missing")]), 125, "fifo create");
    assert_refused(&fifo(&["read", &scratch.file("file", "content")]), 125, "no FIFO");
}

#[test]
fn file_that_is_no_fifo_is_not_removed() {
    let scratch = Scratch::new();
    let (path, file) = (made(&scratch), scratch.file("file", "content"));
    assert_refused(&fifo(&["rm", &file]), 125, "no FIFO");
    assert_eq!(fs::read_to_string(&file).unwrap(), "content");
    assert_eq!(fifo(&["rm", &path]).code, Some(0));
    assert!(!fs::exists(&path).unwrap());
}

#[test]
fn stat_does_not_open_the_fifo() {
    let scratch = Scratch::new();
    let path = made(&scratch);
    // Would let this one in, if it opened anything.
    let mut waiting = start(&["read", &path]);
    wait_until_asleep(&waiting);
    let seen = fifo(&["stat", &path]);
    assert!(seen.stdout.starts_with(&format!("FIFO    {path}\nmode    0644\n")), "{seen:?}");
    let json: serde_json::Value = serde_json::from_str(&fifo(&["stat", "--json", &path]).stdout).unwrap();
    assert_eq!(json["inode"], fs::metadata(&path).unwrap().ino());
    assert!(waiting.try_wait().unwrap().is_none());
    waiting.kill().unwrap();
    waiting.wait().unwrap();
}

/// Has a stream go from one to the other; what their statistics say, the writer's first.
fn stream(path: &str, more: &[&str]) -> [serde_json::Value; 2] {
    let reader = start(&[&["read", "--stats=json", path], more].concat());
    let mut writer = start(&[&["write", "--stats=json", path], more].concat());
    let sent: Vec<u8> = (0..3_000_000_u32).map(|index| (index % 251) as u8).collect();
    let mut input = writer.stdin.take().unwrap();
    let bytes = sent.clone();
    let feeder = std::thread::spawn(move || input.write_all(&bytes).unwrap());
    let got = reader.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert!(got.stdout == sent, "{} bytes of {}", got.stdout.len(), sent.len());
    let wrote = writer.wait_with_output().unwrap();
    [("written", wrote.stderr), ("read", got.stderr)].map(|(side, text)| {
        let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!((json["bytes"].as_u64(), json["side"].as_str()), (Some(3_000_000), Some(side)), "{json}");
        json
    })
}

#[test]
fn a_stream_goes_from_write_to_read() {
    let scratch = Scratch::new();
    let path = made(&scratch);
    // A process that does not run for 50 ms does not take part: on a busy machine it may all go through the kernel, but not always.
    let shared = (0..100).find(|_| stream(&path, &[]).iter().all(|said| said["bytes_through_kernel"] != 3_000_000));
    assert!(shared.is_some(), "nothing went through shared memory");
}

#[test]
fn without_the_ring_the_kernel_carries_every_byte() {
    let scratch = Scratch::new();
    for said in stream(&made(&scratch), &["--no-ring"]) {
        assert_eq!(said["bytes_through_kernel"], 3_000_000, "{said}");
    }
}

#[test]
fn plain_participants_and_ours_lose_no_byte() {
    let scratch = Scratch::new();
    let path = made(&scratch);
    for (more_to_read, more_to_write) in [(&["--no-ring"][..], &[][..]), (&[], &["--no-ring"])] {
        let reader = start(&[&["read", &path], more_to_read].concat());
        let mut writer = start(&[&["write", "--stats=json", &path], more_to_write].concat());
        writer.stdin.take().unwrap().write_all(b"one\n").unwrap();
        assert_eq!(reader.wait_with_output().unwrap().stdout, b"one\n");
        let said: serde_json::Value = serde_json::from_slice(&writer.wait_with_output().unwrap().stderr).unwrap();
        assert_eq!(said["bytes_through_kernel"], 4, "{said}");
    }
}

#[test]
fn any_other_program_can_be_at_either_end() {
    let scratch = Scratch::new();
    let path = made(&scratch);
    let reader = start(&["read", &path]);
    let echo = Command::new("sh").args(["-c", "echo one > \"$0\"; cat > /dev/null < /dev/null", &path]).status();
    assert!(echo.unwrap().success());
    assert_eq!(reader.wait_with_output().unwrap().stdout, b"one\n");

    let cat = Command::new("cat").arg(&path).stdout(Stdio::piped()).spawn().unwrap();
    let mut writer = start(&["write", "--stats=json", &path]);
    writer.stdin.take().unwrap().write_all(b"two\n").unwrap();
    let report = writer.wait_with_output().unwrap().stderr;
    assert_eq!(cat.wait_with_output().unwrap().stdout, b"two\n");
    let json: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(json["bytes_through_kernel"], 4, "the statistics say which way: {json}");
}

#[test]
fn nonblocking_open_does_not_wait() {
    let scratch = Scratch::new();
    let path = made(&scratch);
    assert_eq!(fifo(&["read", "--nonblock", &path]).stdout, "");
    assert_refused(&fifo(&["write", "--nonblock", &path]), 125, "it has no reader");
    assert_refused(&fifo(&["open", "--write", "--nonblock", &path, "--", "true"]), 125, "it has no reader");
}

#[test]
fn a_reader_that_follows_outlives_its_writers() {
    let scratch = Scratch::new();
    let path = made(&scratch);
    let mut reader = start(&["read", "--follow", &path]);
    let mut got = [0; 4];
    for text in [b"one\n", b"two\n"] {
        fs::write(&path, text).unwrap();
        reader.stdout.as_mut().unwrap().read_exact(&mut got).unwrap();
        assert_eq!(&got, text);
    }
    reader.kill().unwrap();
    reader.wait().unwrap();
}

#[test]
fn a_fifo_held_open_does_not_end_between_two_writers() {
    let scratch = Scratch::new();
    let path = made(&scratch);
    let mut holder = start(&["open", &path]);
    wait_until_asleep(&holder);
    let mut reader = start(&["read", &path]);
    for text in ["one", "two"] {
        fs::write(&path, text).unwrap();
    }
    let mut got = [0; 6];
    reader.stdout.as_mut().unwrap().read_exact(&mut got).unwrap();
    assert_eq!(&got, b"onetwo");
    assert!(reader.try_wait().unwrap().is_none());
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(reader.wait().unwrap().success(), "the end, now that it is held no longer");
}

#[test]
fn a_command_gets_one_side_as_its_standard_stream() {
    let scratch = Scratch::new();
    let path = made(&scratch);
    let reader = start(&["open", "--read", &path, "--", "wc", "-c"]);
    let writer = fifo(&["open", "--write", &path, "--", "printf", "grain"]);
    assert_eq!(writer.code, Some(0), "{writer:?}");
    assert_eq!(String::from_utf8(reader.wait_with_output().unwrap().stdout).unwrap().trim(), "5");
}

#[test]
fn a_fifo_stays_open_while_a_command_runs_whose_status_counts() {
    let scratch = Scratch::new();
    let path = made(&scratch);
    // Opening for reading alone would wait for a writer.
    let script = "printf grain > \"$0\"; head -c 5 < \"$0\"; exit 7";
    let seen = fifo(&["open", &path, "--", "sh", "-c", script, &path]);
    assert_eq!((seen.stdout.as_str(), seen.code), ("grain", Some(7)), "{seen:?}");
    assert_refused(&fifo(&["open", &path, "--", "/nowhere/to/be/found"]), 127, "cannot run");
}

#[test]
fn writer_reports_that_its_reader_left() {
    let scratch = Scratch::new();
    let path = made(&scratch);
    let mut writer = start(&["write", &path]);
    let mut reader = Command::new("head").args(["-c", "1", &path]).stdout(Stdio::null()).spawn().unwrap();
    let mut input = writer.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || while input.write_all(&[0; 4096]).is_ok() {});
    assert!(reader.wait().unwrap().success());
    let seen = Seen::from(writer.wait_with_output().unwrap());
    feeder.join().unwrap();
    assert_refused(&seen, 125, "has no reader any longer");
}
