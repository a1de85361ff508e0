//! The functions of glibc that this library stands in front of by name, and where glibc's own are.
//!
//! A program reaches a function of glibc by its name, which the loader has bound to the one here; or by a pointer that it asked for
//! with `dlsym`, which is here too ([`super::lookup`]); or from inside glibc, where only stdio calls `read`, `write` and `close`
//! for a descriptor of the program's ([`super::stdio`]), and every other function that would is in
//! [`guarded`](millstream_sys::fate::guarded) by itself. So no code is changed, and threads, tracers and debuggers find glibc as it is.
//!
//! ```text
//!   program: call close ──▶ close (here) ── no pipe is attached ──────────────────────▶ close (glibc)
//!                               └─ otherwise ──▶ guard::goes_on_at ──▶ here, or give back first ─┘
//! ```
//!
//! An entry here is a jump and no call: it leaves no frame, so it can be unwound through, `vfork` may return twice, and `dlopen`
//! sees its caller.

use core::arch::{global_asm, naked_asm};
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};

use millstream_sys::fate::{GUARDED, guarded, place_of};

use super::{calls, guard, guard_flags, other_calls, own_process};
use crate::{counted, glibc, names};

/// Where each guarded function of glibc is; 0: not looked up yet.
static REAL: [AtomicUsize; GUARDED] = [const { AtomicUsize::new(0) }; GUARDED];

// Every register that can carry an argument is kept, and the stack is as the function will find it.
global_asm!(
    ".pushsection .text.millstream_guards,\"ax\",@progbits",
    ".globl millstream_guard",
    ".hidden millstream_guard",
    "millstream_guard:",
    "cmp byte ptr [rip + {are_up}], 0",
    "jne 6f",
    "pop r11",
    "lea r10, [rip + {real}]",
    "mov r10, [r10 + r11 * 8]",
    "test r10, r10",
    "jz 5f",
    "jmp r10",
    "5: push r11",
    // The numbers of `dprintf` may be in these.
    "6: sub rsp, 128",
    "movups [rsp], xmm0",
    "movups [rsp + 16], xmm1",
    "movups [rsp + 32], xmm2",
    "movups [rsp + 48], xmm3",
    "movups [rsp + 64], xmm4",
    "movups [rsp + 80], xmm5",
    "movups [rsp + 96], xmm6",
    "movups [rsp + 112], xmm7",
    "push rax",
    "push rdi",
    "push rsi",
    "push rdx",
    "push rcx",
    "push r8",
    "push r9",
    "sub rsp, 8",
    "mov rdx, rsi",
    "mov rsi, rdi",
    "mov rdi, [rsp + 192]",
    "call {next}",
    "mov r11, rax",
    "add rsp, 8",
    "pop r9",
    "pop r8",
    "pop rcx",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "pop rax",
    "movups xmm0, [rsp]",
    "movups xmm1, [rsp + 16]",
    "movups xmm2, [rsp + 32]",
    "movups xmm3, [rsp + 48]",
    "movups xmm4, [rsp + 64]",
    "movups xmm5, [rsp + 80]",
    "movups xmm6, [rsp + 96]",
    "movups xmm7, [rsp + 112]",
    "add rsp, 136",
    "jmp r11",
    ".popsection",
    are_up = sym guard_flags::WATCHED,
    real = sym REAL,
    next = sym next,
);

macro_rules! interposed {
    ($($name:ident)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of glibc.")]
            ///
            /// # Safety
            /// As for the function of this name.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                naked_asm!(
                    "endbr64",
                    "push {place}",
                    "jmp millstream_guard",
                    place = const place_of(stringify!($name)),
                )
            }
        )*
    };
}

// Not those that this library has a function of its own for, which asks for the one behind by `next`: `fcntl`, `poll`, `select`,
// `popen`, `prctl`, `syscall`, `posix_spawn` and most of `exec`.
interposed! {
    close __close
    ioctl
    sigprocmask
    pthread_sigmask
    ppoll __ppoll_chk
    pselect
    preadv2 preadv64v2
    pwritev2 pwritev64v2
    tee
    vmsplice
    copy_file_range
    process_vm_readv
    process_vm_writev
    aio_read aio_read64
    aio_write aio_write64
    aio_fsync aio_fsync64
    lio_listio lio_listio64
    backtrace_symbols_fd __backtrace_symbols_fd
    eventfd_read
    eventfd_write
    dprintf __dprintf_chk
    vdprintf __vdprintf_chk
    psiginfo
    herror
    epoll_ctl
    dlclose
    dup
    dup2 __dup2
    dup3
    freopen freopen64
    fdopen _IO_fdopen
    lockf lockf64
    close_range
    closefrom
    sendmsg
    sendmmsg
    pidfd_getfd
    login_tty
    fork __fork
    vfork __vfork
    _Fork
    clone __clone
    pclose
    system
    daemon
    forkpty
    wordexp
    pthread_create
    thrd_create
    timer_create
    mq_notify
    mq_close
    pidfd_spawn
    pidfd_spawnp
    getaddrinfo_a
    execveat
    execl
    execlp
    execle
    unshare
    setns
    setuid
    setgid
    seteuid
    setegid
    setreuid
    setregid
    setresuid
    setresgid
    setgroups
    initgroups
    setfsuid
    setfsgid
    capset
    setrlimit setrlimit64
    prlimit prlimit64
    chroot
    pivot_root
    sigaction __sigaction
    signal bsd_signal ssignal
    sysv_signal __sysv_signal
    sigset
    sigignore
    siginterrupt
    sigblock
    sigsetmask
    sighold
    sigpause __sigpause __xpg_sigpause
    sigsuspend __sigsuspend
    longjmp _longjmp siglongjmp __longjmp_chk
    setcontext
    swapcontext
    pthread_cancel
    pthread_mutexattr_setrobust pthread_mutexattr_setrobust_np
    pthread_exit
}

macro_rules! ours_first {
    ($($name:ident: $ours:ident, $bit:literal;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of glibc.")]
            ///
            /// # Safety
            /// As for the function of this name.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                naked_asm!(
                    "endbr64",
                    "test byte ptr [rip + {are_ours}], {bit}",
                    "jz 5f",
                    "mov rax, [rip + {flag}]",
                    "cmp byte ptr [rax], 0",
                    "jne {ours}",
                    "5: push {place}",
                    "jmp millstream_guard",
                    are_ours = sym ARE_OURS,
                    bit = const $bit,
                    flag = sym own_process::SINGLE_THREADED,
                    ours = sym other_calls::$ours,
                    place = const place_of(stringify!($name)),
                )
            }
        )*

        /// Where the first call of one of these goes on, if no other library stands between this one and glibc.
        fn is_ours_from_now(place: usize) -> Option<usize> {
            let (bit, here) = match place {
                $(_ if place == const { place_of(stringify!($name)) } => ($bit, other_calls::$ours as *const () as usize),)*
                _ => return None,
            };
            let is_glibcs = calls::are_ours() && own_process::has_one_thread() && is_behind(place, &names::c_library()?.code);
            is_glibcs.then(|| {
                ARE_OURS.fetch_or(bit, Relaxed);
                here
            })
        }
    };
}

/// A bit for each function that is made here.
static ARE_OURS: AtomicU8 = AtomicU8::new(0);

// What this library makes itself where `read` and `write` are its own, and for an attached end in the ring.
ours_first! {
    readv: readv_here, 1;
    writev: writev_here, 2;
    splice: splice_here, 4;
    sendfile: sendfile_here, 8;
    sendfile64: sendfile_here, 16;
}

/// `dlopen(3)`. A library that is opened with `RTLD_DEEPBIND` calls glibc past this one.
///
/// # Safety
/// As for `dlopen(3)`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen() {
    naked_asm!(
        "endbr64",
        "test esi, {deep_bind}",
        "jz 2f",
        "mov byte ptr [rip + {is_bypassed}], 1",
        "2: push {place}",
        "jmp millstream_guard",
        deep_bind = const 8,
        is_bypassed = sym IS_BYPASSED,
        place = const place_of("dlopen"),
    )
}

/// `dlmopen(3)`. A library in a namespace of its own has a glibc of its own.
///
/// # Safety
/// As for `dlmopen(3)`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlmopen() {
    naked_asm!(
        "endbr64",
        "mov byte ptr [rip + {is_bypassed}], 1",
        "push {place}",
        "jmp millstream_guard",
        is_bypassed = sym IS_BYPASSED,
        place = const place_of("dlmopen"),
    )
}

/// Where a call of a guarded function goes on: here, if it is one that this library answers while pipes are attached, otherwise in
/// glibc, and the pipes have gone back to the kernel before.
extern "C" fn next(place: usize, first: usize, second: usize) -> usize {
    if let Some(here) = is_ours_from_now(place) {
        return here;
    }
    guard::before_call(place, first, second).unwrap_or_else(|| real(place))
}

/// The same for a function of which this library has one of its own, before it calls the one behind. `None`: pipes ask for nothing.
pub(crate) fn next_by_name(name: &CStr, first: usize, second: usize) -> Option<usize> {
    if !guard_flags::are_watched() {
        return None;
    }
    guard::before_call(guarded().position(|guarded| guarded == name)?, first, second)
}

/// glibc's function, or that of another library between the two; where the run counts, one here that counts what it has moved.
fn real(place: usize) -> usize {
    let Some(word) = REAL.get(place) else { return 0 };
    if word.load(Relaxed) == 0 {
        let name = guarded().nth(place).unwrap_or_default();
        let found = counted::function(name).unwrap_or_else(|| names::behind(name).addr());
        if found == 0 && !names::can_look() {
            return is_missing as *const () as usize;
        }
        // One that this glibc does not have: a program that found it here is told so by its call.
        word.store(if found == 0 { is_missing as *const () as usize } else { found }, Relaxed);
    }
    word.load(Relaxed)
}

/// Forgets where they are: from now on the run counts, and those that count stand before them.
pub(crate) fn start_counting() {
    REAL.iter().for_each(|word| word.store(0, Relaxed));
}

/// Whether a guarded function that a call goes on in is glibc's.
pub(super) fn is_behind(place: usize, code: &Range<usize>) -> bool {
    guarded().nth(place).is_some_and(|name| code.contains(&names::behind(name).addr()))
}

extern "C" fn is_missing() -> isize {
    const ENOSYS: isize = -38;
    glibc::returned_from_kernel(ENOSYS)
}

/// A pointer to a function behind this library was asked for, so calls may go past it.
static IS_BYPASSED: AtomicBool = AtomicBool::new(false);

pub(super) fn note_bypass() {
    IS_BYPASSED.store(true, Relaxed);
}

/// Whether all calls come here: no pointer went past this library, and no library or program before it in the order of searching has
/// functions of these names.
pub(super) fn reaches_all_calls() -> bool {
    let moves = [c"read", c"__read", c"write", c"__write", c"dlsym"];
    !IS_BYPASSED.load(Relaxed) && !guarded().chain(moves).any(names::is_before)
}
