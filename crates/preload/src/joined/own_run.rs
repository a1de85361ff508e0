//! The run that this process belongs to, and how much a pipe must carry in it to be attached.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};

use millstream_sys::fate::WORTH_IT;
use millstream_sys::settings::{OLDER_PIPES, Ring};

/// A call costs the kernel as much as moving so many bytes.
const CALL: u64 = 1024;
/// And this, if all processes of the machine have to be looked at, which may take milliseconds.
const WORTH_A_LONG_LOOK: u64 = 8 << 20;
/// After so many times as much as is worth it a writer's offer that no reader has taken makes way for another pipe.
pub(super) const OFTEN: u64 = 8;

/// Which run this is, and [`AFTER`] how many bytes its pipes attach. Zeros: it attaches none.
static RUN: [AtomicU64; RUN_WORDS] = [const { AtomicU64::new(0) }; RUN_WORDS];
const RUN_WORDS: usize = 7 + OLDER_PIPES;
const AFTER: usize = 1;
/// A process number, which is never 0.
const FIRST: usize = 2;
/// Whether its pipes are to be attached. Not any more in a process that has sandboxed itself: from then on it makes no
/// calls that it would not make by itself.
pub(super) static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// From now on this is the run.
pub(super) fn remember(run: &Ring) {
    let words = [run.token, run.after, run.first, run.namespace, run.ticks, run.birth, u64::from(run.filters)];
    for (word, value) in RUN.iter().zip(words.iter().chain(&run.older)) {
        word.store(*value, Relaxed);
    }
    IS_WANTED.store(true, Relaxed);
}

/// Whether the run attaches pipes, though a process that has sandboxed itself does not.
pub(crate) fn is_wanted() -> bool {
    RUN[FIRST].load(Relaxed) > 0
}

/// The run that this process belongs to.
#[inline(never)] // has many callers
pub(super) fn own_run() -> Ring {
    let words: [u64; RUN_WORDS] = core::array::from_fn(|at| RUN[at].load(Relaxed));
    let [token, after, first, namespace, ticks, birth, filters, older @ ..] = words;
    Ring { token, after, first, namespace, ticks, birth, filters: filters as u32, older }
}

/// What the user has said instead of both below.
pub(super) fn after() -> Option<u64> {
    Some(RUN[AFTER].load(Relaxed)).filter(|&after| after > 0)
}

/// Whether a program that moves so much through a pipe is to have this library.
pub(crate) fn is_worth(bytes: u64) -> bool {
    bytes >= worth_it()
}

/// What a call that has moved so many bytes counts for [`worth_it`]. Where the user has said when, bytes are what was
/// said.
pub(super) fn worth_of(moved: u64) -> u64 {
    if after().is_some() { moved } else { moved + CALL }
}

pub(super) fn worth_it() -> u64 {
    after().unwrap_or(WORTH_IT)
}

pub(super) fn worth_a_long_look() -> u64 {
    after().unwrap_or(WORTH_A_LONG_LOOK)
}
