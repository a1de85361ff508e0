//! `millstream run`: pipes of unmodified programs through shared memory, and back to the kernel when something
//! happens that only the kernel can carry.

mod common;

use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use common::{Scratch, Seen, children, kill, millstream, output, wait_for};

const ENDS: &str = include_str!("ring/ends.c");
const FULL: &str = include_str!("ring/full.c");
const ABSENT: &str = include_str!("ring/absent.c");
const CONFINE: &str = include_str!("ring/confine.c");
const HANDLERS: &str = include_str!("ring/handlers.c");
const RECORDS: &str = include_str!("ring/records.c");
const WAITS: &str = include_str!("ring/waits.c");
/// Much more than it takes until a pipe is joined.
const MANY: u64 = 24 << 20;

struct Programs {
    _scratch: Scratch,
    /// As everybody builds programs.
    ends: String,
    /// What has as many files open as it may.
    full: String,
    /// The same without shared libraries: it cannot join.
    alone: String,
    /// What is given memory that is not there.
    absent: String,
    /// What runs another under filters of system calls.
    confine: String,
    handlers: String,
    records: String,
    waits: String,
}

static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| {
    let scratch = Scratch::new();
    let ends = scratch.c_program("ends", ENDS, &[]);
    let full = scratch.c_program("full", FULL, &[]);
    let alone = scratch.c_program("alone", ENDS, &["-static"]);
    let absent = scratch.c_program("absent", ABSENT, &[]);
    let confine = scratch.c_program("confine", CONFINE, &[]);
    let handlers = scratch.c_program("handlers", HANDLERS, &[]);
    let records = scratch.c_program("records", RECORDS, &[]);
    let waits = scratch.c_program("waits", WAITS, &[]);
    Programs { _scratch: scratch, ends, full, alone, absent, confine, handlers, records, waits }
});

fn over_ring(script: &str) -> Command {
    over_ring_with(&[], script)
}

fn over_ring_with(options: &[&str], script: &str) -> Command {
    let mut command = millstream([&["run"], options, &["--shell", "/bin/bash", "-c", script]].concat());
    let Programs { ends, full, alone, absent, confine, handlers, records, waits, .. } = &*PROGRAMS;
    command
        .env("E", ends)
        .env("F", full)
        .env("A", alone)
        .env("B", absent)
        .env("C", confine)
        .env("H", handlers)
        .env("R", records)
        .env("T", waits);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn seen(script: &str) -> Seen {
    output(&mut over_ring(script))
}

/// What followed a word on stderr, as numbers.
fn said(seen: &Seen, word: &str) -> Vec<u64> {
    let line = seen.stderr.lines().find_map(|line| line.strip_prefix(word));
    let line = line.unwrap_or_else(|| panic!("no {word:?} in {seen:?}"));
    line.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Everything arrived, checked byte for byte by the reader. Returns how much the writer gave to the kernel.
fn assert_arrived(seen: &Seen, bytes: u64) -> u64 {
    assert_eq!((seen.code, said(seen, "read ")), (Some(0), vec![bytes]), "{seen:?}");
    let wrote = said(seen, "wrote ");
    assert_eq!(wrote[0], bytes, "{seen:?}");
    wrote[1]
}

/// Whether this machine's glibc is one that can be joined at all; elsewhere the tests below see kernel pipes that work.
fn can_join() -> bool {
    cfg!(target_arch = "x86_64") && {
        let version = output(Command::new("ldd").arg("--version")).stdout;
        version.lines().next().is_some_and(|line| line.ends_with("2.36"))
    }
}

#[test]
fn bytes_do_not_pass_through_the_kernel() {
    // Whether two programs meet depends on who runs when; that they never do in ten runs does not.
    let mut least = u64::MAX;
    for _ in 0..10 {
        least = least.min(assert_arrived(&seen(&format!("$E write {MANY} call | $E read 0 call")), MANY));
        if least < MANY / 2 {
            break;
        }
    }
    assert_eq!(least < MANY / 2, can_join(), "{least} of {MANY}");
}

#[test]
fn without_the_ring_all_bytes_pass_through_the_kernel() {
    for options in [&["--no-ring"][..], &["--no-ring", "--stats-file", "/dev/null"]] {
        let seen = output(&mut over_ring_with(options, &format!("$E write {MANY} call | $E read 0 call")));
        assert!(assert_arrived(&seen, MANY) >= MANY, "{seen:?}");
    }
}

#[test]
fn stdio_inside_the_c_library_is_reached() {
    let mut least = u64::MAX;
    for _ in 0..10 {
        least = least.min(assert_arrived(&seen(&format!("$E write {MANY} stdio | $E read 0 stdio")), MANY));
        if least < MANY / 2 {
            break;
        }
    }
    assert_eq!(least < MANY / 2, can_join(), "{least} of {MANY}");
}

#[test]
fn whatever_one_side_does_in_mid_stream_no_byte_is_lost() {
    for what in ["fork", "poll", "epoll", "dup", "readv", "signals", "nowhere", "limit", "none"] {
        for (after, options) in [
            (3 << 20, &[][..]),
            (4 << 20, &[]),
            (4_500_000, &[]),
            (12 << 20, &[]),
            (12 << 20, &["--stats-file", "/dev/null"]),
        ] {
            let seen = |script: &str| output(&mut over_ring_with(options, script));
            assert_arrived(&seen(&format!("$E write {MANY} call | $E read 0 call {after} {what}")), MANY);
            let writer = seen(&format!("$E write {MANY} call {after} {what} | $E read 0 call"));
            assert_arrived(&writer, MANY);
        }
    }
}

/// What its statistics say of a pipeline in which all went well, and whether a side was refused something.
fn full(pipeline: &str) -> (serde_json::Value, bool) {
    let scratch = Scratch::new();
    let file = scratch.path("stats.json");
    let options = ["--ring-after", "1", "--stats=json", "--stats-file", file.to_str().unwrap()];
    let seen = output(&mut over_ring_with(&options, &format!("set -o pipefail; {pipeline}")));
    assert_eq!((seen.code, said(&seen, "wrote ")), (Some(0), said(&seen, "read ")), "{pipeline}: {seen:?}");
    let stats: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let pipes = stats["pipes"].as_array().unwrap().iter();
    (pipes.max_by_key(|pipe| pipe["bytes"].as_u64()).unwrap().clone(), seen.stderr.contains("refused"))
}

#[test]
fn a_process_that_may_open_no_further_file_gives_its_pipe_back() {
    for (what, called) in [("dup", "dup"), ("fork", "fork"), ("readv", "v"), ("unread", "ioctl"), ("poll", "poll")] {
        // Both limits, or the one that it could raise itself.
        for limit in ["ulimit -n 300", "ulimit -S -n 300"] {
            for how in ["read", "poll"] {
                for (pipeline, end) in [
                    (format!("({limit}; exec $F write 3000000 1000000 {what}) | $F read {how} 0 none"), "written"),
                    (format!("$F write 3000000 0 none | ({limit}; exec $F read {how} 1000000 {what})"), "read"),
                ] {
                    let is_as_ever = (0..10).any(|_| {
                        let pipe = full(&pipeline).0;
                        let why = pipe[end]["why_not"].as_str().unwrap_or("");
                        let is_called = why.starts_with("called ") && why.ends_with(called);
                        // Who waits keeps its pipe, mostly.
                        pipe["read"]["ring"]["bytes"].as_u64() > Some(0) && (is_called || what == "poll")
                    });
                    assert_eq!(is_as_ever, can_join(), "{pipeline}");
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
        // It stays joined to its end.
        let is_refused = (0..10).any(|_| {
            let (pipe, is_refused) = full(pipeline);
            assert!(!is_refused || pipe["read"]["ring"]["bytes"].as_u64() > Some(2_000_000), "{pipe}");
            is_refused && pipe[end]["joined"] == true
        });
        assert_eq!(is_refused, can_join(), "{pipeline}");
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
    bare.args(["-c", &script])
        .env("B", &PROGRAMS.absent)
        .env("C", &PROGRAMS.confine)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
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
fn memory_that_is_not_there_takes_a_joined_pipe_back() {
    let ends = |what: &'static str| [("written", what, "nothing"), ("read", "nothing", what)];
    // No reader finds as much as the long one has room for.
    let cases = ["unmapped", "none", "read-only", "truncated", "masks-others", "own-before"].into_iter().flat_map(ends);
    for (end, writer, reader) in cases.chain([("written", "long", "nothing"), ("read", "pause", "read-only")]) {
        let script = format!("$B write {writer} | $B read {reader}");
        let is_told = (0..10).any(|_| {
            let pipe = told(&script);
            pipe["path"] == "ring" && pipe[end]["why_not"] == "nowhere"
        });
        assert_eq!(is_told, can_join(), "{script}");
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
fn a_program_that_confines_itself_makes_no_calls_that_it_would_not_make_by_itself() {
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

/// A filter that somebody else has made may kill for these calls as well.
#[test]
fn a_program_that_was_confined_before_it_began_makes_none_of_them_either() {
    for (writer, reader) in [("$C few $E", "$E"), ("$E", "$C few $E"), ("$C few $E", "$C few $E")] {
        let script = format!("set -o pipefail; {writer} write {MANY} call | {reader} read 0 call");
        assert_arrived(&seen(&script), MANY);
    }
}

#[test]
fn a_run_under_filters_joins_only_where_they_allow_it() {
    let mut least = [u64::MAX; 3];
    for (how, least) in ["kill", "refuse", "harmless"].into_iter().zip(&mut least) {
        for _ in 0..10 {
            let mut command = Command::new(&PROGRAMS.confine);
            command.args([how, common::program(), "run", "--shell", "/bin/bash", "-c"]);
            command.arg(format!("$E write {MANY} call | $E read 0 call")).env("E", &PROGRAMS.ends);
            command.env_remove("LD_PRELOAD").env_remove("MILLSTREAM_RUN").stdout(Stdio::piped()).stderr(Stdio::piped());
            *least = assert_arrived(&output(&mut command), MANY).min(*least);
            if *least < MANY / 2 {
                break;
            }
        }
    }
    assert_eq!(least.map(|bytes| bytes < MANY / 2), [false, false, can_join()], "{least:?}");
}

#[test]
fn a_program_that_cannot_join_takes_over_in_mid_stream() {
    // The static program begins where the first stopped, and both are told exactly where.
    let reader = "head -c 12000000 | $A read 0 call && $A read 12000000 call";
    let both = seen(&format!("$E write {MANY} call | ({reader})"));
    assert!(both.stderr.contains("read 12000000\n") && both.stderr.contains(&format!("read {}\n", MANY - 12_000_000)));

    let script = format!("$E write {MANY} call | $E read 0 call 8000000 exec /bin/sh -c 'cat | wc -c'");
    let rest: u64 = seen(&script).stdout.trim().parse().unwrap();
    assert!((MANY - 8_000_000 - 200_000..=MANY - 8_000_000).contains(&rest), "{rest}");

    let script = format!("$E write {MANY} call 8000000 exec /bin/sh -c 'exec $A write 1000 call' | wc -c");
    let all: u64 = seen(&script).stdout.trim().parse().unwrap();
    assert!((8_001_000..8_201_000).contains(&all), "{all}");
}

#[test]
fn the_writer_learns_that_the_reader_is_gone() {
    for script in
        ["$E read 0 call 8000000 close", "head -c 8000000 >/dev/null", "$E read 0 call 8000000 robust 2>/dev/null"]
    {
        let killed = seen(&format!("$E write 10000000000 call | {script}; echo ${{PIPESTATUS[@]}}"));
        assert_eq!(killed.stdout, "141 0\n", "{killed:?}");
        let told = seen(&format!("IGNORE_SIGPIPE=1 $E write 10000000000 call | {script}; echo ${{PIPESTATUS[@]}}"));
        assert_eq!(told.stdout, "3 0\n", "{told:?}");
        assert!(told.stderr.contains("EPIPE"), "{told:?}");
    }
}

/// The shell has the write end too, for as long as the writer lives: the writer looks several times, and then no more.
#[test]
fn a_writer_that_gives_up_leaves_nothing_open() {
    for _ in 0..3 {
        let script = format!("set -o pipefail; (TIDY=1 $E write {MANY} call; exit $?) | $E read 0 call");
        assert_arrived(&output(&mut over_ring_with(&["--ring-after", "1"], &script)), MANY);
    }
}

/// It offers by then, and the reader cannot take it. What a child does that borrows the writer's memory is not the writer's.
#[test]
fn a_borrowing_child_takes_no_offer_back() {
    let pipe = told(&format!("$E write {MANY} call 4500000 vfork | $A read 0 call"));
    if can_join() {
        assert_eq!(pipe["written"]["why_not"], "other_side", "{pipe}");
    }
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

/// Its reader or its writer does one thing where it waits. Whether the pipe joins before that depends on who runs when.
fn waits(what: &str) -> serde_json::Value {
    let script = format!("set -o pipefail; $T write {what} | $T read {what} 2>/dev/null");
    told_with(&["--ring-after", "1"], &script).remove(0)
}

/// What is ready when the wait begins is gone when the kernel has been asked about the other descriptors.
#[test]
fn a_wait_without_a_limit_does_not_end_because_a_handler_has_read_the_bytes() {
    for what in ["drain", "drain-select"] {
        let in_ring = (0..8).filter(|_| waits(what)["path"] == "ring").count();
        assert_eq!(in_ring > 0, can_join(), "{what}");
    }
}

/// The signal of a fault, held back, would be the end of the program.
#[test]
fn memory_that_is_not_there_in_a_handler_that_only_a_wait_lets_in() {
    for what in ["masked", "masked-select"] {
        let is_told = (0..10).any(|_| {
            let pipe = waits(what);
            pipe["path"] == "ring" && pipe["read"]["why_not"] == "called poll"
        });
        assert_eq!(is_told, can_join(), "{what}");
    }
}

#[test]
fn a_writer_that_waits_for_room_at_a_full_pipe_gives_it_back() {
    let is_told = (0..10).any(|_| {
        let pipe = waits("room");
        pipe["path"] == "ring" && pipe["written"]["why_not"] == "called poll"
    });
    assert_eq!(is_told, can_join());
}

/// Such a reader has taken a byte of the stream when it finds that it cannot hand it on.
#[test]
fn no_byte_is_lost_where_a_sleeping_reader_has_no_memory_for_it() {
    for what in ["kept", "kept-late"] {
        let in_ring = (0..8).filter(|_| waits(what)["path"] == "ring").count();
        assert_eq!(in_ring > 0, can_join(), "{what}");
    }
}

/// It ends each wait in the kernel, and the ring knows of no bytes: who stayed would ask again and again.
#[test]
fn a_byte_that_somebody_else_puts_into_the_pipe_gives_it_back() {
    let scratch = Scratch::new();
    let stats = scratch.path("stats.json");
    let gives_back = (0..10).any(|turn| {
        let file = scratch.path(&format!("reader-{turn}"));
        let mut command = over_ring_with(
            &["--ring-after", "1", "--stats=json", "--stats-file", stats.to_str().unwrap()],
            "set -o pipefail; $T write outside | $T read outside $F",
        );
        let run = command.env("F", &file).spawn().unwrap();
        let mut reader = String::new();
        wait_for("the reader", || {
            reader = std::fs::read_to_string(&file).unwrap_or_default();
            reader.ends_with('\n')
        });
        std::thread::sleep(Duration::from_millis(100));
        std::fs::write(format!("/proc/{}/fd/0", reader.trim()), "x").unwrap();
        let seen = Seen::from(run.wait_with_output().unwrap());
        assert_eq!(
            (seen.code, said(&seen, "waited "), said(&seen, "read ")),
            (Some(0), vec![1], vec![20_001]),
            "{seen:?}"
        );
        let told: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&stats).unwrap()).unwrap();
        let pipes = told["pipes"].as_array().unwrap();
        pipes.iter().any(|pipe| pipe["path"] == "ring" && pipe["read"]["why_not"] == "called poll")
    });
    assert_eq!(gives_back, can_join());
}

/// Runs a pipeline without end, waits a little, and calls `meanwhile` with its two processes.
fn endless(delay: Duration, meanwhile: impl FnOnce(u32, u32)) -> Seen {
    let mut run = over_ring("$E write 1000000000000 call | $E read 0 call; echo ${PIPESTATUS[@]}").spawn().unwrap();
    let mut stages = Vec::new();
    wait_for("both stages", || {
        // The run has become the shell.
        stages = children(run.id());
        let are_programs = stages
            .iter()
            .all(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "ends"));
        stages.len() == 2 && are_programs
    });
    std::thread::sleep(delay);
    meanwhile(stages[0], stages[1]);
    let _ = run.stdin.take();
    Seen::from(run.wait_with_output().unwrap())
}

fn delays() -> impl Iterator<Item = Duration> {
    (0..8).map(|turn| Duration::from_micros(500 + turn * turn * 400))
}

#[test]
fn after_the_writer_was_killed_the_reader_has_a_whole_beginning_and_then_the_end() {
    for delay in delays() {
        let seen = endless(delay, |writer, _| kill(writer));
        assert_eq!(seen.stdout, "137 0\n", "{seen:?}");
        said(&seen, "read ");
    }
}

#[test]
fn after_the_reader_was_killed_the_writer_gets_sigpipe() {
    for delay in delays() {
        let seen = endless(delay, |_, reader| kill(reader));
        assert_eq!(seen.stdout, "141 137\n", "{seen:?}");
    }
}

#[test]
fn who_is_stopped_keeps_nobody_from_the_truth() {
    let stop = |pid: u32| drop(Command::new("kill").args(["-STOP", &pid.to_string()]).status());
    for delay in delays().step_by(3) {
        let seen = endless(delay, |writer, reader| {
            stop(reader);
            kill(writer);
            std::thread::sleep(Duration::from_millis(20));
            drop(Command::new("kill").args(["-CONT", &reader.to_string()]).status());
        });
        assert_eq!(seen.stdout, "137 0\n", "{seen:?}");
        let seen = endless(delay, |writer, reader| {
            stop(writer);
            std::thread::sleep(Duration::from_millis(20));
            kill(reader);
            drop(Command::new("kill").args(["-CONT", &writer.to_string()]).status());
        });
        assert_eq!(seen.stdout, "141 137\n", "{seen:?}");
    }
}

#[test]
fn an_end_that_several_hold_is_exact() {
    let script = format!("$E write {MANY} call | (head -c 5000000; head -c 12000000; cat) | $E read 0 call");
    let shared = seen(&script);
    assert_eq!((shared.code, said(&shared, "read ")), (Some(0), vec![MANY]), "{shared:?}");
    let two =
        format!("($E write {MANY} call; $E write {MANY} call) | (head -c {MANY} | $E read 0 call; $E read 0 call)");
    let two = seen(&two);
    assert_eq!(two.stderr.matches(&format!("read {MANY}\n")).count(), 2, "{two:?}");
}

#[test]
fn long_pipelines_and_runs_beside_each_other() {
    let script = format!("$E write {MANY} call | cat | dd bs=4k status=none | tr -d '' | sed -n p | $E read 0 stdio");
    let runs: Vec<_> = (0..2).map(|_| over_ring(&format!("export LC_ALL=C; {script}")).spawn().unwrap()).collect();
    for run in runs {
        let seen = Seen::from(run.wait_with_output().unwrap());
        assert!(said(&seen, "read ")[0] >= MANY, "{seen:?}");
    }
}

/// What the statistics of such a run say of its first pipe.
fn told(script: &str) -> serde_json::Value {
    told_of_all(script).remove(0)
}

/// The same of each pipe that was made in it.
fn told_of_all(script: &str) -> Vec<serde_json::Value> {
    told_with(&[], script)
}

fn told_with(options: &[&str], script: &str) -> Vec<serde_json::Value> {
    let scratch = Scratch::new();
    let file = scratch.path("stats.json");
    let mut command = millstream(["run", "--stats=json", "--stats-file", file.to_str().unwrap()]);
    command
        .args(options)
        .args(["--shell", "/bin/bash", "-c", script])
        .env("E", &PROGRAMS.ends)
        .env("A", &PROGRAMS.alone)
        .env("B", &PROGRAMS.absent)
        .env("C", &PROGRAMS.confine)
        .env("T", &PROGRAMS.waits);
    assert_eq!(output(&mut command).code, Some(0), "{script}");
    let stats: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(stats["ring"], true);
    stats["pipes"].as_array().unwrap().iter().filter(|pipe| pipe["origin"] == "pipe").cloned().collect()
}

#[test]
fn a_joined_pipe_is_in_the_statistics_with_all_its_bytes() {
    let is_joined = (0..10).any(|_| {
        let pipe = told(&format!("$E write {MANY} call | $E read 0 call"));
        let (written, read) = (&pipe["written"], &pipe["read"]);
        assert_eq!(
            (&pipe["bytes"], &written["bytes"], &read["bytes"]),
            (&MANY.into(), &MANY.into(), &MANY.into()),
            "{pipe}"
        );
        let in_ring = |end: &serde_json::Value| end["ring"]["bytes"].as_u64().unwrap_or(0);
        assert_eq!(pipe["path"] == "ring", in_ring(written) > 0, "{pipe}");
        assert!(in_ring(read) <= in_ring(written) && in_ring(written) < MANY, "the beginning is the kernel's: {pipe}");
        for end in [written, read] {
            assert!(end["joined"] == true || (in_ring(end) == 0 && end["why_not"].is_string()), "{pipe}");
        }
        in_ring(read) > MANY / 2
    });
    assert_eq!(is_joined, can_join());
}

#[test]
fn stdio_inside_the_c_library_is_counted() {
    let pipe = told(&format!("$E write {MANY} stdio | $E read 0 stdio"));
    if can_join() {
        assert_eq!((&pipe["written"]["bytes"], &pipe["read"]["bytes"]), (&MANY.into(), &MANY.into()), "{pipe}");
    }
}

#[test]
fn why_a_pipe_stays_with_the_kernel_is_told() {
    if !can_join() {
        assert_eq!(told(&format!("$E write {MANY} call | $E read 0 call"))["path"], "kernel");
        return;
    }
    let threads = "import threading, os, sys; t = threading.Thread(target=sys.stdin.buffer.read); t.start(); t.join()";
    for (script, end, expected) in [
        (format!("$E write {MANY} call | $A read 0 call"), "written", "other_side"),
        (format!("$A write {MANY} call | $E read 0 call"), "read", "other_side"),
        (format!("$E write {MANY} call | ($E read 0 call; :)"), "written", "shared"),
        // What it does while nobody could join it does not matter.
        (format!("$E write {MANY} call 4194304 poll | $A read 0 call"), "written", "other_side"),
        (format!("$E write {MANY} call | python3 -c '{threads}'"), "read", "threads"),
        ("$E write 1000 call | $E read 0 call".to_owned(), "written", "little"),
        ("$E write 1000 call | $E read 0 call".to_owned(), "read", "little"),
        (format!("$C harmless $E write {MANY} call | $E read 0 call"), "written", "seccomp"),
        (format!("$E write {MANY} call | $C kill $E read 0 call"), "read", "seccomp"),
        (
            format!("exec 300< <($E write {MANY} call); python3 -c 'import os\nwhile os.read(300, 65536): pass'"),
            "read",
            "number",
        ),
    ] {
        let pipe = told(&script);
        assert_eq!((&pipe[end]["why_not"], &pipe["path"]), (&expected.into(), &"kernel".into()), "{script}: {pipe}");
        assert_eq!(pipe[end]["joined"], false, "{script}: {pipe}");
    }
    for what in ["fork", "dup"] {
        // They join before that, or are about to, in one of ten runs.
        let is_told = (0..10).any(|_| {
            let pipe = told(&format!("$E write {MANY} call {} {what} | $E read 0 call", MANY / 2));
            pipe["written"]["why_not"] == format!("called {what}")
        });
        assert!(is_told, "{what}");
    }
}

#[test]
fn the_status_is_that_of_the_command() {
    assert_eq!(seen("exit 3").code, Some(3));
    assert_eq!(seen("kill -TERM $$").signal, Some(15));
    let counted = output(&mut millstream(["run", "--stats", "--", "sh", "-c", "exit 3"]));
    assert!(counted.code == Some(3) && counted.stderr.starts_with("millstream: "), "{counted:?}");
}

/// Whether the first pipe of a script is joined in one of ten runs; each must end well.
fn joins(script: &str) -> bool {
    (0..10).any(|_| told(script)["path"] == "ring")
}

#[test]
fn on_one_cpu_they_meet_as_well() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let cpu = allowed.trim().split([',', '-']).next().unwrap();
    let script = format!("taskset -p -c {cpu} $$ >/dev/null; $E write {MANY} call | $E read 0 call");
    assert_eq!(joins(&script), can_join());
    for what in ["fork", "epoll", "signals", "readv"] {
        let pinned = |script: &str| seen(&format!("taskset -p -c {cpu} $$ >/dev/null; {script}"));
        assert_arrived(&pinned(&format!("$E write {MANY} call | $E read 0 call {} {what}", 12 << 20)), MANY);
        assert_arrived(&pinned(&format!("$E write {MANY} call {} {what} | $E read 0 call", 12 << 20)), MANY);
    }
}

#[test]
fn an_interpreter_with_megabytes_of_code_joins() {
    let script = format!("$E write {MANY} call | python3 -c 'import os\nwhile os.read(0, 65536): pass'");
    assert_eq!(joins(&script), can_join());
}

#[test]
fn a_forked_child_joins_as_any_other_program() {
    // The shell has the pipe too until it becomes the reader: the child that reads is the last process that has it.
    let fork = "import os\nif os.fork(): os.close(0); os.wait()\nelse:\n while os.read(0, 65536): pass";
    let script = format!("$E write {MANY} call | python3 -c '{fork}'");
    assert_eq!(joins(&script), can_join());
}

/// As programs in Python connect others: the parent makes the pipe, and gives one end to each of two children.
#[test]
fn two_children_of_a_python_program_join() {
    let scratch = Scratch::new();
    let producer = "import os\nblock = bytes(range(256)) * 256\nfor _ in range(384): os.write(1, block)";
    let consumer = "import os, sys\nblock = os.read(0, 65536)\ntotal = 0\nwhile block:\n total += len(block)\n block = os.read(0, 65536)\nsys.exit(total != 384 << 16)";
    for (what, first, second) in [
        ("programs", format!("[e, 'write', '{MANY}', 'call']"), "[e, 'read', '0', 'call']".to_owned()),
        (
            "interpreters",
            format!("[sys.executable, '-c', {producer:?}]"),
            format!("[sys.executable, '-c', {consumer:?}]"),
        ),
    ] {
        let parent = format!(
            "import os, subprocess, sys\n\
             e = os.environ['E']\n\
             first = subprocess.Popen({first}, stdout=subprocess.PIPE)\n\
             second = subprocess.Popen({second}, stdin=first.stdout)\n\
             first.stdout.close()\n\
             sys.exit(second.wait() or first.wait())\n"
        );
        let script = format!("exec python3 {}", scratch.file("parent.py", &parent));
        let is_in_memory = (0..10).any(|_| {
            // What is called `python3` may be a script with pipes of its own.
            let pipe = told_of_all(&script).into_iter().max_by_key(|pipe| pipe["bytes"].as_u64()).unwrap();
            let counted = [&pipe["written"], &pipe["read"]].map(|end| end["bytes"].as_u64());
            assert_eq!(counted, [Some(MANY); 2], "{what}: {pipe}");
            pipe["path"] == "ring"
        });
        assert_eq!(is_in_memory, can_join(), "{what}");
    }
}

/// A small program is started without the library where neither it nor its parent is at a pipe.
#[test]
fn what_is_spawned_with_other_descriptors_than_its_parents_has_the_library() {
    let scratch = Scratch::new();
    let maps = scratch.path("maps");
    let spawn = "import os, sys\n\
         action = (os.POSIX_SPAWN_OPEN, 1, sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)\n\
         words = ['cat', '/proc/self/maps']\n\
         os.waitpid(os.posix_spawn('/bin/cat', words, os.environ, file_actions=[action]), 0)\n";
    let parent = scratch.file("parent.py", spawn);
    let script = format!("exec python3 {parent} {} </dev/null >/dev/null", maps.display());
    assert_eq!(seen(&script).code, Some(0));
    let maps = std::fs::read_to_string(maps).unwrap();
    assert_eq!(maps.contains("libmillstream_ring"), cfg!(target_arch = "x86_64"), "{maps}");
}
