//! What a pointer to a reader or a writer leads to.

use std::ffi::c_void;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use millstream_pipe::{Reader, Writer};

use crate::broadcast_ends::{BroadcastReader, BroadcastWriter};

/// The read end of a pipe.
///
/// Any number of threads may use one handle at the same time, with one exception: from the call of ms_peek() until
/// ms_consume() has returned no other thread is in a call with this handle, or enters one. Other threads take handles of their
/// own. A handle is inherited by fork(); parent and child each close theirs.
#[derive(Debug)]
pub struct ms_reader {
    _opaque: [u8; 0],
}

/// The write end of a pipe.
///
/// Any number of threads may use one handle at the same time, with one exception: from the call of ms_reserve() until
/// ms_commit() has returned no other thread is in a call with this handle, or enters one. Other threads take handles of their
/// own. A handle is inherited by fork(); parent and child each close theirs.
#[derive(Debug)]
pub struct ms_writer {
    _opaque: [u8; 0],
}

/// Either an ms_reader or an ms_writer.
pub type ms_end = c_void;

/// Which of them a pointer to an end leads to. Large numbers, so that other memory is rarely taken for a handle.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Reader = 0x6d73_7265,
    Writer = 0x6d73_7772,
    BroadcastReader = 0x6d73_6272,
    BroadcastWriter = 0x6d73_6277,
}

/// An end in the heap.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Handle<E> {
    /// A [`Side`]; 0 once it is closed.
    side: u32,
    /// Bytes that are shown or reserved in place; 0: none.
    in_place: AtomicUsize,
    end: E,
}

/// An end with a name of its own in C.
pub(crate) trait Sided: Sized {
    type Opaque;
    const SIDE: u32;
}

impl Sided for Reader {
    type Opaque = ms_reader;
    const SIDE: u32 = Side::Reader as u32;
}

impl Sided for Writer {
    type Opaque = ms_writer;
    const SIDE: u32 = Side::Writer as u32;
}

impl Sided for BroadcastReader {
    type Opaque = ms_reader;
    const SIDE: u32 = Side::BroadcastReader as u32;
}

impl Sided for BroadcastWriter {
    type Opaque = ms_writer;
    const SIDE: u32 = Side::BroadcastWriter as u32;
}

/// Any of them.
pub(crate) enum AnyEnd<'h> {
    Reader(&'h Handle<Reader>),
    Writer(&'h Handle<Writer>),
    BroadcastReader(&'h Handle<BroadcastReader>),
    BroadcastWriter(&'h Handle<BroadcastWriter>),
}

impl<E: Sided> Handle<E> {
    /// Moves an end to the heap and lets C have the pointer to it.
    pub(crate) fn give(end: E) -> *mut E::Opaque {
        Box::into_raw(Box::new(Handle { side: E::SIDE, in_place: AtomicUsize::new(0), end })).cast()
    }

    /// What the pointer leads to, if it is such an end.
    ///
    /// # Safety
    /// The pointer is null or from [`Handle::give`] and was not taken back.
    pub(crate) unsafe fn of<'h>(handle: *const E::Opaque) -> Option<&'h Handle<E>> {
        let handle = handle.cast::<Handle<E>>();
        // SAFETY: the caller's promise. The first field is the same for all kinds of ends.
        unsafe { (!handle.is_null() && (*handle).side == E::SIDE).then(|| &*handle) }
    }

    /// The same, to be changed.
    ///
    /// # Safety
    /// As for [`Handle::of`], and no other thread uses the handle meanwhile.
    pub(crate) unsafe fn of_mut<'h>(handle: *mut E::Opaque) -> Option<&'h mut Handle<E>> {
        let handle = handle.cast::<Handle<E>>();
        // SAFETY: as in `of`, and by the caller's promise there is no other reference.
        unsafe { (!handle.is_null() && (*handle).side == E::SIDE).then(|| &mut *handle) }
    }

    /// Takes the end back from C, which does not use the pointer again.
    ///
    /// # Safety
    /// As for [`Handle::of_mut`].
    pub(crate) unsafe fn take_back(handle: *mut E::Opaque) -> Option<E> {
        // SAFETY: the caller's promise.
        unsafe { Handle::<E>::of_mut(handle) }?.side = 0;
        // SAFETY: from `give`, which made it of a box.
        Some(unsafe { Box::from_raw(handle.cast::<Handle<E>>()) }.end)
    }

    /// The end, for as long as the program does not work on it in place.
    pub(crate) fn idle(&self) -> Option<&E> {
        (self.in_place.load(Relaxed) == 0).then_some(&self.end)
    }

    /// The end, whatever is done with it.
    pub(crate) fn end(&self) -> &E {
        &self.end
    }

    pub(crate) fn end_mut(&mut self) -> &mut E {
        &mut self.end
    }

    /// Bytes that are shown or reserved.
    pub(crate) fn in_place(&self) -> usize {
        self.in_place.load(Relaxed)
    }

    pub(crate) fn set_in_place(&self, bytes: usize) {
        self.in_place.store(bytes, Relaxed);
    }
}

/// What the pointer leads to, if it is one of them.
///
/// # Safety
/// As for [`Handle::of`].
pub(crate) unsafe fn any<'h>(end: *const ms_end) -> Option<AnyEnd<'h>> {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(reader) = Handle::<Reader>::of(end.cast()) {
            return Some(AnyEnd::Reader(reader));
        }
        if let Some(writer) = Handle::<Writer>::of(end.cast()) {
            return Some(AnyEnd::Writer(writer));
        }
        if let Some(reader) = Handle::<BroadcastReader>::of(end.cast()) {
            return Some(AnyEnd::BroadcastReader(reader));
        }
        Handle::<BroadcastWriter>::of(end.cast()).map(AnyEnd::BroadcastWriter)
    }
}
