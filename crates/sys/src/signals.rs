//! Signals: received one at a time by a process that stands between another and its sender.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use core::ptr;

pub use rustix::process::Signal;

/// The signals that can be sent to a process to tell it something: a supervisor hands these on.
const SENDABLE: [Signal; 11] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::WINCH,
    Signal::CONT,
    Signal::TSTP,
    Signal::IO,
];

/// Who sent a signal.
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
    /// Where it came from.
    pub sender: Sender,
}

/// Holds back SIGCHLD and every signal that a supervisor hands on, so that [`Held::next`] receives them instead of the
/// process being ended or stopped by them.
pub struct Held {
    set: libc::sigset_t,
    before: libc::sigset_t,
}

impl Held {
    /// Starts holding signals back on this thread, which should be the only one.
    pub fn hold() -> Held {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the set, `sigaddset` takes an initialised one and known numbers.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in SENDABLE.into_iter().chain([Signal::CHILD]) {
                libc::sigaddset(set.as_mut_ptr(), signal.as_raw());
            }
            set.assume_init()
        };
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: both sets are valid for the call, which fills `before`.
        let before = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, before.as_mut_ptr());
            before.assume_init()
        };
        Held { set, before }
    }

    /// Sleeps until a held signal arrives.
    pub fn next(&self) -> Received {
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            // SAFETY: the set is initialised and `info` is large enough for what the kernel writes.
            let number = unsafe { libc::sigwaitinfo(&self.set, info.as_mut_ptr()) };
            // EINTR: a signal outside the set was handled, or the process was stopped and continued.
            let Some(signal) = Signal::from_named_raw(number) else { continue };
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

    /// Sets the calling process's mask back to what it was before. For a child between fork and exec:
    /// async-signal-safe.
    pub(crate) fn restore_mask(&self) {
        // SAFETY: `before` is the initialised set that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
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
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the standard meaning is no handler; the set is initialised before it is used.
    unsafe {
        libc::signal(signal.as_raw(), libc::SIG_DFL);
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal.as_raw());
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut());
    }
    let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
}
