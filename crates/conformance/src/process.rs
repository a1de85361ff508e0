//! Children, and what is done to them: the one place of this crate that forks and installs signal handlers.
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// A child process. Dropping it without waiting for it kills it.
#[derive(Debug)]
pub struct Child {
    /// Its number.
    pub id: Pid,
    is_waited_for: bool,
}

/// Forks. The child hands `state` to `body` and ends with it; the parent gets its `state` back.
///
/// All ends that the test has belong into `state`: the child inherits every one, and those that it should not have it
/// must drop, which it can only with what it was given.
///
/// # Panics
/// When there can be no more processes.
pub fn fork<S>(state: S, body: impl FnOnce(S)) -> (Child, S) {
    // SAFETY: the child is a copy of this thread alone. A lock that another thread held at this moment stays locked in
    // it, so it must not need any: each test has its own process, whose other threads belong to the test and to the
    // harness. The harness sleeps; glibc makes its allocator usable in the child; the bodies of the tests use the ends
    // they were given, print only when they fail, and never return from here.
    let id = unsafe { libc::fork() };
    if id == 0 {
        let outcome = catch_unwind(AssertUnwindSafe(|| body(state)));
        end(if outcome.is_ok() { 0 } else { 101 });
    }
    let id = Pid::from_raw(id).filter(|_| id > 0).expect("no more processes");
    (Child { id, is_waited_for: false }, state)
}

/// Ends this process at once: nothing is dropped, nothing that was registered for the end is run.
pub fn end(status: i32) -> ! {
    // SAFETY: always allowed.
    unsafe { libc::_exit(status) }
}

/// Ends the calling thread and no other, also if it is the first of its process. Nothing is dropped.
pub fn end_this_thread() -> ! {
    loop {
        // SAFETY: what belongs to the thread stays where it is, since nothing unwinds or frees it.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

impl Child {
    /// Waits for its end.
    ///
    /// # Panics
    /// When it is not ours.
    pub fn wait(mut self) -> WaitStatus {
        self.is_waited_for = true;
        rustix::io::retry_on_intr(|| waitpid(Some(self.id), WaitOptions::empty())).unwrap().unwrap().1
    }

    /// It was waited for by other means.
    pub(crate) fn forget(mut self) {
        self.is_waited_for = true;
    }

    /// Waits for its end, which must be a good one.
    ///
    /// # Panics
    /// When the child failed.
    #[track_caller]
    pub fn succeed(self) {
        let status = self.wait();
        assert_eq!(status.exit_status(), Some(0), "the child ended with {status:?}");
    }

    /// Waits for its end, which must be by this signal.
    ///
    /// # Panics
    /// When it was not.
    #[track_caller]
    pub fn die_of(self, signal: Signal) {
        let status = self.wait();
        assert_eq!(status.terminating_signal(), Some(signal.as_raw()), "the child ended with {status:?}");
    }

    /// Kills it with `SIGKILL` and waits until it is gone.
    ///
    /// # Panics
    /// When it had ended before.
    #[track_caller]
    pub fn kill(self) {
        self.signal(Signal::KILL);
        self.die_of(Signal::KILL);
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it is not ours.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.id, signal).unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.is_waited_for {
            let _ = kill_process(self.id, Signal::KILL);
            let _ = waitpid(Some(self.id), WaitOptions::empty());
        }
    }
}

/// How often a handler of this module has run in this process.
pub static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: libc::c_int) {
    HANDLED.fetch_add(1, SeqCst);
}

/// Has a signal counted in [`HANDLED`]. `restart` is whether the system calls that it interrupts go on (`SA_RESTART`).
///
/// # Panics
/// When the signal cannot be handled.
pub fn count_signals(signal: Signal, restart: bool) {
    let handler: extern "C" fn(libc::c_int) = count;
    set_action(signal, handler as usize, if restart { libc::SA_RESTART } else { 0 });
}

/// The last child that a handler of this module has forked.
pub static FORKED: AtomicI32 = AtomicI32::new(0);

extern "C" fn fork_and_stop(_: libc::c_int) {
    // SAFETY: as in [`fork`]; the child goes on where the signal came.
    let id = unsafe { libc::fork() };
    if id == 0 {
        // SAFETY: sends this process a signal.
        unsafe { libc::kill(libc::getpid(), libc::SIGSTOP) };
    } else {
        FORKED.store(id, SeqCst);
    }
}

/// Has a signal fork: into [`FORKED`] and a child that stops at once, and then goes on where the signal came too. The system call that
/// it interrupts fails in both.
///
/// # Panics
/// When the signal cannot be handled.
pub fn fork_at(signal: Signal) {
    let handler: extern "C" fn(libc::c_int) = fork_and_stop;
    set_action(signal, handler as usize, 0);
}

/// Has a signal do what it does in a program that never spoke of it. Programs in Rust start with `SIGPIPE` ignored.
///
/// # Panics
/// When the signal cannot be handled.
pub fn restore_default(signal: Signal) {
    set_action(signal, libc::SIG_DFL, 0);
}

fn set_action(signal: Signal, handler: libc::sighandler_t, flags: libc::c_int) {
    // SAFETY: all zeros are a valid `sigaction`; the handlers touch one atomic, and one makes system calls that a handler may make.
    let outcome = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        libc::sigaction(signal.as_raw(), &action, std::ptr::null_mut())
    };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}

/// Sends this process `SIGALRM` every so often from now on; never again if that is zero. A child does not inherit it.
///
/// # Panics
/// When the time is too long.
pub fn repeat_alarm(every: Duration) {
    let time = libc::timeval {
        tv_sec: every.as_secs().try_into().expect("a time that ends"),
        tv_usec: every.subsec_micros().into(),
    };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: the timer lives for the call; what was set before is not asked for.
    let outcome = unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}

/// From now on this child is killed when the process that forked it ends. For children only.
pub fn die_with_parent() {
    let parent = rustix::process::getppid();
    let is_tied = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    // The parent may have ended in between; then another process has adopted the child.
    if !is_tied || rustix::process::getppid() != parent {
        end(1);
    }
}

/// Sends a signal to one thread of this process and waits until its handler has run.
///
/// # Panics
/// When there is no such thread.
pub fn interrupt(thread: Pid, signal: Signal) {
    let before = HANDLED.load(SeqCst);
    assert!(signal_thread(thread, signal), "{}", std::io::Error::last_os_error());
    while HANDLED.load(SeqCst) == before {
        std::thread::yield_now();
    }
}

/// Sends a signal to one thread of this process; false if it has ended.
pub fn signal_thread(thread: Pid, signal: Signal) -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: no memory is involved; the thread belongs to this process, so a handler or the default is all it meets.
    unsafe { libc::syscall(libc::SYS_tgkill, own, thread.as_raw_nonzero().get(), signal.as_raw()) == 0 }
}

/// Gives up every privilege of root and becomes a user without other processes, whose quotas are unused.
/// For children only: the C library is not told, and other threads would keep theirs.
///
/// # Panics
/// When this process is root and cannot.
pub fn become_unprivileged() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Numbers of processes have 22 bits.
    let user = 1_000_000_000 + std::process::id();
    // SAFETY: no memory is involved.
    let outcome = unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}

/// Gives up the privileges of root that are not in `kept`. For children only: other threads keep theirs.
///
/// # Panics
/// When the kernel refuses.
pub fn keep_capabilities(kept: CapabilitySet) {
    let mut sets = capabilities(None).unwrap();
    sets.effective &= kept;
    set_capabilities(None, sets).unwrap();
}

/// Moves to a user namespace of its own, where this process has every privilege, but only over what belongs there. For
/// children only: a process with threads may not.
///
/// # Panics
/// When the kernel refuses.
pub fn enter_user_namespace() {
    // SAFETY: no memory is involved.
    let outcome = unsafe { libc::unshare(libc::CLONE_NEWUSER) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}

/// Makes a directory for temporary files. No other process has it, nor did a killed one that had the same number.
///
/// # Errors
/// No room for temporary files.
pub fn new_directory() -> std::io::Result<std::path::PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        let unique = (std::process::id(), COUNT.fetch_add(1, SeqCst));
        let directory = std::env::temp_dir().join(format!("millstream-conformance-{}-{}", unique.0, unique.1));
        match std::fs::create_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            outcome => return outcome.map(|()| directory),
        }
    }
}

/// Where tests and pipes could leave files: the directory for temporary files, and that of shared memory.
pub fn places_of_files() -> [std::path::PathBuf; 2] {
    [std::env::temp_dir(), "/dev/shm".into()]
}

/// The names of all files there.
pub fn files_left() -> Vec<String> {
    let names = places_of_files().into_iter().flat_map(std::fs::read_dir).flatten().flatten();
    names.map(|file| file.path().display().to_string()).collect()
}

/// Gives the calling thread, and the children that it forks, [these directories](places_of_files) of their own: empty, and
/// with room for `bytes` each. Needs root.
///
/// # Panics
/// When this process may not.
pub fn private_directories(bytes: usize) {
    use std::ffi::CString;
    // SAFETY: no memory is involved.
    let outcome = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    assert_eq!(outcome, 0, "root is needed to mount: {}", std::io::Error::last_os_error());
    let mount = |kind: &CString, target: &str, flags: libc::c_ulong, options: &str| {
        let (target, options) = (CString::new(target).unwrap(), CString::new(options).unwrap());
        // SAFETY: four strings that end in zero and live for the call.
        let outcome =
            unsafe { libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) };
        assert_eq!(outcome, 0, "{target:?}: {}", std::io::Error::last_os_error());
    };
    let kind = CString::new("tmpfs").unwrap();
    mount(&kind, "/", libc::MS_REC | libc::MS_PRIVATE, "");
    for directory in places_of_files() {
        mount(&kind, directory.to_str().expect("a name in UTF-8"), 0, &format!("size={bytes}"));
    }
}
