//! How this process waits for a lock of the ring, and when it gives up.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use millstream_ring::{Parked, Parking};
use millstream_sys::futex::{self, Announced, Life, Thread};
use millstream_sys::{memory, transfer};

use crate::statistics::Counters;

/// Between two checks whether the owner still lives. The kernel wakes us at once for nearly every death. This is for
/// the owner of two locks, of which the kernel knows one.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long a thread may hold a lock, asleep or running, until we no longer expect it to release the lock. The second
/// limit is for the time after the other end of the pipe has gone. A lock is held for the time of a copy. A thread
/// that holds it longer never held it: the word was overwritten, or its owner died and its number was reused. We wait
/// for a stopped thread, and for one that gets no CPU: of a thread that could run, only the CPU time counts.
const HELD_AT_MOST: Duration = Duration::from_secs(5);
const HELD_AT_MOST_ALONE: Duration = Duration::from_secs(1);

/// The calling thread, at a pipe.
pub(crate) struct Parker<'a> {
    thread: Thread,
    shadow: BorrowedFd<'a>,
    counters: &'a Counters,
    held: Cell<Held>,
}

/// For how long the lock was seen held, and what its owner had run then. In microseconds: a parker is made for each
/// transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    micros: u32,
    run: u32,
}

impl Held {
    /// After another look, `slept` after the one before. A signal may end a sleep at once: what counts is the time.
    fn and(self, life: Life, slept: Duration) -> Held {
        let slept = slept.min(LOOK_EVERY).as_micros() as u32;
        let Life::Runs(cpu_time) = life else {
            let more = if life == Life::Sleeps { slept } else { 0 };
            return Held { micros: self.micros.saturating_add(more), run: 0 };
        };
        // Never 0, which stands for an owner that was not seen running.
        let run = (cpu_time.as_micros() as u32) | 1;
        let more = if self.run == 0 { 0 } else { run.wrapping_sub(self.run).min(LOOK_EVERY.as_micros() as u32) };
        Held { micros: self.micros.saturating_add(more), run }
    }

    fn time(self) -> Duration {
        Duration::from_micros(self.micros.into())
    }
}

impl<'a> Parker<'a> {
    #[inline]
    pub(crate) fn at(shadow: BorrowedFd<'a>, counters: &'a Counters) -> Parker<'a> {
        Parker { thread: Thread::current(), shadow, counters, held: Cell::default() }
    }

    /// The number of this thread.
    pub(crate) fn thread(&self) -> u32 {
        self.thread.id()
    }
}

impl Parking for Parker<'_> {
    type Announced = Announced;

    #[inline]
    fn owner(&self) -> u32 {
        self.thread.id()
    }

    #[inline]
    fn announce(&self, word: &std::sync::atomic::AtomicU32) -> Announced {
        self.thread.announce(word)
    }

    #[inline]
    fn restore(&self, word: &std::sync::atomic::AtomicU32, before: Announced) {
        self.thread.restore(word, before);
    }

    fn park(&self, word: &std::sync::atomic::AtomicU32, expected: u32, owner: u32) -> Parked {
        let began = Instant::now();
        futex::wait(word, expected, LOOK_EVERY);
        if word.load(std::sync::atomic::Ordering::Relaxed) != expected {
            return Parked::LookAgain;
        }
        let life = futex::life_of(owner);
        if life == Life::Dead || (life != Life::Stopped && !futex::may_have_mapped(owner, memory::SEALABLE_NAME)) {
            return Parked::OwnerIsGone;
        }
        let held = self.held.get().and(life, began.elapsed());
        self.held.set(held);
        let is_alone = || transfer::readiness(self.shadow).is_ok_and(|ready| ready.peer_gone);
        let is_hopeless = held.time() > HELD_AT_MOST || (held.time() > HELD_AT_MOST_ALONE && is_alone());
        if is_hopeless { Parked::GiveUp } else { Parked::LookAgain }
    }

    fn unpark_one(&self, word: &std::sync::atomic::AtomicU32) {
        futex::wake_one(word);
    }

    #[inline]
    fn can_be_fenced(&self) -> bool {
        self.thread.can_be_fenced()
    }

    fn prepare_to_own(&self) {
        self.thread.be_fenced_if_wished();
    }

    fn wants_for_itself(&self) -> bool {
        self.counters.move_without_waking() && self.thread.wish_to_be_fenced()
    }

    fn fence_everywhere(&self) {
        futex::fence_everywhere();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn after(looks: impl IntoIterator<Item = (Life, Duration)>) -> Duration {
        looks.into_iter().fold(Held::default(), |held, (life, slept)| held.and(life, slept)).time()
    }

    #[test]
    fn what_counts_is_the_time_and_not_how_often_a_signal_made_us_look() {
        let short = Duration::from_micros(50);
        assert_eq!(after((0..1000).map(|_| (Life::Sleeps, short))), 50 * Duration::from_millis(1));
        assert_eq!(after((0..100).map(|_| (Life::Sleeps, LOOK_EVERY))), 5 * SECOND);
    }

    #[test]
    fn the_time_in_which_we_were_stopped_ourselves_does_not_count() {
        assert_eq!(after([(Life::Sleeps, 3600 * SECOND)]), LOOK_EVERY);
    }

    #[test]
    fn stopped_or_starved_owner_is_waited_for() {
        for life in [Life::Stopped, Life::Runs(Duration::ZERO), Life::Runs(7 * SECOND)] {
            assert_eq!(after((0..10_000).map(|_| (life, LOOK_EVERY))), Duration::ZERO);
        }
    }

    #[test]
    fn running_owner_is_not_waited_for_forever() {
        // From an hour on, and beyond where the microseconds come round.
        for begin in [Duration::ZERO, 3600 * SECOND, Duration::from_micros(u32::MAX.into()) - SECOND] {
            let looks = (0..200_u32).map(|look| (Life::Runs(begin + look * LOOK_EVERY), LOOK_EVERY));
            let held = after(looks);
            assert!(held.abs_diff(199 * LOOK_EVERY) < Duration::from_millis(1), "{held:?}");
        }
    }
}
