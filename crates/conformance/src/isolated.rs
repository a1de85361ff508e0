//! A process for each test.
//!
//! Tests that run as threads of one process get into each other's way here. A child that one of them forks inherits the
//! ends of all the others and keeps them open, and signals and their handlers belong to the process. So a test starts
//! its own executable once more, for itself alone, and watches it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// Names the test that a process was started for. Set by hand it makes that test run where it was started, under a
/// debugger for example.
pub const VARIABLE: &str = "MILLSTREAM_ISOLATED_TEST";

/// How long a test may print nothing before it counts as hanging. Generous: the machine may be busy with other things. One that
/// works for longer prints each of its rounds.
const PATIENCE_SECONDS: u64 = 120;

/// How long it may take in all, whatever it prints.
const LONGEST_SECONDS: u64 = 1200;

/// Each of these variables asks for a number of rounds, which may take longer.
const ASK_FOR_MORE: [&str; 4] = ["MILLSTREAM_CASES", "MILLSTREAM_KILLS", "MILLSTREAM_ROUNDS", "MILLSTREAM_STEPS"];

/// Runs `test` in a process of its own. `module` is what `module_path!()` gives where the `#[test]` function called
/// `name` stands.
///
/// # Panics
/// With all that the test printed, if it fails; if it hangs also with what its processes were waiting for.
pub fn run(module: &str, name: &str, test: impl FnOnce()) {
    // The harness leaves the name of the crate away.
    let name = match module.split_once("::") {
        Some((_, module)) => format!("{module}::{name}"),
        None => name.to_owned(),
    };
    if std::env::var(VARIABLE).is_ok_and(|wanted| wanted == name) {
        return test();
    }
    let mut output = File::from(rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC).unwrap());
    // Two threads that print at once would otherwise write over each other: the kernel locks no position of such a file.
    rustix::fs::fcntl_setfl(&output, OFlags::APPEND).unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([&name, "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, &name)
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output.try_clone().unwrap())
        .process_group(0)
        .spawn()
        .unwrap();
    let group = Pid::from_child(&process);
    let handle = pidfd_open(group, PidfdFlags::empty()).unwrap();
    let hangs = watch(&handle, &output).err().map(|why| (why, tasks_of(group)));
    // Not yet waited for, so the number of the group still means this group: what the test may have left behind.
    let _ = kill_process_group(group, Signal::KILL);
    let status = process.wait().unwrap();

    let mut printed = String::new();
    output.rewind().unwrap();
    output.read_to_string(&mut printed).unwrap();
    if let Some((why, report)) = hangs {
        panic!("{name} {why} and was ended\n{report}{printed}");
    }
    assert!(status.success(), "{name}: {status}\n{printed}");
    assert!(printed.contains("test result: ok. 1 passed"), "{name} was not run in its own process:\n{printed}");
}

/// Waits until the process has ended, or says why it is waited for no longer.
fn watch(process: &OwnedFd, output: &File) -> Result<(), String> {
    let is_unlimited = ASK_FOR_MORE.iter().any(|variable| std::env::var_os(variable).is_some());
    let (mut printed, mut silent) = (0, 0);
    // Counted in looks of a second each, so that time in which the whole machine stands still does not count.
    for second in 1.. {
        let limit = Timespec { tv_sec: 1, tv_nsec: 0 };
        if poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit)).unwrap() == 1 {
            break;
        }
        let now = output.metadata().unwrap().len();
        silent = if now == printed { silent + 1 } else { 0 };
        printed = now;
        if silent == PATIENCE_SECONDS {
            return Err(format!("hung for {silent} s"));
        }
        if second == LONGEST_SECONDS && !is_unlimited {
            return Err(format!("went on for {second} s"));
        }
    }
    Ok(())
}

/// Makes a `#[test]` of each function, which is run in a process of its own.
#[macro_export]
macro_rules! alone {
    ($($(#[$attribute:meta])* fn $name:ident() $body:block)*) => {
        $($(#[$attribute])* #[test] fn $name() {
            $crate::isolated::run(module_path!(), stringify!($name), || $body);
        })*
    };
}

/// What each thread of each process of the group is doing.
pub(crate) fn tasks_of(group: Pid) -> String {
    let mut report = String::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // After the name come state, parent and group (`proc(5)`).
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        if fields.split(' ').nth(2) != Some(&group.as_raw_nonzero().to_string()) {
            continue;
        }
        for task in fs::read_dir(process.path().join("task")).into_iter().flatten().flatten() {
            let content = |file| fs::read_to_string(task.path().join(file)).unwrap_or_default().trim().to_owned();
            let state = content("stat").rsplit_once(") ").map(|(_, fields)| fields.chars().next());
            let _ = writeln!(
                report,
                "  {} {}: {:?} in {}, system call {}",
                task.path().display(),
                content("comm"),
                state.flatten().unwrap_or('?'),
                content("wchan"),
                content("syscall")
            );
        }
    }
    report
}
