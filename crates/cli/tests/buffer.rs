//! `millstream buffer`: every byte at every output, whatever its memory, and what it says.

mod common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use common::{Scratch, Seen, fed, millstream, output, wait_for};

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

fn started(arguments: &[&str]) -> (Child, ChildStdin, ChildStdout) {
    let mut command = millstream([&["buffer"], arguments].concat());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    (child, input, output)
}

fn ended(child: Child) -> Seen {
    Seen::from(child.wait_with_output().unwrap())
}

fn capacity(pipe: impl AsFd) -> usize {
    millstream_sys::pipe::capacity(pipe).unwrap()
}

/// A field of what it says at its end.
fn statistic(seen: &Seen, name: &str) -> u64 {
    let stats: serde_json::Value = serde_json::from_str(&seen.stderr).unwrap_or_else(|_| panic!("{seen:?}"));
    stats[name].as_u64().unwrap_or_else(|| panic!("no {name}: {stats}"))
}

#[test]
fn every_byte_passes_through_a_buffer_of_any_size() {
    let scratch = Scratch::new();
    for (round, len) in [0, 1, 4095, 65_537, 3_000_000].into_iter().enumerate() {
        let bytes = noise(len, round as u64);
        let input = scratch.path("input");
        fs::write(&input, &bytes).unwrap();
        for memory in ["8K", "64K", "1M", "256M"] {
            for start in ["0", "50%", "100"] {
                let options = ["buffer", memory, "--start", start, "--low", "30"];
                let (piped, seen) = fed(millstream(options), &bytes);
                assert!(piped == bytes && seen.code == Some(0), "{len} bytes in {options:?}: {}", seen.stderr);
                let from_file = millstream(options).stdin(File::open(&input).unwrap()).output().unwrap();
                assert!(from_file.stdout == bytes, "{len} bytes of a file in {options:?}");
            }
        }
    }
}

#[test]
fn bytes_go_from_pipe_to_pipe_without_a_copy_while_none_wait() {
    let (child, mut input, mut output) = started(&["--stats=json"]);
    let bytes = noise(16 << 10, 8);
    let mut read = vec![0; bytes.len()];
    for _ in 0..100 {
        input.write_all(&bytes).unwrap();
        output.read_exact(&mut read).unwrap();
        assert!(read == bytes);
    }
    // Both pipes have room for a block, if the kernel grants that here.
    let capacities = [capacity(&input), capacity(&output)];
    let (_, granted) = std::io::pipe().unwrap();
    millstream_sys::pipe::request_capacity(&granted, 256 << 10);
    drop(input);
    let seen = ended(child);
    assert_eq!(statistic(&seen, "bytes_spliced"), 100 * bytes.len() as u64, "{seen:?}");
    assert!(capacities.iter().all(|&pipe| pipe >= capacity(&granted)), "{capacities:?}");
}

#[test]
fn memory_is_given_back_after_a_slow_output_has_caught_up() {
    const WAITING: usize = 100 << 20;
    let (child, mut input, mut output) = started(&["256M", "--stats=json"]);
    let bytes = noise(1 << 20, 7);
    for _ in 0..WAITING >> 20 {
        input.write_all(&bytes).unwrap();
    }
    let resident = || resident_kib(child.id());
    // All but what the two pipes hold.
    wait_for("the buffer to have it", || resident() > (WAITING >> 10) as u64 - 4096);
    let mut read = vec![0; 1 << 20];
    for _ in 0..(WAITING >> 20) - 2 {
        output.read_exact(&mut read).unwrap();
        assert!(read == bytes);
    }
    wait_for("memory to be given back", || resident() < 20 << 10);
    drop(input);
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    assert!(rest == [&bytes[..], &bytes].concat());
    let seen = ended(child);
    assert_eq!((statistic(&seen, "bytes_read"), seen.code), (WAITING as u64, Some(0)));
    assert!(statistic(&seen, "most_bytes_waiting") > WAITING as u64 - (4 << 20), "{seen:?}");
}

fn resident_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn output_begins_at_the_start_mark() {
    let (child, mut input, mut output) = started(&["1M", "--start", "50%"]);
    let bytes = noise(600 << 10, 3);
    let (first, second) = bytes.split_at(400 << 10);
    input.write_all(first).unwrap();
    // The kernel's word: nothing is there to read, though the buffer has read all.
    wait_for("the buffer to sleep", || is_asleep(child.id()) && unread(&input) == 0);
    assert_eq!(unread(&output), 0);
    input.write_all(second).unwrap();
    drop(input);
    let mut read = Vec::new();
    output.read_to_end(&mut read).unwrap();
    assert!(read == bytes);
    assert_eq!(ended(child).code, Some(0));
}

fn unread(pipe: &impl std::os::fd::AsFd) -> u64 {
    millstream_sys::transfer::bytes_waiting(pipe).unwrap() as u64
}

fn is_asleep(process: u32) -> bool {
    fs::read_dir(format!("/proc/{process}/task")).unwrap().all(|task| {
        let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('S'))
    })
}

#[test]
fn failed_output_does_not_stop_the_others() {
    let scratch = Scratch::new();
    let bytes = noise(5_000_000, 5);
    let [one, other] = ["one", "other"].map(|name| scratch.path(name).to_str().unwrap().to_owned());
    let (piped, seen) =
        fed(millstream(["buffer", "1M", "-o", &one, "-o", "-", "-o", "/dev/full", "-o", &other]), &bytes);
    assert!(piped == bytes && fs::read(&one).unwrap() == bytes && fs::read(&other).unwrap() == bytes);
    assert_eq!(seen.code, Some(1));
    assert_eq!(seen.stderr, "millstream: cannot write to '/dev/full': No space left on device (os error 28)\n");
}

#[test]
fn closed_output_ends_it_by_sigpipe() {
    for options in ["", "--start 10", "--rate 1G", "--spill spill"] {
        let scratch = Scratch::new();
        let program = common::program();
        let script =
            format!("set -o pipefail; yes | '{program}' buffer 1M {options} | head -n 1; echo ${{PIPESTATUS[*]}}");
        let seen = output(Command::new("bash").args(["-c", &script]).current_dir(scratch.path("")));
        assert_eq!((seen.stdout.as_str(), seen.stderr.as_str()), ("y\n141 141 0\n", ""), "{options}");
    }
    // Where SIGPIPE is ignored the error is told.
    let script =
        format!("trap '' PIPE; yes 2>&- | '{}' buffer 1M | head -n 1; echo ${{PIPESTATUS[1]}}", common::program());
    let seen = output(Command::new("bash").args(["-c", &script]));
    assert_eq!(seen.stdout, "y\n1\n");
    assert_eq!(seen.stderr, "millstream: cannot write to the standard output: Broken pipe (os error 32)\n");
}

#[test]
fn spill_takes_what_memory_does_not_and_leaves_nothing() {
    let scratch = Scratch::new();
    let spill = scratch.path("spill");
    let (child, mut input, mut output) = started(&["1M", "--spill", spill.to_str().unwrap(), "--stats=json"]);
    let bytes = noise(20 << 20, 9);
    // More than memory and both pipes hold, so it returns only because of the spill.
    input.write_all(&bytes).unwrap();
    assert!(!spill.exists());
    let mut read = vec![0; 15 << 20];
    output.read_exact(&mut read).unwrap();
    assert!(read == bytes[..read.len()]);
    input.write_all(&bytes).unwrap();
    drop(input);
    read.clear();
    output.read_to_end(&mut read).unwrap();
    assert!(read == [&bytes[15 << 20..], &bytes].concat());
    let seen = ended(child);
    assert!(seen.code == Some(0) && statistic(&seen, "bytes_spilled") > 15 << 20, "{seen:?}");
    assert!(statistic(&seen, "most_bytes_waiting") > 18 << 20, "{seen:?}");
}

#[test]
fn spill_on_a_full_disk_stops_the_input() {
    let scratch = Scratch::new();
    let limited = scratch.path("disk");
    fs::create_dir(&limited).unwrap();
    let mounted = output(Command::new("mount").args(["-t", "tmpfs", "-o", "size=3m", "spill"]).arg(&limited));
    if mounted.code != Some(0) {
        assert!(!is_root(), "{mounted:?}");
        common::skip("buffer: only root can mount a disk that is soon full");
        return;
    }
    let spill = limited.join("spill");
    let bytes = noise(20 << 20, 11);
    let (piped, seen) = fed(millstream(["buffer", "256K", "--spill", spill.to_str().unwrap()]), &bytes);
    let unmounted = output(Command::new("umount").arg(&limited));
    assert!(piped == bytes && seen.code == Some(0), "{seen:?}");
    assert_eq!(unmounted.code, Some(0), "{unmounted:?}");
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").unwrap().lines().any(|line| line.starts_with("Uid:\t0\t"))
}

#[test]
fn signal_prints_a_line_of_progress() {
    let (mut child, mut input, mut output) = started(&["1M", "--name", "home", "--size", "2M"]);
    let bytes = noise(1 << 20, 13);
    let mut read = vec![0; 1 << 20];
    std::thread::scope(|scope| {
        scope.spawn(|| input.write_all(&bytes).unwrap());
        output.read_exact(&mut read).unwrap();
    });
    let mut errors = child.stderr.take().unwrap();
    // The line is of the last second, so what has passed is in it soon.
    let mut said = String::new();
    wait_for("the line", || {
        assert_eq!(common::output(Command::new("kill").args(["-USR1", &child.id().to_string()])).code, Some(0));
        let mut piece = [0; 200];
        let len = errors.read(&mut piece).unwrap();
        said += std::str::from_utf8(&piece[..len]).unwrap();
        said.contains("1 MiB in 0:0") && said.contains(", 50 %")
    });
    assert!(said.lines().all(|line| line.starts_with("home: in ") && line.contains("/s, out ")), "{said}");
    drop(input);
    assert_eq!(ended(child).code, Some(0));

    let (_, seen) = fed(millstream(["buffer", "--progress"]), &bytes);
    assert!(seen.stderr.ends_with("1 MiB in 0:00\n"), "{seen:?}");
    let (_, seen) = fed(millstream(["buffer", "--stats"]), &bytes);
    assert!(seen.stderr.contains("slower side") && seen.stderr.contains("most that waited"), "{seen:?}");
    let (_, seen) = fed(millstream(["buffer"]), &bytes);
    assert_eq!(seen.stderr, "");
}

#[test]
fn nonblocking_streams_are_waited_for() {
    let scratch = Scratch::new();
    let source = "#include <fcntl.h>\n#include <unistd.h>\nint main(int n, char **v) {
        fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK); fcntl(1, F_SETFL, fcntl(1, F_GETFL) | O_NONBLOCK);
        execvp(v[1], v + 1); return 9; }";
    let unblocked = scratch.c_program("unblocked", source, &[]);
    for start in ["0", "50"] {
        let mut command = Command::new(&unblocked);
        command.args([common::program(), "buffer", "64K", "--start", start]);
        let bytes = noise(2_000_000, 17);
        let (piped, seen) = fed(command, &bytes);
        assert!(piped == bytes && seen.code == Some(0), "{seen:?}");
    }
}

#[test]
fn wrong_use_and_missing_files_fail_with_one_sentence() {
    let scratch = Scratch::new();
    let there = scratch.file("there", "mine");
    for (arguments, status, sentence) in [
        (&["3K"][..], 2, "a buffer has 8K or more"),
        (&["much"], 2, "a size is a number of bytes"),
        (&["--start", "101%"], 2, "a percentage is 0 to 100"),
        (&["--progress", "--quiet"], 2, "cannot be used with"),
        (&["-i", "/nonexistent"], 1, "cannot open '/nonexistent': No such file"),
        (&["-o", "/nonexistent/x"], 1, "cannot open '/nonexistent/x': No such file"),
        (&["-i", "/"], 1, "cannot read '/': Is a directory"),
        (&["--spill", &there], 1, "there is a file of that name"),
        (&["--spill", "/nonexistent/x"], 1, "cannot make the spill '/nonexistent/x': No such file"),
    ] {
        let seen = output(&mut millstream([&["buffer"], arguments].concat()));
        assert_eq!((seen.code, seen.stderr.lines().count()), (Some(status), 1), "{arguments:?}: {seen:?}");
        assert!(seen.stderr.contains(sentence), "{arguments:?}: {seen:?}");
    }
    for arguments in [&["-i", &*there, "-o", &there][..], &["-o", &there, "-o", "/nonexistent/x"]] {
        let seen = output(&mut millstream([&["buffer"], arguments].concat()));
        assert!(seen.code == Some(1) && seen.stderr.lines().count() == 1, "{arguments:?}: {seen:?}");
    }
    assert_eq!(fs::read_to_string(&there).unwrap(), "mine");
    let (_, seen) = fed(millstream(["buffer", "-o", &there]), b"!");
    assert_eq!((fs::read_to_string(there).unwrap().as_str(), seen.code), ("!", Some(0)));
    for (closed, name) in [("<&-", "the standard input: it is closed"), (">&-", "the standard output: it is closed")] {
        let seen = output(Command::new("sh").args(["-c", &format!("'{}' buffer {closed}", common::program())]));
        assert!(seen.code == Some(1) && seen.stderr.contains(name), "{seen:?}");
    }
}
