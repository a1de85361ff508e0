//! What became of one end of a pipe that might have been joined in shared memory, as one word that processes share.

use core::ffi::CStr;

/// Joined, or why not. The last thing that happened at an end; `docs/joining.md` has the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nobody has said anything.
    Untold,
    /// In the ring.
    Joined,
    /// It would, but its other side has not said so.
    Waits,
    /// Both would, but they never met at an empty pipe.
    Unmet,
    /// The other side has given the pipe back to the kernel.
    Peer,
    /// Its process has given its other pipe back, and all go together.
    Company,
    /// `read` and `write` of its glibc do not begin in a way that is known.
    Glibc,
    /// It would have begun in a signal handler, or was in one.
    Handler,
    /// It does not block, appends, or sends signals.
    Mode,
    /// The process has other descriptors for the pipe, or watches descriptors by their open file.
    Descriptors,
    /// There is code in the process that calls the kernel itself, or that belongs to no file.
    Code,
    /// Its shared memory could not be made or opened, or another process had it first.
    Slot,
    /// Another process holds this end.
    Shared,
    /// Its thread holds a robust mutex.
    Mutex,
    /// It has several threads.
    Threads,
    /// It is a forked child of the process that was joined.
    Forked,
    /// It used the pipe under another number as well.
    Renamed,
    /// It uses the pipe under a number that is not 0 or 1.
    Number,
    /// It gave an address at which there was no memory.
    Nowhere,
    /// Its process is under filters of system calls of its own (seccomp).
    Confined,
    /// It ignores SIGSEGV or SIGBUS, or holds one of them back.
    Signals,
    /// SIGSEGV or SIGBUS came to a handler of its own.
    Fault,
    /// It called this one of [`GUARDED`].
    Called(u16),
}

/// All but [`Fate::Called`], by their words.
const PLAIN: [Fate; 22] = [
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
];
const CALLED: u32 = 1 << 16;

impl Fate {
    /// As it is shared.
    pub fn word(self) -> u32 {
        match self {
            Fate::Called(place) => CALLED | u32::from(place),
            plain => PLAIN.iter().zip(0..).find(|(fate, _)| **fate == plain).map_or(0, |(_, word)| word),
        }
    }

    /// The opposite; what no process of this version has written is [`Fate::Untold`].
    pub fn from_word(word: u32) -> Fate {
        match word.checked_sub(CALLED) {
            Some(place) if (place as usize) < GUARDED.len() => Fate::Called(place as u16),
            Some(_) => Fate::Untold,
            None => PLAIN.get(word as usize).copied().unwrap_or(Fate::Untold),
        }
    }

    /// That `name`, one of [`GUARDED`], was called.
    pub fn called(name: &CStr) -> Fate {
        let place = GUARDED.iter().position(|guarded| *guarded == name);
        place.map_or(Fate::Untold, |place| Fate::Called(place as u16))
    }
}

/// The functions of glibc before which a process gives its joined pipes back, because the kernel alone can carry what they
/// do. One that a glibc does not have is passed over; one that has several versions is met in all of them. The first six
/// have exceptions, which the library knows by their places.
pub const GUARDED: [&CStr; 85] = [
    c"close",
    c"__close_nocancel",
    c"fcntl",
    c"ioctl",
    c"sigprocmask",
    c"pthread_sigmask",
    // Other ways to move bytes.
    c"readv",
    c"writev",
    c"preadv2",
    c"pwritev2",
    c"preadv64v2",
    c"pwritev64v2",
    c"splice",
    c"tee",
    c"vmsplice",
    c"sendfile",
    c"sendfile64",
    c"copy_file_range",
    c"process_vm_readv",
    c"process_vm_writev",
    c"syscall",
    // Waiting for descriptors.
    c"poll",
    c"ppoll",
    c"__poll_chk",
    c"__ppoll_chk",
    c"select",
    c"pselect",
    c"epoll_ctl",
    // Further descriptors of the same end.
    c"dup",
    c"dup2",
    c"dup3",
    c"close_range",
    c"closefrom",
    c"sendmsg",
    c"sendmmsg",
    c"pidfd_getfd",
    c"login_tty",
    // Further processes and threads, and other programs.
    c"fork",
    c"vfork",
    c"_Fork",
    c"__libc_fork",
    c"clone",
    c"posix_spawn",
    c"posix_spawnp",
    c"popen",
    c"system",
    c"daemon",
    c"forkpty",
    c"wordexp",
    c"pthread_create",
    c"thrd_create",
    c"timer_create",
    c"execve",
    c"execveat",
    c"fexecve",
    c"execv",
    c"execvp",
    c"execvpe",
    c"execl",
    c"execlp",
    c"execle",
    c"unshare",
    c"setns",
    // Further code.
    c"dlopen",
    c"dlmopen",
    // What may keep us from opening our own descriptors.
    c"prctl",
    c"setuid",
    c"setgid",
    c"seteuid",
    c"setegid",
    c"setreuid",
    c"setregid",
    c"setresuid",
    c"setresgid",
    c"setgroups",
    c"initgroups",
    c"chroot",
    c"pivot_root",
    // What hides signals from the library, or the library's handler from the program.
    c"sigaction",
    c"sigsuspend",
    c"setcontext",
    c"swapcontext",
    // The thread's end, on which `meet` relies.
    c"pthread_cancel",
    c"pthread_mutexattr_setrobust",
    c"pthread_exit",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back_and_others_say_nothing() {
        for fate in PLAIN.into_iter().chain([Fate::Called(0), Fate::called(c"poll")]) {
            assert_eq!(Fate::from_word(fate.word()), fate);
        }
        let past = CALLED + GUARDED.len() as u32;
        for word in [PLAIN.len() as u32, CALLED - 1, past, u32::MAX] {
            assert_eq!(Fate::from_word(word), Fate::Untold);
        }
        assert_eq!(Fate::called(c"printf"), Fate::Untold);
    }
}
