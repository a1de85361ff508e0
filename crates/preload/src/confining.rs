//! `prctl` and `syscall`, by which a program sandboxes itself (seccomp): from then on this library makes no system call that the
//! program would not make by itself. It attaches no pipe ([`crate::joined`]) and counts nothing ([`crate::counted`]).
//!
//! Both functions are here as they are in glibc, one system call each, so nothing has to be looked up for them. That goes past glibc's, for
//! whose guards they stand while pipes are attached.

use core::arch::naked_asm;
use core::ffi::{CStr, c_int};

use millstream_sys::confinement::PR_SET_SYSCALL_USER_DISPATCH;
use millstream_sys::raw;

use crate::{counters, glibc, joined};

const NR_PRCTL: usize = 157;
const NR_SECCOMP: usize = 317;
const PR_SET_SECCOMP: usize = 22;

/// `prctl(2)`, whose further arguments are in registers, however many there are.
///
/// # Safety
/// As for `prctl(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, second: usize, third: usize, fourth: usize, fifth: usize) -> c_int {
    let confines = is_sandboxing(option as usize);
    if !leaves(confines, c"prctl", NR_PRCTL, option as usize) {
        return glibc::returned(Err(millstream_sys::Errno::MFILE));
    }
    // SAFETY: the caller's promise.
    let answer = unsafe { raw::any(NR_PRCTL as u32, [option as usize, second, third, fourth, fifth, 0]) };
    glibc::returned_from_kernel(answer) as c_int
}

/// `syscall(2)`. At the system call the stack is as the caller left it, as in glibc's, because a call may make a process that
/// goes on with another.
///
/// # Safety
/// As for `syscall(2)`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    naked_asm!(
        "endbr64",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "js 8f",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 8f",
        "ret",
        "8: mov rdi, rax",
        "jmp {failed}",
        before = sym before,
        failed = sym failed,
    )
}

/// 0, or what the call answers instead of being made.
extern "C" fn before(number: usize, first: usize) -> isize {
    const EMFILE: isize = -24;
    let confines = number == NR_SECCOMP || (number == NR_PRCTL && is_sandboxing(first));
    if leaves(confines, c"syscall", number, first) { 0 } else { EMFILE }
}

/// Also where a program traps system calls itself: the kernel does that for one at a time.
fn is_sandboxing(option: usize) -> bool {
    [PR_SET_SECCOMP, PR_SET_SYSCALL_USER_DISPATCH].contains(&option)
}

/// Before a call that the program's own code makes.
#[cfg(target_arch = "x86_64")]
pub(crate) fn before_own_call(number: usize, first: usize) {
    if number == NR_SECCOMP || (number == NR_PRCTL && is_sandboxing(first)) {
        joined::stop_wanting();
        counters::stop();
    }
}

extern "C" fn failed(answer: isize) -> isize {
    glibc::returned_from_kernel(answer)
}

/// `false`: the call is not to be made, as a pipe could not be given back.
fn leaves(confines: bool, called: &CStr, number: usize, first: usize) -> bool {
    if !joined::leaves(confines, called, number, first) {
        return false;
    }
    if confines {
        counters::stop();
    }
    true
}
