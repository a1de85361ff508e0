//! Lists of C strings as `execve` wants them, and strings, in a fixed room.

use core::ffi::{CStr, c_char};
use core::fmt;
use core::mem::MaybeUninit;

use crate::start::Text;

/// As many as fit; a run with more is served by the main binary.
const ENTRIES: usize = 1024;

pub(crate) struct List<'a> {
    /// Filled as far as it is used: each page costs its first touch.
    entries: [MaybeUninit<*const c_char>; ENTRIES],
    len: usize,
    strings: core::marker::PhantomData<&'a CStr>,
}

impl<'a> List<'a> {
    pub(crate) fn new() -> List<'a> {
        List { entries: [MaybeUninit::uninit(); ENTRIES], len: 0, strings: core::marker::PhantomData }
    }

    /// `None`: there is no room.
    pub(crate) fn push(&mut self, string: &'a CStr) -> Option<()> {
        self.push_pointer(string.as_ptr())
    }

    /// `None`: there is no room.
    pub(crate) fn push_all(&mut self, strings: &'a [Text]) -> Option<()> {
        strings.iter().try_for_each(|string| self.push_pointer(string.pointer()))
    }

    fn push_pointer(&mut self, string: *const c_char) -> Option<()> {
        // One place is for the null pointer.
        let place = self.entries.get_mut(..ENTRIES - 1)?.get_mut(self.len)?;
        place.write(string);
        self.len += 1;
        Some(())
    }

    /// The list with a null pointer behind it.
    pub(crate) fn terminated(&mut self) -> *const *const c_char {
        self.entries[self.len].write(core::ptr::null());
        self.entries.as_ptr().cast()
    }
}

/// A string that is put together piece by piece.
pub(crate) struct Line<const ROOM: usize> {
    bytes: [MaybeUninit<u8>; ROOM],
    len: usize,
}

impl<const ROOM: usize> Line<ROOM> {
    pub(crate) fn new() -> Line<ROOM> {
        Line { bytes: [MaybeUninit::uninit(); ROOM], len: 0 }
    }

    /// `None`: there is no room.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Option<()> {
        let places = self.bytes.get_mut(self.len..)?.get_mut(..piece.len())?;
        places.write_copy_of_slice(piece);
        self.len += piece.len();
        Some(())
    }

    /// Ends the string; `None` if there is no room, or a zero in it.
    pub(crate) fn c_str(&mut self) -> Option<&CStr> {
        self.push(b"\0")?;
        // SAFETY: written so far.
        let bytes = unsafe { self.bytes.get(..self.len)?.assume_init_ref() };
        CStr::from_bytes_with_nul(bytes).ok()
    }
}

impl<const ROOM: usize> fmt::Write for Line<ROOM> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.push(piece.as_bytes()).ok_or(fmt::Error)
    }
}
