//! The reason why one end of a pipe is attached or is not, as one word that processes share.

use core::ffi::CStr;

/// Bytes that a pipe carries before it attaches, if nothing is known of what will follow. On one CPU attaching costs
/// about as much as 3 to 4 MB gain, so a pipe that attaches never loses more than twice what it could have saved. A
/// piece of exactly 4 MiB, as `split` and others make, ends before that.
pub const WORTH_IT: u64 = (4 << 20) + (512 << 10);

/// Why an end is attached, or is not: the last event at this end. `docs/joining.md` has the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// No reason was recorded.
    Untold,
    /// It is attached: its bytes go through the ring.
    Joined,
    /// It would attach, but its peer has not said so.
    Waits,
    /// Both ends would attach, but the pipe was never empty when both could.
    Unmet,
    /// The peer has detached.
    Peer,
    /// Its process has detached its other pipe; the pipes of a process detach together.
    Company,
    /// Its C library has no tables of functions for streams, or another library stands between it and this one.
    Glibc,
    /// It would have attached in a signal handler, or was in one.
    Handler,
    /// It does not block, appends, or sends signals.
    Mode,
    /// The process has other descriptors for the pipe, or watches descriptors by their open file description.
    Descriptors,
    /// Code in the process makes system calls by itself, or belongs to no file.
    Code,
    /// Its shared memory could not be made or opened, or another process took it first.
    Slot,
    /// Another process holds this end.
    Shared,
    /// Its thread holds a robust mutex.
    Mutex,
    /// It has several threads.
    Threads,
    /// Its process is a forked child of the one that was attached.
    Forked,
    /// It used the pipe under another descriptor number as well.
    Renamed,
    /// It uses the pipe under a descriptor number that was never checked.
    Number,
    /// It uses another pipe in the same direction that is attached, or that may attach.
    Second,
    /// It has several CPUs, and its own input is a pipe that stays with the kernel.
    Fed,
    /// It passed an address at which there was no memory.
    Nowhere,
    /// Its process is under seccomp filters of its own.
    Confined,
    /// It ignores or blocks SIGSEGV or SIGBUS.
    Signals,
    /// A handler of its own received SIGSEGV or SIGBUS.
    Fault,
    /// The file that it copies is nearly read, so attaching would cost more than it saves.
    LittleLeft,
    /// Its program began with this end, and the library has seen no call of it there.
    Uncounted,
    /// It called the function at this index of [`guarded`].
    Called(u16),
}

/// All but [`Fate::Called`]; the index of each is its word.
const PLAIN: [Fate; 26] = [
    Fate::Untold,
    Fate::Joined,
    Fate::Waits,
    Fate::Unmet,
    Fate::Peer,
    Fate::Company,
    Fate::Glibc,
    Fate::Handler,
    Fate::Mode,
    Fate::Descriptors,
    Fate::Code,
    Fate::Slot,
    Fate::Shared,
    Fate::Mutex,
    Fate::Threads,
    Fate::Forked,
    Fate::Renamed,
    Fate::Number,
    Fate::Nowhere,
    Fate::Confined,
    Fate::Signals,
    Fate::Fault,
    Fate::Second,
    Fate::Fed,
    Fate::LittleLeft,
    Fate::Uncounted,
];
const CALLED: u32 = 1 << 16;

impl Fate {
    /// The word that stands for it in shared memory.
    pub fn word(self) -> u32 {
        match self {
            Fate::Called(place) => CALLED | u32::from(place),
            plain => PLAIN.iter().zip(0..).find(|(fate, _)| **fate == plain).map_or(0, |(_, word)| word),
        }
    }

    /// The inverse of [`word`](Self::word). A word that no process of this version writes is [`Fate::Untold`].
    pub fn from_word(word: u32) -> Fate {
        match word.checked_sub(CALLED) {
            Some(place) if (place as usize) < GUARDED => Fate::Called(place as u16),
            Some(_) => Fate::Untold,
            None => PLAIN.get(word as usize).copied().unwrap_or(Fate::Untold),
        }
    }

    /// The reason that the process called `name`, one of [`guarded`].
    pub fn called(name: &CStr) -> Fate {
        let place = guarded().position(|guarded| guarded == name);
        place.map_or(Fate::Untold, |place| Fate::Called(place as u16))
    }
}

/// The functions of glibc before which a process detaches its pipes, because only the kernel can do what they do. Each
/// is listed under every name by which programs may call it. The library makes exceptions for some, by their indices.
///
/// One text and not a list of texts: each address in the library's memory costs every program that loads it.
const NAMES: &str = {
    concat!(
        "close\0__close\0",
        "fcntl\0__fcntl\0fcntl64\0",
        "ioctl\0",
        "sigprocmask\0",
        "pthread_sigmask\0",
        // Waiting for descriptors.
        "poll\0__poll\0__poll_chk\0",
        "ppoll\0__ppoll_chk\0",
        "select\0__select\0",
        "pselect\0",
        // Other ways to move bytes.
        "readv\0",
        "writev\0",
        "preadv2\0preadv64v2\0",
        "pwritev2\0pwritev64v2\0",
        "splice\0",
        "tee\0",
        "vmsplice\0",
        "sendfile\0sendfile64\0",
        "copy_file_range\0",
        "process_vm_readv\0",
        "process_vm_writev\0",
        "aio_read\0aio_read64\0",
        "aio_write\0aio_write64\0",
        "aio_fsync\0aio_fsync64\0",
        "lio_listio\0lio_listio64\0",
        "backtrace_symbols_fd\0__backtrace_symbols_fd\0",
        "eventfd_read\0",
        "eventfd_write\0",
        "dprintf\0__dprintf_chk\0",
        "vdprintf\0__vdprintf_chk\0",
        "psiginfo\0",
        "herror\0",
        "syscall\0",
        "epoll_ctl\0",
        // Further descriptors of the same end, and other flags of it.
        "dup\0",
        "dup2\0__dup2\0",
        "dup3\0",
        "freopen\0freopen64\0",
        "fdopen\0_IO_fdopen\0",
        "lockf\0lockf64\0",
        "close_range\0",
        "closefrom\0",
        "sendmsg\0",
        "sendmmsg\0",
        "pidfd_getfd\0",
        "login_tty\0",
        // Further processes and threads, and other programs.
        "fork\0__fork\0",
        "vfork\0__vfork\0",
        "_Fork\0",
        "clone\0__clone\0",
        "posix_spawn\0",
        "posix_spawnp\0",
        "popen\0_IO_popen\0",
        "pclose\0",
        "system\0",
        "daemon\0",
        "forkpty\0",
        "wordexp\0",
        "pthread_create\0",
        "thrd_create\0",
        "timer_create\0",
        "mq_notify\0",
        "mq_close\0",
        "pidfd_spawn\0",
        "pidfd_spawnp\0",
        "getaddrinfo_a\0",
        "execve\0",
        "execveat\0",
        "fexecve\0",
        "execv\0",
        "execvp\0",
        "execvpe\0",
        "execl\0",
        "execlp\0",
        "execle\0",
        "unshare\0",
        "setns\0",
        // Further code.
        "dlopen\0dlclose\0",
        "dlmopen\0",
        // What may keep us from opening our own descriptors.
        "prctl\0",
        "setuid\0",
        "setgid\0",
        "seteuid\0",
        "setegid\0",
        "setreuid\0",
        "setregid\0",
        "setresuid\0",
        "setresgid\0",
        "setgroups\0",
        "initgroups\0",
        "setfsuid\0",
        "setfsgid\0",
        "capset\0",
        "setrlimit\0setrlimit64\0",
        "prlimit\0prlimit64\0",
        "chroot\0",
        "pivot_root\0",
        // What hides signals from the library, or the library's handler from the program.
        "sigaction\0__sigaction\0",
        "signal\0bsd_signal\0ssignal\0",
        "sysv_signal\0__sysv_signal\0",
        "sigset\0",
        "sigignore\0",
        "siginterrupt\0",
        "sigblock\0",
        "sigsetmask\0",
        "sighold\0",
        "sigpause\0__sigpause\0__xpg_sigpause\0",
        "sigsuspend\0__sigsuspend\0",
        "longjmp\0_longjmp\0siglongjmp\0__longjmp_chk\0",
        "setcontext\0",
        "swapcontext\0",
        // The end of the thread, on which `meet` relies.
        "pthread_cancel\0",
        "pthread_mutexattr_setrobust\0pthread_mutexattr_setrobust_np\0",
        "pthread_exit\0",
    )
};

/// How many functions are guarded.
pub const GUARDED: usize = {
    let (mut count, mut at) = (0, 0);
    while at < NAMES.len() {
        count += (NAMES.as_bytes()[at] == 0) as usize;
        at += 1;
    }
    count
};

/// The place of a name in [`guarded`], for constants.
///
/// # Panics
/// As it is compiled, where there is no such name.
pub const fn place_of(name: &str) -> usize {
    let (names, name) = (NAMES.as_bytes(), name.as_bytes());
    let (mut place, mut at) = (0, 0);
    while at < names.len() {
        let mut same = 0;
        while same < name.len() && names[at + same] == name[same] {
            same += 1;
        }
        if same == name.len() && names[at + same] == 0 {
            return place;
        }
        while names[at] != 0 {
            at += 1;
        }
        at += 1;
        place += 1;
    }
    panic!("not a guarded function")
}

/// The guarded functions, each in its place.
pub fn guarded() -> impl Iterator<Item = &'static CStr> {
    NAMES.as_bytes().split_inclusive(|&byte| byte == 0).filter_map(|name| CStr::from_bytes_until_nul(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back_and_others_say_nothing() {
        for fate in PLAIN.into_iter().chain([Fate::Called(0), Fate::called(c"poll")]) {
            assert_eq!(Fate::from_word(fate.word()), fate);
        }
        let past = CALLED + GUARDED as u32;
        for word in [PLAIN.len() as u32, CALLED - 1, past, u32::MAX] {
            assert_eq!(Fate::from_word(word), Fate::Untold);
        }
        assert_eq!(Fate::called(c"printf"), Fate::Untold);
    }

    #[test]
    fn place_is_that_of_the_whole_name() {
        assert_eq!(guarded().count(), GUARDED);
        assert!(guarded().zip(0..).all(|(name, place)| place_of(name.to_str().unwrap()) == place));
    }
}
