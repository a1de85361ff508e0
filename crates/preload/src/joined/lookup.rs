//! `dlsym`: a program that asks glibc by its handle for a function which this library stands in front of gets this library's.

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_void};

use millstream_sys::fate::Fate;

use super::{guard_flags, interposed, retreat};
use crate::behind::Behind;
use crate::names;

static DLSYM: Behind = Behind::new("dlsym");
static DLVSYM: Behind = Behind::new("dlvsym");

/// `dlsym(3)`. The two handles whose meaning depends on the caller, `RTLD_DEFAULT` and `RTLD_NEXT`, go on in glibc as if it had been
/// called there. The first finds this library's functions by itself; the second may go past them.
///
/// # Safety
/// As for `dlsym(3)`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlsym() {
    naked_asm!(
        "endbr64",
        "lea rax, [rdi + 1]",
        "cmp rax, 1",
        "ja {by_handle}",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "mov rdx, [rsp + 24]",
        "call {before}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        by_handle = sym by_handle,
        before = sym before,
    )
}

/// `dlvsym(3)`. A caller that names a version means glibc's function.
///
/// # Safety
/// As for `dlvsym(3)`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlvsym() {
    naked_asm!(
        "endbr64",
        "push rdi",
        "push rsi",
        "push rdx",
        "call {before}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        before = sym before_version,
    )
}

/// # Safety
/// `name` is a C string.
unsafe extern "C" fn before_version(_handle: usize, name: *const c_char) -> usize {
    // SAFETY: the caller's promise.
    leave_if_ours(unsafe { CStr::from_ptr(name) });
    // SAFETY: only the address is used.
    unsafe { DLVSYM.function() }
}

/// A pointer past this library is asked for, if it has a function of this name.
fn leave_if_ours(name: &CStr) {
    if names::own(name) != 0 {
        interposed::note_bypass();
        if guard_flags::are_up() {
            retreat::before_a_call(Fate::Code);
        }
    }
}

/// # Safety
/// `name` is a C string.
unsafe extern "C" fn before(handle: usize, name: *const c_char, caller: usize) -> usize {
    const NEXT: usize = usize::MAX;
    // To the program this library is the next.
    if handle == NEXT && !names::is_in_program(caller) {
        // SAFETY: the caller's promise.
        leave_if_ours(unsafe { CStr::from_ptr(name) });
    }
    // SAFETY: only the address is used.
    unsafe { DLSYM.function() }
}

/// # Safety
/// As for `dlsym(3)`.
unsafe extern "C" fn by_handle(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the type is that of glibc's function, and the caller's promise is the same.
    let (found, name) = unsafe {
        let real: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void = DLSYM.function();
        (real(handle, name), CStr::from_ptr(name))
    };
    let own = if found.is_null() { 0 } else { names::own(name) };
    if own != 0 && names::behind(name) == found { core::ptr::with_exposed_provenance_mut(own) } else { found }
}
