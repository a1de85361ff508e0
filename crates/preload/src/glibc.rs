//! What is imported from the C library: the functions behind ours, by names that we do not stand in front of.
//!
//! Each import goes through one jump in the procedure linkage table and is bound at its first call, not when the
//! library is loaded: names looked up at every start of every program cost more than the rest of this library. The
//! names carry no version, because the library is linked without `-lc`, so the loader binds them to whatever glibc the
//! program brings. They are weak, so another C library that is made to load this one finds nothing missing.

use core::arch::global_asm;
use core::ffi::{c_char, c_int, c_ulong};

use millstream_sys::Errno;

/// A stdio stream, which only glibc looks into.
#[repr(C)]
pub struct File {
    _opaque: [u8; 0],
}

#[cfg(target_arch = "x86_64")]
macro_rules! jump_to {
    ($target:literal) => {
        concat!("jmp ", $target, "@PLT")
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump_to {
    ($target:literal) => {
        concat!("b ", $target)
    };
}

/// Makes `$ours` a jump to the C library's `$theirs`. A jump and not a call: it leaves no frame, so it can be unwound
/// through.
macro_rules! lazily_bound {
    ($($ours:literal => $theirs:literal),* $(,)?) => {
        $(global_asm!(
            ".pushsection .text.millstream_imports,\"ax\",@progbits",
            concat!(".weak ", $theirs),
            concat!(".globl ", $ours),
            concat!(".hidden ", $ours),
            concat!(".type ", $ours, ", @function"),
            concat!($ours, ":"),
            jump_to!($theirs),
            ".popsection",
        );)*
    };
}

lazily_bound! {
    "millstream_fileno" => "fileno",
    "millstream_errno_location" => "__errno_location",
    "millstream_getenv" => "getenv",
    "millstream_getauxval" => "getauxval",
    "millstream_chk_fail" => "__chk_fail",
}

// "C-unwind", because a thread that is cancelled inside one of these unwinds through our frame. No frame of ours holds
// anything that needs dropping.
unsafe extern "C-unwind" {
    #[link_name = "millstream_fileno"]
    pub(crate) fn fileno(stream: *mut File) -> c_int;
    #[link_name = "millstream_errno_location"]
    fn errno_location() -> *mut c_int;
    #[link_name = "millstream_getenv"]
    pub(crate) fn getenv(name: *const c_char) -> *const c_char;
    #[link_name = "millstream_getauxval"]
    safe fn getauxval(kind: c_ulong) -> c_ulong;
    /// Ends the program as glibc does when a fortified call would overrun its buffer.
    #[link_name = "millstream_chk_fail"]
    pub(crate) safe fn chk_fail() -> !;
    /// A variable cannot be bound lazily; this is the one name that is looked up at the start.
    static environ: *const *const c_char;
}

/// What a C function returns for the outcome of a system call: 0, or -1 and errno says why.
pub(crate) fn returned(outcome: Result<(), Errno>) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(errno) => {
            // SAFETY: the C library gives every thread its own, always valid.
            unsafe { *errno_location() = errno.raw_os_error() };
            -1
        }
    }
}

/// What a C function returns for the kernel's answer: errno instead of a negative number.
#[inline(always)] // each call of a program comes through here
pub(crate) fn returned_from_kernel(answer: isize) -> isize {
    if (-4095..0).contains(&answer) { failed(answer) } else { answer }
}

#[cold]
#[inline(never)]
fn failed(answer: isize) -> isize {
    // SAFETY: the C library gives every thread its own, always valid.
    unsafe { *errno_location() = -answer as c_int };
    -1
}

/// What the last call of this thread that failed has left in errno, as the kernel answers it.
pub(crate) fn last_error() -> isize {
    // SAFETY: the C library gives every thread its own, always valid.
    -(unsafe { *errno_location() } as isize)
}

/// The program's environment as it is now.
pub(crate) fn environment() -> *const *const c_char {
    // SAFETY: the C library's variable; it is read once, and programs that change it while others read have the same
    // trouble without us.
    unsafe { environ }
}

/// Where the kernel has put the program's table of segments, and how many there are.
pub(crate) fn program_headers() -> (usize, usize) {
    const AT_PHDR: c_ulong = 3;
    const AT_PHNUM: c_ulong = 5;
    (getauxval(AT_PHDR) as usize, getauxval(AT_PHNUM) as usize)
}

/// Whether this program was begun as root. The kernel has told it, so it need not be asked: a program that was sandboxed before it
/// began may be killed for a call.
pub(crate) fn began_as_root() -> bool {
    const AT_EUID: c_ulong = 12;
    getauxval(AT_EUID) == 0
}

/// Where the frames of the first thread's stack end: above them lie the random bytes that the kernel gives each program.
pub(crate) fn end_of_frames() -> usize {
    const AT_RANDOM: c_ulong = 25;
    getauxval(AT_RANDOM) as usize
}
