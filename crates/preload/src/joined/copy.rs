//! Copies between a program's memory and a ring: one instruction at one address, so that a fault there is known
//! ([`super::faults`]).

use core::arch::global_asm;

// The C library's `memcpy` is not ours to call from everywhere, and what another process may change at any time must
// not become a reference. The direction flag is clear (System V ABI). What is left when the handler has stepped over
// the instruction is what was not copied.
global_asm!(
    ".pushsection .text.millstream_copy,\"ax\",@progbits",
    ".globl millstream_copy",
    ".hidden millstream_copy",
    ".balign 16",
    "millstream_copy:",
    "mov rcx, rdx",
    ".globl millstream_copies_here",
    ".hidden millstream_copies_here",
    "millstream_copies_here:",
    "rep movsb",
    ".globl millstream_copied",
    ".hidden millstream_copied",
    "millstream_copied:",
    "mov rax, rcx",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    fn millstream_copy(to: *mut u8, from: *const u8, len: usize) -> usize;
    pub(super) fn millstream_copies_here();
    pub(super) fn millstream_copied();
}

/// Copies bytes. `false`: some of them cannot be read or written. Where it is not caught, see
/// [`super::faults::stand_in_front`], that is the program's end.
///
/// # Safety
/// There is no reference to what is at `to`, and nothing of Rust's own is there but room for `len` bytes.
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> bool {
    // To begin a copy takes as long as to copy a cache line. SAFETY: the caller's promise.
    len == 0 || unsafe { millstream_copy(to, from, len) == 0 }
}
