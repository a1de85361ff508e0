//! System calls of the joining library, as instructions: nothing here touches errno or the C library. Each answers what the
//! kernel answered, -4095 to -1 for an error. What is called from several places stands once: the library is to be small.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, AtomicU32};

use linux_raw_sys::general as k;
use millstream_sys::descriptor_path;
use millstream_sys::raw::any;

pub(super) const EINTR: isize = -4;
pub(super) const EAGAIN: isize = -11;
pub(super) const ENOMEM: isize = -12;
pub(super) const EFAULT: isize = -14;
pub(super) const EMFILE: isize = -24;
pub(super) const EPIPE: isize = -32;
const EOPNOTSUPP: isize = -95;
pub(super) const ETIMEDOUT: isize = -110;
pub(super) const ECANCELED: isize = -125;

pub(super) const O_RDONLY: usize = k::O_RDONLY as usize;
pub(super) const O_WRONLY: usize = k::O_WRONLY as usize;
pub(super) const O_NONBLOCK: usize = k::O_NONBLOCK as usize;
pub(super) const O_CLOEXEC: usize = k::O_CLOEXEC as usize;
pub(super) const O_DIRECTORY: usize = k::O_DIRECTORY as usize;

pub(super) const POLLIN: i16 = 1;
pub(super) const POLLHUP: i16 = 16;
pub(super) const POLLRDNORM: i16 = 64;
pub(super) const POLLOUT: i16 = 4;
pub(super) const POLLWRNORM: i16 = 256;
const POLLERR: i16 = 8;

const NANOSECONDS: u64 = 1_000_000_000;

pub(super) fn read(fd: i32, buffer: *mut u8, len: usize) -> isize {
    // SAFETY: the caller's buffer; memory that is not there is the kernel's to refuse.
    unsafe { any(k::__NR_read, [fd as usize, buffer as usize, len, 0, 0, 0]) }
}

pub(super) fn write(fd: i32, buffer: *const u8, len: usize) -> isize {
    // SAFETY: only read, and memory that is not there is the kernel's to refuse.
    unsafe { any(k::__NR_write, [fd as usize, buffer as usize, len, 0, 0, 0]) }
}

/// What is in a pipe, at most `len` bytes; `EAGAIN` if that is nothing.
pub(super) fn read_now(fd: i32, buffer: *mut u8, len: usize) -> isize {
    let piece = Piece { base: buffer, len };
    let at = (&raw const piece) as usize;
    // SAFETY: the caller's buffer, as for `read`; position -1 is the current one, which a pipe does not have.
    let read = unsafe { any(k::__NR_preadv2, [fd as usize, at, 1, usize::MAX, usize::MAX, k::RWF_NOWAIT as usize]) };
    if read != EOPNOTSUPP {
        return read;
    }
    // An older kernel. With a description that does not block, if there can be one.
    let own = reopen(fd, O_RDONLY | O_NONBLOCK);
    if own < 0 {
        return self::read(fd, buffer, len);
    }
    let result = self::read(own as i32, buffer, len);
    close(own as i32);
    result
}

/// Writes two pieces into a pipe, as much as fits now; `EAGAIN` if that is nothing.
pub(super) fn write_now(fd: i32, pieces: [(*const u8, usize); 2]) -> isize {
    let pieces = pieces.map(|(base, len)| Piece { base, len });
    let at = pieces.as_ptr() as usize;
    // SAFETY: as for `write`; position -1 is the current one, which a pipe does not have.
    let wrote = unsafe { any(k::__NR_pwritev2, [fd as usize, at, 2, usize::MAX, usize::MAX, k::RWF_NOWAIT as usize]) };
    if wrote != EOPNOTSUPP {
        return wrote;
    }
    // An older kernel, or an end that was opened anew. There is room, unless a foreign process fills the pipe in this moment.
    if matches!(polled(fd, POLLOUT, 0), Some(0)) {
        return EAGAIN;
    }
    // SAFETY: as above.
    unsafe { any(k::__NR_writev, [fd as usize, at, 2, 0, 0, 0]) }
}

/// `readv(2)` or `writev(2)` with the program's own list.
pub(super) fn vector(reads: bool, fd: i32, pieces: *const [usize; 2], count: i32) -> isize {
    let number = if reads { k::__NR_readv } else { k::__NR_writev };
    // SAFETY: what the program passed.
    unsafe { any(number, [fd as usize, pieces as usize, count as usize, 0, 0, 0]) }
}

/// `sendfile(2)`.
pub(super) fn sendfile(to: i32, from: i32, at: *mut i64, len: usize) -> isize {
    // SAFETY: descriptors, and a position that is the kernel's to refuse.
    unsafe { any(k::__NR_sendfile, [to as usize, from as usize, at as usize, len, 0, 0]) }
}

/// `splice(2)`.
pub(super) fn splice(from: i32, from_at: *mut i64, to: i32, to_at: *mut i64, len: usize, flags: u32) -> isize {
    let arguments = [from as usize, from_at as usize, to as usize, to_at as usize, len, flags as usize];
    // SAFETY: descriptors, and positions that are the kernel's to refuse.
    unsafe { any(k::__NR_splice, arguments) }
}

/// `struct iovec`.
#[repr(C)]
struct Piece {
    base: *const u8,
    len: usize,
}

#[inline(never)]
pub(super) fn close(fd: i32) -> isize {
    // SAFETY: touches no memory.
    unsafe { any(k::__NR_close, [fd as usize, 0, 0, 0, 0, 0]) }
}

#[inline(never)]
pub(super) fn open(path: &CStr, flags: usize) -> isize {
    // SAFETY: a C string.
    unsafe { any(k::__NR_openat, [k::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0]) }
}

/// Opens what a descriptor stands for anew; closed on exec.
#[inline(never)]
pub(super) fn reopen(fd: i32, flags: usize) -> isize {
    let mut room = [0; descriptor_path::ROOM];
    open(descriptor_path::write(None, fd.unsigned_abs(), &mut room), flags | O_CLOEXEC)
}

/// Calls `work` in a child that has this memory, and a table of descriptors of its own; returns when it has ended. Signals are held
/// back, here and there. Where there can be no child, `work` is not called.
pub(super) fn in_child<F: FnMut()>(mut work: F) {
    extern "C" fn run<F: FnMut()>(work: &mut F) -> ! {
        work();
        millstream_sys::raw::exit(0)
    }
    let child: isize;
    // SAFETY: this thread stands still until the child has ended, so the child can have the stack below what is used of it; it never
    // returns from `run`. It makes system calls only, and its end sends no signal.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov rdi, r12",
            "call {run}",
            "2:",
            run = sym run::<F>,
            inlateout("rax") k::__NR_clone as usize => child,
            in("rdi") (k::CLONE_VM | k::CLONE_VFORK) as usize,
            in("rsi") 0,
            in("rdx") 0,
            in("r10") 0,
            in("r8") 0,
            in("r12") &raw mut work,
            out("rcx") _,
            out("r11") _,
        );
    }
    if child > 0 {
        await_end(child as usize);
    }
}

#[inline(never)]
fn await_end(child: usize) {
    const DIED_OR_LEFT: usize = 0x4000_0000; // __WALL
    // SAFETY: nothing is written.
    while unsafe { any(k::__NR_wait4, [child, 0, DIED_OR_LEFT, 0, 0, 0]) } == EINTR {}
}

/// Whether this process has children that it has not waited for.
pub(super) fn has_children() -> bool {
    let how = (k::WEXITED | k::WNOHANG | k::WNOWAIT) as usize;
    // SAFETY: nothing is written, and no child is taken from the program.
    unsafe { any(k::__NR_waitid, [k::P_ALL as usize, 0, 0, how, 0, 0]) == 0 }
}

/// Where the link of a descriptor of this process leads, as `readlink(2)` answers.
pub(super) fn link_of(fd: i32, target: &mut [u8]) -> isize {
    let mut room = [0; descriptor_path::ROOM];
    link(k::AT_FDCWD, descriptor_path::write(None, fd.unsigned_abs(), &mut room), target)
}

/// Inode of what a path leads to.
pub(super) fn inode_of(path: &CStr) -> Option<u64> {
    // `struct stat`: the device, then the inode.
    let mut status = [0_u64; 18];
    // SAFETY: a C string, and room for the kernel's `struct stat`, 144 bytes.
    let result = unsafe {
        any(k::__NR_newfstatat, [k::AT_FDCWD as usize, path.as_ptr() as usize, status.as_mut_ptr() as usize, 0, 0, 0])
    };
    (result == 0).then_some(status[1])
}

/// Whether a directory is read from this position next.
pub(super) fn seek(fd: i32, position: i64) -> bool {
    // SAFETY: touches no memory.
    unsafe { any(k::__NR_lseek, [fd as usize, position as usize, 0, 0, 0, 0]) == position as isize }
}

/// Where the next read of a file begins.
#[inline(never)]
pub(super) fn position(fd: i32) -> Option<u64> {
    const SEEK_CUR: usize = 1;
    // SAFETY: touches no memory.
    u64::try_from(unsafe { any(k::__NR_lseek, [fd as usize, 0, SEEK_CUR, 0, 0, 0]) }).ok()
}

#[inline(never)]
pub(super) fn dup3(from: i32, to: i32, flags: usize) -> isize {
    // SAFETY: touches no memory; whose descriptors these are is the caller's business.
    unsafe { any(k::__NR_dup3, [from as usize, to as usize, flags, 0, 0, 0]) }
}

/// `fcntl(2)` with a number as its argument.
#[inline(never)]
pub(super) fn fcntl(fd: i32, command: u32, argument: usize) -> isize {
    // SAFETY: only called with commands whose argument is a number, or with what the program passed.
    unsafe { any(k::__NR_fcntl, [fd as usize, command as usize, argument, 0, 0, 0]) }
}

#[inline(never)]
pub(super) fn ioctl(fd: i32, request: usize, argument: usize) -> isize {
    // SAFETY: what the program passed, or as in `bytes_in`.
    unsafe { any(k::__NR_ioctl, [fd as usize, request, argument, 0, 0, 0]) }
}

/// Bytes that wait in the pipe behind either end.
#[inline(never)]
pub(super) fn bytes_in(fd: i32) -> usize {
    let mut bytes = 0_i32;
    match ioctl(fd, FIONREAD, (&raw mut bytes) as usize) {
        0 => bytes.max(0) as usize,
        _ => 0,
    }
}

pub(super) const FIONREAD: usize = 0x541b;

/// `struct flock` of a 64-bit kernel.
#[repr(C)]
struct Lock {
    kind: i16,
    whence: i16,
    start: i64,
    len: i64,
    pid: i32,
}

pub(super) const READ_LOCK: i16 = 0;
pub(super) const WRITE_LOCK: i16 = 1;
const NO_LOCK: i16 = 2;
const F_OFD_GETLK: u32 = 36;
const F_OFD_SETLK: u32 = 37;

const F_GETLK: u32 = 5;
const F_SETLK: u32 = 6;

/// What the kernel makes of such a lock; `None` if it refuses.
#[inline(never)]
fn lock(fd: i32, command: u32, kind: i16, start: i64, len: i64) -> Option<Lock> {
    let mut lock = Lock { kind, whence: 0, start, len, pid: 0 };
    (fcntl(fd, command, (&raw mut lock) as usize) == 0).then_some(lock)
}

/// Marks a place of the pipe as this process's: a lock that goes with the process, or when it closes a descriptor of the pipe.
/// `false`: another process has that place.
pub(super) fn post(fd: i32, place: i64) -> bool {
    lock(fd, F_SETLK, WRITE_LOCK, place, 1).is_some()
}

/// Takes that mark away.
pub(super) fn unpost(fd: i32, place: i64) {
    lock(fd, F_SETLK, NO_LOCK, place, 1);
}

/// Another process's mark of that kind in `len` places from `start`, and the process.
pub(super) fn posted(fd: i32, start: i64, len: i64) -> Option<(i64, u32)> {
    let found = lock(fd, F_GETLK, WRITE_LOCK, start, len)?;
    let process = u32::try_from(found.pid).ok().filter(|&pid| found.kind != NO_LOCK && pid != 0)?;
    Some((found.start, process))
}

/// Puts a mark on the open file description: a lock of one byte.
pub(super) fn mark(fd: i32, kind: i16, start: i64) -> bool {
    lock(fd, F_OFD_SETLK, kind, start, 1).is_some()
}

/// Whether another open file description of the same file carries a lock in `len` bytes from `start` (0: to the end).
/// `None` if that cannot be asked.
pub(super) fn is_marked(fd: i32, start: i64, len: i64) -> Option<bool> {
    Some(lock(fd, F_OFD_GETLK, WRITE_LOCK, start, len)?.kind != NO_LOCK)
}

/// `struct timespec`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Time {
    pub(super) seconds: i64,
    pub(super) nanoseconds: i64,
}

/// Sleeps while the word is `value`. Without a limit the kernel resumes the sleep after a signal handler that was
/// installed with `SA_RESTART`; with one it never does.
#[inline(never)]
pub(super) fn wait(word: &AtomicU32, value: u32, limit_ns: Option<u64>) -> isize {
    let time = limit_ns.map(|ns| Time { seconds: (ns / NANOSECONDS) as i64, nanoseconds: (ns % NANOSECONDS) as i64 });
    let time_at = time.as_ref().map_or(0, |time| core::ptr::from_ref(time) as usize);
    // SAFETY: the word is an aligned integer, the time lives until the call returns.
    unsafe { any(k::__NR_futex, [word.as_ptr() as usize, 0, value as usize, time_at, 0, 0]) }
}

/// The same with a limit after which it is `ETIMEDOUT`, and resumed after such a handler as if there were none. Before Linux 5.16
/// there is no limit.
pub(super) fn wait_resumed(word: &AtomicU32, value: u32, limit_ns: u64) -> isize {
    const ENOSYS: isize = -38;
    const FUTEX2_SIZE_U32: u32 = 2;
    let clock = k::CLOCK_MONOTONIC as usize;
    let mut until = time_of(clock);
    let nanoseconds = until.nanoseconds as u64 + limit_ns;
    until.seconds += (nanoseconds / NANOSECONDS) as i64;
    until.nanoseconds = (nanoseconds % NANOSECONDS) as i64;
    let waiter = Waiter { value: u64::from(value), address: word.as_ptr() as u64, flags: FUTEX2_SIZE_U32, reserved: 0 };
    let (waiter_at, until_at) = ((&raw const waiter) as usize, (&raw const until) as usize);
    // SAFETY: one entry, as the count says, of an aligned integer; the time lives until the call returns.
    match unsafe { any(k::__NR_futex_waitv, [waiter_at, 1, 0, until_at, clock, 0]) } {
        ENOSYS => wait(word, value, None),
        outcome => outcome,
    }
}

fn time_of(clock: usize) -> Time {
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: room for a time.
    unsafe { any(k::__NR_clock_gettime, [clock, (&raw mut time) as usize, 0, 0, 0, 0]) };
    time
}

/// Nanoseconds that have passed.
pub(super) fn monotonic_ns() -> u64 {
    in_ns(&time_of(k::CLOCK_MONOTONIC as usize))
}

/// Nanoseconds for which this process and another have run on a CPU; of one that is gone none are known.
pub(super) fn run_ns_with(process: u32) -> u64 {
    /// `MAKE_PROCESS_CPUCLOCK` of Linux: what the scheduler has counted.
    const SCHEDULED: u32 = 2;
    let others = (!process << 3) | SCHEDULED;
    let own = k::CLOCK_PROCESS_CPUTIME_ID as usize;
    in_ns(&time_of(own)).wrapping_add(in_ns(&time_of(others as usize)))
}

fn in_ns(time: &Time) -> u64 {
    (time.seconds as u64).wrapping_mul(NANOSECONDS).wrapping_add(time.nanoseconds as u64)
}

/// `struct futex_waitv`.
#[repr(C)]
struct Waiter {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

#[inline(never)]
pub(super) fn wake_all(word: &AtomicU32) {
    // SAFETY: the word is an aligned integer.
    unsafe { any(k::__NR_futex, [word.as_ptr() as usize, 1, i32::MAX as usize, 0, 0, 0]) };
}

pub(super) fn give_the_cpu_away() {
    // SAFETY: touches no memory.
    unsafe { any(k::__NR_sched_yield, [0; 6]) };
}

/// Sleeps until one of two descriptors can be read, or is at its end, or a signal came; says of each whether it is so.
pub(super) fn poll_both(fds: [i32; 2]) -> [bool; 2] {
    let mut asked = fds.map(|fd| Asked { fd, events: POLLIN, answer: 0 });
    // SAFETY: two entries, as the count says.
    unsafe { any(k::__NR_poll, [asked.as_mut_ptr() as usize, 2, usize::MAX, 0, 0, 0]) };
    asked.map(|asked| asked.answer != 0)
}

/// `struct pollfd`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Asked {
    pub(super) fd: i32,
    pub(super) events: i16,
    pub(super) answer: i16,
}

/// `ppoll(2)` with the program's own list; what is left of the time is written there.
pub(super) fn ppoll(list: *mut Asked, len: usize, left: *mut Time, mask: *const u64) -> isize {
    // SAFETY: what the program passed, and a time.
    unsafe { any(k::__NR_ppoll, [list as usize, len, left as usize, mask as usize, 8, 0]) }
}

/// `pselect(2)` with sets of so many bits; what is left of the time is written there.
pub(super) fn pselect(numbers: i32, sets: [*mut u64; 3], left: *mut Time, mask: *const u64) -> isize {
    let [read, write, other] = sets.map(|set| set as usize);
    let mask = [mask as usize, 8];
    // SAFETY: sets that are large enough, or what the program passed; a time, and a set of signals with its size.
    unsafe { any(k::__NR_pselect6, [numbers as usize, read, write, other, left as usize, mask.as_ptr() as usize]) }
}

/// What `poll(2)` says of one descriptor; nothing where it fails.
pub(super) fn poll(fd: i32, events: i16, limit_ms: i32) -> i16 {
    polled(fd, events, limit_ms).unwrap_or(0)
}

/// The same. `None`: it fails, as where the process may have no file open.
#[inline(never)] // has many callers
fn polled(fd: i32, events: i16, limit_ms: i32) -> Option<i16> {
    let mut asked = Asked { fd, events, answer: 0 };
    // SAFETY: one entry, as the count says.
    let found = unsafe { any(k::__NR_poll, [(&raw mut asked) as usize, 1, limit_ms as usize, 0, 0, 0]) };
    (found >= 0).then_some(asked.answer)
}

/// What kind of file this is (`S_IFMT`), and which device. `None`: there is none.
pub(super) fn kind_of(fd: i32) -> Option<(u32, u64)> {
    let status = millstream_sys::descriptors::status_of(fd.unsigned_abs())?;
    Some((status.st_mode & k::S_IFMT, status.st_rdev))
}

/// Whether the pipe of this write end has no read end any more.
pub(super) fn has_no_reader(fd: i32) -> bool {
    poll(fd, 0, 0) & POLLERR != 0
}

/// Takes a SIGPIPE that waits behind the mask, if one does.
pub(super) fn forget_sigpipe() {
    let (set, time) = (1_u64 << (13 - 1), Time { seconds: 0, nanoseconds: 0 });
    // SAFETY: a set of the kernel's size and a time; nothing is written.
    unsafe {
        any(k::__NR_rt_sigtimedwait, [(&raw const set) as usize, 0, (&raw const time) as usize, 8, 0, 0]);
    }
}

/// What is done about a signal: `struct sigaction` of a 64-bit kernel.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Action {
    /// 0: the default; 1: nothing.
    pub(super) handler: u64,
    pub(super) flags: u64,
    /// The code by which the handler returns.
    pub(super) restorer: u64,
    pub(super) mask: u64,
}

pub(super) fn action_of(signal: usize) -> Action {
    let mut action = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
    // SAFETY: room for the kernel's structure, and the size of its set.
    unsafe { any(k::__NR_rt_sigaction, [signal, 0, (&raw mut action) as usize, 8, 0, 0]) };
    action
}

pub(super) fn set_action(signal: usize, action: &Action) -> bool {
    // SAFETY: the kernel's structure; what the handler does is the caller's business.
    unsafe { any(k::__NR_rt_sigaction, [signal, core::ptr::from_ref(action) as usize, 0, 8, 0, 0]) == 0 }
}

/// Has SIGSYS come in the place of each system call of this thread from outside of this range, as long as the selector says so, or of
/// none any more (`prctl(2)`). `false`: this kernel cannot do it.
pub(super) fn trap_calls(allowed: Option<&core::ops::Range<usize>>, selector: &'static AtomicU8) -> bool {
    const ON: usize = 1;
    let arguments = allowed.map_or([0; 4], |range| [ON, range.start, range.len(), selector.as_ptr() as usize]);
    let [is_on, start, len, selector] = arguments;
    // SAFETY: numbers, and the address of a byte that lasts.
    unsafe {
        let option = millstream_sys::confinement::PR_SET_SYSCALL_USER_DISPATCH;
        any(k::__NR_prctl, [option, is_on, start, len, selector, 0]) == 0
    }
}

/// Sends this thread a signal with what it came with.
pub(super) fn send_again(signal: i32, info: *const [i32; 32]) {
    let (process, thread) = (millstream_sys::own_pid() as usize, own_thread() as usize);
    // SAFETY: a `siginfo_t` that the kernel has made, as the caller got it.
    unsafe { any(k::__NR_rt_tgsigqueueinfo, [process, thread, signal as usize, info as usize, 0, 0]) };
}

/// `rt_sigprocmask(2)` with the program's own numbers and addresses.
pub(super) fn change_program_mask(how: usize, set: usize, before: usize) -> isize {
    // SAFETY: what the program passed.
    unsafe { any(k::__NR_rt_sigprocmask, [how, set, before, 8, 0, 0]) }
}

/// `readlinkat(2)`; `name` is a C string.
#[inline(never)]
pub(super) fn link(directory: i32, name: &CStr, buffer: &mut [u8]) -> isize {
    let (to, len) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: a C string, the buffer and its length.
    unsafe { any(k::__NR_readlinkat, [directory as usize, name.as_ptr() as usize, to, len, 0, 0]) }
}

/// Lets data be written that the loader has made read-only.
pub(super) fn make_writable(start: usize, len: usize) -> bool {
    protect(start, len, k::PROT_READ | k::PROT_WRITE)
}

/// Makes it read-only again.
pub(super) fn make_readable(start: usize, len: usize) -> bool {
    protect(start, len, k::PROT_READ)
}

/// Lets code be executed again that was made readable only.
pub(super) fn make_executable(start: usize, len: usize) -> bool {
    protect(start, len, k::PROT_READ | k::PROT_EXEC)
}

/// Whether the kernel keeps memory that cannot be executed so for ever (`PR_SET_MDWE` of `prctl(2)`, Linux 6.3).
pub(super) fn keeps_data_from_execution() -> bool {
    // SAFETY: touches no memory.
    unsafe { any(k::__NR_prctl, [millstream_sys::confinement::PR_GET_MDWE, 0, 0, 0, 0, 0]) > 0 }
}

fn protect(start: usize, len: usize, access: u32) -> bool {
    // SAFETY: data, or code whose execution the caller expects to fail; it stays readable.
    unsafe { any(k::__NR_mprotect, [start, len, access as usize, 0, 0, 0]) == 0 }
}

/// Pages that are about to be written, all at once instead of a fault for each. Where that cannot be (before Linux 5.14) they fault.
pub(super) fn populate(start: *mut u8, len: usize) {
    const MADV_POPULATE_WRITE: usize = 23;
    // SAFETY: changes no byte of the caller's memory.
    unsafe { any(k::__NR_madvise, [start as usize, len, MADV_POPULATE_WRITE, 0, 0, 0]) };
}

/// A page that reads as zeros in every forked child.
pub(super) fn page_of_this_process() -> Option<*mut u8> {
    const MADV_WIPEONFORK: usize = 18;
    let (access, flags) = ((k::PROT_READ | k::PROT_WRITE) as usize, (k::MAP_PRIVATE | k::MAP_ANONYMOUS) as usize);
    // SAFETY: a new mapping where the kernel likes; the advice concerns that page only.
    unsafe {
        let page = any(k::__NR_mmap, [0, 4096, access, flags, usize::MAX, 0]);
        if page < 0 || any(k::__NR_madvise, [page as usize, 4096, MADV_WIPEONFORK, 0, 0, 0]) != 0 {
            return None;
        }
        Some(page as *mut u8)
    }
}

/// Zeros that this process shares with every child that it forks from now on.
pub(super) fn page_of_children(len: usize) -> Option<*mut u8> {
    let (access, flags) = ((k::PROT_READ | k::PROT_WRITE) as usize, (k::MAP_SHARED | k::MAP_ANONYMOUS) as usize);
    // SAFETY: a new mapping where the kernel likes.
    let page = unsafe { any(k::__NR_mmap, [0, len, access, flags, usize::MAX, 0]) };
    (page > 0).then_some(page as *mut u8)
}

/// The head of the first thread's list of robust futexes, as the kernel knows it. That thread ends with the process, or gives back first.
pub(super) fn robust_list() -> Option<*mut RobustList> {
    let first = millstream_sys::own_pid() as usize;
    let (mut head, mut len) = (core::ptr::null_mut::<RobustList>(), 0_usize);
    // SAFETY: room for a pointer and a length.
    let result =
        unsafe { any(k::__NR_get_robust_list, [first, (&raw mut head) as usize, (&raw mut len) as usize, 0, 0, 0]) };
    (result == 0 && len == size_of::<RobustList>() && !head.is_null()).then_some(head)
}

/// `struct robust_list_head`.
#[repr(C)]
pub(super) struct RobustList {
    pub(super) first: usize,
    pub(super) offset: isize,
    pub(super) pending: usize,
}

#[inline(never)]
pub(super) fn own_thread() -> u32 {
    // SAFETY: touches no memory.
    unsafe { any(k::__NR_gettid, [0; 6]) as u32 }
}

pub(super) fn is_alive(pid: u32) -> bool {
    const ESRCH: isize = -3;
    // SAFETY: signal 0 is none.
    unsafe { any(k::__NR_kill, [pid as usize, 0, 0, 0, 0, 0]) != ESRCH }
}

/// Whether a process has ended, though its parent may not know it yet. `false` where that cannot be told.
pub(super) fn has_ended(pid: u32) -> bool {
    const ESRCH: isize = -3;
    // SAFETY: touches no memory.
    let process = unsafe { any(k::__NR_pidfd_open, [pid as usize, 0, 0, 0, 0, 0]) };
    let has_ended = process == ESRCH || process >= 0 && poll(process as i32, POLLIN, 0) != 0;
    close(process as i32);
    has_ended
}

/// Whether `fd` is open for `access` only, blocks, is in no special mode, and has no owner that gets a signal.
#[inline(never)] // for one end or the other
pub(super) fn is_plain(fd: i32, access: usize) -> bool {
    const F_GETFL: u32 = 3;
    const F_GETOWN: u32 = 9;
    const O_LARGEFILE: isize = 0o100_000;
    fcntl(fd, F_GETFL, 0) & !O_LARGEFILE == access as isize && fcntl(fd, F_GETOWN, 0) == 0
}

/// Whether this thread may run on one CPU only. `false` if the kernel does not say.
pub(super) fn has_one_cpu() -> bool {
    // As many as most systems can have.
    let mut set = [0_u64; 1024 / 64];
    // SAFETY: the kernel writes into the set, no more than its size.
    let len = unsafe { any(k::__NR_sched_getaffinity, [0, size_of_val(&set), set.as_mut_ptr() as usize, 0, 0, 0]) };
    len > 0 && set.iter().map(|word| word.count_ones()).sum::<u32>() == 1
}

/// Ticks of the processor's clock, between 0.3 and 1 nanosecond each.
pub(super) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; it reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The CPU that this thread runs on, from the segment limit that the kernel keeps for it (`__getcpu` of Linux).
pub(super) fn cpu() -> u32 {
    const CPU_SEGMENT: u32 = 15 * 8 + 3;
    let limit: u32;
    // SAFETY: reads a segment limit; the processor sets no other state but flags.
    unsafe { core::arch::asm!("lsl {0:e}, {1:e}", out(reg) limit, in(reg) CPU_SEGMENT, options(nomem, nostack)) };
    limit & 0xfff
}

/// Copies from memory of the program that may not be there.
pub(super) fn read_own_memory(from: *const u8, to: *mut u8, len: usize) -> bool {
    let (local, remote) = (Piece { base: to, len }, Piece { base: from.cast_mut(), len });
    let (local_at, remote_at) = ((&raw const local) as usize, (&raw const remote) as usize);
    let own = millstream_sys::own_pid() as usize;
    // SAFETY: the caller's room; the other memory is only read, and the kernel's to refuse.
    len == 0 || unsafe { any(k::__NR_process_vm_readv, [own, local_at, 1, remote_at, 1, 0]) } == len as isize
}

/// A copy of some pages of the program that another thread may take away. `None`: they are not there any more.
pub(super) fn copy_of_own_memory(start: usize, len: usize) -> Option<usize> {
    let (access, flags) = ((k::PROT_READ | k::PROT_WRITE) as usize, (k::MAP_PRIVATE | k::MAP_ANONYMOUS) as usize);
    // SAFETY: a new mapping where the kernel likes.
    let copy = unsafe { any(k::__NR_mmap, [0, len, access, flags, usize::MAX, 0]) };
    let copy = usize::try_from(copy).ok()?;
    if read_own_memory(start as *const u8, copy as *mut u8, len) {
        return Some(copy);
    }
    unmap(copy, len);
    None
}

/// Gives such a copy back.
pub(super) fn unmap(start: usize, len: usize) {
    // SAFETY: a mapping of this module's, of which no reference is left.
    unsafe { any(k::__NR_munmap, [start, len, 0, 0, 0, 0]) };
}
