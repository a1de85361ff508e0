//! Which process a number means, and whether it still does: numbers are given out again.

use std::fs;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::Errno;

/// A process and no other that ever had, or will have, its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its number.
    pub process: u32,
    /// When it was started, in the kernel's ticks since boot (field 22 of `/proc/PID/stat`).
    pub start: u64,
}

/// The calling process.
///
/// # Errors
/// `ENOENT`: `/proc` is not mounted.
pub fn own() -> Result<Identity, Errno> {
    let process = crate::own_pid();
    Ok(Identity { process, start: start_of(process)? })
}

/// What has become of a process.
#[derive(Debug)]
pub enum Fate {
    /// It lives, and can be asked about from now on.
    Alive(Handle),
    /// It has ended.
    Ended,
    /// There is one of this number that was started at another time, as far as this process can see: one in another time
    /// namespace sees other times.
    Another,
}

/// A descriptor of a process: it means this one also after its end.
#[derive(Debug)]
pub struct Handle {
    descriptor: OwnedFd,
    identity: Identity,
}

impl Handle {
    /// Looks for a process.
    ///
    /// # Errors
    /// `ENOSYS`: before Linux 5.3. `EMFILE`, `ENFILE`. `EACCES`, `ENOENT`: `/proc` is hidden or not mounted.
    pub fn open(identity: Identity) -> Result<Fate, Errno> {
        let number = i32::try_from(identity.process).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH);
        let descriptor = match number.and_then(|number| pidfd_open(number, PidfdFlags::empty())) {
            Ok(descriptor) => descriptor,
            // `EINVAL`: the number of a thread.
            Err(Errno::SRCH | Errno::INVAL) => return Ok(Fate::Ended),
            Err(error) => return Err(error),
        };
        let handle = Handle { descriptor, identity };
        // In this order: the number means the process of the descriptor for as long as that lives.
        let start = start_of(identity.process);
        if !handle.is_alive() {
            return Ok(Fate::Ended);
        }
        Ok(if start? == identity.start { Fate::Alive(handle) } else { Fate::Another })
    }

    /// The process that it means.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Whether a thread of it is left.
    pub fn is_alive(&self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut polled = [PollFd::new(&self.descriptor, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut polled, Some(&at_once))) == Ok(0)
    }
}

fn start_of(process: u32) -> Result<u64, Errno> {
    let path = std::format!("/proc/{process}/stat");
    let stat = fs::read(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    // The name, in parentheses, may contain anything; after it come fields 3 and following.
    let after_name = stat.iter().rposition(|&byte| byte == b')').map_or(0, |at| at + 1);
    let start = core::str::from_utf8(&stat[after_name..]).ok().and_then(|fields| fields.split_whitespace().nth(19));
    start.and_then(|start| start.parse().ok()).ok_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork::{Side, exit_at_once, fork};

    #[test]
    fn identity_means_one_process_despite_reused_number() {
        let me = own().unwrap();
        assert!(matches!(Handle::open(me), Ok(Fate::Alive(handle)) if handle.identity() == me && handle.is_alive()));
        let other = Identity { start: me.start + 1, ..me };
        assert!(matches!(Handle::open(other), Ok(Fate::Another)));
        assert!(matches!(Handle::open(Identity { process: 0, start: 1 }), Ok(Fate::Ended)));
    }

    #[test]
    fn process_that_was_not_reaped_has_ended() {
        let _guard = crate::children::some();
        // SAFETY: the child makes system calls only.
        #[allow(unsafe_code)]
        let child = match unsafe { fork() }.unwrap() {
            Side::Parent(child) => child,
            Side::Child => loop {
                rustix::thread::sched_yield();
            },
        };
        let process = child.id();
        let identity = Identity { process, start: start_of(process).unwrap() };
        let Ok(Fate::Alive(handle)) = Handle::open(identity) else { panic!("it lives") };
        child.kill();
        while handle.is_alive() {
            rustix::thread::sched_yield();
        }
        assert!(matches!(Handle::open(identity), Ok(Fate::Ended)), "a zombie");
        child.wait().unwrap();
        assert!(matches!(Handle::open(identity), Ok(Fate::Ended)));
        let _ = exit_at_once;
    }
}
