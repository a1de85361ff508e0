//! How much all pipes of a user may hold: past `/proc/sys/fs/pipe-user-pages-soft` pages a new pipe gets two pages,
//! past `pipe-user-pages-hard` none (`pipe(7)`). The kernel does not tell how much is left, so a process finds out by
//! taking that much for a moment.

use crate::pipe;

/// Pipes that are made to find out, for some microseconds.
pub const PIECES: usize = 8;

/// Whether this user's pipes may hold `bytes` more, a multiple of [`PIECES`] pipes of a size that the kernel grants. 45 us for 8 MiB.
///
/// For that long the process has twice [`PIECES`] more descriptors. So only a caller that shares its descriptor table
/// with no other thread or process, and that blocks signals, may use this.
pub fn has_left(bytes: usize) -> bool {
    let mut held = [const { None }; PIECES];
    held.iter_mut().all(|place| {
        let Ok(ends) = pipe::create() else { return false };
        let is_granted = pipe::set_capacity(&ends.0, bytes / PIECES).is_ok();
        *place = Some(ends);
        is_granted
    })
}
