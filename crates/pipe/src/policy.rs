//! The policy: what an end does when it cannot go on, and how much memory a pipe has. All of it is here.
//!
//! Two things cost. One is a wake-up: tens of microseconds across CPUs in a virtual machine, a few on the same CPU.
//! The other is a CPU that is kept from a thread which could use it. What is cheap depends on where the other side
//! runs.
//!
//! # Waiting
//!
//! - **The other side runs on another CPU: spin.** Reading a shared word takes a tenth of a microsecond. A waiter
//!   spins for about as long as a wake-up takes and then sleeps. So it never loses more than twice what the best choice
//!   would have cost, whatever the other side does (Karlin, Li, Manasse and Owicki, Empirical studies of competitive
//!   spinning, SOSP 1991). A spin without result halves the next one. A spin with a result restores the full length,
//!   and so does a sleep that turns out to have begun a moment too early.
//!
//! - **It runs on this CPU: yield.** A spin only keeps it from running. The waiter yields the CPU to it
//!   (`sched_yield`). The other side fills or empties the whole ring and yields in turn. With a wake-up after every
//!   write there would be a switch for each.
//!
//! - **A third thread runs on this CPU too: sleep.** With a third runnable task, `sched_yield` forfeits the rest of
//!   our time slice: the kernel gives it to the third. Such a yield returns late, after milliseconds. Then it is better
//!   to sleep: a waiter keeps its share. The backoff: no further yields for as long as that one took, and for up to 128
//!   times as long while they stay long. Beside a program that stays, they cost a hundredth; one that only came by is
//!   soon forgotten. A yield in which the other side has moved a byte for every three TSC cycles was not long, whatever
//!   it took. A reader to which little comes each time does not yield while more threads than there are CPUs want to
//!   run: see `crowd`.
//!
//! - **A spin is interrupted**: this thread lost its CPU for a while. The other side had all that time. If it has
//!   done nothing it is not running, and the waiter sleeps. This teaches nothing about how long a spin pays.
//!
//! A reader that finds bytes and was only waiting for them may wait some microseconds more, while more of them come:
//! see `gathering`.
//!
//! A reader that falls asleep again and again for a few bytes sleeps in the kernel's pipe, where they go then: see
//! `quiet`.
//!
//! How long a wake-up takes is measured: the notifier leaves the time, and the waiter compares.
//!
//! # Waking
//!
//! An end that finds a waiter notifies it before its call returns, for a single byte too. There is no timer and no
//! threshold, so nothing that can be taken is ever late. Few wake-ups come from having few waiters. A waiter that was
//! notified finds all that has come meanwhile, and until it waits again no end notifies it a second time. A writer
//! that is not done before many pages are free is woken for several of them, or by its own timer: see `refill`.
//!
//! # Memory
//!
//! The pages of a ring are made as they are first used. A reader whose sleep ended by a timeout gives them back. The
//! capacity is not the policy's to change.
//!
//! Five modules are pure: `crowd` (but for its question), `decisions`, `gathering`, `quiet` and `refill`. They have
//! numbers in, numbers out, and no clock. `patience` does what `decisions` says. `simulation` runs it in a world of
//! two CPUs with a clock of its own.

mod choices;
mod crowd;
mod decisions;
mod gathering;
mod patience;
mod quiet;
mod refill;
#[cfg(test)]
mod simulation;

use std::time::Duration;

pub use choices::{DirectPolicy, WaitPolicy};
pub(crate) use decisions::is_worth;
pub(crate) use patience::{Effort, Look, Patience, wake_ticks};

/// A sleep ends by itself after this long, and after twice as long each time up to [`LONGEST_NAP`]. A process may be
/// killed between changing the ring and notifying, an instant of some nanoseconds. It leaves a waiter that no other
/// process has to wake. In the end 10 000 waiters check 150 times a second, which takes less than a thousandth of a
/// CPU.
pub(crate) const FIRST_NAP: Duration = Duration::from_secs(1);
const LONGEST_NAP: Duration = Duration::from_secs(64);

/// Between two questions to the kernel whether a reader is left, in TSC cycles. It is 10 to 20 microseconds, less
/// than it takes to learn of another process's death in any other way. A reader that closes tells us itself.
pub(crate) const ASK_EVERY: u64 = 40_000;

/// Between two attempts to leave the backing pipe for the ring, in TSC cycles: about a millisecond.
pub(crate) const RETURN_EVERY: u64 = 3_000_000;

/// The next timeout after this one.
pub(crate) fn longer(nap: Duration) -> Duration {
    (nap * 2).min(LONGEST_NAP)
}
