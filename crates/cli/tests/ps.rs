//! `millstream ps` and `millstream gc`: the pipes that live, as they are, and proof that none has left anything behind.
//!
//! Tests take turns: what one forks would inherit the ends of all others. Each has a pipe of a size of its own, and finds
//! it by that.
#![allow(unsafe_code)]

mod common;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::{Scratch, Seen, millstream, output, state, wait_for};
use millstream_pipe::{Builder, Fifo, FifoOptions, Reader, Writer};
use millstream_sys::fork::{self, Child, Side};
use serde_json::Value;

/// Until it is dropped no other test runs.
fn my_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pipe(capacity: usize) -> (Reader, Writer) {
    Builder::new().capacity(capacity).create().unwrap()
}

fn ps(arguments: &[&str]) -> Seen {
    let seen = output(&mut millstream([&["ps", "--interval=0.05"], arguments].concat()));
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    seen
}

fn listed(arguments: &[&str]) -> Value {
    serde_json::from_str(&ps(&[arguments, &["--json"]].concat()).stdout).unwrap()
}

/// This process's pipe of that size.
fn found(list: &Value, capacity: usize) -> Option<&Value> {
    let is_ours = |end: &Value| end["pid"] == std::process::id();
    let is_it = |pipe: &&Value| pipe["capacity"] == capacity && pipe["ends"].as_array().unwrap().iter().any(is_ours);
    list["pipes"].as_array().unwrap().iter().find(is_it)
}

fn seen_pipe(capacity: usize) -> Value {
    let list = listed(&[]);
    found(&list, capacity).unwrap_or_else(|| panic!("no pipe of {capacity} bytes: {list}")).clone()
}

/// A child that writes `bytes`, as far as there is room, and stays.
fn writer_that_stays(writer: &Writer, bytes: usize, called: &[u8]) -> Child {
    // SAFETY: the child makes system calls, uses its own thread's end of a pipe, and never returns.
    match unsafe { fork::fork() }.unwrap() {
        Side::Parent(child) => child,
        Side::Child => {
            let _ = fs::write("/proc/self/comm", called);
            let mut writer = writer;
            let _ = writer.write_all(&vec![1; bytes]);
            loop {
                std::thread::sleep(Duration::from_secs(1000));
            }
        }
    }
}

/// What `top` cannot tell of the kernel's pipes: their memory says it.
#[test]
fn top_tells_what_waits_in_a_pipe_of_the_library() {
    let _turn = my_turn();
    let (_reader, writer) = pipe(16 << 10);
    let child = writer_that_stays(&writer, 1000, b"filling");
    wait_for("the bytes", || seen_pipe(16 << 10)["waiting"] == 1000);
    let own = std::process::id().to_string();
    let top = |options: &[&str]| {
        let seen = output(&mut millstream([&["top", "--once", "--interval", "0.2", &own], options].concat()));
        assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
        seen.stdout
    };
    let all: Value = serde_json::from_str(&top(&["--json"])).unwrap();
    let pipelines = all["pipelines"].as_array().unwrap();
    let mut pipes = pipelines.iter().flat_map(|pipeline| pipeline["pipes"].as_array().unwrap());
    assert!(pipes.any(|pipe| pipe["waiting"] == 1000 && pipe["capacity"] == 16 << 10), "{all}");
    let text = top(&[]);
    assert!(text.contains("of the time, 1000 B of 16 KiB wait"), "{text}");
    child.kill();
}

#[test]
fn the_ring_of_a_fifo_is_listed_with_the_fifo_s_inode() {
    let _turn = my_turn();
    let scratch = Scratch::new();
    let path = scratch.path("fifo");
    Fifo::create(&path, 0o600).unwrap();
    let options = FifoOptions::new().ring(true);
    let mut reader = options.clone().nonblocking(true).open_reader(&path).unwrap();
    let mut writer = options.open_writer(&path).unwrap();
    reader.set_nonblocking(false).unwrap();
    wait_for("a byte through the ring", || {
        let before = reader.statistics().bytes_through_kernel;
        writer.write_all(b"?").unwrap();
        reader.read_exact(&mut [0]).unwrap();
        reader.statistics().bytes_through_kernel == before
    });
    let inode = fs::metadata(&path).unwrap().ino();
    let list = listed(&[]);
    let pipe = list["pipes"].as_array().unwrap().iter().find(|pipe| pipe["fifo"] == inode);
    let pipe = pipe.unwrap_or_else(|| panic!("no ring of the FIFO {inode}: {list}"));
    let ends = pipe["ends"].as_array().unwrap();
    assert!(
        ends.iter().all(|end| end["pid"] == std::process::id() && end["end"] == "both") && ends.len() == 2,
        "{pipe}"
    );
    let table = ps(&[]).stdout;
    let line = table.lines().find(|line| line.trim_start().starts_with(&pipe["pipe"].to_string()));
    assert!(line.is_some_and(|line| line.contains(" of FIFO ")), "{table}");
    drop((reader, writer));
    assert!(listed(&[])["pipes"].as_array().unwrap().iter().all(|pipe| pipe["fifo"] != inode));
}

#[test]
fn a_pipe_between_two_processes_is_listed_with_its_ends_and_what_waits() {
    let _turn = my_turn();
    const SIZE: usize = 8 << 10;
    let (mut reader, writer) = pipe(SIZE);
    let child = writer_that_stays(&writer, 5000, b"sly\x1b[31m\n");
    wait_for("the bytes", || reader.bytes_readable().unwrap() == 5000);
    drop(writer);
    reader.read_exact(&mut [0; 1000]).unwrap();
    let seen = seen_pipe(SIZE);
    assert_eq!((&seen["path"], &seen["waiting"], &seen["exact"]), (&"ring".into(), &4000.into(), &true.into()));
    assert_eq!((&seen["written"], &seen["bytes_per_second"]), (&5000.into(), &0.0.into()));
    let ends = seen["ends"].as_array().unwrap();
    let of = |name: &str| ends.iter().filter(|end| end["end"] == name).map(|end| &end["pid"]).collect::<Vec<_>>();
    assert_eq!(of("write"), [child.id()]);
    assert!(of("read").contains(&&std::process::id().into()), "{ends:?}");
    // A name that a terminal would obey is shown and not printed.
    let text = ps(&[&child.id().to_string()]).stdout;
    let row = text.lines().nth(1).unwrap();
    assert!(row.contains(&format!("sly\\u{{1b}}[31m {}:", child.id())) && !text.contains('\x1b'), "{text}");
    assert!(row.contains("8 KiB") && row.contains("3.9 KiB") && row.contains("49 %"), "{row}");
}

#[test]
fn a_full_pipe_whose_writer_is_stopped_is_listed() {
    let _turn = my_turn();
    const SIZE: usize = 16 << 10;
    let (_reader, writer) = pipe(SIZE);
    let child = writer_that_stays(&writer, 2 * SIZE, b"w");
    wait_for("the writer to sleep", || seen_pipe(SIZE)["writers_asleep"] == 1);
    let stop = Command::new("kill").args(["-STOP", &child.id().to_string()]).status().unwrap();
    assert!(stop.success());
    wait_for("the writer to stop", || state(child.id()) == Some('T'));
    let seen = seen_pipe(SIZE);
    assert_eq!((&seen["waiting"], &seen["writers_asleep"]), (&SIZE.into(), &1.into()));
    child.kill();
    drop(child);
    assert_eq!(seen_pipe(SIZE)["ends"].as_array().unwrap().iter().filter(|end| end["end"] == "write").count(), 1);
}

#[test]
fn bytes_that_go_through_the_kernel_are_not_guessed() {
    let _turn = my_turn();
    const SIZE: usize = 32 << 10;
    let (reader, mut writer) = pipe(SIZE);
    writer.write_all(b"some").unwrap();
    let mut sleeper = Command::new("sleep").arg("1000").stdin(reader.into_fd().unwrap()).spawn().unwrap();
    let seen = seen_pipe(SIZE);
    assert_eq!(
        (&seen["path"], &seen["waiting"], &seen["bytes_per_second"]),
        (&"kernel".into(), &Value::Null, &Value::Null)
    );
    let of_sleeper = seen["ends"].as_array().unwrap().iter().find(|end| end["pid"] == sleeper.id()).unwrap().clone();
    assert_eq!((&of_sleeper["end"], &of_sleeper["fd"]), (&"read".into(), &0.into()));
    let only = listed(&[&sleeper.id().to_string()]);
    assert!(found(&only, SIZE).is_some() && only["pipes"].as_array().unwrap().len() == 1, "{only}");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn a_pipe_in_use_has_a_rate_and_is_not_held_up() {
    let _turn = my_turn();
    const SIZE: usize = 64 << 10;
    let (mut reader, mut writer) = pipe(SIZE);
    let is_over = Arc::new(AtomicBool::new(false));
    let writing = {
        let is_over = is_over.clone();
        std::thread::spawn(move || {
            let mut sent = 0_u64;
            while !is_over.load(Relaxed) {
                writer.write_all(&[3; 3000]).unwrap();
                sent += 3000;
            }
            sent
        })
    };
    let reading = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()).unwrap());
    wait_for("a rate", || seen_pipe(SIZE)["bytes_per_second"].as_f64().is_some_and(|rate| rate > 0.0));
    let lines = ps(&["--json", "--watch", "--count=3"]).stdout;
    let lists: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let written: Vec<_> = lists.iter().map(|list| found(list, SIZE).unwrap()["written"].as_u64().unwrap()).collect();
    assert!(written.len() == 3 && written.is_sorted(), "{written:?}");
    is_over.store(true, Relaxed);
    assert_eq!(writing.join().unwrap(), reading.join().unwrap(), "every byte, though somebody looked");
}

#[test]
fn watching_ends_without_a_reader() {
    let _turn = my_turn();
    let mut command = millstream(["ps", "--watch", "--interval=0.01"]);
    let mut watching = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(watching.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(!first.is_empty());
    let seen = Seen::from(watching.wait_with_output().unwrap());
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""));
}

#[test]
fn file_that_is_no_segment_is_named_and_not_listed() {
    let _turn = my_turn();
    const SIZE: usize = 128 << 10;
    let (reader, mut writer) = pipe(SIZE);
    writer.write_all(b"x").unwrap();
    let number = seen_pipe(SIZE)["pipe"].clone();
    let segment = fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| entry.path()).find(|path| {
        // The positions of the ring would be there in any segment; the capacity is this one's.
        let is_segment = fs::read_link(path).is_ok_and(|link| link.to_string_lossy().contains("millstream-ring"));
        is_segment && word(path, 128) & 0xff == SIZE.ilog2()
    });
    let segment = segment.unwrap();
    let file = fs::File::options().write(true).open(&segment).unwrap();
    // Read further than was written (`docs/layout.md`).
    std::os::unix::fs::FileExt::write_all_at(&file, &[255; 8], 512).unwrap();
    let list = listed(&[]);
    assert!(list["pipes"].as_array().unwrap().iter().all(|pipe| pipe["pipe"] != number), "{list}");
    let text = ps(&[]).stdout;
    assert!(
        text.contains("not listed: descriptor ") && text.contains("has broken this pipe's shared memory"),
        "{text}"
    );
    drop((reader, writer, file));
}

fn word(path: &std::path::Path, at: u64) -> u32 {
    let mut bytes = [0; 4];
    let file = fs::File::open(path).unwrap();
    match std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, at) {
        Ok(()) => u32::from_le_bytes(bytes),
        // Not used yet, so it is empty.
        Err(_) => 0,
    }
}

#[test]
fn processes_of_other_users_are_counted_and_not_shown() {
    let _turn = my_turn();
    const SIZE: usize = 256 << 10;
    let (_reader, mut writer) = pipe(SIZE);
    writer.write_all(b"x").unwrap();
    assert!(found(&listed(&[]), SIZE).is_some());
    let scratch = Scratch::new();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(scratch.installed()).args(["ps", "--json"]);
    let seen = output(&mut command);
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "this test has to run as root: {seen:?}");
    let list: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert!(found(&list, SIZE).is_none() && list["left_out"].as_u64().unwrap() > 0, "{list}");
}

#[test]
fn wrong_use_fails_with_one_sentence() {
    let _turn = my_turn();
    for (arguments, says) in [
        (&["ps", "--interval=0"][..], "an interval is 0.01 to 3600 seconds"),
        (&["ps", "cat"], "invalid value 'cat'"),
        (&["ps", "--count=3"], "--watch"),
        (&["gc", "now"], "unexpected argument 'now'"),
    ] {
        let seen = output(&mut millstream(arguments));
        assert_eq!((seen.code, seen.stdout.as_str(), seen.stderr.lines().count()), (Some(2), "", 1), "{seen:?}");
        assert!(seen.stderr.contains(says), "{}", seen.stderr);
    }
}

/// `millstream gc` where no other process is, and no other file.
fn gc_alone(scratch: &Scratch, before: &str) -> Seen {
    let shared = scratch.path("shm");
    fs::create_dir_all(&shared).unwrap();
    let script = format!("mount --bind \"$0\" /dev/shm && {before} exec \"$@\"");
    let gc = millstream(["gc", "--json"]);
    let mut command = Command::new("unshare");
    command.args(["-m", "-p", "-f", "--mount-proc", "sh", "-c", &script]).arg(shared);
    command
        .arg(gc.get_program())
        .args(gc.get_args())
        .env("TMPDIR", scratch.path(""))
        .env("XDG_CONFIG_HOME", scratch.path(""));
    output(command.env_remove("XDG_RUNTIME_DIR"))
}

#[test]
fn gc_names_what_is_left() {
    let _turn = my_turn();
    let scratch = Scratch::new();
    let seen = gc_alone(&scratch, "");
    let found: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!((seen.code, &found["clean"], &found["pipes"]), (Some(0), &true.into(), &0.into()), "{seen:?}");
    // What a killed benchmark and a killed change of the settings leave; and a file that a process has open.
    scratch.file("millstream-1-2-3", "");
    scratch.file("another", "");
    // A name that would speak to the terminal, and is no text.
    fs::write(scratch.path("").join(OsStr::from_bytes(b"millstream-\x1b\xff")), "").unwrap();
    fs::create_dir(scratch.path("millstream")).unwrap();
    scratch.file("millstream/.millstream.conf.new", "");
    let seen = gc_alone(&scratch, "exec 7>/dev/shm/millstream-open; : >/dev/shm/millstream-left;");
    let found: Value = serde_json::from_str(&seen.stdout).unwrap();
    let files: BTreeSet<_> = found["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    let expected = [
        "/dev/shm/millstream-left".to_owned(),
        scratch.path("millstream-1-2-3").display().to_string(),
        scratch.path("millstream-").display().to_string() + "\\u{1b}\u{fffd}",
        scratch.path("millstream/.millstream.conf.new").display().to_string(),
    ];
    assert_eq!((seen.code, files), (Some(1), expected.iter().map(String::as_str).collect()), "{seen:?}");
}

#[test]
fn memory_without_a_pipe_is_named_with_the_process_that_has_it() {
    let _turn = my_turn();
    const SIZE: usize = 512 << 10;
    let (reader, mut writer) = pipe(SIZE);
    writer.write_all(b"x").unwrap();
    let number = seen_pipe(SIZE)["pipe"].clone();
    let gc = || -> (Option<i32>, Value) {
        let seen = output(&mut millstream(["gc", "--json"]));
        (seen.code, serde_json::from_str(&seen.stdout).unwrap())
    };
    let is_left = |found: &Value| found["segments"].as_array().unwrap().iter().any(|segment| segment["pipe"] == number);
    assert!(!is_left(&gc().1));
    // A copy of the memory's descriptor, which no program should make.
    let segments = fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| entry.path());
    let is_it = |path: &std::path::PathBuf| {
        fs::read_link(path).is_ok_and(|link| link.to_string_lossy().contains("millstream-ring"))
            && word(path, 128) & 0xff == SIZE.ilog2()
    };
    let copy = fs::File::open(segments.into_iter().find(is_it).unwrap()).unwrap();
    drop((reader, writer));
    let (code, found) = gc();
    assert!(code == Some(1) && is_left(&found), "{found}");
    let text = output(&mut millstream(["gc"])).stdout;
    let expected =
        format!("left behind: the memory of pipe {number}, of which no process has an end; it goes with process ");
    assert!(text.contains(&expected) && text.contains(&std::process::id().to_string()), "{text}");
    drop(copy);
    assert!(!is_left(&gc().1));
}

#[test]
fn pipe_of_a_killed_process_is_gone_with_it() {
    let _turn = my_turn();
    const SIZE: usize = 4 << 10;
    // SAFETY: as in `writer_that_stays`.
    let child = match unsafe { fork::fork() }.unwrap() {
        Side::Parent(child) => child,
        Side::Child => {
            let (_reader, mut writer) = pipe(SIZE);
            let _ = writer.write_all(b"x");
            loop {
                std::thread::sleep(Duration::from_secs(1000));
            }
        }
    };
    let id = child.id().to_string();
    let number =
        || listed(&[&id])["pipes"].as_array().unwrap().iter().find(|pipe| pipe["capacity"] == SIZE)?["pipe"].as_u64();
    wait_for("the child's pipe", || number().is_some());
    drop(child);
    assert_eq!(number(), None);
}

#[test]
fn bytes_in_place_of_this_user_are_listed() {
    let _turn = my_turn();
    // SAFETY: both ends stay with this process, which runs this crate.
    let (_reader, mut writer) = unsafe { Builder::new().capacity(1 << 17).trust_peers() }.create().unwrap();
    let _room = writer.reserve(100).unwrap();
    let list = listed(&[]);
    assert!(list["loaned"].as_u64().unwrap() >= 1 << 20 && list["loan_limit"] == 1 << 30, "{list}");
    let table = ps(&[]).stdout;
    assert!(table.contains(" in place, of 1 GiB at most.\n"), "{table}");
}
