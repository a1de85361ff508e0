//! The run's counters, where this process has them mapped.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};

use millstream_sys::fd::BorrowedFd;
use millstream_sys::ledger::{self, Direction, Ledger, Origin, Program};
use millstream_sys::pipe;
use millstream_sys::settings::{LedgerAddress, Settings};

use crate::descriptor::borrow;

/// Whether the run counts.
static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// Null until the start, and for ever where the counters cannot be mapped.
static LEDGER: AtomicPtr<Ledger> = AtomicPtr::new(core::ptr::null_mut());
/// The program's name, as in [`Program`].
static NAME: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Maps the run's counters, if the run counts.
pub(crate) fn start(settings: &Settings<'_>) {
    if let Some(address) = settings.ledger {
        IS_WANTED.store(true, Relaxed);
        attach(address);
    }
}

#[cold]
#[inline(never)]
fn attach(address: LedgerAddress<'_>) {
    let Some(ledger) = ledger::attach(address) else { return };
    for (to, word) in NAME.iter().zip(Program::new(0, &millstream_sys::own_name()).name_words()) {
        to.store(word, Relaxed);
    }
    LEDGER.store(core::ptr::from_ref(ledger).cast_mut(), Relaxed);
    // A program that makes its system calls by itself is noticed by this alone.
    expect_calls(0, Direction::Read);
    expect_calls(1, Direction::Written);
}

#[inline(never)]
fn expect_calls(fd: c_int, direction: Direction) {
    if let (Some(ledger), Some(end)) = (counters(), borrow(&fd))
        && let Some(identity) = pipe::identity(end)
        && identity.device == ledger.pipe_device()
    {
        ledger.expect_calls(identity.inode, direction);
    }
}

/// Whether the run counts, though this process may not, or not any more.
pub(crate) fn is_wanted() -> bool {
    IS_WANTED.load(Relaxed)
}

/// Nothing is counted any more: it takes system calls that this program may be killed for.
pub(crate) fn stop() {
    LEDGER.store(core::ptr::null_mut(), Relaxed);
}

/// Notes a pipe that this process has just made.
pub(crate) fn record(end: BorrowedFd<'_>, origin: Origin) {
    if let Some(ledger) = counters()
        && let Some(identity) = pipe::identity(end)
    {
        ledger.record(identity.inode, origin, pipe::capacity(end).unwrap_or(0) as u64, Some(this_program()));
    }
}

/// Whether this process counts.
#[inline]
pub(crate) fn counts() -> bool {
    !LEDGER.load(Relaxed).is_null()
}

pub(crate) fn counters() -> Option<&'static Ledger> {
    // SAFETY: null, or a mapping that lasts as long as the process image; it only holds atomics.
    unsafe { LEDGER.load(Relaxed).as_ref() }
}

/// Asked anew each time: after a fork the number is another.
#[inline(never)] // has many callers
pub(crate) fn this_program() -> Program {
    let [first, last] = &NAME;
    Program::from_words(millstream_sys::own_pid(), [first.load(Relaxed), last.load(Relaxed)])
}

/// The counters of the pipe that `fd` is an end of.
pub(crate) fn end_of(fd: c_int, direction: Direction) -> Option<&'static ledger::SharedEnd> {
    let (ledger, end) = (counters()?, borrow(&fd)?);
    let identity = pipe::identity(end).filter(|identity| identity.device == ledger.pipe_device())?;
    ledger.end(identity.inode, direction, || pipe::capacity(end).unwrap_or(0) as u64)
}
