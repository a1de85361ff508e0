//! A share of a limited resource that all processes of a user have together.
//!
//! There is no counter, because a process could die without counting down. A process with a share holds a lock on as
//! many units of a byte range (`F_OFD_SETLK`), one for each [`UNIT`]; the kernel drops the lock with the last
//! descriptor. The range must lie in a file that all processes of a user can open for writing and that no process has
//! to make or remove: `/dev/null`, at offsets that no other user's processes use. A process that locks the range of
//! another user, or prevents locks altogether, only makes the others do without a share.
//!
//! Users of the same number in containers with the same `/dev/null` share one limit.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{Mode, OFlags};

use crate::Errno;
use crate::transfer::{is_locked, lock};

/// Bytes in a unit.
pub const UNIT: u64 = 64 << 10;

/// Units of one user, as a power of two: 2^24 of 64 KiB, 1 TiB.
const USER_BITS: u32 = 24;

/// Locks that a search for a free range passes at most. Every step is a system call of a microsecond.
const MOST_STEPS: u32 = 4096;

/// Part of the user's resource, for as long as the value lives. A forked child keeps its parent's share too, until it
/// drops it or executes another program.
#[derive(Debug)]
pub struct Share {
    _file: OwnedFd,
}

impl Share {
    /// Takes a share of `bytes`, rounded up to whole units, if all processes of this process's effective user then have
    /// at most `limit` bytes.
    ///
    /// # Errors
    /// `EDQUOT`: they would have more. `EMFILE`, `ENFILE`, `ENOLCK`; `ENOENT`, `EACCES`: there is no `/dev/null` for
    /// this process.
    pub fn take(bytes: u64, limit: u64) -> Result<Share, Errno> {
        Share::take_from(first_of(rustix::process::geteuid().as_raw()), bytes, limit)
    }

    fn take_from(base: u64, bytes: u64, limit: u64) -> Result<Share, Errno> {
        let (wanted, all) = (bytes.div_ceil(UNIT).max(1), (limit / UNIT).min(1 << USER_BITS));
        let last = all.checked_sub(wanted).ok_or(Errno::DQUOT)?;
        let file = open()?;
        // Room is most likely behind the last share of this process.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.load(Relaxed).min(last);
        let mut steps = 0;
        for (mut at, end) in [(next, last + 1), (0, next)] {
            while at < end && steps < MOST_STEPS {
                steps += 1;
                match lock(&file, libc::F_OFD_SETLK, libc::F_WRLCK, base + at, wanted.cast_signed()) {
                    Ok(_) => {
                        NEXT.store(at + wanted, Relaxed);
                        return Ok(Share { _file: file });
                    }
                    Err(Errno::AGAIN | Errno::ACCESS) => {}
                    Err(error) => return Err(error),
                }
                let in_the_way = lock(&file, libc::F_OFD_GETLK, libc::F_WRLCK, base + at, wanted.cast_signed())?;
                if is_locked(&in_the_way) {
                    at = range_of(&in_the_way).1.saturating_sub(base).max(at + 1);
                }
            }
        }
        Err(Errno::DQUOT)
    }
}

/// Bytes that all processes of this process's effective user have taken, in whole units.
///
/// # Errors
/// `EMFILE`, `ENFILE`; `ENOENT`, `EACCES`: there is no `/dev/null` for this process.
pub fn taken() -> Result<u64, Errno> {
    taken_from(first_of(rustix::process::geteuid().as_raw()))
}

fn taken_from(base: u64) -> Result<u64, Errno> {
    let file = open()?;
    // The kernel names any one of the locks in a range; the parts before and behind it are searched next.
    let (mut units, mut ranges) = (0, std::vec![(base, base + (1 << USER_BITS))]);
    while let Some((start, end)) = ranges.pop() {
        let found = lock(&file, libc::F_OFD_GETLK, libc::F_WRLCK, start, (end - start).cast_signed())?;
        if !is_locked(&found) {
            continue;
        }
        let (first, past) = range_of(&found);
        let (first, past) = (first.max(start), past.min(end));
        units += past.saturating_sub(first);
        ranges.extend([(start, first), (past, end)].into_iter().filter(|(start, end)| start < end));
    }
    Ok(units * UNIT)
}

fn open() -> Result<OwnedFd, Errno> {
    rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
}

/// Where the range of a user begins.
fn first_of(user: u32) -> u64 {
    u64::from(user) << USER_BITS
}

/// The first byte of a lock, and the first behind it.
fn range_of(lock: &libc::flock) -> (u64, u64) {
    let start = lock.l_start.unsigned_abs();
    (start, if lock.l_len == 0 { u64::MAX } else { start.saturating_add(lock.l_len.unsigned_abs()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// The range of a user that no other process uses: the number is made of that of this process.
    fn unused_range() -> u64 {
        first_of(1 << 31 | crate::own_pid())
    }

    #[test]
    fn shares_are_had_up_to_the_limit_and_come_back_with_their_descriptors() {
        let _guard = crate::children::none();
        let (base, limit) = (unused_range(), 50 * UNIT + 1);
        let take = |bytes| Share::take_from(base, bytes, limit);
        let mut shares: Vec<Share> = (0..5).map(|_| take(10 * UNIT - 7).unwrap()).collect();
        assert_eq!(taken_from(base), Ok(50 * UNIT));
        assert_eq!(take(1).unwrap_err(), Errno::DQUOT);
        // In the middle: another comes into the hole, one that is too large does not.
        drop(shares.remove(2));
        assert_eq!(taken_from(base), Ok(40 * UNIT));
        assert_eq!(take(10 * UNIT + 1).unwrap_err(), Errno::DQUOT);
        shares.push(take(1).unwrap());
        shares.push(take(9 * UNIT).unwrap());
        assert_eq!(take(1).unwrap_err(), Errno::DQUOT);
        assert_eq!(taken_from(base), Ok(50 * UNIT));
        drop(shares);
        assert_eq!(taken_from(base), Ok(0));
        assert_eq!(take(limit + UNIT).unwrap_err(), Errno::DQUOT);
        assert!(take(50 * UNIT).is_ok());
    }

    #[test]
    fn share_beyond_the_limit_is_refused() {
        assert_eq!(Share::take(1, UNIT - 1).unwrap_err(), Errno::DQUOT);
        assert_eq!(Share::take(0, 0).unwrap_err(), Errno::DQUOT);
    }

    #[test]
    fn taken_counts_shares_of_this_user() {
        let _share = Share::take(3 * UNIT, 1 << 40).unwrap();
        assert!(taken().unwrap() >= 3 * UNIT);
    }
}
