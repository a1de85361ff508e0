//! How many bytes a pipe may hold.

use millstream_ring::Geometry;
use millstream_sys::{Errno, cpu};

use crate::segment::Size;
use crate::settings;

/// What the kernel would grant for this capacity (`F_SETPIPE_SZ` in `fcntl(2)`).
pub(crate) fn permitted_capacity(bytes: usize, now: usize) -> Result<usize, Errno> {
    let of_the_kernel = || if cpu::may_exceed_pipe_max_size() { usize::MAX } else { settings::pipe_max_size() };
    capacity_within(bytes, now, || of_the_kernel().min(settings::capacity_limit()))
}

fn capacity_within(bytes: usize, now: usize, limit: impl FnOnce() -> usize) -> Result<usize, Errno> {
    if bytes > 1 << 31 {
        return Err(Errno::INVAL);
    }
    let rounded = bytes.next_power_of_two().max(millstream_ring::MIN_BYTES);
    // As there: a call that only shrinks needs no permission.
    if rounded > now && rounded > limit() { Err(Errno::PERM) } else { Ok(rounded) }
}

/// The size of a segment whose ring holds `capacity`, a power of two, at first. It can grow as far as the settings
/// allow.
pub(crate) fn size_for(capacity: usize) -> Result<Size, Errno> {
    // Above 1 GiB, which the kernel would allow root: refused as the kernel refuses what it does not allow.
    let initial = Geometry::of(capacity).ok_or(Errno::PERM)?;
    Ok(Size { bank_bytes: capacity.max(settings::capacity_max()), initial })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_capacity_is_rounded_up_and_then_measured_against_the_limit() {
        let with_limit = |limit| move |bytes, now| capacity_within(bytes, now, || limit);
        let unprivileged = with_limit(MIB);
        assert_eq!(unprivileged(0, 4096), Ok(4096));
        assert_eq!(unprivileged(4097, 4096), Ok(8192));
        assert_eq!(unprivileged(MIB, 4096), Ok(MIB));
        assert_eq!(unprivileged(MIB + 1, 4096), Err(Errno::PERM));
        assert_eq!(unprivileged(1 << 31, 4096), Err(Errno::PERM));
        assert_eq!(unprivileged((1 << 31) + 1, 4096), Err(Errno::INVAL));
        let privileged = with_limit(usize::MAX);
        assert_eq!(privileged(1 << 31, 4096), Ok(1 << 31));
        assert_eq!(privileged((1 << 31) + 1, 4096), Err(Errno::INVAL));
        assert_eq!(privileged(usize::MAX, 4096), Err(Errno::INVAL));
    }

    #[test]
    fn capacity_needs_no_permission_unless_it_grows() {
        let to = |bytes| capacity_within(bytes, 4 * MIB, || MIB);
        assert_eq!(to(4 * MIB), Ok(4 * MIB));
        assert_eq!(to(3 * MIB), Ok(4 * MIB));
        assert_eq!(to(2 * MIB), Ok(2 * MIB));
        assert_eq!(to(4 * MIB + 1), Err(Errno::PERM));
    }
}
