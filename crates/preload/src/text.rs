//! C strings, read in place.

use core::ffi::c_char;

/// What follows `beginning` in a text. Compares in place: most entries of an environment differ in their first bytes.
///
/// # Safety
/// `text` is a C string, and no byte of `beginning` is zero.
pub(crate) unsafe fn rest_of(text: *const c_char, beginning: &[u8]) -> Option<*const c_char> {
    let mut at = text;
    for &expected in beginning {
        // SAFETY: every byte before was one of `beginning`, so the string has not ended.
        if unsafe { at.cast::<u8>().read() } != expected {
            return None;
        }
        // SAFETY: the byte just compared was not the final zero.
        at = unsafe { at.add(1) };
    }
    Some(at)
}
