//! `millstream net` under `millstream run --ring`: it has several threads and promises what programs with one are proved of.

mod common;

use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;

use common::{Scratch, Seen, children, kill, millstream, output, program, state, wait_for};

const ENDS: &str = include_str!("ring/ends.c");
/// Much more than it takes until a pipe is joined.
const MANY: u64 = 24 << 20;

/// A program whose stream is a function of the position, and that checks every byte it reads.
static ENDS_PROGRAM: LazyLock<(Scratch, String)> = LazyLock::new(|| {
    let scratch = Scratch::new();
    let path = scratch.c_program("ends", ENDS, &[]);
    (scratch, path)
});

fn over_ring(options: &[&str], script: &str) -> Command {
    let mut command = millstream([&["run", "--ring"], options, &["--shell", "/bin/bash", "-c", script]].concat());
    command.env("E", &ENDS_PROGRAM.1).env("M", program()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn seen(script: &str) -> Seen {
    output(&mut over_ring(&[], script))
}

/// Whether this machine's glibc is one that can be joined at all; elsewhere the tests below see kernel pipes that work.
fn can_join() -> bool {
    cfg!(target_arch = "x86_64") && {
        let version = output(Command::new("ldd").arg("--version")).stdout;
        version.lines().next().is_some_and(|line| line.ends_with("2.36"))
    }
}

/// The ends that the program had, `read` and `written`, of a run in which every byte arrived.
fn ends_of_the_network(network: &str) -> [Value; 2] {
    let scratch = Scratch::new();
    let file = scratch.path("stats.json");
    let options = ["--stats=json", "--stats-file", file.to_str().unwrap()];
    let seen = output(&mut over_ring(&options, &format!("$E write {MANY} call | {network} | $E read 0 call")));
    assert_eq!(seen.code, Some(0), "{seen:?}");
    assert!(seen.stderr.contains(&format!("read {MANY}\n")), "{seen:?}");
    let stats: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    // The network has pipes of its own as well.
    [("read", "written"), ("written", "read")].map(|(side, other)| {
        let pipes = stats["pipes"].as_array().unwrap();
        let is_its = |pipe: &&Value| pipe[other]["by"]["name"] == "ends" && pipe[side]["by"]["name"] == "millstream";
        let end = &pipes.iter().find(is_its).unwrap_or_else(|| panic!("{stats}"))[side];
        assert_eq!(end["bytes"].as_u64(), Some(MANY), "{stats}");
        end.clone()
    })
}

/// Whether most bytes passed the ring.
fn is_joined(end: &Value) -> bool {
    end["joined"] == true && end["ring"]["bytes"].as_u64().unwrap_or(0) > MANY / 2
}

/// Whether two programs meet depends on who runs when; that they never do in ten runs does not.
fn joins(network: &str, expected: [bool; 2]) {
    let found: Vec<_> = (0..10)
        .map(|_| ends_of_the_network(network).each_ref().map(is_joined))
        .scan(false, |is_over, found| {
            let before = *is_over;
            *is_over = found == expected.map(|yes| yes && can_join());
            (!before).then_some(found)
        })
        .collect();
    assert_eq!(found.last(), Some(&expected.map(|yes| yes && can_join())), "{network}: {found:?}");
    assert!(found.iter().all(|found| (0..2).all(|side| expected[side] || !found[side])), "{network}: {found:?}");
}

#[test]
fn input_and_output_are_joined_whatever_the_threads() {
    joins("$M net identity", [true, true]);
    joins("$M net --threads 1 'short 70000'", [true, true]);
    // The source waits for a bell too, and another thread writes.
    joins("$M net --threads 4 'gzip -1 | gunzip'", [true, true]);
}

#[test]
fn beside_commands_only_the_output_is_joined() {
    joins("$M net 'exec cat'", [false, true]);
}

#[test]
fn another_descriptor_for_the_same_pipe_keeps_it_with_the_kernel() {
    let end = &ends_of_the_network("$M net identity 2>&1")[1];
    assert_eq!((&end["joined"], can_join() && end["why_not"] != "descriptors"), (&false.into(), false), "{end}");
}

#[test]
fn small_streams_pass() {
    for bytes in [0, 1, 70_000, 3 << 20] {
        let seen = seen(&format!("$E write {bytes} call | $M net 'zstd -1 | unzstd' | $E read 0 call"));
        assert!(seen.code == Some(0) && seen.stderr.contains(&format!("read {bytes}\n")), "{seen:?}");
    }
}

#[test]
fn who_wants_no_more_ends_the_network_and_what_feeds_it() {
    for stages in ["head -c 8000000", "short 70000 | head -c 8000000", "zstd -1 | unzstd | head -c 8000000"] {
        let seen =
            seen(&format!("$E write 1000000000000 call | $M net '{stages}' | $E read 0 call; echo ${{PIPESTATUS[@]}}"));
        assert!(seen.stdout == "141 0 0\n" && seen.stderr.contains("read 8000000\n"), "{stages}: {seen:?}");
        let script = format!("$E write 1000000000000 call | $M net '{stages}' | head -c 7000000 | wc -c");
        assert_eq!(output(&mut over_ring(&[], &script)).stdout, "7000000\n", "{stages}");
    }
}

#[test]
fn a_source_that_sleeps_at_the_ring_is_woken_when_nothing_is_wanted_any_more() {
    let writer = "import os, time\nfor _ in range(124): os.write(1, bytes(65536))\ntime.sleep(1000)";
    for stages in ["hex | unhex | head -c 8000000", "buffer 64K | head -c 8000000"] {
        let script = format!("python3 -c '{writer}' | $M net '{stages}' >/dev/null; echo ${{PIPESTATUS[@]}}");
        let run = over_ring(&[], &script).spawn().unwrap();
        let [writer, network] = two_stages(&run);
        wait_for("the end of the network", || state(network).is_none_or(|state| state == 'Z'));
        kill(writer);
        assert_eq!(Seen::from(run.wait_with_output().unwrap()).stdout, "137 0\n", "{stages}");
    }
}

/// The two programs of a pipeline, once they run.
fn two_stages(run: &Child) -> [u32; 2] {
    let mut stages = Vec::new();
    wait_for("two programs", || {
        let shell = children(run.id());
        stages = shell.first().map(|&shell| children(shell)).unwrap_or_default();
        stages.len() == 2
    });
    [stages[0], stages[1]]
}

#[test]
fn either_side_may_take_its_pipe_back() {
    for what in ["fork", "poll", "dup", "readv", "signals"] {
        let writer = format!("$E write {MANY} call 12582912 {what} | $M net identity | $E read 0 call");
        let reader = format!("$E write {MANY} call | $M net 'zstd -1 | unzstd' | $E read 0 call 12582912 {what}");
        for script in [writer, reader] {
            let seen = seen(&script);
            assert!(seen.code == Some(0) && seen.stderr.contains(&format!("read {MANY}\n")), "{script}: {seen:?}");
        }
    }
}

/// Runs a pipeline without end, waits a little, and kills one of its three programs.
fn killed(network: &str, delay: Duration, victim: usize) -> Seen {
    let script = format!("$E write 1000000000000 call | $M net {network} | $E read 0 call; echo ${{PIPESTATUS[@]}}");
    let run = over_ring(&[], &script).spawn().unwrap();
    let mut stages = Vec::new();
    wait_for("three programs", || {
        let shell = children(run.id());
        stages = shell.first().map(|&shell| children(shell)).unwrap_or_default();
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        stages.iter().map(name).eq(["ends\n", "millstream\n", "ends\n"].map(String::from))
    });
    std::thread::sleep(delay);
    kill(stages[victim]);
    Seen::from(run.wait_with_output().unwrap())
}

#[test]
fn whoever_is_killed_the_others_come_to_their_ends() {
    for turn in 0..6 {
        let delay = Duration::from_micros(500 + turn * turn * 1500);
        let network = ["identity", "'buffer 1M'"][turn as usize % 2];
        // The reader checks each byte: what it got is the beginning of the stream.
        let writer = killed(network, delay, 0);
        assert!(writer.stdout == "137 0 0\n" && writer.stderr.contains("read "), "{writer:?}");
        let itself = killed(network, delay, 1);
        assert!(itself.stdout == "141 137 0\n" && itself.stderr.contains("read "), "{itself:?}");
        let reader = killed(network, delay, 2);
        assert_eq!(reader.stdout, "141 0 137\n", "{reader:?}");
    }
}
