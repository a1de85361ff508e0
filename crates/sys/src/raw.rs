//! System calls whose arguments come from a C caller and go to the kernel as they came.
//!
//! A bad pointer is the kernel's to refuse (`EFAULT`), so none is turned into a reference here. Written as instructions,
//! because they run in the child of a `fork`, where binding a name of the C library costs ten page faults.
#![allow(unsafe_code)]

use core::arch::asm;
use core::ffi::{c_char, c_int};
use core::mem::MaybeUninit;

use linux_raw_sys::general::{
    __NR_execve, __NR_exit_group, __NR_fcntl, __NR_getpid, __NR_newfstatat, __NR_openat, __NR_pipe2,
    __NR_rt_sigprocmask, AT_EMPTY_PATH, AT_FDCWD, S_IFCHR, S_IFMT, S_IFREG, SIG_BLOCK, SIG_SETMASK, SIG_UNBLOCK, stat,
};
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::OFlags;

use crate::Errno;

/// `pipe2(2)`.
///
/// # Errors
/// Those of `pipe2(2)`.
///
/// # Safety
/// `ends` points to room for two integers, or to memory that the kernel refuses to write.
pub unsafe fn pipe2(ends: *mut [c_int; 2], flags: c_int) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    outcome(unsafe { call4(__NR_pipe2, ends as usize, flags as usize, 0, 0) })
}

/// `execve(2)`; returns only if it failed.
///
/// # Errors
/// Those of `execve(2)`.
///
/// # Safety
/// Each argument is what `execve(2)` asks for, or memory that the kernel refuses to read.
pub unsafe fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    outcome(unsafe { call4(__NR_execve, path as usize, arguments as usize, environment as usize, 0) })
}

/// `fcntl(2)`.
///
/// # Errors
/// Those of `fcntl(2)`.
///
/// # Safety
/// `argument` is what the command takes: a number, or the address of what it reads or writes.
pub unsafe fn fcntl(fd: c_int, command: c_int, argument: usize) -> Result<c_int, Errno> {
    // SAFETY: the caller's promise.
    value(unsafe { call4(__NR_fcntl, fd as usize, command as usize, argument, 0) }).map(|answer| answer as c_int)
}

/// What is known of a file without opening it.
pub struct Status {
    mode: u32,
    device: u64,
    size: u64,
}

impl Status {
    fn is(&self, kind: u32) -> bool {
        self.mode & S_IFMT == kind
    }

    /// All that can be read from it, if that is known: a file without a size may be made as it is read.
    pub fn bytes(&self) -> Option<u64> {
        /// `/dev/null`
        const NULL: u64 = 1 << 8 | 3;
        let major = self.device >> 8 & 0xfff;
        // What is typed at a terminal is next to nothing as well.
        let is_empty = self.is(S_IFCHR) && (self.device == NULL || matches!(major, 4 | 5 | 136..=143));
        let has_size = self.is(S_IFREG) && self.size > 0;
        (has_size || is_empty).then_some(self.size)
    }
}

/// What is known of the file at `path`.
///
/// # Errors
/// Those of `stat(2)`.
///
/// # Safety
/// `path` is a C string, or memory that the kernel refuses to read.
pub unsafe fn status_at(path: *const c_char) -> Result<Status, Errno> {
    // SAFETY: the caller's promise.
    unsafe { status(AT_FDCWD as usize, path, 0) }
}

/// What is known of the file behind an open descriptor. It is the system call of [`status_at`], so a filter that allows
/// one allows both.
///
/// # Errors
/// Those of `fstat(2)`.
pub fn status_of(file: BorrowedFd<'_>) -> Result<Status, Errno> {
    // SAFETY: an empty C string.
    unsafe { status(file.as_raw_fd() as usize, c"".as_ptr(), AT_EMPTY_PATH as usize) }
}

/// # Safety
/// As for [`status_at`].
#[unsafe(link_section = ".text.hot.millstream")]
unsafe fn status(directory: usize, path: *const c_char, flags: usize) -> Result<Status, Errno> {
    let mut status = MaybeUninit::<stat>::uninit();
    // SAFETY: the caller's promise; the kernel fills `status`, or says that it did not.
    outcome(unsafe { call4(__NR_newfstatat, directory, path as usize, status.as_mut_ptr() as usize, flags) })?;
    // SAFETY: filled.
    let status = unsafe { status.assume_init_ref() };
    Ok(Status { mode: status.st_mode, device: status.st_rdev, size: status.st_size.cast_unsigned() })
}

/// Fails unless there is a regular file at `path`. Other files should not be opened just to look: opening a FIFO wakes
/// its writers, and opening a device can have any effect.
///
/// # Errors
/// Those of `stat(2)`; `EACCES` for what is no regular file, as `execve(2)` has it.
///
/// # Safety
/// As for [`status_at`].
pub unsafe fn expect_regular(path: *const c_char) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    if unsafe { status_at(path) }?.is(S_IFREG) { Ok(()) } else { Err(Errno::ACCESS) }
}

/// Opens a regular file for reading, closed on exec.
///
/// # Errors
/// Those of [`expect_regular`] and [`open`].
///
/// # Safety
/// As for [`status_at`].
pub unsafe fn open_regular(path: *const c_char) -> Result<OwnedFd, Errno> {
    // SAFETY: the caller's promise.
    unsafe {
        expect_regular(path)?;
        open(path)
    }
}

/// Opens a file for reading, closed on exec.
///
/// # Errors
/// Those of `open(2)`.
///
/// # Safety
/// As for [`status_at`].
pub unsafe fn open(path: *const c_char) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    // SAFETY: the caller's promise.
    let fd = value(unsafe { call4(__NR_openat, AT_FDCWD as usize, path as usize, flags.bits() as usize, 0) })?;
    // SAFETY: the kernel has just opened this number, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

/// Ends the process at once, for callers without a C library.
pub fn exit(status: c_int) -> ! {
    loop {
        // SAFETY: touches no memory.
        unsafe { call4(__NR_exit_group, status as usize, 0, 0, 0) };
    }
}

/// Writes to the standard error output as far as that is possible.
pub fn say(text: &[u8]) {
    // SAFETY: a number that is only used for a call which is valid for any.
    let _ = rustix::io::write(unsafe { BorrowedFd::borrow_raw(2) }, text);
}

/// The number of this process.
pub fn process() -> u32 {
    // SAFETY: touches no memory.
    unsafe { call4(__NR_getpid, 0, 0, 0, 0) as u32 }
}

/// Blocks the signals in `set` for this thread and returns what was blocked.
pub fn block_signals(set: u64) -> u64 {
    change_mask(SIG_BLOCK, set)
}

/// Lets these signals of this thread in. Returns what was blocked before.
pub fn unblock_signals(set: u64) -> u64 {
    change_mask(SIG_UNBLOCK, set)
}

/// Blocks these signals for this thread and no others.
pub fn set_signal_mask(set: u64) {
    change_mask(SIG_SETMASK, set);
}

#[inline(never)]
fn change_mask(how: u32, set: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: two sets of 8 bytes, the kernel's size.
    unsafe {
        call4(__NR_rt_sigprocmask, how as usize, (&raw const set) as usize, (&raw mut before) as usize, 8);
    }
    before
}

/// Makes any system call, for callers that pass on the call of a C program or must not use the C library. Returns the
/// kernel's answer unchanged: -4095 to -1 for an error.
///
/// # Safety
/// As for the call of that number: what it reads and writes must be the caller's to have read and written.
#[cfg(target_arch = "x86_64")]
pub unsafe fn any(number: u32, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result: isize;
    // SAFETY: the caller's promise; the convention as in `call4`.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") first, in("rsi") second, in("rdx") third,
            in("r10") fourth, in("r8") fifth, in("r9") sixth, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// The kernel answers -4095..=-1 for an error (`syscalls(2)`).
fn value(result: isize) -> Result<isize, Errno> {
    match result {
        -4095..=-1 => Err(Errno::from_raw_os_error(-result as i32)),
        value => Ok(value),
    }
}

fn outcome(result: isize) -> Result<(), Errno> {
    value(result).map(|_| ())
}

/// # Safety
/// The call must be one that touches no memory of Rust's but what the caller's arguments allow.
#[cfg(target_arch = "x86_64")]
unsafe fn call4(number: u32, first: usize, second: usize, third: usize, fourth: usize) -> isize {
    let result: isize;
    // SAFETY: the kernel's calling convention for x86-64 (System V ABI, A.2.1): it clobbers rcx and r11.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") first, in("rsi") second, in("rdx") third,
            in("r10") fourth, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// # Safety
/// The call must be one that touches no memory of Rust's but what the caller's arguments allow.
#[cfg(target_arch = "aarch64")]
unsafe fn call4(number: u32, first: usize, second: usize, third: usize, fourth: usize) -> isize {
    let result: isize;
    // SAFETY: the kernel's calling convention for AArch64 (`syscall(2)`): the number in x8, the result in x0.
    unsafe {
        asm!("svc 0", in("x8") number as usize, inlateout("x0") first as isize => result, in("x1") second,
            in("x2") third, in("x3") fourth, options(nostack));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_made_and_a_bad_pointer_is_refused() {
        let mut ends = [-1; 2];
        // SAFETY: room for two integers.
        assert_eq!(unsafe { pipe2(&mut ends, 0) }, Ok(()));
        assert!(ends[0] >= 0 && ends[1] > ends[0]);
        // SAFETY: the kernel refuses to write there.
        assert_eq!(unsafe { pipe2(core::ptr::without_provenance_mut(8), 0) }, Err(Errno::FAULT));
        // SAFETY: room for two integers.
        assert_eq!(unsafe { pipe2(&mut ends, -1) }, Err(Errno::INVAL));
    }

    #[test]
    fn only_a_regular_file_is_opened_and_a_bad_pointer_is_refused() {
        let open = |path: &core::ffi::CStr| {
            // SAFETY: a C string.
            unsafe { open_regular(path.as_ptr()) }.err()
        };
        assert_eq!(open(c"/bin/true"), None);
        assert_eq!(
            (open(c"/dev/null"), open(c"/"), open(c"/nonexistent")),
            (Some(Errno::ACCESS), Some(Errno::ACCESS), Some(Errno::NOENT))
        );
        // SAFETY: an address that the kernel refuses to read.
        assert_eq!(unsafe { open_regular(core::ptr::without_provenance(8)) }.err(), Some(Errno::FAULT));
    }

    #[test]
    fn bytes_are_known_for_files_with_size_and_for_empty_devices() {
        let bytes_at = |path: &core::ffi::CStr| {
            // SAFETY: a C string.
            unsafe { status_at(path.as_ptr()) }.unwrap().bytes()
        };
        let size = std::fs::metadata("/bin/true").unwrap().len();
        assert_eq!((bytes_at(c"/bin/true"), bytes_at(c"/dev/null")), (Some(size), Some(0)));
        for path in [c"/", c"/dev/zero", c"/dev/urandom", c"/proc/self/environ"] {
            assert_eq!(bytes_at(path), None, "{path:?}");
        }
        let file = std::fs::File::open("/bin/true").unwrap();
        let (end, _) = crate::pipe::create().unwrap();
        assert_eq!(status_of(rustix::fd::AsFd::as_fd(&file)).unwrap().bytes(), Some(size));
        assert_eq!(status_of(rustix::fd::AsFd::as_fd(&end)).unwrap().bytes(), None);
        // SAFETY: an address that the kernel refuses to read.
        assert_eq!(unsafe { status_at(core::ptr::without_provenance(8)) }.err(), Some(Errno::FAULT));
    }

    #[test]
    fn missing_program_is_not_executed() {
        let none = [core::ptr::null()];
        // SAFETY: C strings and null-terminated lists.
        let outcome = unsafe { execve(c"/nonexistent".as_ptr(), none.as_ptr(), none.as_ptr()) };
        assert_eq!(outcome, Err(Errno::NOENT));
    }
}
