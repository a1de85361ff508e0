//! Children that go on in the same program, and what becomes of them.
#![allow(unsafe_code)]

use core::time::Duration;
use std::vec::Vec;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::BorrowedFd;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use crate::Errno;

/// Which of the two a process has become.
#[derive(Debug)]
pub enum Side {
    /// The process that asked, and its new child.
    Parent(Child),
    /// The new process.
    Child,
}

/// A child that is not reaped yet. Killed and reaped when dropped.
#[derive(Debug)]
pub struct Child(Option<Pid>);

/// Makes a child that goes on here with a copy of everything, and is killed when the thread that asked ends.
///
/// # Errors
/// `EAGAIN`: too many processes. `ENOMEM`.
///
/// # Safety
/// The child has only the thread that asked, and every lock of another thread stays as it was. The child must not wait
/// for one: it may allocate (glibc sees to that in `fork`) and make system calls, but not print through std's handles
/// if another thread may be doing that. It must end in [`exit_at_once`], or the caller's callers run twice.
pub unsafe fn fork() -> Result<Side, Errno> {
    let parent = rustix::process::getpid();
    // SAFETY: what the child does is the caller's promise.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        let is_tied = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
        // The parent may have ended before the signal was asked for.
        if !is_tied || rustix::process::getppid() != Some(parent) {
            exit_at_once(1);
        }
        return Ok(Side::Child);
    }
    match Pid::from_raw(forked).filter(|_| forked > 0) {
        Some(child) => Ok(Side::Parent(Child(Some(child)))),
        None => Err(crate::process::last_errno()),
    }
}

/// Ends this process without running what was registered for its end and without writing what its copies of buffers
/// hold.
pub fn exit_at_once(status: i32) -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(status) }
}

impl Child {
    /// Its process number; 0 once it was waited for.
    pub fn id(&self) -> u32 {
        self.0.map_or(0, |child| child.as_raw_pid().unsigned_abs())
    }

    /// Sleeps until the child has ended, and reaps it.
    ///
    /// # Errors
    /// `ECHILD`: another caller reaped it.
    pub fn wait(mut self) -> Result<WaitStatus, Errno> {
        // Taken first: a number that was reaped may belong to another process.
        self.0.take().map_or(Err(Errno::CHILD), reap)
    }

    /// Ends the child, whatever it is doing.
    pub fn kill(&self) {
        if let Some(pid) = self.0 {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        if let Some(pid) = self.0.take() {
            let _ = reap(pid);
        }
    }
}

fn reap(pid: Pid) -> Result<WaitStatus, Errno> {
    let reaped = rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(pid), WaitOptions::empty()))?;
    reaped.map(|(_, status)| status).ok_or(Errno::CHILD)
}

/// Sleeps until one of `descriptors` can be read or is at its end, for `limit` at most; returns whether each is so.
///
/// # Errors
/// `EINTR`: a signal was handled. `ENOMEM`.
pub fn wait_readable(descriptors: &[BorrowedFd<'_>], limit: Duration) -> Result<Vec<bool>, Errno> {
    let mut polled: Vec<_> = descriptors.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let limit = Timespec::try_from(limit).map_err(|_| Errno::INVAL)?;
    rustix::event::poll(&mut polled, Some(&limit))?;
    Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;

    fn child(role: impl FnOnce() -> i32) -> Child {
        // SAFETY: the roles below make system calls only.
        match unsafe { fork() }.unwrap() {
            Side::Parent(child) => child,
            Side::Child => exit_at_once(role()),
        }
    }

    #[test]
    fn a_child_ends_with_its_status() {
        let _guard = crate::children::some();
        assert_eq!(child(|| 7).wait().unwrap().exit_status(), Some(7));
    }

    #[test]
    fn a_child_that_is_dropped_is_gone() {
        let _guard = crate::children::some();
        let sleeper = child(|| {
            loop {
                std::thread::sleep(Duration::from_secs(1000));
            }
        });
        let pid = sleeper.0.unwrap();
        drop(sleeper);
        assert_eq!(rustix::process::test_kill_process(pid), Err(Errno::SRCH));
    }

    #[test]
    fn a_descriptor_is_readable_when_its_writer_is_gone() {
        let (reader, writer) = crate::pipe::create().unwrap();
        assert_eq!(wait_readable(&[reader.as_fd()], Duration::from_millis(1)), Ok(std::vec![false]));
        drop(writer);
        assert_eq!(wait_readable(&[reader.as_fd()], Duration::from_secs(1000)), Ok(std::vec![true]));
    }
}
