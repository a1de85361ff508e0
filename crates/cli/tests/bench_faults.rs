//! Faults that are planted from outside into a measurement under way: a writer is killed, a process is moved to another
//! CPU, a byte in the writer's memory is changed. The cell shows no number and says why, and the exit status is 3. As root,
//! because it writes to the memory of processes.

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use common::{Scratch, Seen, cells, children, kill, millstream, wait_for};
use millstream_bench::pattern;
use millstream_sys::cpu;

/// What goes from one process to another by default, each in its own way.
const TRANSPORTS: [&str; 9] =
    ["pipe", "pipe-1m", "vmsplice", "unix", "tcp", "posix-mq", "process_vm_readv", "millstream", "spsc-bare"];

/// Bytes of a transfer: a page.
const TRANSFER: usize = 4096;

const BW_PIPE: [&str; 3] = ["bw_pipe", "--transfer", "4k"];

/// Every kind of measurement between two processes, and what it calls them, the writer first.
const METHODS: [(&[&str], [&str; 2]); 5] = [
    (&BW_PIPE, ["writer", "reader"]),
    (&["lat_pipe", "--waiting", "running"], ["asker", "answerer"]),
    (&["lat_fifo", "--waiting", "asleep"], ["asker", "answerer"]),
    (&["pipeflex", "-r", "4k"], ["writer", "reader"]),
    (&["fifo_grid", "--size", "64", "--messages", "10000"], ["producer", "consumer"]),
];

/// Measures for as long as it takes, and disturbs its two processes, the writer first, until that ends it. Returns why its
/// only cell is not valid.
fn why_invalid(arguments: &[&str], mut disturb: impl FnMut([u32; 2])) -> String {
    let scratch = Scratch::new();
    let json = scratch.path("out.json");
    let mut command = millstream([&["bench"], arguments, &["--rounds", "10000", "--json"]].concat());
    let mut bench = command.arg(&json).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the end of the measurement", || {
        if let [writer, reader] = children(bench.id())[..] {
            disturb([writer, reader]);
        }
        bench.try_wait().unwrap().is_some()
    });
    let seen = Seen::from(bench.wait_with_output().unwrap());
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(3), ""), "{seen:?}");
    let cells = cells(&json);
    assert_eq!((cells.len(), &cells[0]["valid"], seen.stdout.matches("not valid").count()), (1, &false.into(), 1));
    for figure in ["median", "ci95", "ratio", "ratio_ci95", "verdict"] {
        assert!(cells[0][figure].is_null(), "{figure}: {}", cells[0]);
    }
    let why = cells[0]["why_invalid"].as_str().unwrap().to_owned();
    assert!(seen.stdout.contains(&why), "{seen:?}");
    why
}

fn over<'a>(arguments: &[&'a str], transport: &'a str, placement: &'a str) -> Vec<&'a str> {
    [arguments, &["--transport", transport, "--placement", placement]].concat()
}

#[test]
fn dead_writer_is_named_over_every_transport() {
    for transport in TRANSPORTS {
        let why = why_invalid(&over(&BW_PIPE, transport, "2cpu"), |[writer, _]| kill(writer));
        assert!(why.contains("the writer was killed by signal 9"), "{transport}: {why}");
    }
}

#[test]
fn dead_process_is_named_by_every_method() {
    for (arguments, roles) in METHODS {
        for (index, role) in roles.into_iter().enumerate() {
            let why = why_invalid(&over(arguments, "millstream", "1cpu"), |processes| kill(processes[index]));
            assert!(why.contains(&format!("the {role} was killed by signal 9")), "{arguments:?}: {why}");
        }
    }
}

fn two_cpus() -> [usize; 2] {
    let allowed = cpu::allowed().unwrap();
    assert!(allowed.len() >= 2, "this test needs two CPUs");
    [allowed[0], allowed[1]]
}

/// Moves a process, which may be gone already.
fn move_to(pid: u32, cpu: usize) {
    let mut command = Command::new("taskset");
    command.args(["-pc", &cpu.to_string(), &pid.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap();
}

#[test]
fn moved_process_is_named_by_every_method() {
    let [here, there] = two_cpus();
    for (arguments, roles) in METHODS {
        for (index, role) in roles.into_iter().enumerate() {
            let why = why_invalid(&over(arguments, "pipe", "1cpu"), |processes| move_to(processes[index], there));
            let says = format!("the {role} ran on CPU [{there}] instead of {here}");
            assert!(why.contains(&says), "{arguments:?}: {why}");
        }
    }
}

#[test]
fn process_that_left_its_cpu_for_a_while_is_named() {
    let [here, there] = two_cpus();
    // Long samples, so that there is time to come back.
    let arguments = ["pipeflex", "-r", "4k", "-t", "2"];
    let mut moved = None;
    let why = why_invalid(&over(&arguments, "pipe", "1cpu"), |[_, reader]| {
        if moved != Some(reader) && is_pinned_to(reader, here) {
            move_to(reader, there);
            move_to(reader, here);
            moved = Some(reader);
        }
    });
    assert!(why.contains("the reader was moved from CPU to CPU"), "{why}");
}

fn is_pinned_to(pid: u32, cpu: usize) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    allowed.is_some_and(|list| list.trim() == cpu.to_string())
}

/// Changes the last byte of every page of a process's own memory that begins as a buffer of the writer's does. What cannot
/// be read or written is gone.
fn change_a_byte(pid: u32) {
    let mut wanted = [0; TRANSFER];
    pattern::fill(0, &mut wanted);
    let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else { return };
    let Ok(memory) = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem")) else { return };
    for (start, len) in maps.lines().filter_map(own_memory) {
        for page in pages_like(&memory, start, len, &wanted[..TRANSFER / 2]) {
            let _ = memory.write_at(&[!wanted[TRANSFER - 1]], page + TRANSFER as u64 - 1);
        }
    }
}

/// Where memory is that may be written, is shared with no process and comes from no file.
fn own_memory(line: &str) -> Option<(u64, usize)> {
    let mut words = line.split_whitespace();
    let (range, rights, inode) = (words.next()?, words.next()?, words.nth(2)?);
    let (start, end) = range.split_once('-')?;
    let [start, end] = [start, end].map(|address| u64::from_str_radix(address, 16).unwrap());
    (rights == "rw-p" && inode == "0").then_some((start, (end - start) as usize))
}

fn pages_like(memory: &File, start: u64, len: usize, head: &[u8]) -> Vec<u64> {
    let mut bytes = vec![0; len];
    let count = memory.read_at(&mut bytes, start).unwrap_or(0);
    let pages = bytes[..count].chunks_exact(TRANSFER).enumerate().filter(|(_, page)| page.starts_with(head));
    pages.map(|(index, _)| start + (index * TRANSFER) as u64).collect()
}

#[test]
fn wrong_byte_is_found_over_every_transport() {
    for transport in TRANSPORTS {
        for variant in ["hot", "summed"] {
            let arguments = [&BW_PIPE[..], &["--variant", variant]].concat();
            let why = why_invalid(&over(&arguments, transport, "1cpu"), |[writer, _]| change_a_byte(writer));
            let is_said = ["is wrong", "the sum of what was read is"].iter().any(|part| why.contains(part));
            assert!(is_said && why.contains("the reader: "), "{transport} {variant}: {why}");
        }
    }
}
