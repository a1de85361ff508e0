//! The functions of the C library that the compiler calls for small things: cleared buffers, compared names. They are here
//! under the same names, hidden from all other libraries, because each that is taken from glibc is looked up whenever a program
//! starts. The bytes of pipes are not moved by them.

// Instructions or volatile, because the compiler would make a plain loop a call to the function that it is the body of.

use core::arch::global_asm;

/// Makes the C name a jump to ours.
macro_rules! hidden {
    ($($theirs:literal => $ours:ident),* $(,)?) => {
        $(global_asm!(
            concat!(".pushsection .text.millstream_", $theirs, ",\"ax\",@progbits"),
            concat!(".globl ", $theirs),
            concat!(".hidden ", $theirs),
            concat!(".type ", $theirs, ", @function"),
            concat!($theirs, ":"),
            #[cfg(target_arch = "x86_64")]
            "jmp {ours}",
            #[cfg(target_arch = "aarch64")]
            "b {ours}",
            ".popsection",
            ours = sym $ours,
        );)*
    };
}

hidden! {
    "memcpy" => copy_bytes,
    "memmove" => move_bytes,
    "memset" => set_bytes,
    "memcmp" => compare,
    "bcmp" => compare,
    "strlen" => length,
}

/// # Safety
/// As for `memmove(3)`.
unsafe extern "C" fn move_bytes(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    let copy = |at| unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    // A byte that is still to be read is not overwritten.
    let forwards = to.cast_const() < from;
    (0..len).for_each(|done| copy(if forwards { done } else { len - 1 - done }));
    to
}

/// # Safety
/// As for `memcpy(3)`.
unsafe extern "C" fn copy_bytes(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise. The direction flag is clear wherever Rust code runs.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("rep movsb", inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags));
    }
    // SAFETY: the caller's promise.
    #[cfg(not(target_arch = "x86_64"))]
    (0..len).for_each(|at| unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) });
    to
}

/// # Safety
/// As for `memset(3)`.
unsafe extern "C" fn set_bytes(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise. The direction flag is clear wherever Rust code runs.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("rep stosb", inout("rcx") len => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack, preserves_flags));
    }
    // SAFETY: the caller's promise.
    #[cfg(not(target_arch = "x86_64"))]
    (0..len).for_each(|at| unsafe { to.add(at).write_volatile(byte as u8) });
    to
}

/// # Safety
/// As for `memcmp(3)`.
unsafe extern "C" fn compare(left: *const u8, right: *const u8, len: usize) -> i32 {
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
/// As for `strlen(3)`.
unsafe extern "C" fn length(text: *const u8) -> usize {
    let mut len = 0;
    // SAFETY: the caller's promise: nothing behind the zero is read.
    while unsafe { text.add(len).read_volatile() } != 0 {
        len += 1;
    }
    len
}
