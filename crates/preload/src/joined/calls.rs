//! `read` and `write`, wherever they are called: by name, and inside glibc by stdio ([`super::stdio`]).
//!
//! In a process that has no pipe a call goes on in glibc at once. Where there are several threads a call that may sleep is glibc's own,
//! and so stays a point of cancellation.

use core::arch::naked_asm;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use millstream_sys::ledger::Direction;

use super::attached::{read_input, write_output};
use super::end::{READER, WRITER};
use super::own_process::{SINGLE_THREADED, has_one_thread};
use super::threads::InCall;
use super::{kernel, notice, other_names, own_process, stdio};
use crate::behind::Behind;
use crate::glibc;
use crate::{counted, names};

/// Whether calls are counted, and may be for a pipe that is attached.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Calls {
    /// Nothing in this process asked for it.
    NotYet,
    Ours,
    /// It is not a C library that we know, or another library stands in front of it too.
    Glibcs,
}

static STATE: AtomicU8 = AtomicU8::new(Calls::NotYet as u8);
/// The same as [`Calls::Ours`].
static ARE_OURS: AtomicBool = AtomicBool::new(false);

static READ: Behind = Behind::new("read");
static WRITE: Behind = Behind::new("write");

macro_rules! interposed {
    ($($name:ident: $ours:ident, $elsewhere:ident;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of glibc.")]
            ///
            /// # Safety
            /// As for the function of this name.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            #[unsafe(link_section = ".text.millstream_joined")]
            pub unsafe extern "C" fn $name() {
                naked_asm!(
                    "endbr64",
                    "cmp byte ptr [rip + {are_ours}], 0",
                    "jne {ours}",
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    "call {elsewhere}",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    "jmp rax",
                    are_ours = sym ARE_OURS,
                    ours = sym $ours,
                    elsewhere = sym $elsewhere,
                )
            }
        )*
    };
}

interposed! {
    read: read_here, real_read;
    __read: read_here, real_read;
    write: write_here, real_write;
    __write: write_here, real_write;
}

/// Where a call goes on that is not ours.
extern "C" fn real_read() -> usize {
    // SAFETY: only the address is used.
    counted::function(c"read").unwrap_or_else(|| unsafe { READ.function() })
}

extern "C" fn real_write() -> usize {
    // SAFETY: only the address is used.
    counted::function(c"write").unwrap_or_else(|| unsafe { WRITE.function() })
}

/// `read(2)` as programs built with `_FORTIFY_SOURCE` call it.
///
/// # Safety
/// As for `read(2)`; `room` is the size of the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(fd: c_int, buffer: *mut u8, len: usize, room: usize) -> isize {
    type Read = unsafe extern "C-unwind" fn(c_int, *mut u8, usize) -> isize;
    if len > room {
        glibc::chk_fail();
    }
    // SAFETY: the function above is one of this type; the caller's promise is the same.
    unsafe { core::mem::transmute::<unsafe extern "C" fn(), Read>(read)(fd, buffer, len) }
}

pub(super) fn state() -> Calls {
    match STATE.load(Relaxed) {
        1 => Calls::Ours,
        2 => Calls::Glibcs,
        _ => Calls::NotYet,
    }
}

/// Calls of `read` and `write` are ours from now on, if this C library is one that we know. Done once. While there are several threads
/// it is left for another time: two could begin at once.
pub(super) fn begin() {
    if state() != Calls::NotYet {
        return;
    }
    if SINGLE_THREADED.load(Relaxed).is_null() {
        let flag = names::variable(c"__libc_single_threaded");
        SINGLE_THREADED.store(core::ptr::with_exposed_provenance_mut(flag), Relaxed);
    }
    let has_flag = !SINGLE_THREADED.load(Relaxed).is_null();
    if has_flag && !has_one_thread() {
        return;
    }
    let is_done = has_flag && interpose();
    STATE.store(if is_done { Calls::Ours } else { Calls::Glibcs } as u8, Relaxed);
    ARE_OURS.store(is_done, Relaxed);
}

fn interpose() -> bool {
    // SAFETY: only the addresses are used.
    let [read, write]: [usize; 2] = unsafe { [READ.function(), WRITE.function()] };
    // Not where a further library stands between this one and glibc.
    names::c_library()
        .is_some_and(|glibc| glibc.code.contains(&read) && glibc.code.contains(&write) && stdio::interpose(&glibc))
}

/// Whether the calls of this process are ours.
pub(super) fn are_ours() -> bool {
    ARE_OURS.load(Relaxed)
}

/// They are glibc's from now on.
pub(super) fn stop() {
    STATE.store(Calls::Glibcs as u8, Relaxed);
    ARE_OURS.store(false, Relaxed);
}

/// `read(2)`. Beside its entry: the kernel leaves little of what it does not need in the cache.
#[unsafe(link_section = ".text.millstream_joined")]
pub(super) extern "C" fn read_here(fd: c_int, buffer: *mut u8, len: usize) -> isize {
    let _call = InCall::of(fd);
    glibc::returned_from_kernel(if READER.is_at(fd) {
        read_input(fd, buffer, len, None)
    } else {
        other_names::leave_if_one(fd);
        notice::passed(&READER, fd, read_from_kernel(fd, buffer, len))
    })
}

/// `write(2)`. Beside its entry, as above.
#[unsafe(link_section = ".text.millstream_joined")]
pub(super) extern "C" fn write_here(fd: c_int, buffer: *const u8, len: usize) -> isize {
    let _call = InCall::of(fd);
    glibc::returned_from_kernel(if WRITER.is_at(fd) {
        write_output(fd, buffer, len)
    } else {
        other_names::leave_if_one(fd);
        notice::passed(&WRITER, fd, write_to_kernel(fd, buffer, len))
    })
}

pub(super) fn read_from_kernel(fd: c_int, buffer: *mut u8, len: usize) -> isize {
    counted::note(fd, Direction::Read, read_by_kernel(fd, buffer, len))
}

/// The same, not counted.
pub(super) fn read_by_kernel(fd: c_int, buffer: *mut u8, len: usize) -> isize {
    if own_process::has_threads() { by_glibc(&READ, fd, buffer, len) } else { kernel::read(fd, buffer, len) }
}

/// As a point of cancellation.
#[cold]
fn by_glibc(function: &Behind, fd: c_int, buffer: *mut u8, len: usize) -> isize {
    // SAFETY: `read` and `write` have this type, but for what the buffer may be used for.
    let function: unsafe extern "C-unwind" fn(c_int, *mut u8, usize) -> isize = unsafe { function.glibcs() };
    // SAFETY: the caller's buffer; memory that is not there is the kernel's to refuse.
    let moved = unsafe { function(fd, buffer, len) };
    if moved < 0 { glibc::last_error() } else { moved }
}

pub(super) fn write_to_kernel(fd: c_int, buffer: *const u8, len: usize) -> isize {
    let moved = match own_process::has_threads() {
        true => by_glibc(&WRITE, fd, buffer.cast_mut(), len),
        false => kernel::write(fd, buffer, len),
    };
    counted::note(fd, Direction::Written, moved)
}
