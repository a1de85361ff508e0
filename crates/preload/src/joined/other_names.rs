//! A program may use an attached pipe under another number: one that a path under `/proc` or `/dev` has given it, or that of the
//! opposite end. The pipe is detached first.

use core::ffi::c_int;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use millstream_sys::fate::Fate;
use millstream_sys::pipe;

use super::end::{End, READER, WRITER};
use super::{kernel, own_process, retreat};
use crate::descriptor::borrow;

/// Descriptors that are known to be something else than an attached pipe. A number can only come to mean something else
/// once it was closed, and all ways to close are guarded.
static OTHER_FILES: [AtomicU64; own_process::NUMBERS / 64] = [const { AtomicU64::new(0) }; own_process::NUMBERS / 64];

/// Before a call for a descriptor that is no end. `false`: it is one, and could not be given back, because the process may open no
/// further file.
#[inline(always)] // each call of a program comes through here
pub(super) fn leave_if_one(fd: c_int) -> bool {
    !(READER.allows_no_other_name() || WRITER.allows_no_other_name()) || look(fd)
}

#[cold]
#[inline(never)]
fn look(fd: c_int) -> bool {
    const F_GETFD: u32 = 1;
    let (word, bit) = place_of(fd);
    if word.is_some_and(|word| word.load(Relaxed) & bit != 0) {
        return true;
    }
    let pipe = borrow(&fd).and_then(pipe::identity);
    let is_it =
        |end: &End| end.allows_no_other_name() && pipe.is_some() && pipe == borrow(&end.fd()).and_then(pipe::identity);
    if is_it(&READER) || is_it(&WRITER) {
        return retreat::all(Fate::Renamed);
    }
    if let Some(word) = word
        && kernel::fcntl(fd, F_GETFD, 0) >= 0
    {
        word.fetch_or(bit, Relaxed);
    }
    true
}

/// The number may mean something else from now on.
pub(super) fn forget(fd: c_int) {
    if let (Some(word), bit) = place_of(fd) {
        word.fetch_and(!bit, Relaxed);
    }
}

/// Before the first end is attached, or is guarded beside its opposite end, whatever was known is from another time, in which nothing
/// was guarded.
pub(super) fn forget_all() {
    OTHER_FILES.iter().for_each(|word| word.store(0, Relaxed));
}

fn place_of(fd: c_int) -> (Option<&'static AtomicU64>, u64) {
    let number = fd.unsigned_abs() as usize;
    (OTHER_FILES.get(number / 64), 1 << (number % 64))
}
