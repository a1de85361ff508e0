//! What a network costs, in what can be counted: system calls, copies, pages, sleeps. No clock: a network that has become
//! slower because it does more is found here on a busy machine too.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millstream_net::{Network, Options, Outcome, run};
use millstream_sys::usage;
use millstream_transforms::ALL;

/// What is read: a file without content, which the kernel fills with zeros, so that nothing is written to a disk.
const BYTES: u64 = 64 << 20;

/// Bytes of a buffer, as `docs/networks.md` says.
const BUFFER: u64 = 256 << 10;

/// Buffers that go through the network.
const PIECES: u64 = BYTES / BUFFER;

/// What a run costs once, whatever it reads: opening files, starting threads, the harness of the tests beside it.
const ONCE: u64 = 300;

/// The file, and a lock against other tests here: the kernel counts for the whole process.
struct Scratch(PathBuf, #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Scratch {
    fn new() -> Scratch {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let path = std::env::temp_dir().join(format!("millstream-effort-{}", std::process::id()));
        File::create(&path).unwrap().set_len(BYTES).unwrap();
        Scratch(path, alone)
    }

    /// Runs a line twice, and counts what the second run does: then the file is in memory, and the library has what it keeps.
    fn effort(&self, stages: &str, threads: usize) -> Effort {
        let line = format!("read '{}' | {stages} | write /dev/null", self.0.display());
        let network = Network::from_line(&line).unwrap();
        let options = Options { threads, ..Options::default() };
        let run = || run::run(&network, ALL, &options).unwrap();
        run();
        let (before, calls) = (usage::so_far(), calls());
        let outcome = run();
        let (after, [reads, writes]) = (usage::so_far(), self::calls());
        Effort {
            reads: reads - calls[0],
            writes: writes - calls[1],
            faults: after.minor_faults - before.minor_faults,
            sleeps: after.voluntary_switches - before.voluntary_switches,
            outcome,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

#[derive(Debug)]
struct Effort {
    reads: u64,
    writes: u64,
    faults: u64,
    sleeps: u64,
    outcome: Outcome,
}

/// Calls that read and that write, of this process until now.
fn calls() -> [u64; 2] {
    let text = fs::read_to_string("/proc/self/io").unwrap();
    let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().parse().unwrap();
    [of("syscr:"), of("syscw:")]
}

#[test]
fn stages_in_place_cost_neither_calls_nor_copies_nor_pages() {
    let scratch = Scratch::new();
    for stages in ["identity", &["increment"; 8].join(" | "), "upper | sha256 /dev/null | lower | crc32 /dev/null"] {
        let effort = scratch.effort(stages, 1);
        // A thread reads each buffer in one call and writes it in one, and waits for no other thread.
        assert!((PIECES..PIECES + ONCE).contains(&effort.reads), "{stages}: {effort:?}");
        assert!((PIECES..PIECES + ONCE).contains(&effort.writes), "{stages}: {effort:?}");
        assert!(effort.sleeps < ONCE, "{stages}: {effort:?}");
        // The pages of one or two buffers, whatever goes through.
        assert!(effort.faults < 2 * BUFFER / 4096 + ONCE, "{stages}: {effort:?}");
        let copied: u64 = effort.outcome.stages.iter().map(|stage| stage.bytes_copied).sum();
        assert_eq!(copied, 2 * BYTES, "{stages}");
    }
}

#[test]
fn more_threads_cost_no_more_copies_and_a_sleep_for_each_piece_at_most() {
    let scratch = Scratch::new();
    for threads in [2, 4] {
        let sleeps_little = (0..5).any(|_| {
            let effort = scratch.effort("increment | rot13 | upper", threads);
            // If a thread loses its CPU, another reads the piece of that thread, and its own again: three reads at
            // most.
            assert!((PIECES..3 * PIECES + ONCE).contains(&effort.reads), "{threads}: {effort:?}");
            assert!((PIECES..PIECES + ONCE).contains(&effort.writes), "{threads}: {effort:?}");
            assert!(effort.faults < 2 * threads as u64 * BUFFER / 4096 + ONCE, "{threads}: {effort:?}");
            for stage in &effort.outcome.stages {
                assert_eq!(stage.bytes_in.max(stage.bytes_out), BYTES, "{threads}: {stage:?}");
            }
            // A thread sleeps while it waits for its turn or for the lock, and checks in between. It sleeps many times
            // for a thread that has lost its CPU for long, as happens on a busy machine.
            println!("{threads} threads: {effort:?}");
            effort.sleeps < 2 * threads as u64 * PIECES + ONCE
        });
        assert!(sleeps_little, "{threads}");
    }
}

#[test]
fn from_thread_to_thread_go_buffers_and_no_bytes() {
    let scratch = Scratch::new();
    let effort = scratch.effort("swab | swab", 3);
    assert!((PIECES..PIECES + ONCE).contains(&effort.reads), "{effort:?}");
    // A buffer is passed on as it is, and each time both sides may have to wait: for a free buffer and for a full one.
    assert!((PIECES..2 * PIECES + ONCE).contains(&effort.writes), "{effort:?}");
    assert!(effort.sleeps < 8 * PIECES + ONCE, "{effort:?}");
    // Four on the way between two threads, one that each fills: some twelve, which are all that there ever are.
    assert!(effort.faults < 14 * BUFFER / 4096 + 2 * ONCE, "{effort:?}");
    let copied: u64 = effort.outcome.stages.iter().map(|stage| stage.bytes_copied).sum();
    assert_eq!(copied, 4 * BYTES, "the source, two stages and the sink");
}

#[test]
fn rewriting_stage_needs_no_memory_for_each_piece() {
    let scratch = Scratch::new();
    for stages in ["gzip -1 | gunzip", "hex | unhex", "lz4 | unlz4", "base64 | unbase64"] {
        let effort = scratch.effort(stages, 1);
        assert!((PIECES..PIECES + ONCE).contains(&effort.reads), "{stages}: {effort:?}");
        // 16 384 pages go through; a buffer that were made anew for each piece would be as many.
        assert!(effort.faults < BYTES / 4096 / 8, "{stages}: {effort:?}");
        assert!(effort.sleeps < ONCE, "{stages}: {effort:?}");
    }
}
