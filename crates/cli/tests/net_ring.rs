//! `millstream net` over shared memory: under `millstream run`, where it has several threads and promises what programs with
//! one are proved of; over FIFOs; and at pipes of the library.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;

use common::{
    Scratch, Seen, can_attach, children, kill, millstream, mostly, output, program, state, statistics, wait_for,
};

const ENDS: &str = include_str!("ring/ends.c");
/// Much more than it takes until a pipe is attached.
const MANY: u64 = 24 << 20;

/// A program whose stream is a function of the position, and that checks every byte it reads.
static ENDS_PROGRAM: LazyLock<(Scratch, String)> = LazyLock::new(|| {
    let scratch = Scratch::new();
    let path = scratch.c_program("ends", ENDS, &[]);
    (scratch, path)
});

fn over_ring(options: &[&str], script: &str) -> Command {
    let mut command = millstream([&["run"], options, &["--shell", "/bin/bash", "-c", script]].concat());
    command.env("E", &ENDS_PROGRAM.1).env("M", program()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn seen(script: &str) -> Seen {
    output(&mut over_ring(&[], script))
}

/// The ends that the program had, `read` and `written`, of a run in which every byte arrived.
fn ends_of_the_network(network: &str) -> [Value; 2] {
    let scratch = Scratch::new();
    let file = scratch.path("stats.json");
    let options = ["--stats=json", "--stats-file", file.to_str().unwrap()];
    let seen = output(&mut over_ring(&options, &format!("$E write {MANY} call | {network} | $E read 0 call")));
    assert_eq!(seen.code, Some(0), "{seen:?}");
    assert!(seen.stderr.contains(&format!("read {MANY}\n")), "{seen:?}");
    let stats = statistics(&file);
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
fn is_attached(end: &Value) -> bool {
    end["joined"] == true && end["ring"]["bytes"].as_u64().unwrap_or(0) > MANY / 2
}

/// Neither the threads of the network nor its code keep it from joining. A thread that computes for long may not be there at the
/// instant at which its peer is.
fn assert_could_attach(end: &Value) {
    let is_late = ["never_met", "other_side"].map(Value::from).contains(&end["why_not"]);
    assert!(end["joined"] == true || is_late || !can_attach(), "{end}");
}

#[test]
fn input_and_output_are_attached() {
    for network in ["$M net identity", "$M net --threads 1 'short 70000'"] {
        let mut sides = [false; 2];
        let both_were = mostly(|| {
            let found = ends_of_the_network(network).each_ref().map(is_attached);
            sides = [sides[0] | found[0], sides[1] | found[1]];
            sides == [true; 2]
        });
        assert_eq!((both_were, sides), (can_attach(), [can_attach(); 2]), "{network}");
    }
}

#[test]
fn input_and_output_are_attached_with_several_threads() {
    for network in ["$M net --threads 4 'gzip -1 | gunzip'", "$M net 'buffer 1M | identity'"] {
        ends_of_the_network(network).iter().for_each(assert_could_attach);
    }
}

#[test]
fn input_stays_with_the_kernel_beside_a_command() {
    let [input, output] = ends_of_the_network("$M net 'exec cat'");
    assert_eq!(input["joined"], false, "{input}");
    assert_could_attach(&output);
}

#[test]
fn another_descriptor_for_the_same_pipe_keeps_it_with_the_kernel() {
    let end = &ends_of_the_network("$M net identity 2>&1")[1];
    assert_eq!((&end["joined"], can_attach() && end["why_not"] != "descriptors"), (&false.into(), false), "{end}");
}

#[test]
fn small_streams_pass() {
    for bytes in [0, 1, 70_000, 3 << 20] {
        let seen = seen(&format!("$E write {bytes} call | $M net 'zstd -1 | unzstd' | $E read 0 call"));
        assert!(seen.code == Some(0) && seen.stderr.contains(&format!("read {bytes}\n")), "{seen:?}");
    }
}

#[test]
fn reader_that_wants_no_more_ends_the_network() {
    for stages in ["head -c 8000000", "short 70000 | head -c 8000000", "zstd -1 | unzstd | head -c 8000000"] {
        let seen =
            seen(&format!("$E write 1000000000000 call | $M net '{stages}' | $E read 0 call; echo ${{PIPESTATUS[@]}}"));
        assert!(seen.stdout == "141 0 0\n" && seen.stderr.contains("read 8000000\n"), "{stages}: {seen:?}");
        let script = format!("$E write 1000000000000 call | $M net '{stages}' | head -c 7000000 | wc -c");
        assert_eq!(output(&mut over_ring(&[], &script)).stdout, "7000000\n", "{stages}");
    }
}

#[test]
fn source_asleep_at_the_ring_is_woken_when_the_network_ends() {
    // A little more than is wanted: where it is late the network may have ended before its last write.
    let writer = "import os, time\ntry:\n for _ in range(124): os.write(1, bytes(65536))\nexcept BrokenPipeError: pass\ntime.sleep(1000)";
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
        // The run has become the shell.
        stages = children(run.id());
        stages.len() == 2
    });
    [stages[0], stages[1]]
}

#[test]
fn either_side_may_detach_its_pipe() {
    for what in ["fork", "epoll", "dup", "readv", "signals"] {
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
        // The run has become the shell.
        stages = children(run.id());
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        stages.iter().map(name).eq(["ends\n", "millstream\n", "ends\n"].map(String::from))
    });
    std::thread::sleep(delay);
    kill(stages[victim]);
    Seen::from(run.wait_with_output().unwrap())
}

#[test]
fn killed_process_does_not_hold_up_the_others() {
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

/// What a network said with `--stats=json`, of its stage in this place: bytes, and how many of them passed no kernel.
fn in_memory(network: &Seen, place: usize) -> [u64; 2] {
    assert_eq!(network.code, Some(0), "{network:?}");
    let line = network.stderr.lines().find(|line| line.starts_with('{')).unwrap();
    let stage = &serde_json::from_str::<Value>(line).unwrap()["stages"][place];
    ["bytes_out", "bytes_in_memory"].map(|field| stage[field].as_u64().unwrap())
}

fn network(line: &str) -> Command {
    let mut command = millstream(["net", "--threads", "4", "--stats=json", line]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn fifo(scratch: &Scratch) -> String {
    let path = scratch.path("fifo");
    millstream_pipe::Fifo::create(&path, 0o600).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn two_networks_that_a_fifo_connects_share_memory() {
    let scratch = Scratch::new();
    let (path, input) = (fifo(&scratch), scratch.path("input"));
    std::fs::write(&input, (0..8_u32 << 20).flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()).unwrap();
    let input = input.to_str().unwrap();
    for (before, behind) in [("identity", "upper | lower"), ("hex", "unhex | upper | lower")] {
        let plain =
            output(&mut network(&format!("read {input} | upper | lower | sha256 /dev/stderr | write /dev/null")));
        let digest = plain.stderr.split_whitespace().next().unwrap().to_owned();
        // Whether they find each other early depends on when each of them runs.
        let shares = (0..100).any(|_| {
            let writer = network(&format!("read {input} | {before} | write {path}")).spawn().unwrap();
            let reader =
                output(&mut network(&format!("read {path} | {behind} | sha256 /dev/stderr | write /dev/null")));
            let writer = Seen::from(writer.wait_with_output().unwrap());
            assert!(reader.stderr.contains(&digest), "{reader:?}");
            let ([written, wrote_there], [read, read_there]) = (in_memory(&writer, 2), in_memory(&reader, 0));
            assert!(written == read && wrote_there <= written && read_there <= read);
            wrote_there > written / 2 && read_there > read / 2
        });
        assert!(shares, "{before}");
    }
}

#[test]
fn a_fifo_with_plain_programs_is_as_ever() {
    let scratch = Scratch::new();
    let path = fifo(&scratch);
    let plain = Command::new("sh").args(["-c", &format!("seq 300000 >{path}")]).spawn().unwrap();
    let read = output(&mut millstream(["net", &format!("read {path} | gzip -1 | gunzip | tail -n 1")]));
    assert_eq!((read.stdout.as_str(), plain.wait_with_output().unwrap().status.code()), ("300000\n", Some(0)));
    // A reader that has had enough ends it quietly, also while it appends.
    for write in ["write", "append"] {
        let mut plain = Command::new("head").args(["-c", "3", &path]).stdout(Stdio::piped()).spawn().unwrap();
        let written = output(&mut millstream(["net", &format!("read /dev/zero | {write} {path}")]));
        assert_eq!((written.code, written.stderr.as_str()), (Some(0), ""), "{written:?}");
        assert!(plain.wait().unwrap().success());
    }
}

#[test]
fn source_asleep_at_a_fifo_is_woken_when_the_network_ends() {
    let scratch = Scratch::new();
    let path = fifo(&scratch);
    for ring in [true, false] {
        let kept = scratch.path("kept");
        let line = format!("read {path} | hex | unhex | head -c 5000000 | write {}", kept.display());
        let reading = millstream(["net", &line]).spawn().unwrap();
        let writing = millstream_pipe::FifoOptions::new().ring(ring).open_writer(&path).unwrap();
        // Nothing follows, and no end. The reader may be gone before all of it is in.
        let written = (&writing).write_all(&vec![7; 5_100_000]);
        assert!(written.is_ok() || written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe));
        assert_eq!(Seen::from(reading.wait_with_output().unwrap()).code, Some(0));
        assert_eq!(std::fs::metadata(kept).unwrap().len(), 5_000_000);
        drop(writing);
    }
}

#[test]
fn pipes_of_the_library_at_the_standard_streams_are_used_as_such() {
    let most_passed_memory = (0..100).any(|_| {
        let (input, mut writer) = millstream_pipe::pipe().unwrap();
        let (mut reader, output) = millstream_pipe::pipe().unwrap();
        let mut command = network("identity");
        command.stdin(input.into_fd().unwrap()).stdout(output.into_fd().unwrap());
        let child = command.spawn().unwrap();
        drop(command);
        let bytes: Vec<u8> = (0..MANY).map(|at| (at / 5) as u8).collect();
        let mut got = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                writer.write_all(&bytes).unwrap();
                drop(writer);
            });
            reader.read_to_end(&mut got).unwrap();
        });
        assert!(got == bytes, "{} bytes", got.len());
        let seen = Seen::from(child.wait_with_output().unwrap());
        let [[read, read_there], [written, written_there]] = [0, 2].map(|place| in_memory(&seen, place));
        assert_eq!([read, written], [MANY; 2]);
        read_there > MANY / 2 && written_there > MANY / 2
    });
    assert!(most_passed_memory);
}
