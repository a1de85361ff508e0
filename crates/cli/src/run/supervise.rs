//! The run with a supervisor: the command is a child, and this process behaves as the command would.
//!
//! ```text
//!   shell ──starts──▶ millstream (waits, holds the memory) ──starts──▶ command ──▶ the tree
//!     ▲                  │  ▲                                             │
//!     └── same status ───┘  └──────── exits, dies, stops, continues ──────┘
//! ```
//!
//! Both are in one process group, so keys at the terminal reach the command directly and are ignored here. Every other
//! signal is handed on: nothing tells one that was sent to this process alone from one that was sent to the group, and
//! losing one is worse than doubling it. When the terminal stops the command, this process stops; when it dies of a
//! signal, this process dies of the same. If this process is killed, the kernel kills the command. The standard input
//! and output are let go of as soon as the command has them, so closing them means what it meant.

use std::ffi::CString;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use millstream_sys::arena;
use millstream_sys::ledger::{self, Ledger, Origin};
use millstream_sys::pipe;
use millstream_sys::process::{self, Pid, Program, WaitStatus};
use millstream_sys::settings::LedgerAddress;
use millstream_sys::signals::{self, Held, Received, Sender};

use super::report::{End, Output, Summary};
use super::{Build, Command};
use crate::failure::{Failure, warn};

pub(super) fn run(command: &Command, output: Output) -> Result<ExitCode, Failure> {
    let token = token()?;
    let (file, ledger) = ledger::create(token)
        .map_err(|errno| Failure::own(format!("cannot make the shared memory for --stats: {errno}")))?;
    record_standing_pipes(ledger);
    let path = path_of(&file)?;
    let settings = command.plan.settings(Some(LedgerAddress { token, path: &path }), None);
    let program = command.program(Build::Counting, &settings)?;
    let (end, elapsed) = see_started_through(command, &program)?;

    let summary = Summary::new(&command.words, command.plan, end, elapsed, ledger);
    if let Err(failure) = output.write(&summary) {
        warn(failure);
    }
    Ok(end_like(end))
}

/// The run whose pipes may go through shared memory, which this process holds.
pub(super) fn run_over_ring(command: &Command) -> Result<ExitCode, Failure> {
    let token = token()?;
    let file = arena::create(token)
        .map_err(|errno| Failure::own(format!("cannot make the shared memory for --ring: {errno}")))?;
    let path = path_of(&file)?;
    let settings = command.plan.settings(None, Some(LedgerAddress { token, path: &path }));
    let program = command.program(Build::Joining, &settings)?;
    let (end, _) = see_started_through(command, &program)?;
    Ok(end_like(end))
}

/// Where the programs of the run find a file of this process.
fn path_of(file: &OwnedFd) -> Result<CString, Failure> {
    CString::new(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
        .map_err(|_| Failure::own("cannot name the shared memory of the run"))
}

fn see_started_through(command: &Command, program: &Program) -> Result<(End, Duration), Failure> {
    let held = Held::hold();
    let start = Instant::now();
    let child = program.spawn(&held).map_err(|errno| command.explain(errno))?;
    // Should it fail, an end of a pipe stays open longer than without us; no reason to stop the command.
    let _ = process::let_go_of_input_and_output();
    let end = see_through(child, &held)?;
    held.release();
    Ok((end, start.elapsed()))
}

/// Tells this run's ledger from whatever else may stand at its path in another namespace.
fn token() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| Failure::own(format!("cannot read /dev/urandom: {error}")))?;
    Ok(u64::from_ne_bytes(bytes))
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

/// Stays until the command has ended, handing signals to it and its stops to whoever watches us.
fn see_through(child: Pid, held: &Held) -> Result<End, Failure> {
    loop {
        // Asked before each sleep: a SIGCHLD may stand for several events.
        while let Some(status) =
            process::news_of(child).map_err(|errno| Failure::own(format!("lost track of the command: {errno}")))?
        {
            if let Some(end) = ended(status) {
                return Ok(end);
            }
            // A stop that somebody asked of the command alone is not ours.
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
