//! What a program still has to write, as far as that can be foretold: most that read a file write in proportion.
//!
//! So the pipe behind `cat FILE`, `grep` or `tr` need not carry as much before it attaches as one of which nothing is known, and
//! one behind a file that is nearly read need not attach at all. A wrong guess costs time, and nothing else.

use core::ffi::c_int;

use millstream_sys::raw;

use millstream_sys::fate::WORTH_IT;

use super::end::{READER, Stage};
use super::kernel;
use crate::descriptor::borrow;

/// How much is to come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outlook {
    /// More than pays.
    Much,
    /// Less than attaching costs.
    Little,
    Unknown,
}

/// The only output that is foretold: to another number programs like `split` write pieces, each to a new pipe.
pub(super) const OUTPUT: c_int = 1;
/// A program that reads a file has it open as one of these, but for the standard output and errors.
const INPUTS: core::ops::Range<c_int> = 0..10;
/// Where less of a file has been read, it is not what the output is made of.
const READ_LEAST: u64 = 64 << 10;
/// Attaching costs as much as so many bytes of memory save.
const COST: u64 = 2 << 20;

/// What is to come after `written` bytes to the output.
pub(super) fn after(written: u64) -> Outlook {
    if READER.stage() == Stage::Ring {
        let is_most_of_it = READER.channel().is_some_and(|slot| written >= slot.carried() / 2);
        return if is_most_of_it { Outlook::Much } else { Outlook::Unknown };
    }
    let Some((read, left)) = file_that_is_read() else { return Outlook::Unknown };
    // In units of 1 KiB nothing overflows that a file system holds.
    let expected = ((written >> 10).saturating_mul(left >> 10) / (read >> 10)) << 10;
    if expected >= WORTH_IT {
        Outlook::Much
    } else if expected < COST && read >= written / 2 && written >= read / 2 {
        // Not one of many files, of which the others have brought the rest; nor was it read whole first, as `sort` does, or from
        // far behind its beginning.
        Outlook::Little
    } else {
        Outlook::Unknown
    }
}

/// Of the file of which most has been read, how much that is, and how much is left.
fn file_that_is_read() -> Option<(u64, u64)> {
    let mut most = None;
    for progress in INPUTS.filter(|fd| !(1..3).contains(fd)).filter_map(progress) {
        most = most.max(Some(progress));
    }
    most
}

/// How much of a file has been read, and how much is left, if this is one that can be read. Of one that has not been read, which may be
/// on a file system that does not answer, nothing is asked but its position.
fn progress(fd: c_int) -> Option<(u64, u64)> {
    const F_GETFL: u32 = 3;
    const O_ACCMODE: isize = 3;
    let read = kernel::position(fd).filter(|&read| read >= READ_LEAST)?;
    if kernel::fcntl(fd, F_GETFL, 0) & O_ACCMODE == kernel::O_WRONLY as isize {
        return None;
    }
    let len = raw::status_of(borrow(&fd)?).ok()?.bytes()?;
    Some((read, len.saturating_sub(read)))
}
