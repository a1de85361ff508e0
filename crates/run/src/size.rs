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
//!   past that, new pipes get two pages, also in programs that have nothing to do with us. So a run looks how much is
//!   free, plans with half of that, and leaves the pipes of a process that holds many descriptors alone.

use millstream_sys::settings::{LedgerAddress, Ring, Settings};
use millstream_sys::{machine, pipe};

/// See above.
const LEAST: u64 = 256 << 10;
/// The kernel's default for the largest pipe of an unprivileged user.
const MOST: u64 = 1 << 20;
/// What one process may hold in large pipes where no quota is in force: 128 pipes of 256 KiB.
const PER_PROCESS_MOST: u64 = 32 << 20;
/// As far as the free quota is explored, one pipe of [`MOST`] bytes at a time. Each costs some microseconds, and while
/// they are held other programs of the user have so much less: an eighth of the usual quota.
const EXPLORED: usize = 8;
/// Standard input, output and error come before the pipes.
const STANDARD_DESCRIPTORS: u64 = 3;

/// What the programs are told about pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bytes of each pipe; 0 leaves them alone.
    pub bytes: u64,
    /// Pipes at this descriptor and above are left alone.
    pub descriptor_limit: u64,
}

impl Plan {
    /// The user said how large.
    pub fn fixed(bytes: u64) -> Plan {
        Plan { bytes, descriptor_limit: u64::MAX }
    }

    /// For this machine and user, as they are now.
    pub fn for_this_machine() -> Plan {
        plan(&Machine::look())
    }

    /// What the programs of the run are told.
    pub fn settings<'a>(&self, ledger: Option<LedgerAddress<'a>>, ring: Option<Ring>) -> Settings<'a> {
        Settings { pipe_bytes: self.bytes, descriptor_limit: self.descriptor_limit, ledger, ring }
    }

    /// Pipes that were on the standard input and output before us. Others may have chosen their size: then it stays.
    pub fn enlarge_standing_pipes(&self) {
        for end in machine::standing_ends() {
            if self.bytes > 0 && pipe::is_untouched(end) {
                pipe::request_capacity(end, self.bytes as usize);
            }
        }
    }
}

struct Machine {
    /// Second-level cache of one CPU, if the C library can tell.
    cache_bytes: Option<u64>,
    /// Largest pipe allowed to this user.
    pipe_bytes_max: u64,
    /// What this user's pipes may take in addition, as far as that was explored; `None`: no quota.
    quota_left: Option<u64>,
}

fn plan(machine: &Machine) -> Plan {
    let wanted = machine.cache_bytes.map_or(LEAST, |cache| previous_power_of_two(cache / 4).clamp(LEAST, MOST));
    let bytes = wanted.min(previous_power_of_two(machine.pipe_bytes_max));
    let budget = machine.quota_left.map_or(PER_PROCESS_MOST, |left| left / 2);
    let pipes = budget / bytes.max(1);
    if bytes <= pipe::DEFAULT_CAPACITY as u64 || pipes == 0 {
        return Plan { bytes: 0, descriptor_limit: 0 };
    }
    Plan { bytes, descriptor_limit: STANDARD_DESCRIPTORS + 2 * pipes }
}

fn previous_power_of_two(number: u64) -> u64 {
    number.checked_ilog2().map_or(0, |log| 1 << log)
}

impl Machine {
    fn look() -> Machine {
        Machine {
            cache_bytes: machine::second_level_cache_bytes(),
            pipe_bytes_max: machine::number_in(c"/proc/sys/fs/pipe-max-size").unwrap_or(MOST),
            quota_left: quota_left(),
        }
    }
}

/// How much more this user's pipes may hold, found by taking it and giving it back; the kernel has no other way to ask.
fn quota_left() -> Option<u64> {
    let has_limit = |path| machine::number_in(path).unwrap_or(0) != 0;
    let is_limited = has_limit(c"/proc/sys/fs/pipe-user-pages-soft") || has_limit(c"/proc/sys/fs/pipe-user-pages-hard");
    // Root of a user namespace has the capability and is refused all the same.
    if !is_limited || (machine::may_exceed_pipe_quota() && machine::is_in_initial_user_namespace()) {
        return None;
    }
    let mut held = [const { None }; EXPLORED];
    let mut left = 0;
    for place in &mut held {
        let Ok(ends) = pipe::create() else { break };
        let had = pipe::capacity(&ends.0).unwrap_or(0);
        match pipe::set_capacity(&ends.0, MOST as usize) {
            Ok(granted) => left += granted as u64,
            // This one's own size was granted, and there is less than a whole one more.
            Err(_) => {
                left += had as u64;
                break;
            }
        }
        *place = Some(ends);
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Machine = Machine { cache_bytes: Some(1 << 20), pipe_bytes_max: 1 << 20, quota_left: None };

    #[test]
    fn a_quarter_of_the_cache_within_bounds() {
        let bytes = |cache_bytes| plan(&Machine { cache_bytes, ..USUAL }).bytes;
        assert_eq!(bytes(Some(1 << 20)), 256 << 10);
        assert_eq!(bytes(Some(2 << 20)), 512 << 10);
        assert_eq!(bytes(Some(3 << 20)), 512 << 10, "a power of two, or the kernel would round up");
        assert_eq!(bytes(Some(256 << 10)), 256 << 10);
        assert_eq!(bytes(Some(64 << 20)), 1 << 20);
        assert_eq!(bytes(None), 256 << 10);
    }

    #[test]
    fn never_above_what_the_system_allows() {
        let plan_for = |pipe_bytes_max| plan(&Machine { pipe_bytes_max, ..USUAL });
        assert_eq!(plan_for(128 << 10).bytes, 128 << 10);
        assert_eq!(plan_for(200_000).bytes, 128 << 10);
        assert_eq!(plan_for(64 << 10), Plan { bytes: 0, descriptor_limit: 0 }, "no larger than a pipe is anyway");
        assert_eq!(plan_for(4096).bytes, 0);
        assert_eq!(plan_for(0).bytes, 0);
    }

    #[test]
    fn half_of_the_free_quota_bounds_what_a_process_takes() {
        let plan_for = |quota_left| plan(&Machine { quota_left: Some(quota_left), ..USUAL });
        assert_eq!(plan_for(32 << 20), Plan { bytes: 256 << 10, descriptor_limit: 3 + 2 * 64 });
        assert_eq!(plan_for(1 << 20), Plan { bytes: 256 << 10, descriptor_limit: 3 + 2 * 2 });
        assert_eq!(plan_for(300 << 10).bytes, 0);
        assert_eq!(plan_for(0).bytes, 0);
    }
}
