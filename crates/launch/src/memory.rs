//! The functions of the C library that the compiler itself calls. What is copied here are paths and lists of a few hundred
//! entries.

// Instructions or volatile, because the compiler would make a plain loop a call to the function that it is the body of.

#[cfg(target_arch = "x86_64")]
use core::arch::asm;

/// # Safety
/// As for `memcpy(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise. The direction flag is clear wherever Rust code runs.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack, preserves_flags));
    }
    // SAFETY: the caller's promise.
    #[cfg(not(target_arch = "x86_64"))]
    (0..len).for_each(|at| unsafe { to.add(at).write_volatile(from.add(at).read()) });
    to
}

/// # Safety
/// As for `memmove(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise; a byte that is still to be read is not overwritten in either direction.
    let copy = |at| unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    if to.cast_const() < from {
        (0..len).for_each(copy)
    } else {
        (0..len).rev().for_each(copy)
    }
    to
}

/// # Safety
/// As for `memset(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise. The direction flag is clear wherever Rust code runs.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("rep stosb", inout("rcx") len => _, inout("rdi") to => _, in("al") byte as u8, options(nostack, preserves_flags));
    }
    // SAFETY: the caller's promise.
    #[cfg(not(target_arch = "x86_64"))]
    (0..len).for_each(|at| unsafe { to.add(at).write_volatile(byte as u8) });
    to
}

/// # Safety
/// As for `memcmp(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, len: usize) -> i32 {
    for at in 0..len {
        // SAFETY: the caller's promise.
        let (left, right) = unsafe { (left.add(at).read_volatile(), right.add(at).read_volatile()) };
        if left != right {
            return i32::from(left) - i32::from(right);
        }
    }
    0
}

/// # Safety
/// As for `memcmp(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, len: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(left, right, len) }
}

/// # Safety
/// As for `strlen(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut len = 0;
    // SAFETY: the caller's promise: nothing behind the zero is read.
    while unsafe { text.add(len).read_volatile() } != 0 {
        len += 1;
    }
    len
}
