//! Pipes in shared memory: one that this process reads from and one that it writes to, if both sides of the pipe are
//! such processes, and no other process holds an end.
//!
//! `docs/joining.md` has the reasons, and `millstream_ring::channel` the protocol. The files in the order in which each uses those
//! before it, as far as there is such an order:
//!
//! - What all stand on: `kernel` makes the calls. `own_run` is the run, `own_process` what a process knows of itself. `guard_flags`,
//!   `harmless` and `caught` say which calls and signals are looked at. `held` holds signals back. `copy` copies.
//! - An end: `patience`, `contention`, `tally`, `mapping` and `robust` are parts of [`end`]; `ring_memory` and `backing_pipe` are what
//!   the channel needs of it. `offer` says where its memory is, `wait` spins and yields.
//! - Detaching: `retreat`, which `forked` children do not need. `guard` makes a process detach before it does anything that the ring
//!   cannot carry, `confined` before it sandboxes itself, [`trapped`] and `fenced` before its own code calls the kernel; `faults` before
//!   its own handlers run.
//! - Attaching: [`notice`] finds the descriptors that are worth it, and `outlook` how much is to come. `alone` proves that no other process
//!   holds the pipe. `meet` is how two sides agree.
//! - Calls: `stream` reads and writes, `polled` waits, `attached` chooses. [`calls`] has `read` and `write`, [`other_calls`] and `spliced`
//!   what else moves bytes. [`interposed`] stands in front of glibc's functions, `lookup` and [`stdio`] see to calls that are not made by
//!   name. `brief` learns which programs are too short for any of that.
//!
//! The flag by which glibc itself knows that a process has one thread is looked at in every call; where there are several,
//! [`threads`] sees to it that one at a time has an end. Programs that know this library make a promise instead: [`promised`].

mod alone;
mod attached;
mod backing_pipe;
mod brief;
mod calls;
mod caught;
mod confined;
mod contention;
mod copy;
mod decoded;
mod end;
mod faults;
mod fenced;
mod forked;
mod guard;
mod guard_flags;
mod harmless;
mod held;
mod interposed;
mod kernel;
mod lookup;
mod mapping;
mod meet;
mod newer;
mod notice;
mod offer;
mod other_calls;
mod other_names;
mod outlook;
mod own_process;
mod own_run;
mod own_word;
mod patience;
mod polled;
mod promised;
mod retreat;
mod ring_memory;
mod robust;
mod signals;
mod spliced;
mod stdio;
mod stream;
mod tally;
mod threads;
mod trapped;
mod wait;
mod watched;

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

use millstream_sys::fate::Fate;
use millstream_sys::pipe;
use millstream_sys::settings::Settings;

use crate::descriptor::borrow;
use calls::Calls;
use end::{READER, Stage, WRITER};
use held::Held;
use own_run::IS_WANTED;

pub(crate) use brief::{expect_starts, is_brief, know};
pub(crate) use confined::{leaves, stop_wanting};
pub(crate) use interposed::{next_by_name, start_counting};
pub(crate) use notice::reason_of as reason_of_other_use;
pub(crate) use own_run::{is_wanted, is_worth};

/// Where the ends of pipes stand in programs that got them from others: the standard input and output, the first number behind the
/// standard streams, and the first that bash gives to a process substitution.
const INHERITED: [c_int; 4] = [0, 1, 3, 63];

/// Begins to count what passes, if this process was given a pipe and is in a run whose pipes are to be attached.
pub(crate) fn start(settings: &Settings<'_>) {
    let Some(run) = settings.ring else { return };
    own_run::remember(&run);
    if INHERITED.iter().any(|fd| borrow(fd).and_then(pipe::identity).is_some()) {
        // The program's handlers are not there yet, and a sandboxed program need not expect a call that holds signals back.
        calls::begin();
    }
}

/// The process has a pipe of which it may use an end itself: from now on what passes is counted.
pub(crate) fn has_pipe() {
    if IS_WANTED.load(Relaxed) && calls::state() == Calls::NotYet {
        let _held = Held::all();
        calls::begin();
    }
}

/// Whether less than a page waits in a pipe, but something: a shell has written a line into it, and is about to leave. A program that
/// writes much cannot have begun so early, or has written whole pages.
pub(crate) fn has_some_bytes(fd: c_int) -> bool {
    IS_WANTED.load(Relaxed) && (1..4096).contains(&kernel::bytes_in(fd))
}

/// Before this process becomes another program. `false`: a pipe cannot be given back, because no file can be opened for it.
pub(crate) fn leave() -> bool {
    let has_nothing = READER.channel().is_none() && WRITER.channel().is_none();
    // What a parent has offered goes with this program, which has a copy of the descriptor.
    let has_parents = WRITER.stage() == Stage::Offers && !guard_flags::are_up() && offer::is_of_parent();
    has_nothing || has_parents || retreat::before_a_call(Fate::called(c"execve"))
}
