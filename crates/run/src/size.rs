//! How large the pipes of a run are.
//!
//! Three things decide, in this order (pipes of programs that make threads get the kernel's size back, see `preload/src/pipes.rs`):
//!
//! - **The cache.** What waits in a pipe should still be in the second-level cache when it is read, beside the buffers of
//!   both programs: a quarter of that cache. At least 256 KiB, because the common programs move 128 KiB in a call, and
//!   a pipe that holds two such blocks lets writer and reader go on without waking each other: over 50 MB from `cat` to
//!   `cat` on two CPUs the writer slept 653 times with 64 KiB, 36 times with 128 KiB, twice with 256 KiB and twice with
//!   1 MiB. (AMD EPYC, family 26, 1 MiB of L2, Linux 6.18.) On one CPU no size from 128 KiB to 1 MiB lost anything there.
//! - **The system's limit** for one pipe, `/proc/sys/fs/pipe-max-size`.
//! - **The user's quota.** All pipes of an unprivileged user together may hold `/proc/sys/fs/pipe-user-pages-soft` pages;
//!   past that, new pipes get two pages, also in programs that have nothing to do with us. So each process enlarges a pipe only while
//!   an eighth of the quota is left (`preload/src/quota.rs`), however many processes the run has.

use millstream_sys::settings::{LedgerAddress, Ring, Settings, Sizing};
use millstream_sys::{machine, pipe, quota};

/// See above.
const LEAST: u64 = 256 << 10;
/// The kernel's default for the largest pipe of an unprivileged user.
const MOST: u64 = 1 << 20;
/// The smallest that there is: with larger pages the quota is larger, and the same is left of it.
const PAGE_BYTES: u64 = 4096;
/// Of the usual quota of 64 MiB an eighth: 128 pipes as the kernel makes them.
const RESERVE_MOST: u64 = quota::PIECES as u64 * MOST;
/// The part of the quota that the run leaves to others.
const RESERVED_PART: u64 = 8;

/// What the programs are told about pipes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan(Sizing);

impl Plan {
    /// The user said how large.
    pub fn fixed(bytes: u64) -> Plan {
        let limits = Limits::look();
        Plan(Sizing { bytes, is_chosen: true, reserve: limits.reserve(), is_exempt: limits.is_exempt })
    }

    /// For this machine and user, as they are now.
    pub fn for_this_machine() -> Plan {
        plan(machine::second_level_cache_bytes(), &Limits::look(), |bytes| quota::has_left(bytes as usize))
    }

    /// Bytes of each pipe; 0 leaves them alone.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// What the programs of the run are told.
    pub fn settings<'a>(&self, ledger: Option<LedgerAddress<'a>>, ring: Option<Ring>) -> Settings<'a> {
        Settings { sizing: self.0, flushes_lines: false, ledger, ring }
    }

    /// Pipes that were on the standard input and output before us. Others may have chosen their size: then it stays.
    pub fn enlarge_standing_pipes(&self) {
        for end in machine::standing_ends() {
            if self.bytes() > 0 && pipe::is_untouched(end) {
                pipe::request_capacity(end, self.bytes() as usize);
            }
        }
    }
}

/// What the system lets this user's pipes hold.
struct Limits {
    /// One pipe.
    pipe_bytes: u64,
    /// All of them, if there is such a limit.
    quota_bytes: Option<u64>,
    /// For this user there is none.
    is_exempt: bool,
}

/// `has_left`: whether the quota has so much left.
fn plan(cache_bytes: Option<u64>, limits: &Limits, has_left: impl FnOnce(u64) -> bool) -> Plan {
    let wanted = cache_bytes.map_or(LEAST, |cache| previous_power_of_two(cache / 4).clamp(LEAST, MOST));
    let bytes = wanted.min(previous_power_of_two(limits.pipe_bytes));
    let reserve = limits.reserve();
    if bytes <= pipe::DEFAULT_CAPACITY as u64 || reserve > 0 && !limits.is_exempt && !has_left(reserve) {
        return Plan::default();
    }
    Plan(Sizing { bytes, is_chosen: false, reserve, is_exempt: limits.is_exempt })
}

fn previous_power_of_two(number: u64) -> u64 {
    number.checked_ilog2().map_or(0, |log| 1 << log)
}

impl Limits {
    fn look() -> Limits {
        let limit = |path| machine::number_in(path).filter(|&pages| pages != 0);
        let limits = [limit(c"/proc/sys/fs/pipe-user-pages-soft"), limit(c"/proc/sys/fs/pipe-user-pages-hard")];
        Limits {
            pipe_bytes: machine::number_in(c"/proc/sys/fs/pipe-max-size").unwrap_or(MOST),
            quota_bytes: limits.into_iter().flatten().min().map(|pages| pages * PAGE_BYTES),
            // Root of a user namespace has the capability and is refused all the same.
            is_exempt: machine::may_exceed_pipe_quota() && machine::is_in_initial_user_namespace(),
        }
    }

    /// What others keep of the quota: pieces that one pipe can hold. 0 without a quota.
    fn reserve(&self) -> u64 {
        let Some(quota) = self.quota_bytes else { return 0 };
        let piece = quota.min(RESERVED_PART * RESERVE_MOST) / RESERVED_PART / quota::PIECES as u64;
        previous_power_of_two(piece.min(self.pipe_bytes)).max(pipe::DEFAULT_CAPACITY as u64) * quota::PIECES as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Limits = Limits { pipe_bytes: 1 << 20, quota_bytes: None, is_exempt: false };
    const CACHE: Option<u64> = Some(1 << 20);
    const QUOTA: Option<u64> = Some(64 << 20);

    #[test]
    fn a_quarter_of_the_cache_within_bounds() {
        let bytes = |cache_bytes| plan(cache_bytes, &USUAL, |_| false).bytes();
        assert_eq!(bytes(Some(1 << 20)), 256 << 10);
        assert_eq!(bytes(Some(2 << 20)), 512 << 10);
        assert_eq!(bytes(Some(3 << 20)), 512 << 10, "a power of two, or the kernel would round up");
        assert_eq!(bytes(Some(256 << 10)), 256 << 10);
        assert_eq!(bytes(Some(64 << 20)), 1 << 20);
        assert_eq!(bytes(None), 256 << 10);
    }

    #[test]
    fn never_above_what_the_system_allows() {
        let bytes = |pipe_bytes| plan(CACHE, &Limits { pipe_bytes, ..USUAL }, |_| false).bytes();
        assert_eq!(bytes(128 << 10), 128 << 10);
        assert_eq!(bytes(200_000), 128 << 10);
        assert_eq!(bytes(64 << 10), 0, "no larger than a pipe is anyway");
        assert_eq!(bytes(4096), 0);
        assert_eq!(bytes(0), 0);
    }

    #[test]
    fn an_eighth_of_the_quota_is_left_to_others() {
        let reserve = |limits: Limits| limits.reserve();
        assert_eq!(reserve(USUAL), 0, "no quota");
        assert_eq!(reserve(Limits { quota_bytes: QUOTA, ..USUAL }), 8 << 20);
        assert_eq!(reserve(Limits { quota_bytes: Some(1 << 40), ..USUAL }), 8 << 20, "no more is looked for");
        assert_eq!(reserve(Limits { quota_bytes: Some(16 << 20), ..USUAL }), 2 << 20);
        assert_eq!(reserve(Limits { quota_bytes: QUOTA, pipe_bytes: 300_000, ..USUAL }), 8 * 262_144);
        assert_eq!(reserve(Limits { quota_bytes: Some(65_536), ..USUAL }), 8 * 65_536, "more than there is");
    }

    #[test]
    fn pipes_are_left_alone_without_that_much_left() {
        let limited = Limits { quota_bytes: QUOTA, ..USUAL };
        assert_eq!(plan(CACHE, &limited, |_| false), Plan::default());
        assert_eq!(plan(CACHE, &limited, |bytes| bytes == 8 << 20).bytes(), 256 << 10);
        assert_eq!(plan(CACHE, &Limits { is_exempt: true, ..limited }, |_| false).bytes(), 256 << 10);
    }
}
