//! System calls that a program's own code makes, past the functions of [`super::interposed`], while pipes are attached: of a library
//! like Rust's rustix, of a just-in-time compiler, of a program in assembler.
//!
//! The kernel brings each of them here as a SIGSYS before it is made (syscall user dispatch, Linux 5.11), if it comes from outside of one
//! range of addresses. That range holds glibc and this library, which the loader maps before it, so what glibc calls stays as quick as it
//! was, but for 37 ns (Zen 5). What cannot touch an end is made after all, with the program's registers, signals and mask; before any
//! other call the pipes go back to the kernel, and nothing is trapped any more.

use core::arch::global_asm;
use core::ffi::c_int;
use core::ops::Range;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::SeqCst;

use linux_raw_sys::general as k;
use millstream_sys::fate::Fate;

use super::end::{READER, WRITER};
use super::{guard_flags, harmless, kernel, other_names, own_process, retreat, threads};
use crate::confining;

// Where a call that may be made goes on, with the program's registers, flags and stack. A system call leaves nothing in rcx, so there
// the handler has put the way back. It is on the stack during the call, behind what may be the program's (the red zone of the ABI).
global_asm!(
    ".pushsection .text.millstream_trapped,\"ax\",@progbits",
    ".globl millstream_trapped",
    ".hidden millstream_trapped",
    "millstream_trapped:",
    "lea rsp, [rsp - 144]",
    "mov [rsp], rcx",
    "syscall",
    "mov rcx, [rsp]",
    "lea rsp, [rsp + 144]",
    "jmp rcx",
    ".popsection",
);

unsafe extern "C" {
    fn millstream_trapped();
}

/// What the kernel looks at before it traps a call: one of the two below.
static SELECTOR: AtomicU8 = AtomicU8::new(LETS_PASS);
/// `SYSCALL_DISPATCH_FILTER_ALLOW` and `SYSCALL_DISPATCH_FILTER_BLOCK` of Linux.
const LETS_PASS: u8 = 0;
const TRAPS: u8 = 1;

/// The calls of this thread are trapped from now on, while the process traps any, if they come from outside of this range. `false`: this
/// kernel cannot do it.
pub(super) fn arm(allowed: &Range<usize>) -> bool {
    kernel::trap_calls(Some(allowed), &SELECTOR)
}

/// From now on calls from outside of this range come to [`on_call`]. `false`: they would not, of every thread.
pub(super) fn begin(allowed: &Range<usize>) -> bool {
    SELECTOR.store(TRAPS, SeqCst);
    // Then: a thread that is about to make one that is not armed either says so before this, or finds that calls are trapped.
    let is_armed = if own_process::has_threads() { threads::are_armed() } else { arm(allowed) };
    if !is_armed {
        SELECTOR.store(LETS_PASS, SeqCst);
    }
    is_armed
}

pub(super) fn is_on() -> bool {
    SELECTOR.load(SeqCst) == TRAPS
}

pub(super) fn end() {
    if SELECTOR.swap(LETS_PASS, SeqCst) == TRAPS && !own_process::has_threads() {
        kernel::trap_calls(None, &SELECTOR);
    }
}

/// Places of registers in `ucontext_t` of x86-64, in words.
mod register {
    pub(super) const RDI: usize = 13;
    pub(super) const RSI: usize = 14;
    pub(super) const RAX: usize = 18;
    pub(super) const RCX: usize = 19;
    pub(super) const RIP: usize = 21;
}

/// In the handler of SIGSYS, in which all signals are held back: the call that was about to be made, by this architecture's numbers or
/// others.
pub(super) fn on_call(context: &mut [u64; 22], architecture: u32) {
    const X86_64: u32 = 0xc000_003e;
    /// The length of the instruction, behind which the program stands.
    const CALL: u64 = 2;
    let [number, first, second] = [register::RAX, register::RDI, register::RSI].map(|at| context[at] as usize);
    let way_back = context[register::RIP];
    let is_harmless = architecture == X86_64 && touches_no_end(number, first, second);
    if is_harmless && guard_flags::are_up() {
        context[register::RCX] = way_back;
        context[register::RIP] = millstream_trapped as *const () as u64;
        return;
    }
    if architecture == X86_64 {
        confining::before_own_call(number, first);
    }
    // Signals are let in before the next attempt: the instruction is done again, and trapped again.
    if guard_flags::are_up() && retreat::try_before_a_call(Fate::Code) == Some(false) {
        context[register::RAX] = kernel::EMFILE as u64;
    } else {
        context[register::RIP] = way_back - CALL;
    }
}

/// Whether a call leaves every end as it is, whichever descriptor stands for it.
pub(super) fn concerns_no_descriptor(number: usize, first: usize) -> bool {
    match number as u32 {
        k::__NR_prctl => HARMLESS_OPTIONS.contains(&(first as u32)),
        number => OF_NONE.has(number),
    }
}

pub(super) fn touches_no_end(number: usize, first: usize, second: usize) -> bool {
    let fd = first as c_int;
    let concerns_an_end = READER.is_at(fd) || WRITER.is_at(fd);
    match number as u32 {
        k::__NR_fcntl => harmless::is_harmless_fcntl(concerns_an_end, second as u32),
        k::__NR_ioctl => harmless::is_harmless_ioctl(concerns_an_end, second),
        k::__NR_close if !concerns_an_end => {
            let is_left = other_names::leave_if_one(fd);
            other_names::forget(fd);
            is_left
        }
        number if OF_DESCRIPTOR.has(number) => !concerns_an_end && other_names::leave_if_one(fd),
        _ => concerns_no_descriptor(number, first),
    }
}

/// `PR_SET_NAME`, `PR_GET_NAME`, `PR_GET_AUXV`.
const HARMLESS_OPTIONS: [u32; 3] = [15, 16, 0x4155_5856];

/// A set of system calls.
struct Calls([u64; 8]);

impl Calls {
    const fn of<const COUNT: usize>(numbers: [u32; COUNT]) -> Calls {
        let (mut words, mut at) = ([0; 8], 0);
        while at < COUNT {
            words[numbers[at] as usize / 64] |= 1 << (numbers[at] % 64);
            at += 1;
        }
        Calls(words)
    }

    fn has(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }
}

/// Calls that do something with the descriptor that is their first argument, and with no other.
static OF_DESCRIPTOR: Calls = Calls::of([
    k::__NR_read,
    k::__NR_write,
    k::__NR_pread64,
    k::__NR_pwrite64,
    k::__NR_readv,
    k::__NR_writev,
    k::__NR_preadv,
    k::__NR_pwritev,
    k::__NR_preadv2,
    k::__NR_pwritev2,
    k::__NR_lseek,
    k::__NR_fstat,
    k::__NR_fsync,
    k::__NR_fdatasync,
    k::__NR_ftruncate,
    k::__NR_fallocate,
    k::__NR_fadvise64,
    k::__NR_flock,
    k::__NR_fchmod,
    k::__NR_fchown,
    k::__NR_fstatfs,
    k::__NR_fgetxattr,
    k::__NR_flistxattr,
    k::__NR_fsetxattr,
    k::__NR_getdents64,
]);

/// Calls that neither use an open descriptor nor make one that others have, nor a process, and leave signals alone.
static OF_NONE: Calls = Calls::of([
    k::__NR_open,
    k::__NR_openat,
    k::__NR_stat,
    k::__NR_lstat,
    k::__NR_newfstatat,
    k::__NR_statx,
    k::__NR_statfs,
    k::__NR_access,
    k::__NR_faccessat,
    k::__NR_faccessat2,
    k::__NR_readlink,
    k::__NR_readlinkat,
    k::__NR_getcwd,
    k::__NR_chdir,
    k::__NR_mkdir,
    k::__NR_mkdirat,
    k::__NR_unlink,
    k::__NR_unlinkat,
    k::__NR_rename,
    k::__NR_renameat2,
    k::__NR_chmod,
    k::__NR_fchmodat,
    k::__NR_chown,
    k::__NR_fchownat,
    k::__NR_utimensat,
    k::__NR_umask,
    k::__NR_mmap,
    k::__NR_munmap,
    k::__NR_mprotect,
    k::__NR_madvise,
    k::__NR_mremap,
    k::__NR_brk,
    k::__NR_futex,
    k::__NR_membarrier,
    k::__NR_rseq,
    k::__NR_sched_yield,
    k::__NR_sched_getaffinity,
    k::__NR_getcpu,
    k::__NR_getpriority,
    k::__NR_clock_gettime,
    k::__NR_clock_getres,
    k::__NR_clock_nanosleep,
    k::__NR_nanosleep,
    k::__NR_gettimeofday,
    k::__NR_time,
    k::__NR_times,
    k::__NR_getrusage,
    k::__NR_getrandom,
    k::__NR_getpid,
    k::__NR_getppid,
    k::__NR_gettid,
    k::__NR_getuid,
    k::__NR_geteuid,
    k::__NR_getgid,
    k::__NR_getegid,
    k::__NR_uname,
    k::__NR_sysinfo,
    k::__NR_exit,
    k::__NR_exit_group,
]);
