//! A lock in shared memory that is free again when its owner dies.
//!
//! The word is a robust futex to the kernel (`set_robust_list(2)`). It holds the number of the owning thread and a bit
//! for "others wait". When the owner has died, the kernel sets another bit in place of the number. Nothing needs to be
//! repaired then: a side stores its position last, in one store, so what the dead owner was doing has happened or has
//! not. The one exception is the count of readiness bytes, for which [`Guard::owner_died`] exists.

use crate::error::RingError;
use crate::sync::{AtomicU32, Ordering, light_fence, spin_loop};

const OTHERS_WAIT: u32 = 1 << 31;
const OWNER_DIED: u32 = 1 << 30;
const OWNER: u32 = OWNER_DIED - 1;

/// A few hundred nanoseconds: as long as an owner on another CPU needs to copy a small write.
#[cfg(not(loom))]
const SPINS: u32 = 100;
#[cfg(loom)]
const SPINS: u32 = 0;

/// What a lock needs from the system that it lives in.
pub trait Parking {
    /// What `announce` returns and `restore` takes back.
    type Announced: Copy;

    /// The number of the calling thread: not 0, below 2^30.
    fn owner(&self) -> u32;

    /// Tells the kernel which word the thread may hold if it dies. Returns what was announced before.
    fn announce(&self, word: &AtomicU32) -> Self::Announced;

    /// Announces what was announced before `word`, if that is what is announced now.
    fn restore(&self, word: &AtomicU32, before: Self::Announced);

    /// Sleeps while `word` holds `expected`; may return at any time.
    fn park(&self, word: &AtomicU32, expected: u32, owner: u32) -> Parked;

    /// Wakes one thread that is parked at `word`.
    fn unpark_one(&self, word: &AtomicU32);

    /// Whether [`fence_everywhere`](Self::fence_everywhere) reaches the calling thread, whichever thread calls it.
    fn can_be_fenced(&self) -> bool;

    /// Called before each use of a lock that no thread owns, while this thread does not hold it. Here is time for slow
    /// work, if [`wants_for_itself`](Self::wants_for_itself) found that something is missing.
    fn prepare_to_own(&self);

    /// Whether a lock that the calling thread uses alone should become its own. If so, the thread can be fenced.
    fn wants_for_itself(&self) -> bool;

    /// Returns when this thread, and every thread that can be fenced, has passed a full fence during the call.
    fn fence_everywhere(&self);
}

/// Why a thread is no longer parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parked {
    /// The word may have changed.
    LookAgain,
    /// The owner is dead and the kernel did not know that it held the lock.
    OwnerIsGone,
    /// Waiting any longer will not help.
    GiveUp,
}

fn is_free_or_of_dead(word: u32) -> bool {
    word & OWNER == 0 || word & OWNER_DIED != 0
}

/// The word of the lock. Zero: the lock is free.
#[repr(transparent)]
#[derive(Debug)]
pub struct Lock(AtomicU32);

impl Lock {
    pub(crate) fn new() -> Lock {
        Lock(AtomicU32::new(0))
    }

    /// Waits for the lock. Only threads of the same side hold it, and never while they sleep.
    ///
    /// # Errors
    /// [`RingError`] when `parking` gives up.
    #[inline]
    pub(crate) fn acquire<'a, P: Parking>(&'a self, parking: &'a P) -> Result<Guard<'a, P>, RingError> {
        // E4: announced before this thread takes the word, so that there is no instant at which the kernel would miss a
        // death.
        let before = parking.announce(&self.0);
        let me = parking.owner();
        // E5 with `Guard::drop`: this thread sees what the last owner wrote under the lock.
        let owner_died = match self.0.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => false,
            Err(_) => self.acquire_contended(parking, me).inspect_err(|_| parking.restore(&self.0, before))?,
        };
        Ok(Guard { lock: self, reserved: None, parking, before, owner_died })
    }

    /// The lock, if it is free or its owner has died; never waits.
    pub(crate) fn try_acquire<'a, P: Parking>(&'a self, parking: &'a P) -> Option<Guard<'a, P>> {
        let word = self.0.load(Ordering::Relaxed);
        if !is_free_or_of_dead(word) {
            return None;
        }
        // E4 and E5 as in `acquire`. The bit stays set, so releasing the lock wakes a waiter.
        let before = parking.announce(&self.0);
        let wanted = parking.owner() | word & OTHERS_WAIT;
        match self.0.compare_exchange(word, wanted, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Some(Guard { lock: self, reserved: None, parking, before, owner_died: word & OWNER_DIED != 0 }),
            Err(_) => {
                parking.restore(&self.0, before);
                None
            }
        }
    }

    /// Takes a word that `owner` reserves for this thread, without a locked instruction; `None` if `owner` no longer
    /// does.
    ///
    /// # Errors
    /// [`RingError`] if this very thread holds it: a signal handler has interrupted it.
    #[inline]
    pub(crate) fn enter<'a, P: Parking>(
        &'a self,
        parking: &'a P,
        owner: &'a AtomicU32,
    ) -> Result<Option<Guard<'a, P>>, RingError> {
        let me = parking.owner();
        match self.0.load(Ordering::Relaxed) {
            0 => {}
            word if word & OWNER == me && word & OWNER_DIED == 0 => return Err(RingError),
            // A thread with the same number died here, or a hostile process wrote the word.
            _ => return Ok(None),
        }
        let before = parking.announce(&self.0);
        self.0.store(me, Ordering::Relaxed);
        // E8 with `BiasedLock::take_back`.
        light_fence();
        let guard = Guard { lock: self, reserved: Some(owner), parking, before, owner_died: false };
        // Dropping the guard wakes a thread that has seen this one inside.
        Ok((owner.load(Ordering::Relaxed) == me).then_some(guard))
    }

    /// Puts a guard together again that was taken apart.
    #[inline]
    pub(crate) fn guard_of<'a, P: Parking>(&'a self, parking: &'a P, (before, owner_died): Parts<P>) -> Guard<'a, P> {
        Guard { lock: self, reserved: None, parking, before, owner_died }
    }

    /// Whether the thread that entered the lock has left it, or is dead.
    pub(crate) fn is_left(&self) -> bool {
        // E5 with `Guard::drop`.
        is_free_or_of_dead(self.0.load(Ordering::Acquire))
    }

    /// Waits until the thread that entered the lock has left it, or is dead. This only loads the word: it is one
    /// thread's own, which stores to it plainly. So nothing wakes the waiter if that thread dies inside, and the waiter
    /// checks again after a moment instead.
    ///
    /// # Errors
    /// [`RingError`] when `parking` gives up, or the word names this very thread.
    pub(crate) fn wait_until_left<P: Parking>(&self, parking: &P) -> Result<(), RingError> {
        let me = parking.owner();
        loop {
            // Loaded once: nothing wakes a thread that sleeps at a free lock, and a free lock has no owner that could
            // be dead.
            let word = self.0.load(Ordering::Relaxed);
            if is_free_or_of_dead(word) {
                // The thread that left has woken one waiter, and others may wait.
                parking.unpark_one(&self.0);
                return Ok(());
            }
            if word & OWNER == me {
                // A hostile process wrote this thread's number: the thread was not inside when it began to wait.
                return Err(RingError);
            }
            match parking.park(&self.0, word, word & OWNER) {
                Parked::LookAgain => {}
                // The kernel did not know: this does what it would have done for the dead owner.
                Parked::OwnerIsGone => {
                    let _ = self.0.compare_exchange(word, OWNER_DIED, Ordering::Relaxed, Ordering::Relaxed);
                }
                Parked::GiveUp => return Err(RingError),
            }
        }
    }

    /// Whether the word holds this number.
    pub(crate) fn is_held_by(&self, me: u32) -> bool {
        self.0.load(Ordering::Relaxed) & OWNER == me
    }

    #[cold]
    fn acquire_contended<P: Parking>(&self, parking: &P, me: u32) -> Result<bool, RingError> {
        for _ in 0..SPINS {
            spin_loop();
            if self.0.load(Ordering::Relaxed) == 0
                && self.0.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return Ok(false);
            }
        }
        loop {
            let word = self.0.load(Ordering::Relaxed);
            let owner = word & OWNER;
            if owner == 0 || word & OWNER_DIED != 0 {
                // Others may wait, and only the word that this replaces says so.
                if self.0.compare_exchange(word, me | OTHERS_WAIT, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Ok(word & OWNER_DIED != 0);
                }
                continue;
            }
            if owner == me {
                // A signal handler interrupted this very thread while it held the lock, and would wait for ever.
                return Err(RingError);
            }
            let waited_for = word | OTHERS_WAIT;
            if word != waited_for
                && self.0.compare_exchange(word, waited_for, Ordering::Relaxed, Ordering::Relaxed).is_err()
            {
                continue;
            }
            match parking.park(&self.0, waited_for, owner) {
                Parked::LookAgain => {}
                Parked::OwnerIsGone => {
                    let freed = OTHERS_WAIT | OWNER_DIED;
                    let _ = self.0.compare_exchange(waited_for, freed, Ordering::Relaxed, Ordering::Relaxed);
                }
                Parked::GiveUp => return Err(RingError),
            }
        }
    }

    /// For tests and models: the lock as the kernel leaves it when its owner has died.
    pub fn abandon(&self) {
        self.0.fetch_and(OTHERS_WAIT, Ordering::Relaxed);
        self.0.fetch_or(OWNER_DIED, Ordering::Release);
    }
}

/// The lock, held.
pub struct Guard<'a, P: Parking> {
    lock: &'a Lock,
    /// For a lock that was entered: the word that names its owner.
    reserved: Option<&'a AtomicU32>,
    parking: &'a P,
    before: P::Announced,
    owner_died: bool,
}

/// What a [`Guard`] of a lock that was not entered holds beside the lock. Until the parts are a guard again, the lock
/// stays held.
pub(crate) type Parts<P> = (<P as Parking>::Announced, bool);

impl<P: Parking> Guard<'_, P> {
    pub(crate) fn into_parts(self) -> Parts<P> {
        let parts = (self.before, self.owner_died);
        core::mem::forget(self);
        parts
    }

    /// Whether the lock is the thread's own: then no other thread has held it since this thread last did.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.reserved.is_some()
    }

    /// The number of the thread that holds the lock.
    pub(crate) fn owner(&self) -> u32 {
        self.parking.owner()
    }

    /// Whether the previous owner died holding the lock.
    pub(crate) fn owner_died(&self) -> bool {
        self.owner_died
    }
}

impl<P: Parking> Drop for Guard<'_, P> {
    #[inline]
    fn drop(&mut self) {
        let others_wait = match self.reserved {
            // E5 with `acquire`. A swap, because another thread may set the bit at this moment. It is also half of E3,
            // see `fence_after_unlock`.
            None => self.lock.0.swap(0, Ordering::Release) & OTHERS_WAIT != 0,
            Some(owner) => {
                // E5 with `wait_until_left`.
                self.lock.0.store(0, Ordering::Release);
                // E8 with `BiasedLock::take_back`.
                light_fence();
                owner.load(Ordering::Relaxed) != self.parking.owner()
            }
        };
        if others_wait {
            self.parking.unpark_one(&self.lock.0);
        }
        // Only now: if this thread dies between the swap and the wake-up, the kernel wakes in its place.
        self.parking.restore(&self.lock.0, self.before);
    }
}

impl<P: Parking> core::fmt::Debug for Guard<'_, P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Guard").field("owner_died", &self.owner_died).finish_non_exhaustive()
    }
}
