//! `millstream run`: pipes of unmodified programs through shared memory, and back to the kernel when something
//! happens that only the kernel can carry.

mod common;
#[path = "common/over_ring.rs"]
mod over_ring;

use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;

use common::{Scratch, Seen, can_attach, children, kill, millstream, mostly, output, wait_for};
use over_ring::{
    ENDS, MANY, Programs, assert_arrived, over_ring, over_ring_with, said, seen, told, told_of_all, told_with,
};

const SUCCESSOR: &str = include_str!("ring/successor.c");

static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| {
    Programs::built(&[
        // As programs are mostly built, and without shared libraries: it cannot attach.
        ("E", ENDS, &[]),
        ("A", ENDS, &["-static"]),
        // Is given memory that is not there.
        ("B", include_str!("ring/absent.c"), &[]),
        // Runs another under filters of system calls.
        ("C", include_str!("ring/confine.c"), &[]),
        // By themselves, and as a program that could make threads.
        ("S", SUCCESSOR, &[]),
        ("T", SUCCESSOR, &["-Wl,-u,pthread_create"]),
    ])
});

#[test]
fn bytes_do_not_pass_through_the_kernel() {
    let script = format!("$E write {MANY} call | $E read 0 call");
    assert_eq!(mostly(|| assert_arrived(&seen(&script), MANY) < MANY / 2), can_attach());
}

#[test]
fn without_the_ring_all_bytes_pass_through_the_kernel() {
    for options in [&["--no-ring"][..], &["--no-ring", "--stats-file", "/dev/null"]] {
        let seen = output(&mut over_ring_with(options, &format!("$E write {MANY} call | $E read 0 call")));
        assert!(assert_arrived(&seen, MANY) >= MANY, "{seen:?}");
    }
}

/// A member of the run that has become another user keeps the token of the run, but must not be believed. The pipe is one that both
/// users may open.
#[test]
fn peers_of_two_users_use_the_kernels_pipe() {
    let makes_pipe =
        "import os, subprocess, sys\nE = os.environ['E']\nos.seteuid(1)\nr, w = os.pipe()\nos.seteuid(0)\n";
    let wrote = |users: [&str; 2]| {
        let [writer, reader] = users.map(|id| match id {
            "0" => "[]".to_owned(),
            id => format!("['setpriv', '--reuid={id}', '--regid={id}', '--clear-groups']"),
        });
        let program = format!(
            "{makes_pipe}a = subprocess.Popen({writer} + [E, 'write', '{MANY}', 'call'], stdout=w)\n\
             b = subprocess.Popen({reader} + [E, 'read', '0', 'call'], stdin=r)\nos.close(r)\nos.close(w)\n\
             sys.exit(a.wait() or b.wait())"
        );
        assert_arrived(&seen(&format!("exec python3 -c \"{program}\"")), MANY)
    };
    for users in [["1", "0"], ["0", "1"]] {
        (0..3).for_each(|_| assert!(wrote(users) >= MANY, "{users:?}"));
    }
    assert_eq!(mostly(|| wrote(["1", "1"]) < MANY / 2), can_attach());
}

/// A request may have a descriptor inside, as that by which btrfs sends.
#[test]
fn unknown_ioctl_of_another_file_gives_the_pipe_back() {
    let program = |request: &str| {
        format!(
            "import fcntl, os, sys\nfile = open('/dev/null', 'r+b', 0)\n\
             for n in range(400):\n os.write(1, b'x' * 65536)\n if n == 300:\n  try: fcntl.ioctl(file, {request}, bytes(72))\n  \
             except OSError: pass"
        )
    };
    // How much went over the ring, and why no more.
    let ended = |request: &str| {
        let script = format!("python3 -c \"{}\" | cat >/dev/null", program(request));
        let written = told_with(&["--ring-after", "1"], &script)[0]["written"].clone();
        (written["ring"]["bytes"].as_u64().unwrap_or(0), written["why_not"] == "called ioctl")
    };
    let (call, all) = (301 * 65536, 400 * 65536);
    // BTRFS_IOC_SEND, and one that asks for the size of a terminal.
    assert!(mostly(|| matches!(ended("0x40489426"), (bytes, true) if 0 < bytes && bytes <= call)));
    assert!(mostly(|| matches!(ended("0x5413"), (bytes, false) if call < bytes && bytes <= all)));
}

#[test]
fn stdio_inside_the_c_library_is_reached() {
    let script = format!("$E write {MANY} stdio | $E read 0 stdio");
    assert_eq!(mostly(|| assert_arrived(&seen(&script), MANY) < MANY / 2), can_attach());
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

#[test]
fn program_that_cannot_attach_takes_over_in_mid_stream() {
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

/// Which has pipes of the kernel's size, and so less room than the memory of an attached one.
#[test]
fn a_program_with_threads_takes_over_in_mid_stream() {
    for how in ["execvp", "fexecve", "spawn", "spawnp"] {
        for turn in 0..3 {
            let script = format!("$E write {MANY} call | $S {} {how} $T", 9_000_000 + turn * 1_000_000);
            let counted = seen(&script);
            assert_eq!((counted.code, counted.stdout), (Some(0), format!("{MANY}\n")), "{how}: {}", counted.stderr);
        }
    }
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
    if can_attach() {
        assert_eq!(pipe["written"]["why_not"], "other_side", "{pipe}");
    }
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
            .all(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "E"));
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
fn stopped_peer_does_not_hide_epipe() {
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

#[test]
fn attached_pipe_is_in_the_statistics_with_all_its_bytes() {
    let is_joined = mostly(|| {
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
    assert_eq!(is_joined, can_attach());
}

#[test]
fn stdio_inside_the_c_library_is_counted() {
    let pipe = told(&format!("$E write {MANY} stdio | $E read 0 stdio"));
    if can_attach() {
        assert_eq!((&pipe["written"]["bytes"], &pipe["read"]["bytes"]), (&MANY.into(), &MANY.into()), "{pipe}");
    }
}

/// In a run that has lasted so long that numbers of processes may have been given out twice, 7 MB are not worth looking at all
/// processes of the machine. Where Linux counts its processes nothing but the run's own are looked at.
#[test]
fn pipe_of_an_old_run_joins_as_early_as_that_of_a_new_one() {
    let numbers: f64 = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap().trim().parse().unwrap();
    // The library takes 4000 ticks of the processor's clock for each, which are less than 3 microseconds.
    let seconds = numbers * 3e-6 + 0.1;
    let script = format!("sleep {seconds}; $E write {} call | $E read 0 call", 7 << 20);
    let joins = mostly(|| told(&script)["path"] == "ring");
    assert_eq!(joins, can_attach() && counts_processes());
}

#[test]
fn pipe_is_attached_again_after_a_call_that_detached_it() {
    const BYTES: u64 = 128 << 20;
    for what in ["fork", "dup"] {
        let comes_again = mostly(|| {
            let pipe = told(&format!("$E write {BYTES} call {} {what} | $E read 0 call", 16 << 20));
            assert_eq!(pipe["bytes"], BYTES);
            pipe["written"]["ring"]["bytes"].as_u64().is_some_and(|bytes| bytes > BYTES / 2)
        });
        assert_eq!(comes_again, can_attach(), "{what}");
    }
}

/// Whether Linux tells how many processes it has made.
fn counts_processes() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut release = release.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u32>().ok());
    [release.next().unwrap(), release.next().unwrap()] >= [6, 9]
}

/// What passed through the kernel before the pipe was attached, if it was.
fn passed_before(pipe: &Value) -> Option<u64> {
    Some(pipe["bytes"].as_u64()? - pipe["written"]["ring"]["bytes"].as_u64()?)
}

#[test]
fn pipe_attaches_early_where_much_of_a_file_is_left() {
    let scratch = Scratch::new();
    for (name, kib) in [("large", 24 << 10), ("small", 4864), ("part", 1 << 10)] {
        std::fs::write(scratch.path(name), vec![b'm'; kib << 10]).unwrap();
    }
    let told_of = |script: &str| told(&format!("cd {}; {script}", scratch.path("").display()));
    for script in ["cat large | wc -c", "dd if=large bs=64K status=none | wc -c", "tr m n <large | wc -c"] {
        let is_early = mostly(|| passed_before(&told_of(script)).is_some_and(|passed| passed < 4 << 20));
        // Elsewhere all processes of the machine are looked at, and that only after 8 MiB.
        assert!(is_early == can_attach() || !counts_processes(), "{script}");
    }
    // Of many files, each of which has little left, nothing is known; nor of what is made and not read.
    let parts = ["part"; 24].join(" ");
    for script in [&format!("cat {parts} | wc -c"), "head -c 24M /dev/zero | wc -c"] {
        assert_eq!(mostly(|| passed_before(&told_of(script)) > Some(4 << 20)), can_attach(), "{script}");
    }
    for script in ["cat small | wc -c", "dd if=small bs=64K status=none | wc -c"] {
        let pipe = told_of(script);
        let why_not = if can_attach() { "little_left".into() } else { Value::Null };
        assert_eq!((&pipe["path"], &pipe["written"]["why_not"]), (&"kernel".into(), &why_not), "{script}: {pipe}");
    }
}

#[test]
fn why_a_pipe_stays_with_the_kernel_is_told() {
    if !can_attach() {
        assert_eq!(told(&format!("$E write {MANY} call | $E read 0 call"))["path"], "kernel");
        return;
    }
    // Another thread has the input as well, and watches it.
    let threads = "import threading, os, select\n\
                   t = threading.Thread(target=lambda: select.epoll().poll(0.01)); t.start(); t.join()\n\
                   e = select.epoll(); e.register(0)\nwhile os.read(0, 65536): pass";
    for (script, end, expected) in [
        (format!("$E write {MANY} call | $A read 0 call"), "written", "other_side"),
        (format!("$A write {MANY} call | $E read 0 call"), "read", "other_side"),
        (format!("$E write {MANY} call | ($E read 0 call; :)"), "written", "shared"),
        // What it does while no process could attach does not matter.
        (format!("$E write {MANY} call 4194304 poll | $A read 0 call"), "written", "other_side"),
        (format!("$E write {MANY} call | python3 -c '{threads}'"), "read", "called epoll_ctl"),
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
    // Where the user has said when pipes are attached, that is once.
    for what in ["fork", "dup"] {
        let is_told = mostly(|| {
            let script = format!("$E write {MANY} call {} {what} | $E read 0 call", MANY / 2);
            let pipe = &told_with(&["--ring-after", "1"], &script)[0];
            pipe["path"] == "ring" && pipe["written"]["why_not"] == format!("called {what}")
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

/// Whether the first pipe of a script is attached in one of many runs; each must end well.
fn joins(script: &str) -> bool {
    mostly(|| told(script)["path"] == "ring")
}

#[test]
fn on_one_cpu_they_meet_as_well() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let cpu = allowed.trim().split([',', '-']).next().unwrap();
    let script = format!("taskset -p -c {cpu} $$ >/dev/null; $E write {MANY} call | $E read 0 call");
    assert_eq!(joins(&script), can_attach());
    for what in ["fork", "epoll", "signals", "readv"] {
        let pinned = |script: &str| seen(&format!("taskset -p -c {cpu} $$ >/dev/null; {script}"));
        assert_arrived(&pinned(&format!("$E write {MANY} call | $E read 0 call {} {what}", 12 << 20)), MANY);
        assert_arrived(&pinned(&format!("$E write {MANY} call {} {what} | $E read 0 call", 12 << 20)), MANY);
    }
}

#[test]
fn an_interpreter_with_megabytes_of_code_joins() {
    let script = format!("$E write {MANY} call | python3 -c 'import os\nwhile os.read(0, 65536): pass'");
    assert_eq!(joins(&script), can_attach());
}

/// It imports `pthread_create`, so its pipe gets the kernel's size; but it has one thread, and what it joins is as large as any pipe.
#[test]
fn a_program_that_could_make_threads_and_has_none_joins_a_large_pipe() {
    let scratch = Scratch::new();
    let program = scratch.c_program(
        "idle",
        r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <pthread.h>
        #include <stdio.h>
        #include <unistd.h>
        static char block[65536];
        int main(int count, char **arguments) {
            pthread_t thread;
            if (count > 9) return pthread_create(&thread, 0, (void *(*)(void *))main, 0);
            fprintf(stderr, "before %d\n", fcntl(0, F_GETPIPE_SZ));
            int begun = open(arguments[1], O_WRONLY);
            write(begun, "now\n", 4);
            close(begun);
            long total = 0;
            for (ssize_t n; (n = read(0, block, sizeof block)) > 0;) total += n;
            fprintf(stderr, "after %d %ld\n", fcntl(0, F_GETPIPE_SZ), total);
            return 0;
        }"#,
        &["-pthread", "-w"],
    );
    // The writer begins when the size has been seen: a pipe in which much waits keeps its size.
    let fifo = scratch.path("begun");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fifo = fifo.display();
    let script = format!("{{ read word <{fifo}; exec $E write {MANY} call; }} | {program} {fifo}");
    assert_eq!(joins(&script), can_attach());
    let is_large_later = mostly(|| {
        let seen = seen(&script);
        let (before, after) = (said(&seen, "before "), said(&seen, "after "));
        assert_eq!((before, after[1]), (vec![65_536], MANY), "{seen:?}");
        after[0] > 65_536
    });
    assert_eq!(is_large_later, can_attach());
}

#[test]
fn a_forked_child_joins_as_any_other_program() {
    // The shell has the pipe too until it becomes the reader: the child that reads is the last process that has it.
    let fork = "import os\nif os.fork(): os.close(0); os.wait()\nelse:\n while os.read(0, 65536): pass";
    let script = format!("$E write {MANY} call | python3 -c '{fork}'");
    assert_eq!(joins(&script), can_attach());
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
        let is_in_memory = mostly(|| {
            // What is called `python3` may be a script with pipes of its own.
            let pipe = told_of_all(&script).into_iter().max_by_key(|pipe| pipe["bytes"].as_u64()).unwrap();
            let counted = [&pipe["written"], &pipe["read"]].map(|end| end["bytes"].as_u64());
            assert_eq!(counted, [Some(MANY); 2], "{what}: {pipe}");
            pipe["path"] == "ring"
        });
        assert_eq!(is_in_memory, can_attach(), "{what}");
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
    assert_eq!(maps.contains("libmillstream_preload"), cfg!(target_arch = "x86_64"), "{maps}");
}

/// Joining takes half a millisecond. Pieces that end before memory has gained that would pay it each.
#[test]
fn writer_of_pieces_joins_those_that_pay_and_soon_no_others() {
    let pieces = |mebibytes: u64, pieces: usize| {
        let bytes = mebibytes << 20;
        let script =
            format!("head -c {} /dev/zero | split -b {bytes} --filter='exec wc -c >/dev/null'", pieces as u64 * bytes);
        let mut pipes = told_of_all(&script);
        pipes.retain(|pipe| pipe["written"]["bytes"] == bytes);
        assert_eq!(pipes.len(), pieces);
        pipes.into_iter().map(|mut pipe| pipe["written"].take())
    };
    let all_join = || pieces(24, 4).all(|writer| writer["joined"] == true);
    assert_eq!(mostly(all_join), can_attach());
    for _ in 0..4 {
        // A writer whose input has gone back to the kernel only says so ("input"), and attempts nothing.
        let has_tried = |why_not: &Value| *why_not != Value::Null && why_not != "input";
        let tried = pieces(6, 16).filter(|writer| writer["joined"] == true || has_tried(&writer["why_not"]));
        let tried: Vec<Value> = tried.collect();
        assert!(tried.len() <= 4, "{tried:?}");
    }
}
