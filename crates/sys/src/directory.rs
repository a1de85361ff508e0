//! Reads a directory without allocating.

use core::ffi::CStr;
use core::mem::MaybeUninit;

use rustix::fd::BorrowedFd;
use rustix::fs::RawDir;

/// Calls `visit` for each remaining entry, with the position of the next one, until it returns false. Returns whether it
/// never did. `None`: the directory cannot be read.
pub fn each_entry(directory: BorrowedFd<'_>, visit: &mut dyn FnMut(&CStr, u64) -> bool) -> Option<bool> {
    let mut room = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(directory, &mut room);
    while let Some(entry) = entries.next() {
        let entry = entry.ok()?;
        if !visit(entry.file_name(), entry.next_entry_cookie()) {
            return Some(false);
        }
    }
    Some(true)
}

/// The number that a name is, in decimal.
pub fn number(name: &CStr) -> Option<u32> {
    name.to_bytes().iter().try_fold(0_u32, |value, &byte| {
        let digit = char::from(byte).to_digit(10)?;
        value.checked_mul(10)?.checked_add(digit)
    })
}
