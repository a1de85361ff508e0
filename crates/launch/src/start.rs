//! What the kernel gives to this program: its arguments and its environment.

use core::ffi::{CStr, c_char};

/// What the kernel gives to a new program. Both lists are followed by a null pointer.
pub(crate) struct Start {
    pub(crate) arguments: &'static [Text],
    pub(crate) environment: &'static [Text],
}

/// A C string that the kernel put on the stack of this process, where it stays.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn pointer(self) -> *const c_char {
        self.0
    }

    /// What follows `name=`. Compares in place: most variables differ in their first bytes.
    pub(crate) fn value_of(self, name: &str) -> Option<&'static CStr> {
        let mut at = self.0;
        for &expected in name.as_bytes().iter().chain(b"=") {
            // SAFETY: every byte before was one of the name's, so the string has not ended.
            if unsafe { at.cast::<u8>().read() } != expected {
                return None;
            }
            // SAFETY: the byte just compared was not the final zero.
            at = unsafe { at.add(1) };
        }
        Some(Text(at).c_str())
    }

    pub(crate) fn c_str(self) -> &'static CStr {
        // SAFETY: made only from the lists of the kernel, which nothing here changes.
        unsafe { CStr::from_ptr(self.0) }
    }

    pub(crate) fn bytes(self) -> &'static [u8] {
        self.c_str().to_bytes()
    }
}
