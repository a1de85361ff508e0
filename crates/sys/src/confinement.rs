//! Whether seccomp sandboxes a process, and whether its filters allow the system calls with which pipes attach.
//!
//! A filter may kill a process for a system call that it does not expect. It expects what the program's own loader has
//! done: opening, reading and closing a file. [`filters`] makes only these calls; a child, which may be killed, tries
//! all others.
#![allow(unsafe_code)]

use rustix::fs::{Mode, OFlags};

/// An option of `prctl(2)` that headers of Linux before 5.11 do not have: system calls from code outside of a range are trapped.
pub const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
/// The same of Linux before 6.3: whether memory that cannot be executed stays so.
pub const PR_GET_MDWE: usize = 66;

/// Whether the calling thread is under any filter. Faster than [`filters`], but a filter might kill for this call.
#[cfg(target_arch = "x86_64")]
pub fn is_sandboxed() -> bool {
    use linux_raw_sys::general::__NR_prctl;
    const PR_GET_SECCOMP: usize = 21;
    // SAFETY: touches no memory. An error comes from a filter or from a kernel without seccomp; `filters` tells which.
    unsafe { crate::raw::any(__NR_prctl, [PR_GET_SECCOMP, 0, 0, 0, 0, 0]) != 0 }
}

/// Whether this process is under a filter of seccomp.
#[cfg(not(target_arch = "x86_64"))]
pub fn is_sandboxed() -> bool {
    filters() > 0
}

/// The number of seccomp filters that the calling thread is under; `u32::MAX` if it is unknown.
pub fn filters() -> u32 {
    counted().unwrap_or(u32::MAX)
}

fn counted() -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    // `openat`, as loaders use it: `open` is another system call.
    let file = rustix::fs::openat(rustix::fs::CWD, c"/proc/self/status", flags, Mode::empty()).ok()?;
    let mut found = Found::default();
    let mut lines = Lines::new();
    let mut text = [0; 1024];
    loop {
        let len = rustix::io::read(&file, &mut text).ok()?;
        for &byte in text.get(..len)? {
            if let Some(line) = lines.take(byte) {
                found.look_at(line);
            }
        }
        if len == 0 || found.filters.is_some() {
            return found.number();
        }
    }
}

#[derive(Default)]
struct Found {
    mode: Option<u32>,
    filters: Option<u32>,
}

impl Found {
    fn look_at(&mut self, line: &[u8]) {
        let value = |name: &[u8]| {
            let digits = line.strip_prefix(name)?;
            digits
                .iter()
                .try_fold(0_u32, |value, &digit| value.checked_mul(10)?.checked_add(char::from(digit).to_digit(10)?))
        };
        self.mode = self.mode.or_else(|| value(b"Seccomp:\t"));
        self.filters = self.filters.or_else(|| value(b"Seccomp_filters:\t"));
    }

    /// Linux before 5.9 does not count filters; a kernel without seccomp writes neither line.
    fn number(&self) -> Option<u32> {
        match (self.filters, self.mode) {
            (Some(filters), _) => Some(filters),
            (None, Some(0) | None) => Some(0),
            (None, Some(_)) => None,
        }
    }
}

/// Keeps the beginning of each line: some lines are longer than those that are searched for.
struct Lines {
    line: [u8; 32],
    len: usize,
}

impl Lines {
    fn new() -> Lines {
        Lines { line: [0; 32], len: 0 }
    }

    /// The line that this byte ends.
    fn take(&mut self, byte: u8) -> Option<&[u8]> {
        if byte == b'\n' {
            let len = core::mem::take(&mut self.len);
            return self.line.get(..len);
        }
        if let Some(place) = self.line.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
        None
    }
}

#[cfg(target_arch = "x86_64")]
pub use trial::allow_joining;

/// Pipes never attach on this processor.
#[cfg(not(target_arch = "x86_64"))]
pub fn allow_joining() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
mod trial {
    use linux_raw_sys::general as k;
    use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};

    use crate::joint::{self, Owner};
    use crate::raw::{self, any};

    /// Whether the filters of the calling process allow it to attach pipes. A child makes each of the system calls for
    /// that once. It leaves no trace, except that the kernel logs its death if a filter kills it.
    pub fn allow_joining() -> bool {
        const DIED_OR_LEFT: usize = 0x4000_0000; // __WALL
        // SAFETY: a fork; the end of the child sends no signal. The child makes system calls only, and ends.
        let child = unsafe { any(k::__NR_clone, [0; 6]) };
        if child == 0 {
            raw::exit(i32::from(!is_allowed()));
        }
        let mut status = -1_i32;
        // SAFETY: room for the status.
        let wait =
            || unsafe { any(k::__NR_wait4, [child as usize, (&raw mut status) as usize, DIED_OR_LEFT, 0, 0, 0]) };
        const EINTR: isize = -4;
        child > 0 && core::iter::repeat_with(wait).find(|&answer| answer != EINTR) == Some(child) && status == 0
    }

    /// Runs in the child. A call that fails for another reason than a filter is allowed.
    fn is_allowed() -> bool {
        let no_core = [0_u64; 2];
        // SAFETY: reads two numbers. A core file of this child would be useless.
        unsafe { any(k::__NR_prlimit64, [0, k::RLIMIT_CORE as usize, no_core.as_ptr() as usize, 0, 0, 0]) };
        let mut ends = [-1_i32; 2];
        // SAFETY: room for two numbers.
        if unsafe { raw::pipe2(&mut ends, 0) }.is_err() {
            return false;
        }
        // SAFETY: just made.
        let [reader, writer] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        let owner = Owner { token: 1, inode: 2 };
        let Ok((file, memory)) = joint::create(owner) else { return false };
        let Ok((fd, inode)) = joint::keep_open(file) else { return false };
        let Some(other) = joint::open(crate::own_pid(), fd.unsigned_abs(), owner) else { return false };
        // SAFETY: the descriptor of this memory, and its mappings, which were made here.
        unsafe {
            joint::close(fd, inode);
            joint::unmap(memory);
            joint::unmap(other);
        }
        calls(reader.as_raw_fd() as usize, writer.as_raw_fd() as usize)
    }

    /// All other calls of `crates/preload/src/joined`, with arguments that change nothing. The parent has made `clone` and `wait4`.
    fn calls(reader: usize, writer: usize) -> bool {
        const ENDS: [&core::ffi::CStr; 2] = [c"/proc/self/fd", c"/proc/self/ns/pid"];
        let mut room = [0_u64; 64];
        let at = room.as_mut_ptr() as usize;
        let byte = c"!".as_ptr() as usize;
        let pieces = [byte, 1, byte, 1];
        let pieces_at = pieces.as_ptr() as usize;
        let mut word = 0_u32;
        let word_at = (&raw mut word) as usize;
        let time = [0_u64; 2];
        let time_at = time.as_ptr() as usize;
        let here = k::AT_FDCWD as usize;
        let access = (k::PROT_READ | k::PROT_WRITE) as usize;
        let flags = (k::MAP_PRIVATE | k::MAP_ANONYMOUS) as usize;
        let is_refused = |answer: isize| [-1, -13, -38].contains(&answer); // EPERM, EACCES, ENOSYS
        let allowed = |number: u32, arguments: [usize; 6]| {
            // SAFETY: descriptors of this function, memory of its variables, and pages that it maps itself.
            let answer = unsafe { any(number, arguments) };
            (!is_refused(answer)).then_some(answer)
        };
        let all = || {
            allowed(k::__NR_writev, [writer, pieces_at, 2, 0, 0, 0])?;
            allowed(k::__NR_ioctl, [reader, 0x541b, at, 0, 0, 0])?;
            // Any result is accepted: an error may come from the file, which does not support this, and not from a
            // filter.
            // SAFETY: room for one byte.
            unsafe {
                any(
                    k::__NR_preadv2,
                    [reader, [at, 1].as_ptr() as usize, 1, usize::MAX, usize::MAX, k::RWF_NOWAIT as usize],
                )
            };
            // F_GETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_GETOWN, F_OFD_GETLK, F_OFD_SETLK, F_GETPIPE_SZ
            let mut lock = [1_u64, 5, 1, 0];
            for command in [1, 3, 4, 5, 6, 9, 36, 37, 1032] {
                lock[3] = 0;
                let argument = if [5, 6, 36, 37].contains(&command) { lock.as_mut_ptr() as usize } else { 0 };
                allowed(k::__NR_fcntl, [writer, command, argument, 0, 0, 0])?;
            }
            let one = [byte, 1];
            allowed(
                k::__NR_pwritev2,
                [writer, one.as_ptr() as usize, 1, usize::MAX, usize::MAX, k::RWF_NOWAIT as usize],
            )?;
            for path in ENDS {
                allowed(k::__NR_newfstatat, [here, path.as_ptr() as usize, at, 0, 0, 0])?;
            }
            allowed(k::__NR_readlinkat, [here, c"/proc/self/fd/0".as_ptr() as usize, at, 64, 0, 0])?;
            let directory = k::O_DIRECTORY as usize;
            let list = allowed(k::__NR_openat, [here, c"/proc".as_ptr() as usize, directory, 0, 0, 0])? as usize;
            allowed(k::__NR_lseek, [list, 0, 0, 0, 0, 0])?;
            allowed(k::__NR_getdents64, [list, at, 512, 0, 0, 0])?;
            allowed(k::__NR_dup3, [list, reader, 0, 0, 0, 0])?;
            allowed(k::__NR_close, [list, 0, 0, 0, 0, 0])?;
            let page = allowed(k::__NR_mmap, [0, 4096, access, flags, usize::MAX, 0])?;
            let page = usize::try_from(page).ok()?;
            allowed(k::__NR_madvise, [page, 4096, 18, 0, 0, 0])?;
            allowed(k::__NR_mprotect, [page, 4096, access | k::PROT_EXEC as usize, 0, 0, 0])?;
            allowed(k::__NR_mprotect, [page, 4096, (k::PROT_READ | k::PROT_EXEC) as usize, 0, 0, 0])?;
            allowed(k::__NR_munmap, [page, 4096, 0, 0, 0, 0])?;
            allowed(k::__NR_futex, [word_at, 0, 1, 0, 0, 0])?;
            allowed(k::__NR_futex, [word_at, 0, 0, time_at, 0, 0])?;
            allowed(k::__NR_futex, [word_at, 1, 1, 0, 0, 0])?;
            allowed(k::__NR_sched_yield, [0; 6])?;
            allowed(k::__NR_poll, [at, 0, 0, 0, 0, 0])?;
            allowed(k::__NR_ppoll, [at, 0, time_at, 0, 0, 0])?;
            allowed(k::__NR_pselect6, [0, 0, 0, 0, time_at, 0])?;
            allowed(k::__NR_rt_sigprocmask, [0, 0, at, 8, 0, 0])?;
            allowed(k::__NR_rt_sigaction, [11, 0, at, 8, 0, 0])?;
            // Missing before Linux 5.11.
            // SAFETY: turns off a mode that is not on.
            unsafe { any(k::__NR_prctl, [super::PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0, 0]) };
            // SAFETY: only asks; missing before Linux 6.3.
            unsafe { any(k::__NR_prctl, [super::PR_GET_MDWE, 0, 0, 0, 0, 0]) };
            allowed(k::__NR_waitid, [0, 0, 0, (k::WEXITED | k::WNOHANG | k::WNOWAIT) as usize, 0, 0])?;
            allowed(k::__NR_rt_sigtimedwait, [time_at, 0, time_at, 8, 0, 0])?;
            let own = crate::own_pid() as usize;
            let thread = allowed(k::__NR_gettid, [0; 6])? as usize;
            // Only processes with threads need it; where a filter refuses it, such a process does not attach.
            let piece = [at, 8];
            // SAFETY: from a variable onto itself.
            unsafe {
                any(k::__NR_process_vm_readv, [own, piece.as_ptr() as usize, 1, piece.as_ptr() as usize, 1, 0]);
            }
            // Signal 0 is not delivered.
            allowed(k::__NR_rt_tgsigqueueinfo, [own, thread, 0, at, 0, 0])?;
            allowed(k::__NR_kill, [own, 0, 0, 0, 0, 0])?;
            let cpu_time_of_process = (!own << 3) | 2;
            for clock in [k::CLOCK_MONOTONIC as usize, k::CLOCK_PROCESS_CPUTIME_ID as usize, cpu_time_of_process] {
                allowed(k::__NR_clock_gettime, [clock, at, 0, 0, 0, 0])?;
            }
            // Missing before Linux 5.16 and 5.3; pipes attach without them.
            // SAFETY: the kernel refuses an empty list; the child ends with what it opens.
            unsafe {
                any(k::__NR_futex_waitv, [0; 6]);
                any(k::__NR_pidfd_open, [own, 0, 0, 0, 0, 0]);
            }
            allowed(k::__NR_get_robust_list, [0, at, at + 8, 0, 0, 0])
        };
        all().is_some()
    }
}
