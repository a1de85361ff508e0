//! `millstream run`: what a program could notice of its attached pipe, and does not: limits, memory that is not there, filters of
//! system calls, signal handlers, and waits for several descriptors.

mod common;
#[path = "common/over_ring.rs"]
mod over_ring;

use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use common::{Scratch, Seen, can_attach, mostly, output, statistics, wait_for};
use over_ring::{ENDS, MANY, Programs, assert_arrived, over_ring, over_ring_with, said, seen, told, told_with};

static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| {
    Programs::built(&[
        ("E", ENDS, &[]),
        // Has as many files open as it may.
        ("F", include_str!("ring/full.c"), &[]),
        // Is given memory that is not there.
        ("B", include_str!("ring/absent.c"), &[]),
        // Runs another under filters of system calls.
        ("C", include_str!("ring/confine.c"), &[]),
        ("H", include_str!("ring/handlers.c"), &[]),
        ("R", include_str!("ring/records.c"), &[]),
        ("T", include_str!("ring/waits.c"), &[]),
    ])
});

/// What its statistics say of a pipeline in which all went well, and whether a side was refused something.
fn full(pipeline: &str) -> (serde_json::Value, bool) {
    let scratch = Scratch::new();
    let file = scratch.path("stats.json");
    let options = ["--ring-after", "1", "--stats=json", "--stats-file", file.to_str().unwrap()];
    let seen = output(&mut over_ring_with(&options, &format!("set -o pipefail; {pipeline}")));
    assert_eq!((seen.code, said(&seen, "wrote ")), (Some(0), said(&seen, "read ")), "{pipeline}: {seen:?}");
    let stats = statistics(&file);
    let pipes = stats["pipes"].as_array().unwrap().iter();
    (pipes.max_by_key(|pipe| pipe["bytes"].as_u64()).unwrap().clone(), seen.stderr.contains("refused"))
}

#[test]
fn a_process_that_may_open_no_further_file_gives_its_pipe_back() {
    for (what, called) in [("dup", "dup"), ("fork", "fork"), ("unread", "ioctl"), ("poll", "poll")] {
        // Both limits, or the one that it could raise itself.
        for limit in ["ulimit -n 300", "ulimit -S -n 300"] {
            for how in ["read", "poll"] {
                for (pipeline, end) in [
                    (format!("({limit}; exec $F write 3000000 1000000 {what}) | $F read {how} 0 none"), "written"),
                    (format!("$F write 3000000 0 none | ({limit}; exec $F read {how} 1000000 {what})"), "read"),
                ] {
                    let is_as_ever = mostly(|| {
                        let pipe = full(&pipeline).0;
                        let why = pipe[end]["why_not"].as_str().unwrap_or("");
                        let is_called = why.starts_with("called ") && why.ends_with(called);
                        // A program that waits keeps its pipe, mostly.
                        pipe["read"]["ring"]["bytes"].as_u64() > Some(0) && (is_called || what == "poll")
                    });
                    assert_eq!(is_as_ever, can_attach(), "{pipeline}");
                }
            }
        }
    }
}

#[test]
fn where_a_pipe_cannot_be_given_back_nothing_is_begun() {
    for (pipeline, end) in [
        ("$F write 3000000 1000000 low | $F read read 0 none", "written"),
        ("$F write 3000000 0 none | $F read read 1000000 low", "read"),
        ("$F write 3000000 0 none | $F read poll 1000000 low", "read"),
    ] {
        // It stays attached to its end.
        let is_refused = mostly(|| {
            let (pipe, is_refused) = full(pipeline);
            assert!(!is_refused || pipe["read"]["ring"]["bytes"].as_u64() > Some(2_000_000), "{pipe}");
            is_refused && pipe[end]["joined"] == true
        });
        assert_eq!(is_refused, can_attach(), "{pipeline}");
    }
    // The other side can, whatever this one may open.
    for pipeline in [
        "$F write 3000000 1000000 low | $F read read 2000000 unread",
        "$F write 3000000 2000000 unread | $F read read 1000000 low",
        "$F write 3000000 2000000 dup | $F read poll 1000000 low",
    ] {
        (0..5).for_each(|_| drop(full(pipeline)));
    }
}

/// A pipeline of two ends that do something with memory that is not there, and what both said, in order.
fn absent(writer: &str, reader: &str) -> (String, String) {
    let script = format!("$B write {writer} 2>$W | $B read {reader} 2>$R; echo ${{PIPESTATUS[@]}}");
    let scratch = Scratch::new();
    let said = |mut command: Command| {
        let (wrote, read) = (scratch.path("wrote"), scratch.path("read"));
        let seen = output(command.env("W", &wrote).env("R", &read));
        let [wrote, read] = [wrote, read].map(|file| std::fs::read_to_string(file).unwrap());
        format!("{}writer: {wrote}reader: {read}", seen.stdout)
    };
    let mut bare = Command::new("/bin/bash");
    bare.args(["-c", &script]).envs(PROGRAMS.paths()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (said(bare), said(over_ring(&script)))
}

const WITH_MEMORY: [&str; 18] = [
    "unmapped",
    "none",
    "read-only",
    "truncated",
    "far",
    "long",
    "masked",
    "masks-others",
    "fills-mask",
    "ignored",
    "own",
    "own-late",
    "own-before",
    "own-sent",
    "query",
    "replace",
    "overflow",
    "interrupted",
];

#[test]
fn memory_that_is_not_there_is_answered_as_by_the_kernel() {
    let turns = (1..5).map(|turn| format!("unmapped {turn}"));
    for what in WITH_MEMORY.iter().map(|what| (*what).to_owned()).chain(turns) {
        // Beside a writer that pauses the reader sleeps when it is to give its memory.
        for (writer, reader) in [(&*what, "nothing"), ("nothing", &what), ("pause", &what)] {
            let (bare, ours) = absent(writer, reader);
            assert!(bare.starts_with("0 0\n") && bare.contains(&format!("read {MANY}\n")), "{what}: {bare}");
            assert_eq!(ours, bare, "{writer} | {reader}");
        }
    }
}

#[test]
fn memory_that_is_not_there_detaches_the_pipe() {
    let ends = |what: &'static str| [("written", what, "nothing"), ("read", "nothing", what)];
    // No reader finds as much as the long one has room for.
    let cases = ["unmapped", "none", "read-only", "truncated", "masks-others", "own-before"].into_iter().flat_map(ends);
    for (end, writer, reader) in cases.chain([("written", "long", "nothing"), ("read", "pause", "read-only")]) {
        let script = format!("$B write {writer} | $B read {reader}");
        let is_told = mostly(|| {
            let pipe = told(&script);
            pipe["path"] == "ring" && pipe[end]["why_not"] == "nowhere"
        });
        assert_eq!(is_told, can_attach(), "{script}");
    }
}

#[test]
fn a_crash_is_the_crash_that_it_was() {
    for (what, status) in
        [("crash", 139), ("crash-bus", 135), ("crash-general", 139), ("crash-sent", 139), ("crash-raised", 135)]
    {
        let (bare, ours) = absent(what, "nothing");
        assert_eq!(bare, format!("{status} 0\nwriter: reader: read {}\n", MANY / 2), "{what}");
        assert_eq!(ours, bare, "{what}");
        let (bare, ours) = absent("nothing", what);
        assert_eq!(bare, format!("141 {status}\nwriter: reader: "), "{what}");
        assert_eq!(ours, bare, "{what}");
    }
}

/// Joining and counting take system calls that such a program does not make by itself, and may be killed for.
#[test]
fn program_that_sandboxes_itself_makes_no_calls_of_the_library() {
    for options in [&[][..], &["--stats-file", "/dev/null"], &["--no-ring", "--stats-file", "/dev/null"]] {
        for (how, after) in
            ["confine-prctl", "confine-syscall"].iter().flat_map(|how| [0, 1 << 20, 12 << 20].map(|after| (how, after)))
        {
            let seen = |script: &str| output(&mut over_ring_with(options, script));
            let reader = seen(&format!("$E write {MANY} call | $E read 0 call {after} {how}"));
            assert_arrived(&reader, MANY);
            let writer = seen(&format!("set -o pipefail; $E write {MANY} call {after} {how} | $E read 0 call"));
            assert_eq!(
                (writer.code, said(&writer, "read "), said(&writer, "wrote ")[0]),
                (Some(0), vec![MANY], MANY),
                "{writer:?}"
            );
            let both = format!("set -o pipefail; $E write {MANY} call {after} {how} | $E read 0 call {after} {how}");
            assert_eq!(seen(&both).code, Some(0), "{how} after {after}");
        }
    }
}

/// A filter that another program has made may kill for these calls as well.
#[test]
fn program_that_was_sandboxed_before_it_began_makes_none_of_them_either() {
    for (writer, reader) in [("$C few $E", "$E"), ("$E", "$C few $E"), ("$C few $E", "$C few $E")] {
        let script = format!("set -o pipefail; {writer} write {MANY} call | {reader} read 0 call");
        assert_arrived(&seen(&script), MANY);
    }
}

/// The kernel wakes a pipe's reader at each write, once a process has polled the pipe: small writes take a tenth longer.
#[test]
fn pipe_is_not_polled_before_it_attaches() {
    let seen = seen("$C unpolled /bin/sh -c 'seq 200000 | tr 0-9 a-j | cat | wc -c'");
    assert_eq!((seen.code, seen.stdout.as_str(), seen.stderr.as_str()), (Some(0), "1288895\n", ""));
}

#[test]
fn a_run_under_filters_joins_only_where_they_allow_it() {
    let joins = |how: &str| {
        let mut command = Command::new(PROGRAMS.path("C"));
        command.args([how, common::program(), "run", "--shell", "/bin/bash", "-c"]);
        command.arg(format!("$E write {MANY} call | $E read 0 call")).envs(PROGRAMS.paths());
        command.env_remove("LD_PRELOAD").env_remove("MILLSTREAM_RUN").stdout(Stdio::piped()).stderr(Stdio::piped());
        assert_arrived(&output(&mut command), MANY) < MANY / 2
    };
    for how in ["kill", "refuse"] {
        (0..10).for_each(|_| assert!(!joins(how), "{how}"));
    }
    assert_eq!(mostly(|| joins("harmless")), can_attach());
}

/// A signal comes when the reader has just been rung, or while its `read` sleeps and is resumed afterwards. Each run has one such
/// moment, in a few tenths of them it is one of these.
#[test]
fn a_handler_that_interrupts_a_sleeping_reader_leaves_it_a_stream() {
    for what in ["leave", "leave-resumed", "read", "read-resumed", "jump"] {
        for turn in 0..12 {
            let script = format!("exec $H write 4000 | exec $H read {what} {}", 10 + 14 * turn);
            let seen = output(&mut over_ring_with(&["--ring-after", "1"], &script));
            assert_eq!(seen.code, Some(0), "{what}: {seen:?}");
            // A jump out of `read` leaves behind what that read had, as it does with a pipe of the kernel.
            let [wrote, read] = [said(&seen, "wrote "), said(&seen, "read ")];
            assert!(wrote == read || (what == "jump" && read[0] < wrote[0]), "{what}: {seen:?}");
        }
    }
}

/// Its sleep takes one byte, which is then the first of a record.
#[test]
fn a_reader_that_sleeps_when_its_pipe_goes_back_gets_whole_records() {
    for (writer, reader) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        for _ in 0..5 {
            let script = format!("set -o pipefail; exec $R write {writer} | exec $R read {reader}");
            let seen = output(&mut over_ring_with(&["--ring-after", "1"], &script));
            assert_eq!((seen.code, &*seen.stderr), (Some(0), "2000 records\n"), "{writer} {reader}");
        }
    }
}

/// Its reader or its writer does one thing where it waits. Whether the pipe attaches before that depends on when each of them runs.
fn waits(what: &str) -> serde_json::Value {
    let scratch = Scratch::new();
    let sign = scratch.path("sign").display().to_string();
    let script = format!("set -o pipefail; $T write {what} {sign} | $T read {what} {sign} 2>/dev/null");
    told_with(&["--ring-after", "1"], &script).remove(0)
}

/// Eight times or more, until the pipe was on the ring once.
fn waits_on_the_ring(what: &str) -> bool {
    let is_on_ring = || waits(what)["path"] == "ring";
    (0..8).filter(|_| is_on_ring()).count() > 0 || mostly(is_on_ring)
}

/// What is ready when the wait begins is gone when the kernel has been asked about the other descriptors.
#[test]
fn a_wait_without_a_limit_does_not_end_because_a_handler_has_read_the_bytes() {
    for what in ["drain", "drain-select"] {
        assert_eq!(waits_on_the_ring(what), can_attach(), "{what}");
    }
}

/// The signal of a fault, held back, would be the end of the program.
#[test]
fn memory_that_is_not_there_in_a_handler_that_only_a_wait_lets_in() {
    for what in ["masked", "masked-select"] {
        let is_told = mostly(|| {
            let pipe = waits(what);
            pipe["path"] == "ring" && pipe["read"]["why_not"] == "called poll"
        });
        assert_eq!(is_told, can_attach(), "{what}");
    }
}

#[test]
fn writer_that_waits_for_room_at_a_full_pipe_stays_attached() {
    let stays = mostly(|| {
        let pipe = waits("room");
        let in_ring = pipe["written"]["ring"]["bytes"].as_u64().unwrap_or(0);
        pipe["path"] == "ring" && pipe["written"]["why_not"].is_null() && in_ring * 2 > pipe["bytes"].as_u64().unwrap()
    });
    assert_eq!(stays, can_attach());
}

/// Such a reader has taken a byte of the stream when it finds that it cannot hand it on.
#[test]
fn no_byte_is_lost_where_a_sleeping_reader_has_no_memory_for_it() {
    for what in ["kept", "kept-late"] {
        assert_eq!(waits_on_the_ring(what), can_attach(), "{what}");
    }
}

/// It ends each wait in the kernel, and the ring knows of no bytes: a program that stayed would ask again and again.
#[test]
fn byte_of_a_foreign_process_detaches_the_pipe() {
    let scratch = Scratch::new();
    let stats = scratch.path("stats.json");
    let mut turn = 0;
    let gives_back = mostly(|| {
        turn += 1;
        let file = scratch.path(&format!("reader-{turn}"));
        let sign = scratch.path(&format!("written-{turn}"));
        let mut command = over_ring_with(
            &["--ring-after", "1", "--stats=json", "--stats-file", stats.to_str().unwrap()],
            "set -o pipefail; $T write outside $S | $T read outside $P",
        );
        let run = command.env("P", &file).env("S", &sign).spawn().unwrap();
        let mut reader = String::new();
        wait_for("the reader", || {
            reader = std::fs::read_to_string(&file).unwrap_or_default();
            reader.ends_with('\n')
        });
        std::thread::sleep(Duration::from_millis(100));
        std::fs::write(format!("/proc/{}/fd/0", reader.trim()), "x").unwrap();
        std::fs::write(sign, "").unwrap();
        let seen = Seen::from(run.wait_with_output().unwrap());
        assert_eq!(
            (seen.code, said(&seen, "waited "), said(&seen, "read ")),
            (Some(0), vec![1], vec![20_001]),
            "{seen:?}"
        );
        let told = statistics(&stats);
        let pipes = told["pipes"].as_array().unwrap();
        pipes.iter().any(|pipe| pipe["path"] == "ring" && pipe["read"]["why_not"] == "called poll")
    });
    assert_eq!(gives_back, can_attach());
}
