//! The policy: what an end does when it cannot go on, and how much memory a pipe has. All of it is here.
//!
//! Two things cost: a wake-up (tens of microseconds across CPUs in a virtual machine, a few on one's own), and a CPU that
//! is kept from somebody who could use it. What is cheap depends on where the other side runs.
//!
//! # Waiting
//! - **The other side runs on another CPU.** A look at a shared word takes a tenth of a microsecond. Whoever waits looks
//!   for about as long as a wake-up takes and then sleeps: so it never loses more than twice what the best choice would
//!   have cost, whatever the other side does (Karlin, Li, Manasse and Owicki, Empirical studies of competitive spinning,
//!   SOSP 1991). A look that was in vain halves the next; one that was not makes it whole again, and so does a
//!   sleep that turns out to have begun a moment too early.
//! - **It runs on this CPU.** Looking only keeps it from running. The CPU is offered to it instead (`sched_yield`): it
//!   fills or empties the whole ring and offers it back, where a wake-up after every write would switch for each.
//! - **Somebody else runs on this CPU too.** An offer is then a gift: the kernel takes what is left of the share of who
//!   yields, and gives it to the third. Such an offer comes back late, after milliseconds. Then it is better to sleep:
//!   a sleeper keeps its share. No further offers are made for as long as that one took, and for up to 128
//!   times as long while they stay dear: beside one who stays they cost a hundredth, one who came by is soon forgotten.
//!   An offer in which the other side has moved a byte for every three ticks was not dear, however long it took. A reader to which
//!   little comes each time makes none while more threads than there are CPUs want to run: see `crowd`.
//! - **A look is interrupted**: this thread lost its CPU to somebody for a while. The other side had all that time; if it
//!   has done nothing it is not running, and one sleeps. This teaches nothing about how long it pays to look.
//!
//! A reader that finds bytes and was only waiting for them may wait some microseconds more, while more of them come: see
//! `gathering`.
//!
//! A reader that falls asleep again and again for a few bytes sleeps in the kernel's pipe, where they go then: see `quiet`.
//!
//! How long a wake-up takes is measured: who rings the bell leaves the time, and who is woken compares.
//!
//! # Waking
//! Whoever finds a sleeper rings before its call returns, for a single byte too: there is no timer and no threshold, so
//! nothing that can be taken is ever late. Few wake-ups come from having few sleepers: one that was rung for finds all that has come
//! meanwhile, and until it is there again nobody rings a second time. A writer that is not done before many pages are free is woken for
//! several of them, or by its own timer: see `refill`.
//!
//! # Memory
//! The pages of a ring are made as they are first used, and given back by a reader that has waited for a whole nap in
//! vain. The capacity is not the policy's to change.
//!
//! `crowd` (but for its question), `decisions`, `gathering`, `quiet` and `refill` are pure: numbers in, numbers out, no clock. `patience` does what it says. `simulation` runs it in a world of
//! two CPUs with a clock of its own.

mod crowd;
mod decisions;
mod gathering;
mod patience;
mod quiet;
mod refill;
#[cfg(test)]
mod simulation;

use std::time::Duration;

pub(crate) use decisions::is_worth;
pub(crate) use patience::{Effort, Look, Patience, wake_ticks};

/// What an end does when it cannot go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitPolicy {
    /// Looks for a while where that pays, gives way where both ends share a CPU and nobody else wants it, then sleeps.
    /// The default.
    #[default]
    Adaptive,
    /// Never sleeps. The fastest answer, for a CPU of its own, of which it uses all. Asks the kernel from time to time
    /// whether the other side is still there.
    Spin,
    /// Sleeps at once, as the kernel's pipe does. For those who would rather be slow than use a CPU in vain.
    Block,
}

/// A sleep ends by itself after this long, and after twice as long each time up to [`LONGEST_NAP`]. A process that is
/// killed between changing the ring and ringing the bell, an instant of some nanoseconds, leaves a sleeper that nobody
/// else need wake. 10 000 sleepers look again 150 times a second at the end, which is less than a thousandth of a CPU.
pub(crate) const FIRST_NAP: Duration = Duration::from_secs(1);
const LONGEST_NAP: Duration = Duration::from_secs(64);

/// The next nap after this one.
pub(crate) fn longer(nap: Duration) -> Duration {
    (nap * 2).min(LONGEST_NAP)
}
