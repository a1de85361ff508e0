//! Tracers and debuggers: breakpoints that the kernel (uprobes) or a debugger puts into glibc's code while pipes are attached, before,
//! and after. No program crashes or hangs, and every byte arrives.

mod common;
#[path = "common/over_ring.rs"]
mod over_ring;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use common::{Scratch, can_attach, mostly, output, wait_for};
use over_ring::{ENDS, MANY, Programs, assert_arrived, over_ring_with, said, seen, told};

static PROGRAMS: LazyLock<Programs> =
    LazyLock::new(|| Programs::built(&[("E", ENDS, &[]), ("U", include_str!("probed/uprobes.c"), &[])]));

/// Hooked functions of all kinds: with and without other ways through, called all the time and never.
const PROBED: [&str; 12] =
    ["read", "write", "close", "fcntl", "dup2", "fork", "poll", "readv", "ioctl", "execve", "sigaction", "syscall"];

/// Where functions of this machine's glibc are in its file, and its path.
fn places(names: &[&str]) -> (String, Vec<String>) {
    let maps = output(Command::new("cat").arg("/proc/self/maps")).stdout;
    let path = maps.lines().find_map(|line| line.split_whitespace().nth(5).filter(|path| path.contains("/libc.so")));
    let path = path.expect("cat is a program of glibc").to_owned();
    let symbols = output(Command::new("readelf").args(["--dyn-syms", "-W", &path])).stdout;
    // In the code of glibc for x86-64 a place in the file is the place in memory.
    let place = |name: &&str| {
        let is_it =
            |line: &&str| line.split_whitespace().nth(7).is_some_and(|word| word.split('@').next() == Some(name));
        let line = symbols.lines().find(is_it).unwrap_or_else(|| panic!("glibc has no {name}"));
        format!("0x{}", line.split_whitespace().nth(1).unwrap())
    };
    let places = names.iter().map(place).collect();
    (path, places)
}

/// One test at a time: a probe is in all processes, and a debugger takes its breakpoint for the program's own code.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Probes, until this is dropped.
struct Probes(Child);

impl Probes {
    fn set(how: &str, names: &[&str]) -> Probes {
        let (library, places) = places(names);
        let mut command = Command::new(PROGRAMS.path("U"));
        command.arg(library).arg(how).args(places).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "set\n", "uprobes take root, and a kernel with CONFIG_UPROBE_EVENTS");
        Probes(child)
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let status = self.0.wait().unwrap();
        assert!(status.success() || std::thread::panicking(), "{status}");
    }
}

/// Streams that last for some comings and goings of a probe: one that is attached at once, and some whose writer or reader gives
/// it back in the middle.
fn assert_all_arrive(bytes: u64) {
    let plain = format!("$E write {bytes} call | $E read 0 call");
    let writer_leaves = format!("$E write {bytes} call {} dup | $E read 0 stdio", bytes / 2);
    let reader_leaves = format!("$E write {bytes} stdio | $E read 0 call {} fork", bytes / 2);
    for script in [plain, writer_leaves, reader_leaves] {
        for options in [&["--ring-after", "1"][..], &[]] {
            assert_arrived(&output(&mut over_ring_with(options, &script)), bytes);
        }
    }
}

#[test]
fn probes_that_stay_break_no_stream() {
    let _alone = alone();
    let probes = Probes::set("stay", &PROBED);
    assert_all_arrive(MANY);
    drop(probes);
    assert_all_arrive(MANY);
}

/// The kernel takes a tenth of a second to take one away.
#[test]
fn probes_that_come_and_go_break_no_stream() {
    let _alone = alone();
    for name in ["write", "read", "fork"] {
        let _probes = Probes::set("flicker", &[name]);
        assert_all_arrive(16 * MANY);
    }
}

/// Set when the stream flows, and taken away before it ends. The shorter stream is never attached.
#[test]
fn probes_set_and_taken_away_in_mid_stream_break_none() {
    let _alone = alone();
    let (library, places) = places(&PROBED);
    for (bytes, options) in [(MANY, &["--ring-after", "1"][..]), (3_000_000, &[])] {
        let probes = format!("echo | $U {library} stay {}", places.join(" "));
        let reader = format!("(head -c 1000000; {probes} >/dev/null; exec $E read 1000000 call 2000000 dup)");
        let seen = output(&mut over_ring_with(options, &format!("$E write {bytes} call | {reader}")));
        assert!(seen.stderr.contains(&format!("read {}\n", bytes - 1_000_000)), "{seen:?}");
        assert_eq!(said(&seen, "wrote ")[0], bytes, "{seen:?}");
    }
}

/// A debugger comes to a program whose pipe is attached. It stops it where the pipe goes back, and once more behind that; then it
/// puts back what stood at its breakpoints, calls two functions that had one, and goes.
#[test]
fn debugger_that_comes_and_goes_breaks_no_stream() {
    let _alone = alone();
    let bytes = 64 * MANY;
    for (side, call) in [("write", "write"), ("read", "read")] {
        let scratch = Scratch::new();
        let pid = scratch.path("pid");
        let debugged =
            |words: String| format!("(echo $BASHPID >{}; exec $E {words} call {} dup)", pid.display(), bytes / 2);
        let script = match side {
            "write" => format!("{} | $E read 0 call", debugged(format!("write {bytes}"))),
            _ => format!("$E write {bytes} call | {}", debugged("read 0".to_owned())),
        };
        let mut command = over_ring_with(&["--ring-after", "1"], &script);
        let run = std::thread::spawn(move || output(&mut command));
        wait_for("the program", || std::fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')));
        let commands = format!(
            "set pagination off\nset confirm off\nbreak *close\nignore 1 100\nbreak *poll\ntbreak *dup\ncontinue\n\
             tbreak *{call}\ncontinue\ndelete\nprint (int)close(-1)\nprint (int)poll(0, 0, 0)\ndetach\n"
        );
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-q", "-batch", "-x", &scratch.file("commands", &commands), "-p"]);
        let said = output(gdb.arg(std::fs::read_to_string(&pid).unwrap().trim()));
        assert_arrived(&run.join().unwrap(), bytes);
        let stops = said.stdout.matches("Temporary breakpoint").count();
        let calls = ["$1 = -1\n", "$2 = 0\n"].map(|answer| said.stdout.contains(answer));
        assert_eq!((stops, calls), (4, [true, true]), "{side}: {said:?}");
    }
}

/// Breakpoints that are there before the library is.
#[test]
fn debugger_that_breaks_from_the_start_breaks_no_stream() {
    let _alone = alone();
    let breakpoints = ["read", "write", "close", "fork", "fcntl", "dup2"].iter().enumerate();
    let breakpoints: String =
        breakpoints.map(|(at, name)| format!("break *{name}\nignore {} 1000000\n", at + 1)).collect();
    let scratch = Scratch::new();
    let commands = format!(
        "set pagination off\nset confirm off\nset breakpoint pending on\nset follow-fork-mode child\n{breakpoints}\
         run write {MANY} call 9000000 fork >&9 2>&8\n"
    );
    let (commands, said) = (scratch.file("commands", &commands), scratch.path("said"));
    let gdb = format!("gdb -nx -q -batch -x {commands} $E >{} 2>&1", said.display());
    let seen = seen(&format!("{{ {{ {gdb}; }} 9>&1; }} 8>&2 | $E read 0 call"));
    let said = std::fs::read_to_string(said).unwrap();
    assert!(seen.stderr.contains(&format!("read {MANY}\n")), "{seen:?}\n{said}");
    assert!(said.contains("exited normally"), "{said}");
}

/// The library changes no code, so a probe is no reason to leave a pipe with the kernel.
#[test]
fn probed_functions_keep_no_pipe_from_joining() {
    let _alone = alone();
    let _probes = Probes::set("stay", &PROBED);
    assert_eq!(mostly(|| told(&format!("$E write {MANY} call | $E read 0 call"))["path"] == "ring"), can_attach());
}
