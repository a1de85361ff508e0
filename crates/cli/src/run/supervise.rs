//! The run with a supervisor: the command is a child, and this process behaves as the command would.
//!
//! ```text
//!   shell ──starts──▶ millstream (waits, counts)          ──starts──▶ command ──▶ the tree
//!     ▲                  │  ▲                                             │
//!     └── same status ───┘  └──────── exits, dies, stops, continues ──────┘
//! ```
//!
//! Both are in one process group, so keys at the terminal reach the command directly and are ignored here. Every other
//! signal is handed on: nothing tells one that was sent to this process alone from one that was sent to the group, and
//! losing one is worse than doubling it. When the terminal stops the command, this process stops; when it dies of a
//! signal, this process dies of the same. If this process is killed, the kernel kills the command. The standard input
//! and output are let go of as soon as the command has them, so closing them means what it meant.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::ExitCode;
use std::time::Instant;

use millstream_sys::ledger::{self, Ledger, Origin};
use millstream_sys::process::{self, Pid, WaitStatus};
use millstream_sys::settings::LedgerAddress;
use millstream_sys::signals::{self, Held, Received, Sender};
use millstream_sys::{Errno, machine, pipe};

use super::command::Command;
use super::explain;
use super::meter::Meter;
use super::report::{End, Outcome, Output, Summary};
use crate::watch::{Seen, Watcher};
use millstream_command::failure::{Failure, warn};

/// What is to be done beside running it.
pub(super) struct Wanted {
    pub(super) output: Option<Output>,
    pub(super) progress: bool,
    pub(super) explain: bool,
}

impl Wanted {
    pub(super) fn needs_supervisor(&self) -> bool {
        self.output.is_some() || self.progress || self.explain
    }
}

pub(super) fn run(command: &Command, wanted: Wanted) -> Result<ExitCode, Failure> {
    let token = command.ring.map_or_else(|_| machine::random(), |ring| Ok(ring.token)).map_err(no_random)?;
    let (file, ledger) = ledger::create(token)
        .map_err(|errno| Failure::own(format!("cannot make the shared memory for counting: {errno}")))?;
    record_standing_pipes(ledger);
    let path = path_of(&file);
    let program = command.program(Some(LedgerAddress { token, path: path.as_bytes() }))?;

    let held = Held::hold();
    let start = Instant::now();
    let child = program.spawn(&held).map_err(|errno| command.explain(errno))?;
    // Should it fail, an end of a pipe stays open longer than without us; no reason to stop the command.
    let _ = process::let_go_of_input_and_output();
    // Its thread has every signal blocked, as this one.
    let watcher = watch(child, ledger, wanted.progress);
    let end = see_through(child, &held)?;
    let duration = start.elapsed();
    let seen = watcher.map(Watcher::stop).unwrap_or_default();
    held.release();

    tell(command, wanted, Outcome { end, duration }, ledger, &seen);
    Ok(end_like(end))
}

fn no_random(errno: Errno) -> Failure {
    Failure::own(format!("the kernel gives no random numbers: {errno}"))
}

fn tell(command: &Command, wanted: Wanted, outcome: Outcome, ledger: &Ledger, seen: &Seen) {
    if let Some(output) = wanted.output {
        let summary = Summary::new(&command.words, command.plan, command.ring.err(), outcome, ledger, seen);
        if let Err(failure) = output.write(&summary) {
            warn(failure);
        }
    }
    if wanted.explain {
        // An error has no place to go if stderr is gone.
        let _ = std::io::stderr().write_all(explain::text(seen, ledger).as_bytes());
    }
}

fn watch(child: Pid, ledger: &'static Ledger, with_meter: bool) -> Option<Watcher> {
    let mut meter = with_meter.then(|| Meter::new(ledger));
    Watcher::start(child, ledger, move |seen: &Seen| {
        if let Some(meter) = &mut meter {
            meter.update(seen);
        }
    })
}

/// Where the programs of the run find a file of this process.
fn path_of(file: &OwnedFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

fn record_standing_pipes(ledger: &Ledger) {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    for (end, origin) in [(stdin.as_fd(), Origin::Stdin), (stdout.as_fd(), Origin::Stdout)] {
        if let Some(identity) = pipe::identity(end)
            && identity.device == ledger.pipe_device()
        {
            ledger.record(identity.inode, origin, pipe::capacity(end).unwrap_or(0) as u64, None);
        }
    }
}

/// Stays until the command has ended, handing signals to it and its stops to the process that watches this one.
fn see_through(child: Pid, held: &Held) -> Result<End, Failure> {
    loop {
        // Asked before each sleep: a SIGCHLD may stand for several events.
        while let Some(status) =
            process::news_of(child).map_err(|errno| Failure::own(format!("lost track of the command: {errno}")))?
        {
            if let Some(end) = ended(status) {
                return Ok(end);
            }
            // A stop that was asked of the command alone is not this process's.
            if let Some(signal) = status.stopping_signal().filter(|signal| signals::OF_THE_TERMINAL.contains(signal)) {
                signals::raise_unblocked(signal);
            }
        }
        hand_on(held.next(), child);
    }
}

fn ended(status: WaitStatus) -> Option<End> {
    let exited = status.exit_status().map(|code| End::Exited(code as u8));
    exited.or_else(|| status.terminating_signal().map(End::Killed))
}

fn hand_on(received: Received, child: Pid) {
    let reached_the_group = received.sender == Sender::Kernel && signals::OF_THE_TERMINAL.contains(&received.signal);
    if received.signal != signals::CHILD && !reached_the_group {
        signals::send(child, received.signal);
    }
}

fn end_like(end: End) -> ExitCode {
    match end {
        End::Exited(status) => ExitCode::from(status),
        End::Killed(signal) => {
            signals::die_of(signal);
            ExitCode::from(128_u8.wrapping_add(signal as u8))
        }
    }
}
