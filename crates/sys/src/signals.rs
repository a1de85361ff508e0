//! Signals, received one at a time by a process that forwards them to another.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use core::ptr;

/// A signal's number. Not an enumeration: real-time signals have numbers only.
pub type Signal = i32;

/// `SIGCHLD`: a child has ended, stopped or continued.
pub const CHILD: Signal = libc::SIGCHLD;

/// `SIGPIPE`: a write found no reader.
pub const PIPE: Signal = libc::SIGPIPE;

/// `SIGUSR1`: a request of the user, with a meaning of the program's own.
pub const USER_1: Signal = libc::SIGUSR1;

/// Signals that the terminal sends to a whole process group: for keys, a new size, and access by a background job.
pub const OF_THE_TERMINAL: [Signal; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGWINCH, libc::SIGTTIN, libc::SIGTTOU];

/// Signals that ask a daemon to end.
pub const END_REQUESTS: [Signal; 3] = [libc::SIGHUP, libc::SIGINT, libc::SIGTERM];

/// Whether a process that has no handler for `signal` is ended by it (`signal(7)`).
pub fn ends_a_process(signal: Signal) -> bool {
    const HARMLESS: [Signal; 9] = [
        libc::SIGCHLD,
        libc::SIGCONT,
        libc::SIGURG,
        libc::SIGWINCH,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGSTOP,
        // Ignored from the start by every program in Rust.
        libc::SIGPIPE,
    ];
    !HARMLESS.contains(&signal)
}

/// The sender of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The kernel itself: a key at the terminal, for example, which goes to the whole process group.
    Kernel,
    /// The process with this number.
    Process(i32),
}

/// One signal as it was received.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Its number.
    pub signal: Signal,
    /// Its sender.
    pub sender: Sender,
}

/// Blocks every signal that can be blocked, so that [`Held::next`] receives it before it can end or stop this process.
/// Also makes sure that this process can wait for children.
pub struct Held {
    set: libc::sigset_t,
    mask_before: libc::sigset_t,
    /// A process that was started with SIGCHLD ignored would find no child to wait for (`waitpid(2)`).
    child_before: libc::sighandler_t,
}

impl Held {
    /// Starts holding signals back on this thread, which should be the only one.
    pub fn hold() -> Held {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigfillset` initialises the set. It may hold faults too: one that happens here ends the process even if
        // it is blocked (`sigprocmask(2)`).
        let set = unsafe {
            libc::sigfillset(set.as_mut_ptr());
            set.assume_init()
        };
        let mut mask_before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: both sets are valid for the call, which fills `mask_before`; no handler is installed.
        let (mask_before, child_before) = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, mask_before.as_mut_ptr());
            (mask_before.assume_init(), libc::signal(libc::SIGCHLD, libc::SIG_DFL))
        };
        Held { set, mask_before, child_before }
    }

    /// Sleeps until a held signal arrives.
    pub fn next(&self) -> Received {
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            // SAFETY: the set is initialised and `info` is large enough for what the kernel writes.
            let signal = unsafe { libc::sigwaitinfo(&self.set, info.as_mut_ptr()) };
            // EINTR: the process was stopped and continued.
            if signal <= 0 {
                continue;
            }
            // SAFETY: all zeros is a valid `siginfo_t`, and the kernel filled it for this signal.
            let info = unsafe { info.assume_init() };
            let sender = match info.si_code {
                // SAFETY: these are the codes of kill, sigqueue and tgkill, which set the sender's number.
                libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL => Sender::Process(unsafe { info.si_pid() }),
                _ => Sender::Kernel,
            };
            return Received { signal, sender };
        }
    }

    /// Discards the signals that have arrived, and restores the mask from before. The signals were meant for the
    /// command, which has ended: they must not end this process with its work half done.
    pub fn release(self) {
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the set and the time are initialised; no information about the signal is asked for.
        while unsafe { libc::sigtimedwait(&self.set, ptr::null_mut(), &at_once) } > 0 {}
        self.restore();
    }

    /// Has `command` start with the mask and the meaning of SIGCHLD from before.
    pub fn restore_in(held: &std::sync::Arc<Held>, command: &mut std::process::Command) {
        use std::os::unix::process::CommandExt;
        let held = std::sync::Arc::clone(held);
        let restore = move || {
            held.restore();
            Ok(())
        };
        // SAFETY: between fork and exec it only calls async-signal-safe functions and allocates nothing.
        unsafe { command.pre_exec(restore) };
    }

    /// Gives the calling process the mask and the meaning of SIGCHLD from before. For a child between fork and exec:
    /// async-signal-safe.
    pub(crate) fn restore(&self) {
        // SAFETY: the meaning is the one that this process was started with, which is no handler; `mask_before` is the
        // initialised set that this thread had.
        unsafe {
            libc::signal(libc::SIGCHLD, self.child_before);
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask_before, ptr::null_mut());
        }
    }
}

/// A signal by which users make requests, at any time and any number of times.
pub struct Requests(libc::sigset_t);

impl Requests {
    /// Holds the signal back on this thread, which should be the only one, and on those that it starts.
    pub fn hold(signal: Signal) -> Requests {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the set; no handler is installed, and nothing is asked for of the mask before.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), signal);
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut());
            Requests(set.assume_init())
        }
    }

    /// Does `work` for each signal, on a thread of its own, until the process ends. If there can be no thread, requests
    /// have no effect.
    pub fn each(self, work: impl Fn() + Send + 'static) {
        let wait = move || {
            loop {
                // SAFETY: the set is initialised; no information about the signal is asked for.
                if unsafe { libc::sigwaitinfo(&self.0, ptr::null_mut()) } > 0 {
                    work();
                }
            }
        };
        let _ = std::thread::Builder::new().name("requests".into()).spawn(wait);
    }
}

/// Gives SIGPIPE back the meaning it had when this process started. Async-signal-safe.
pub(crate) fn restore_sigpipe() {
    let meaning = if crate::inherited::sigpipe_was_ignored() { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: no handler is installed, only one of the two standard meanings.
    unsafe { libc::signal(libc::SIGPIPE, meaning) };
}

/// Ends this process by `signal`, so that its parent sees what it would have seen of the process that died of it.
/// Leaves no second core file. Returns only if the signal does not end a process.
pub fn die_of(signal: Signal) {
    let no_core = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    // A refusal costs nothing but a core file too many.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, no_core);
    // SAFETY: the standard meaning is no handler.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    raise_unblocked(signal);
}

/// Sends `signal` to this process and lets it in, even if it is blocked.
pub fn raise_unblocked(signal: Signal) {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    send(rustix::process::getpid(), signal);
    // SAFETY: the sets are initialised, by the first and the third call, before they are read.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), before.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
    }
}

/// Sends `signal` to `process`, if that is still there.
pub fn send(process: rustix::process::Pid, signal: Signal) {
    // SAFETY: takes numbers only.
    unsafe { libc::kill(process.as_raw_pid(), signal) };
}

/// Whether a system call that a signal handler interrupted is to be made again, as the kernel itself does where it can:
/// every installed handler must have `SA_RESTART`, because it is unknown which handler ran. Handlers of faults, of
/// which Rust installs some, do not count: they do not interrupt system calls.
pub fn handlers_ask_for_restart() -> bool {
    const FAULTS: [i32; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];
    (1..=libc::SIGRTMAX()).filter(|signal| !FAULTS.contains(signal)).all(|signal| {
        let mut action = core::mem::MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a null new action changes nothing; the kernel fills `action`, for which all zeros is valid too.
        let action = unsafe {
            libc::sigaction(signal, core::ptr::null(), action.as_mut_ptr());
            action.assume_init()
        };
        let is_handled = !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
        !is_handled || action.sa_flags & libc::SA_RESTART != 0
    })
}

/// Does `work` without a SIGPIPE where a write finds no reader: the write returns its error only.
pub fn without_sigpipe<T>(work: impl FnOnce() -> T) -> T {
    let (mut pipe, mut before, mut pending) = (
        MaybeUninit::<libc::sigset_t>::uninit(),
        MaybeUninit::<libc::sigset_t>::uninit(),
        MaybeUninit::<libc::sigset_t>::uninit(),
    );
    // SAFETY: each set is initialised by the call that it is first given to.
    let was_pending = unsafe {
        libc::sigemptyset(pipe.as_mut_ptr());
        libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE);
        libc::sigpending(pending.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), before.as_mut_ptr());
        libc::sigismember(pending.as_ptr(), libc::SIGPIPE) == 1
    };
    let result = work();
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the sets are initialised; a null pointer asks for no details.
    unsafe {
        if !was_pending {
            libc::sigtimedwait(pipe.as_ptr(), ptr::null_mut(), &raw const now);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
    }
    result
}

/// Sends the calling thread SIGPIPE, as the kernel does when a write finds no reader.
pub fn send_sigpipe_to_this_thread() {
    // SAFETY: raise sends a signal to the calling thread and touches no memory.
    unsafe {
        libc::raise(libc::SIGPIPE);
    }
}
