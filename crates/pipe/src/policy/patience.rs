//! Does what `decisions` says: spins, yields, and reads the clock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use millstream_sys::{clock, cpu};

use super::choices::WaitPolicy;
use super::crowd::{self, Seldom, Turns};
use super::decisions::{Act, End, Lessons, UNMEASURED_WAKE, Wait};
use super::gathering::{Gathering, PAUSE};
use super::quiet::Quiet;
use super::refill::{self, Refill};

/// How waiting before sleep went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// What was waited for is there.
    Found,
    /// It is time to ask the kernel, and to sleep if that knows nothing either.
    AskKernel,
    /// It is time to ask the kernel, but not to sleep.
    KeepLooking,
}

/// What was done while waiting.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effort {
    pub(crate) looks: u64,
    pub(crate) offers: u64,
    pub(crate) withheld: u64,
    pub(crate) gathered: u64,
}

/// What a wake-up costs, as this process has measured; 0 until then. All ends learn for all: a new one need not begin
/// anew. Plain numbers and no lock, so that a fork at any moment leaves them usable.
static WAKE: AtomicU32 = AtomicU32::new(0);

/// When the next yield to the other side is due, if both share a CPU.
static OFFERS_RESUME_AT: AtomicU64 = AtomicU64::new(0);

/// For how many times as long as the last long yield took there is no other; 0 before there was one.
static REST: AtomicU32 = AtomicU32::new(0);

/// TSC cycles that a wake-up from another CPU takes, if this process has seen one.
pub(crate) fn wake_ticks() -> Option<u32> {
    Some(WAKE.load(Relaxed)).filter(|&ticks| ticks > 0)
}

/// How an end waits, and what it has learnt about that.
#[derive(Debug)]
pub(crate) struct Patience {
    policy: WaitPolicy,
    /// TSC cycles of the next spin.
    look: AtomicU32,
    /// The two numbers of [`Gathering`].
    gathering: [AtomicU32; 2],
    /// Those of [`Quiet`].
    quiet_slept_after: AtomicU64,
    quiet_sleeps: AtomicU32,
    /// That of [`Turns`].
    turns: AtomicU32,
    /// The last wait beside the other side: when, in TSC cycles, and after how many reads.
    waited_at: AtomicU64,
    waited_after: AtomicU64,
    /// That of [`Seldom`].
    seldom: AtomicU32,
    /// That of [`Refill`].
    refill: AtomicU64,
}

impl Patience {
    pub(crate) fn new(policy: WaitPolicy) -> Patience {
        let Gathering { rest, next_rest } = Gathering::untried();
        let gathering = [rest, next_rest].map(AtomicU32::new);
        let Quiet { slept_after, sleeps } = Quiet::default();
        let (quiet_slept_after, quiet_sleeps) = (AtomicU64::new(slept_after), AtomicU32::new(sleeps));
        let refill = AtomicU64::new(Refill::unknown().0);
        let look = AtomicU32::new(Lessons::none().look);
        Patience {
            policy,
            look,
            gathering,
            quiet_slept_after,
            quiet_sleeps,
            turns: AtomicU32::new(Turns::unknown().0),
            waited_at: AtomicU64::new(0),
            waited_after: AtomicU64::new(0),
            seldom: AtomicU32::new(0),
            refill,
        }
    }

    pub(crate) fn policy(&self) -> WaitPolicy {
        self.policy
    }

    /// Waits until `is_over` says so, or no longer than pays. `peer_cpu` is where the other side last ran.
    pub(crate) fn look(&self, peer_cpu: Option<u32>, is_over: impl Fn() -> bool, effort: &mut Effort) -> Look {
        self.look_for_much(peer_cpu, is_over, |_| false, effort)
    }

    /// As [`look_for_much`](Self::look_for_much), by a reader that has read so many times, unless its spin would only
    /// keep the other side from running.
    pub(crate) fn look_for_bytes(
        &self,
        peer_cpu: Option<u32>,
        reads: u64,
        is_over: impl Fn() -> bool,
        is_much: impl Fn(u64) -> bool,
        effort: &mut Effort,
    ) -> Look {
        if self.policy == WaitPolicy::Adaptive && shares_cpu(peer_cpu) && self.is_in_the_way(reads, clock::ticks()) {
            effort.withheld += 1;
            return Look::AskKernel;
        }
        self.look_for_much(peer_cpu, is_over, is_much, effort)
    }

    /// A reader has waited, and found so many bytes.
    #[inline]
    pub(crate) fn found(&self, bytes: usize) {
        self.turns.store(Turns(self.turns.load(Relaxed)).after(bytes).0, Relaxed);
    }

    /// Whether a third program would take a yield of the CPU that both sides share, where it gains little: see
    /// [`crowd`].
    #[inline]
    fn is_in_the_way(&self, reads: u64, now: u64) -> bool {
        let turns = reads.wrapping_sub(self.waited_after.load(Relaxed));
        // Asked again in the same wait: as before.
        if turns > 0 {
            let ticks = now.wrapping_sub(self.waited_at.load(Relaxed));
            let seldom = Seldom(self.seldom.load(Relaxed)).after(turns, ticks);
            self.seldom.store(seldom.0, Relaxed);
            self.waited_at.store(now, Relaxed);
            self.waited_after.store(reads, Relaxed);
        }
        !Seldom(self.seldom.load(Relaxed)).is_certain()
            && Turns(self.turns.load(Relaxed)).are_taken()
            && crowd::has_contention(now, || self.lessons().has_been_dear(now))
    }

    /// As [`look`](Self::look). `is_much` tells whether the other side has done so much on a CPU that was yielded for
    /// so many TSC cycles that the yield was worth its time. Then it does not count as long.
    pub(crate) fn look_for_much(
        &self,
        peer_cpu: Option<u32>,
        is_over: impl Fn() -> bool,
        is_much: impl Fn(u64) -> bool,
        effort: &mut Effort,
    ) -> Look {
        if self.policy == WaitPolicy::Block {
            return Look::AskKernel;
        }
        let before = self.lessons();
        let mut lessons = before;
        if self.policy == WaitPolicy::Spin {
            lessons.always_wait();
        }
        let Some(mut wait) = Wait::begin(&lessons, shares_cpu(peer_cpu), clock::ticks) else {
            effort.withheld += 1;
            return Look::AskKernel;
        };
        let end = loop {
            let is_over = match wait.act() {
                Act::Look => looks(&is_over, effort),
                Act::Offer => {
                    effort.offers += 1;
                    let offered_at = clock::ticks();
                    cpu::give_way();
                    let is_over = is_over();
                    if is_over && is_much(clock::ticks().wrapping_sub(offered_at)) {
                        break End::Found;
                    }
                    is_over
                }
            };
            if let Some(end) = wait.after(is_over, &mut lessons, clock::ticks) {
                break end;
            }
        };
        match (self.policy, end) {
            (WaitPolicy::Spin, End::Found) => Look::Found,
            (WaitPolicy::Spin, End::Sleep) => Look::KeepLooking,
            (_, end) => {
                self.remember(before, lessons);
                if end == End::Found { Look::Found } else { Look::AskKernel }
            }
        }
    }

    /// Whether a reader is better off if it batches: looks for bytes only when some have gathered.
    #[inline]
    pub(crate) fn has_seen_gathering_pay(&self) -> bool {
        self.gathering[0].load(Relaxed) == 0
    }

    /// After a look that found bytes: waits a little longer while more come, if that pays. `waiting` counts them; with
    /// `enough` of them the writer may soon have to wait.
    pub(crate) fn let_gather(
        &self,
        peer_cpu: Option<u32>,
        waiting: impl Fn() -> usize,
        enough: usize,
        effort: &mut Effort,
    ) {
        let [rest, next_rest] = &self.gathering;
        let mut gathering = Gathering { rest: rest.load(Relaxed), next_rest: next_rest.load(Relaxed) };
        if gathering.begins() && self.policy == WaitPolicy::Adaptive && !shares_cpu(peer_cpu) {
            effort.gathered += 1;
            let start = clock::ticks();
            let (mut before, mut now) = (waiting(), start);
            while before < enough {
                now = pause(now);
                let seen = waiting();
                if !gathering.goes_on(seen > before, now.wrapping_sub(start), seen >= enough) {
                    break;
                }
                before = seen;
            }
        }
        rest.store(gathering.rest, Relaxed);
        next_rest.store(gathering.next_rest, Relaxed);
    }

    /// Whether the other side cannot be running at this moment, as far as it was seen.
    #[inline]
    pub(crate) fn shares_cpu(&self, peer_cpu: Option<u32>) -> bool {
        shares_cpu(peer_cpu)
    }

    /// Whether the next wait of a reader for a few bytes begins with sleep: a spin would only keep the other side
    /// from running, and so would a yield.
    #[inline]
    pub(crate) fn sleeps_next(&self, peer_cpu: Option<u32>, reads: u64) -> bool {
        match self.policy {
            WaitPolicy::Spin => false,
            WaitPolicy::Block => true,
            WaitPolicy::Adaptive if !shares_cpu(peer_cpu) => false,
            WaitPolicy::Adaptive => {
                let now = clock::ticks();
                self.is_in_the_way(reads, now) || self.lessons().rests(now)
            }
        }
    }

    /// A reader to which so many bytes have come in all is about to sleep. Returns whether its pipe enters idle mode
    /// or, if it was idle already, stays idle.
    pub(crate) fn finds_it_quiet(&self, bytes: u64, was_quiet: bool) -> bool {
        let mut quiet =
            Quiet { slept_after: self.quiet_slept_after.load(Relaxed), sleeps: self.quiet_sleeps.load(Relaxed) };
        let is_quiet = if was_quiet { quiet.will_sleep_on(bytes) } else { quiet.will_sleep(bytes) };
        self.quiet_slept_after.store(quiet.slept_after, Relaxed);
        self.quiet_sleeps.store(quiet.sleeps, Relaxed);
        is_quiet
    }

    /// How long a writer may sleep until the low-water mark, if it may: if so much room is free soon.
    pub(crate) fn waits_for_low_water(&self) -> Option<Duration> {
        Refill(self.refill.load(Relaxed)).is_soon().then_some(refill::LONGEST)
    }

    /// After a writer's sleep of so many TSC cycles in which `freed` bytes became free.
    pub(crate) fn room_came(&self, ticks: u64, freed: usize, refill: usize) {
        self.refill.store(Refill::after_sleep(ticks, freed, refill).0, Relaxed);
    }

    /// After a sleep: the other side notified at `rung_at`, if it did.
    pub(crate) fn woke(&self, slept_at: u64, rung_at: u64, peer_cpu: Option<u32>) {
        let mut lessons = self.lessons();
        let before = lessons;
        if !shares_cpu(peer_cpu) {
            lessons.has_woken(slept_at, rung_at, clock::ticks());
        }
        self.remember(before, lessons);
    }

    fn lessons(&self) -> Lessons {
        Lessons {
            wake: wake_ticks().unwrap_or(UNMEASURED_WAKE),
            look: self.look.load(Relaxed),
            offers_resume_at: OFFERS_RESUME_AT.load(Relaxed),
            rest: REST.load(Relaxed),
        }
    }

    /// Stores only what has changed: the words are shared by the threads of this process.
    fn remember(&self, before: Lessons, after: Lessons) {
        if after.look != before.look {
            self.look.store(after.look, Relaxed);
        }
        if after.wake != before.wake {
            WAKE.store(after.wake, Relaxed);
        }
        if after.offers_resume_at != before.offers_resume_at {
            OFFERS_RESUME_AT.store(after.offers_resume_at, Relaxed);
        }
        if after.rest != before.rest {
            REST.store(after.rest, Relaxed);
        }
    }
}

/// Looks a few times, for as long as reading the clock takes, about.
fn looks(is_over: &impl Fn() -> bool, effort: &mut Effort) -> bool {
    for _ in 0..8 {
        effort.looks += 1;
        if is_over() {
            return true;
        }
        std::hint::spin_loop();
    }
    false
}

/// Touches nothing that is shared for a while; returns the time.
fn pause(since: u64) -> u64 {
    loop {
        (0..8).for_each(|_| std::hint::spin_loop());
        let now = clock::ticks();
        if now.wrapping_sub(since) >= PAUSE {
            return now;
        }
    }
}

/// Whether the other side cannot be running at this moment. If its CPU has not been seen yet it is taken to be where
/// this thread may be: both have their allowed CPUs from the process that started them.
fn shares_cpu(peer_cpu: Option<u32>) -> bool {
    match peer_cpu {
        Some(peer) => peer == cpu::current(),
        None => cpu::is_bound_to_one(),
    }
}
