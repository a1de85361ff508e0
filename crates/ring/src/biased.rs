//! A lock that costs its one steady user no locked instruction, and is an ordinary [`Lock`] to every other thread.
//!
//! A locked instruction waits until every store before it has reached the other CPU. At a small write that takes longer
//! than the copy. Most sides of most pipes have one user. So a thread that has used the lock alone for a while makes it
//! its own: from then on it enters by a plain store to `inside`. Any other thread takes `shared`, stores that it wants
//! the lock back, has every CPU pass a fence ([`Parking::fence_everywhere`]), and waits until `inside` is free.
//!
//! ```text
//!    owner                                       another thread, holding `shared`
//!    ─────                                       ────────────────────────────────
//!    store inside = me                           store owner = WANTED
//!    ──── for the compiler only ────             ──── fence on every CPU ────
//!    load owner: still me? then inside           load inside: 0? then the owner is not and will not be
//!    ...                                         otherwise wait for it
//!    store inside = 0
//!    ──── for the compiler only ────
//!    load owner: not me? wake
//! ```
//!
//! This is edge E8. After the fence on every CPU, either the other thread sees the owner's store to `inside`, or the
//! owner's load sees `WANTED`. The idea is that of biased locking (Kawachiya, Koseki and Onodera, Lock Reservation,
//! OOPSLA 2002), with the fence of `membarrier(2)` in place of stopping threads.

use crate::error::RingError;
use crate::lock::{Guard, Lock, Parking, Parts};
use crate::sync::{AtomicU32, Ordering, fence};

/// Beside the owner's number: another thread wants the lock back.
const WANTED: u32 = 1 << 31;

/// Beside the owner's number: the owner has lost the lock. Only the same thread may make it its own again. If that
/// thread is interrupted at the wrong moment, its store to `inside` may come at any time, and must not hit a word that
/// another thread owns.
const RETURNED: u32 = 1 << 30;

/// Uses by one thread in a row before the lock becomes its own. The number doubles each time that another thread wants
/// the lock back, because that costs about as much as a thousand uses.
#[cfg(not(loom))]
const USES: u32 = 64;
#[cfg(loom)]
const USES: u32 = 1;

/// All zeros: the lock is free and has no owner.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct BiasedLock {
    pub(crate) shared: Lock,
    /// Held by the owner while it is inside: a robust futex, as `shared` is.
    pub(crate) inside: Lock,
    /// 0 before there was an owner; then its number, alone or with [`WANTED`] or [`RETURNED`]. Written under `shared`.
    pub(crate) owner: AtomicU32,
    /// The thread that held `shared` last, and how often in a row. Written under `shared`.
    pub(crate) last: AtomicU32,
    pub(crate) uses: AtomicU32,
    /// How often another thread has wanted the lock back. Written under `shared`.
    pub(crate) returns: AtomicU32,
}

impl BiasedLock {
    pub(crate) fn new() -> BiasedLock {
        let word = || AtomicU32::new(0);
        let (shared, inside) = (Lock::new(), Lock::new());
        BiasedLock { shared, inside, owner: word(), last: word(), uses: word(), returns: word() }
    }

    /// As [`Lock::acquire`]. Before the lock becomes this thread's own, this calls `prepare` with the lock held.
    /// `prepare` returns whether the thread may own it.
    #[inline]
    pub(crate) fn acquire<'a, P: Parking>(
        &'a self,
        parking: &'a P,
        prepare: impl FnOnce() -> bool,
    ) -> Result<Guard<'a, P>, RingError> {
        match self.enter(parking)? {
            Some(guard) => Ok(guard),
            // In parts, which fit into registers: a guard in memory would be read before its stores have completed.
            None => {
                let parts = self.acquire_shared(parking, parking.owner(), prepare)?;
                Ok(self.shared.guard_of(parking, parts))
            }
        }
    }

    /// The lock, if it is this thread's own and no other thread has wanted it back. Never waits.
    #[inline]
    pub(crate) fn enter_own<'a, P: Parking>(&'a self, parking: &'a P) -> Option<Guard<'a, P>> {
        // A signal handler that finds its thread inside does without.
        self.enter(parking).ok().flatten()
    }

    #[inline]
    fn enter<'a, P: Parking>(&'a self, parking: &'a P) -> Result<Option<Guard<'a, P>>, RingError> {
        let me = parking.owner();
        // Not in a signal handler that interrupts this thread in the very use with which the lock became its own.
        let is_own = self.owner.load(Ordering::Relaxed) == me && !self.shared.is_held_by(me) && parking.can_be_fenced();
        if is_own { self.inside.enter(parking, &self.owner) } else { Ok(None) }
    }

    /// The lock, if no thread has it at this moment. Never waits, but takes a lock back whose owner is not inside.
    pub(crate) fn try_acquire<'a, P: Parking>(&'a self, parking: &'a P) -> Option<Guard<'a, P>> {
        let guard = self.shared.try_acquire(parking)?;
        let owner = self.owner.load(Ordering::Relaxed);
        let has_no_owner = owner == 0 || owner & RETURNED != 0 || self.take_back(parking, owner).is_some();
        has_no_owner.then_some(guard)
    }

    #[inline(never)]
    fn acquire_shared<'a, P: Parking>(
        &'a self,
        parking: &'a P,
        me: u32,
        prepare: impl FnOnce() -> bool,
    ) -> Result<Parts<P>, RingError> {
        if self.inside.is_held_by(me) {
            // A signal handler, as in `Lock::acquire`: a thread that wants the lock back would wait for itself.
            return Err(RingError);
        }
        parking.prepare_to_own();
        let (guard, owner) = loop {
            let guard = self.shared.acquire(parking)?;
            let owner = self.owner.load(Ordering::Relaxed);
            if owner == 0 || owner & RETURNED != 0 {
                break (guard, owner);
            }
            if let Some(returned) = self.take_back(parking, owner) {
                break (guard, returned);
            }
            // Not while holding `shared`: other threads would see a holder that is neither stopped nor makes progress.
            drop(guard);
            self.inside.wait_until_left(parking)?;
        };
        if self.last.load(Ordering::Relaxed) != me {
            self.last.store(me, Ordering::Relaxed);
            self.uses.store(0, Ordering::Relaxed);
        }
        let uses = self.uses.load(Ordering::Relaxed).saturating_add(1);
        self.uses.store(uses, Ordering::Relaxed);
        let enough = USES << self.returns.load(Ordering::Relaxed).min(20);
        if uses >= enough && (owner == 0 || owner == me | RETURNED) && parking.wants_for_itself() && prepare() {
            self.owner.store(me, Ordering::Relaxed);
            // E3: a waiter that counts itself from here on sees the owner, and fences for it.
            fence(Ordering::SeqCst);
        }
        Ok(guard.into_parts())
    }

    /// With `shared` held. Returns the new word if the owner is not inside: then it will not enter either. Otherwise
    /// the lock stays wanted.
    #[cold]
    fn take_back<P: Parking>(&self, parking: &P, owner: u32) -> Option<u32> {
        self.owner.store(owner | WANTED, Ordering::Relaxed);
        // E8 with `Lock::enter` and `Guard::drop`. Also if the word says `WANTED` already: the thread that stored it
        // may have died here.
        parking.fence_everywhere();
        if !self.inside.is_left() {
            return None;
        }
        self.returns.store(self.returns.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        self.uses.store(0, Ordering::Relaxed);
        let returned = owner & !WANTED | RETURNED;
        // E3: until this store a waiter still sees the owner, whose last change may not be visible yet.
        self.owner.store(returned, Ordering::Release);
        Some(returned)
    }

    /// For a waiter that has counted itself and passed a full fence. Afterwards the owner, if there is one, either sees
    /// the count or has made its change visible.
    #[inline]
    pub(crate) fn fence_for_owner(&self, parking: &impl Parking) {
        // E3 with `take_back`.
        let owner = self.owner.load(Ordering::Acquire);
        if owner != 0 && owner & RETURNED == 0 {
            parking.fence_everywhere();
        }
    }

    /// For tests and models: as [`Lock::abandon`], of whichever word the dead owner held.
    pub(crate) fn abandon(&self, me: u32) {
        if self.inside.is_held_by(me) { self.inside.abandon() } else { self.shared.abandon() }
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use super::*;
    use crate::lock::Parked;
    use core::cell::Cell;

    /// A thread with a number, which counts how often it has fenced the others.
    pub(crate) struct Somebody {
        number: u32,
        pub(crate) fences: Cell<u32>,
        /// Whether `park` makes the word name the parked thread.
        is_deceived: Cell<bool>,
    }

    pub(crate) fn thread(number: u32) -> Somebody {
        Somebody { number, fences: Cell::new(0), is_deceived: Cell::new(false) }
    }

    impl Parking for Somebody {
        type Announced = ();

        fn owner(&self) -> u32 {
            self.number
        }

        fn announce(&self, _: &AtomicU32) {}

        fn restore(&self, _: &AtomicU32, (): ()) {}

        fn park(&self, word: &AtomicU32, _: u32, owner: u32) -> Parked {
            assert_ne!(owner, self.number, "a thread waits for itself");
            if self.is_deceived.get() {
                word.store(self.number, Ordering::Relaxed);
                return Parked::LookAgain;
            }
            Parked::GiveUp
        }

        fn unpark_one(&self, _: &AtomicU32) {}

        fn can_be_fenced(&self) -> bool {
            true
        }

        fn prepare_to_own(&self) {}

        fn wants_for_itself(&self) -> bool {
            true
        }

        fn fence_everywhere(&self) {
            self.fences.set(self.fences.get() + 1);
        }
    }

    fn acquire<'a>(lock: &'a BiasedLock, thread: &'a Somebody) -> Result<Guard<'a, Somebody>, RingError> {
        lock.acquire(thread, || true)
    }

    fn uses_until_own(lock: &BiasedLock, thread: &Somebody) -> Option<usize> {
        (0..10_000).find(|_| acquire(lock, thread).unwrap().is_own())
    }

    #[test]
    fn a_lock_becomes_its_users_own_and_is_given_back() {
        let (lock, steady, other) = (BiasedLock::new(), thread(1), thread(2));
        assert_eq!(uses_until_own(&lock, &steady), Some(64));
        assert!(!acquire(&lock, &other).unwrap().is_own());
        assert_eq!((steady.fences.get(), other.fences.get()), (0, 1));
        assert_eq!(uses_until_own(&lock, &other), None, "it is never another's");
        assert_eq!(uses_until_own(&lock, &steady), Some(128), "twice as many uses the next time");
        assert_eq!(other.fences.get(), 1);
    }

    #[test]
    fn try_acquire_succeeds_while_no_thread_is_inside() {
        let (lock, steady, other) = (BiasedLock::new(), thread(1), thread(2));
        assert!(lock.try_acquire(&other).is_some());
        let held = acquire(&lock, &steady).unwrap();
        assert!(lock.try_acquire(&other).is_none() && lock.try_acquire(&steady).is_none());
        drop(held);
        uses_until_own(&lock, &steady);
        let inside = acquire(&lock, &steady).unwrap();
        assert!(inside.is_own() && lock.try_acquire(&other).is_none() && lock.try_acquire(&steady).is_none());
        drop(inside);
        assert!(!lock.try_acquire(&other).unwrap().is_own());
        assert!(!acquire(&lock, &steady).unwrap().is_own(), "it was taken back");
    }

    #[test]
    fn waiter_fences_owner_and_no_other_thread() {
        let (lock, steady, waiter) = (BiasedLock::new(), thread(1), thread(2));
        lock.fence_for_owner(&waiter);
        assert_eq!(waiter.fences.get(), 0);
        uses_until_own(&lock, &steady);
        lock.fence_for_owner(&waiter);
        assert_eq!(waiter.fences.get(), 1);
        drop(acquire(&lock, &waiter).unwrap());
        lock.fence_for_owner(&waiter);
        assert_eq!(waiter.fences.get(), 2, "one to take it back, none after");
    }

    #[test]
    fn acquire_fails_in_signal_handler_of_owner() {
        let (lock, steady) = (BiasedLock::new(), thread(1));
        uses_until_own(&lock, &steady);
        let inside = acquire(&lock, &steady).unwrap();
        assert!(inside.is_own() && acquire(&lock, &steady).is_err());
        drop(inside);
        assert!(acquire(&lock, &steady).is_ok());
    }

    #[test]
    fn acquire_fails_in_signal_handler_while_lock_becomes_own() {
        let (lock, steady) = (BiasedLock::new(), thread(1));
        (1..64).for_each(|_| drop(acquire(&lock, &steady).unwrap()));
        let inside = acquire(&lock, &steady).unwrap();
        assert!(!inside.is_own() && acquire(&lock, &steady).is_err());
        drop(inside);
        assert!(acquire(&lock, &steady).unwrap().is_own());
    }

    #[test]
    fn acquire_fails_when_word_names_the_waiter() {
        for is_own in [false, true] {
            let (lock, steady, other) = (BiasedLock::new(), thread(1), thread(2));
            if is_own {
                uses_until_own(&lock, &steady);
            }
            let inside = acquire(&lock, &steady).unwrap();
            assert_eq!(inside.is_own(), is_own);
            other.is_deceived.set(true);
            assert!(acquire(&lock, &other).is_err());
        }
    }

    #[test]
    fn dead_owner_inside_does_not_block_others() {
        let (lock, steady, other) = (BiasedLock::new(), thread(1), thread(2));
        uses_until_own(&lock, &steady);
        core::mem::forget(acquire(&lock, &steady).unwrap());
        assert!(acquire(&lock, &other).is_err(), "it is alive, as far as is known");
        lock.abandon(1);
        assert!(!acquire(&lock, &other).unwrap().is_own());
        assert_eq!(uses_until_own(&lock, &steady), None, "one of the same number finds the word taken");
    }
}
