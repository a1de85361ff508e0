//! What to do next, from what has been seen. Times are TSC cycles ([`clock::ticks`](millstream_sys::clock::ticks)),
//! between 0.3 and 1 nanosecond each.

/// What a wake-up is taken to cost until one was measured: 40 microseconds at 3 GHz, as between CPUs of a virtual
/// machine.
pub(super) const UNMEASURED_WAKE: u32 = 120_000;

/// Bounds on what is believed of a measurement, about 2 and 100 microseconds: the other process leaves the time, and
/// what it leaves may be anything.
const SHORTEST_WAKE: u32 = 6_000;
const LONGEST_WAKE: u32 = 300_000;

/// A transfer of a cache line there and back, a few times over: less would never see an answer.
const SHORTEST_LOOK: u32 = 3_000;

/// How often a waiter yields in one wait. The other side nearly always takes the first yield; a third program may sit
/// between the two for a moment.
const OFFERS: u32 = 4;

/// A yield that took as long as so many wake-ups was taken by a third program, or by a peer that has much else to do.
/// Either way a sleep would have cost an eighth at most.
const DEAR_OFFER_WAKES: u32 = 8;

/// The backoff: after a long yield there is no other for so many times as long as it took. At first that is once. So
/// a program that only came by, or a peer that had something to prepare, is soon forgotten. It is four times as often
/// for each yield that is long again soon: before so many backoffs have gone by.
const LONGEST_REST: u32 = 128;
const SOON_RESTS: u64 = 8;

/// After the backoff, about a third of a second. In that time a long yield shows where a third program runs: one
/// costs a hundredth.
const DEAR_FOR: u64 = 1_000_000_000;

/// What a long yield is taken to have taken at most, about 30 milliseconds. So a process that was stopped for a while
/// is not marked for long.
const DEAREST_OFFER: u64 = 100_000_000;

/// A side that moves a byte in so many TSC cycles, 0.9 GB/s at 2.6 GHz, has had the CPU that was yielded to it. Half
/// a megabyte took longer if a third program used up its time slice as well.
const TICKS_FOR_A_BYTE: u64 = 3;

/// Whether so many bytes, moved on a yielded CPU, were worth the time of the yield.
pub(crate) fn is_worth(bytes: usize, ticks: u64) -> bool {
    (bytes as u64).saturating_mul(TICKS_FOR_A_BYTE) >= ticks
}

/// What to do next in a wait. After either it is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Look at the ring a few times.
    Look,
    /// Yield the CPU once, then look at the ring.
    Offer,
}

/// How a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// What was waited for is there.
    Found,
    /// It is time to sleep.
    Sleep,
}

/// One wait, from finding nothing to finding something, or to sleep.
#[derive(Debug)]
pub(super) struct Wait {
    act: Act,
    /// When it began, and when the clock was last read: not before the first act, which mostly finds something.
    since: Option<(u64, u64)>,
    offers: u32,
}

impl Wait {
    /// How a wait begins; `None`: with sleep. `shares_cpu` is whether the other side last ran on this CPU.
    #[inline]
    pub(super) fn begin(lessons: &Lessons, shares_cpu: bool, now: impl FnOnce() -> u64) -> Option<Wait> {
        if !shares_cpu {
            return Some(Wait { act: Act::Look, since: None, offers: 0 });
        }
        let now = now();
        (!lessons.rests(now)).then_some(Wait { act: Act::Offer, since: Some((now, now)), offers: 0 })
    }

    #[inline]
    pub(super) fn act(&self) -> Act {
        self.act
    }

    /// After the act: what it found. `None`: do it again.
    #[inline]
    pub(super) fn after(&mut self, is_over: bool, lessons: &mut Lessons, now: impl FnOnce() -> u64) -> Option<End> {
        match self.act {
            Act::Look => self.after_look(is_over, lessons, now),
            Act::Offer => self.after_offer(is_over, lessons, now()),
        }
    }

    #[inline]
    fn after_look(&mut self, is_over: bool, lessons: &mut Lessons, now: impl FnOnce() -> u64) -> Option<End> {
        if is_over {
            lessons.has_looked(true);
            return Some(End::Found);
        }
        let now = now();
        let (start, before) = self.since.unwrap_or((now, now));
        if lessons.was_interrupted(before, now) {
            // The other side had all that time. This says nothing about how long a spin pays.
            return Some(End::Sleep);
        }
        if now.wrapping_sub(start) > u64::from(lessons.look) {
            lessons.has_looked(false);
            return Some(End::Sleep);
        }
        self.since = Some((start, now));
        None
    }

    fn after_offer(&mut self, is_over: bool, lessons: &mut Lessons, now: u64) -> Option<End> {
        self.offers += 1;
        let (start, before) = self.since.unwrap_or((now, now));
        self.since = Some((start, now));
        let was_cheap = lessons.has_offered(before, now);
        match is_over {
            true => Some(End::Found),
            false if was_cheap && self.offers < OFFERS => None,
            false => Some(End::Sleep),
        }
    }
}

/// What an end has learnt about waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lessons {
    /// What a wake-up across CPUs costs.
    pub(super) wake: u32,
    /// How long the next look is.
    pub(super) look: u32,
    /// No yields before this time.
    pub(super) offers_resume_at: u64,
    /// How many times as long the last backoff was as the long yield before it; 0: there was none.
    pub(super) rest: u32,
}

impl Lessons {
    pub(super) fn none() -> Lessons {
        Lessons { wake: UNMEASURED_WAKE, look: longest_look(UNMEASURED_WAKE), offers_resume_at: 0, rest: 0 }
    }

    /// Whether a backoff is in progress.
    pub(super) fn rests(&self, now: u64) -> bool {
        is_before(now, self.offers_resume_at)
    }

    /// Whether a yield was long recently.
    pub(super) fn has_been_dear(&self, now: u64) -> bool {
        self.rest > 0 && is_before(now, self.offers_resume_at.wrapping_add(DEAR_FOR))
    }

    /// For one wait of an end that never sleeps: a whole spin, and yields whatever they cost.
    pub(super) fn always_wait(&mut self) {
        *self = Lessons { look: longest_look(self.wake), offers_resume_at: 0, ..*self };
    }

    /// After a spin to its end.
    #[inline]
    fn has_looked(&mut self, found: bool) {
        self.look = if found { longest_look(self.wake) } else { (self.look / 2).max(SHORTEST_LOOK) };
    }

    /// Whether two instants lie so far apart that this thread was not running for a while between them.
    #[inline]
    fn was_interrupted(&self, earlier: u64, later: u64) -> bool {
        later.wrapping_sub(earlier) > u64::from(self.wake)
    }

    /// After a yield. Returns whether it was short.
    fn has_offered(&mut self, from: u64, to: u64) -> bool {
        let took = to.wrapping_sub(from);
        let is_cheap = took <= u64::from(self.wake) * u64::from(DEAR_OFFER_WAKES);
        if !is_cheap {
            let took = took.min(DEAREST_OFFER);
            let soon = self.offers_resume_at.wrapping_add(SOON_RESTS * u64::from(self.rest) * took);
            self.rest = if is_before(from, soon) { (4 * self.rest).min(LONGEST_REST) } else { 1 };
            self.offers_resume_at = to.wrapping_add(u64::from(self.rest) * took);
        }
        is_cheap
    }

    /// After a sleep that the other side, on another CPU, has ended.
    pub(super) fn has_woken(&mut self, slept_at: u64, rung_at: u64, woke_at: u64) {
        if is_before(rung_at, slept_at) || is_before(woke_at, rung_at) {
            // Notified before this sleep, or read from a clock that is not ours.
            return;
        }
        // A wake-up that took far longer waited for its CPU too, and counts as a little longer.
        let most = u64::from(self.wake.saturating_mul(2));
        let seen = woke_at.wrapping_sub(rung_at).min(most) as u32;
        self.wake = (self.wake - self.wake / 8 + seen / 8).clamp(SHORTEST_WAKE, LONGEST_WAKE);
        // What it slept for came so long after it began to spin, which it did for twice as long as it will next.
        let waited = rung_at.wrapping_sub(slept_at).saturating_add(2 * u64::from(self.look));
        let longest = longest_look(self.wake);
        self.look = if waited <= u64::from(longest) { longest } else { self.look.min(longest) };
    }
}

/// An end that has woken the other spins for its answer as long as a wake-up takes, and half of that again, in which
/// the other answers. So it need not be woken in its turn.
fn longest_look(wake: u32) -> u32 {
    wake + wake / 2
}

/// Of two instants that lie less than half the range apart.
fn is_before(one: u64, other: u64) -> bool {
    one.wrapping_sub(other) > u64::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_in_vain_grow_short_and_one_that_was_not_is_whole_again() {
        let mut lessons = Lessons::none();
        (0..20).for_each(|_| lessons.has_looked(false));
        assert_eq!(lessons.look, SHORTEST_LOOK);
        lessons.has_looked(true);
        assert_eq!(lessons.look, 180_000);
    }

    /// How long a spin without result takes, when each act takes `each`, and how it ends.
    fn look(lessons: &mut Lessons, each: impl Fn(u64) -> u64) -> (u64, End) {
        let mut wait = Wait::begin(lessons, false, || 0).unwrap();
        assert_eq!(wait.act(), Act::Look);
        let mut now = 1 << 40;
        loop {
            now += each(now - (1 << 40));
            if let Some(end) = wait.after(false, lessons, || now) {
                return (now - (1 << 40), end);
            }
        }
    }

    #[test]
    fn one_looks_for_as_long_as_a_wake_up_and_an_answer_take_and_then_less() {
        let mut lessons = Lessons::none();
        let (looked, end) = look(&mut lessons, |_| 500);
        assert!((180_000..182_000).contains(&looked) && end == End::Sleep, "{looked}");
        let (looked, _) = look(&mut lessons, |_| 500);
        assert!((90_000..92_000).contains(&looked), "{looked}");
    }

    #[test]
    fn interrupted_spin_ends_in_sleep_and_teaches_nothing() {
        let mut lessons = Lessons::none();
        let (looked, end) = look(&mut lessons, |so_far| if so_far > 5_000 { 10_000_000 } else { 500 });
        assert!(looked < 10_010_000 && end == End::Sleep && lessons == Lessons::none(), "{looked} {lessons:?}");
    }

    #[test]
    fn first_look_that_finds_something_does_not_read_the_clock() {
        let mut lessons = Lessons::none();
        let clock = || panic!("the clock was read");
        let mut wait = Wait::begin(&lessons, false, clock).unwrap();
        assert_eq!(wait.after(true, &mut lessons, clock), Some(End::Found));
    }

    #[test]
    fn four_cheap_offers_in_vain_and_then_sleep() {
        let mut lessons = Lessons::none();
        let mut wait = Wait::begin(&lessons, true, || 0).unwrap();
        let ends = [3_000, 6_000, 9_000, 12_000].map(|now| wait.after(false, &mut lessons, || now));
        assert_eq!(ends, [None, None, None, Some(End::Sleep)]);
        assert!(Wait::begin(&lessons, true, || 15_000).is_some(), "they may help the next time");
    }

    #[test]
    fn an_offer_is_worth_what_was_moved() {
        const HALF_A_MEGABYTE: usize = 512 << 10;
        // The whole ring in writes of 64 bytes, each of which takes 45 ns; and with a third program's 1.4 ms beside
        // that.
        assert!(is_worth(HALF_A_MEGABYTE, 1_000_000));
        assert!(!is_worth(HALF_A_MEGABYTE, 3_600_000));
        assert!(!is_worth(0, 1) && is_worth(usize::MAX, u64::MAX / 2));
    }

    /// Whether a wait of ends that share a CPU begins with a yield.
    fn offers_at(lessons: &Lessons, now: u64) -> bool {
        Wait::begin(lessons, true, || now).is_some()
    }

    #[test]
    fn a_dear_offer_is_the_last_for_as_long_as_it_took() {
        let mut lessons = Lessons::none();
        let mut wait = Wait::begin(&lessons, true, || 0).unwrap();
        assert_eq!(wait.after(false, &mut lessons, || 10_000_000), Some(End::Sleep));
        assert!(!offers_at(&lessons, 19_999_999) && offers_at(&lessons, 20_000_000));
        assert!(Wait::begin(&lessons, false, || 11_000_000).is_some(), "another CPU is another matter");
        // A process that was stopped for an hour.
        let (mut lessons, hour) = (Lessons::none(), 1 << 43);
        assert!(!lessons.has_offered(0, hour));
        assert!(offers_at(&lessons, hour + DEAREST_OFFER));
    }

    #[test]
    fn offers_that_stay_dear_cost_less_than_a_hundredth_whatever_the_cheap_ones_between_them() {
        let (mut lessons, mut now) = (Lessons::none(), 1 << 40);
        let rests = [0; 6].map(|_| {
            (0..100).for_each(|offer| assert!(lessons.has_offered(now + offer * 6_000, now + offer * 6_000 + 3_000)));
            lessons.has_offered(now + 600_000, now + 10_600_000);
            let rest = lessons.offers_resume_at - (now + 10_600_000);
            now = lessons.offers_resume_at;
            rest / 10_000_000
        });
        assert_eq!(rests, [1, 4, 16, 64, 128, 128]);
    }

    #[test]
    fn a_dear_offer_is_remembered_for_a_while_after_the_rest() {
        let (mut lessons, now) = (Lessons::none(), 1 << 40);
        assert!(!lessons.has_been_dear(now));
        lessons.has_offered(now, now + 10_000_000);
        let resumes = lessons.offers_resume_at;
        assert!(lessons.has_been_dear(resumes + DEAR_FOR - 1) && !lessons.has_been_dear(resumes + DEAR_FOR));
    }

    #[test]
    fn dear_offers_far_apart_are_each_the_first() {
        let (mut lessons, mut now) = (Lessons::none(), 1 << 40);
        for _ in 0..6 {
            lessons.has_offered(now, now + 10_000_000);
            assert_eq!(lessons.offers_resume_at, now + 20_000_000);
            now = lessons.offers_resume_at + 80_000_000;
        }
    }

    #[test]
    fn the_cost_of_waking_is_what_was_measured() {
        for truth in [12_000, 40_000, 200_000] {
            let mut lessons = Lessons::none();
            (0..100).for_each(|at| lessons.has_woken(at * 1_000_000, at * 1_000_000 + 5, at * 1_000_000 + 5 + truth));
            let found = u64::from(lessons.wake);
            assert!(found.abs_diff(truth) < truth / 8, "{found} instead of {truth}");
        }
    }

    #[test]
    fn spin_grows_after_a_sleep_that_began_a_moment_too_early() {
        let mut lessons = Lessons::none();
        (0..20).for_each(|_| lessons.has_looked(false));
        lessons.has_woken(0, 3_000_000, 3_120_000);
        assert_eq!(lessons.look, SHORTEST_LOOK, "a millisecond is not worth looking for");
        lessons.has_woken(0, 100_000, 220_000);
        assert_eq!(lessons.look, longest_look(lessons.wake), "what came after 33 microseconds is");
    }

    #[test]
    fn one_wake_up_that_waited_for_a_busy_cpu_does_not_count_for_much() {
        let mut lessons = Lessons::none();
        lessons.has_woken(0, 5, 10_000_000);
        assert!(lessons.wake < UNMEASURED_WAKE * 5 / 4, "{}", lessons.wake);
    }

    #[test]
    fn what_the_other_process_says_of_the_time_stays_within_bounds() {
        let mut lessons = Lessons::none();
        for (slept, rung, woke) in [(10, 9, 20), (10, 21, 20), (10, 0, 20), (10, u64::MAX, 20)] {
            lessons.has_woken(slept, rung, woke);
            assert_eq!(lessons, Lessons::none(), "not of this sleep");
        }
        (0..1000).for_each(|_| lessons.has_woken(0, 1, 1));
        assert_eq!(lessons.wake, SHORTEST_WAKE);
        (0..1000).for_each(|_| lessons.has_woken(0, 0, u64::MAX / 2));
        assert_eq!(lessons.wake, LONGEST_WAKE);
    }
}
