//! A program that this one starts, talks to and outlives.
#![allow(unsafe_code)]

use std::process::Command;
use std::time::{Duration, Instant};
use std::vec::Vec;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::FdFlags;

use crate::Errno;
use crate::transfer::Access;

/// Has the kernel kill the program that `command` starts, should the thread that starts it end before it.
pub fn die_with_this_thread(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    let parent = rustix::process::getpid();
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // The parent may have ended before the signal was requested.
        if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(std::io::Error::from(Errno::SRCH)) }
    };
    // SAFETY: two system calls; nothing is allocated, no lock is taken.
    unsafe {
        command.pre_exec(ask);
    }
}

/// Has only the program that `command` starts inherit these descriptors, under their numbers. They are closed in this
/// process when `command` is dropped.
pub fn inherit(command: &mut Command, descriptors: Vec<OwnedFd>) {
    use std::os::unix::process::CommandExt;
    let keep = move || {
        for descriptor in &descriptors {
            rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: system calls; nothing is allocated, no lock is taken.
    unsafe {
        command.pre_exec(keep);
    }
}

/// Sleeps until `end` is ready for `access`, its peer is gone, or `stop` is at end of file. Returns whether `stop` is.
///
/// # Errors
/// `ETIMEDOUT`: none of these happened within `timeout`. `ENOMEM`.
pub fn ready_or_stopped(
    end: BorrowedFd<'_>,
    access: Access,
    stop: BorrowedFd<'_>,
    timeout: Option<Duration>,
) -> Result<bool, Errno> {
    let events = if access == Access::Write { PollFlags::OUT } else { PollFlags::IN };
    let mut polled = [PollFd::from_borrowed_fd(end, events), PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    if !poll_within(&mut polled, timeout)? {
        return Err(Errno::TIMEDOUT);
    }
    Ok(!polled[1].revents().is_empty())
}

/// Whether `child` ends within `timeout`, or has been reaped already. Does not reap it.
pub fn ends_within(child: rustix::process::Pid, timeout: Duration) -> bool {
    match rustix::process::pidfd_open(child, rustix::process::PidfdFlags::empty()) {
        Ok(pidfd) => poll_within(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(timeout)).unwrap_or(false),
        Err(error) => error == Errno::SRCH,
    }
}

/// Whether any descriptor became ready within `timeout`.
fn poll_within(polled: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<bool, Errno> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| rustix::time::Timespec::try_from(left).ok());
        match poll(polled, left.as_ref()) {
            Err(Errno::INTR) => {}
            count => return count.map(|count| count > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use std::io::Read;
    use std::process::Stdio;
    use std::string::String;

    #[test]
    fn a_child_does_not_outlive_the_thread_that_started_it() {
        let _guard = crate::children::some();
        let (mut held, given) = std::io::pipe().unwrap();
        let child = std::thread::spawn(move || {
            let mut command = Command::new("sleep");
            command.arg("1000").stdout(Stdio::from(given));
            die_with_this_thread(&mut command);
            command.spawn().unwrap()
        });
        let mut child = child.join().unwrap();
        // The child alone has the write end, so this returns when the child is gone.
        held.read_to_string(&mut String::new()).unwrap();
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn only_the_child_inherits_a_descriptor() {
        use rustix::fd::AsRawFd;
        let _guard = crate::children::some();
        let (reader, given) = std::io::pipe().unwrap();
        let number = given.as_raw_fd();
        let script = std::format!("[ -e /dev/fd/{number} ] && echo there >/dev/fd/{number}");
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        inherit(&mut command, std::vec![given.into()]);
        assert!(command.status().unwrap().success());
        // The same number leads nowhere in a program that was started without it.
        assert!(!Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status().unwrap().success());
        drop(command);
        let mut said = String::new();
        { reader }.read_to_string(&mut said).unwrap();
        assert_eq!(said, "there\n");
    }

    #[test]
    fn child_that_goes_on_does_not_end_in_time() {
        let _guard = crate::children::some();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        assert!(!ends_within(pid, Duration::from_millis(1)));
        child.kill().unwrap();
        assert!(ends_within(pid, Duration::from_secs(60)));
        child.wait().unwrap();
        assert!(ends_within(pid, Duration::ZERO));
    }

    #[test]
    fn stop_wakes_waiter_for_bytes() {
        let (stop, stopper) = std::io::pipe().unwrap();
        let (reader, writer) = crate::pipe::create().unwrap();
        assert_eq!(ready_or_stopped(writer.as_fd(), Access::Write, stop.as_fd(), None), Ok(false));
        let soon = Some(Duration::from_millis(1));
        assert_eq!(ready_or_stopped(reader.as_fd(), Access::Read, stop.as_fd(), soon), Err(Errno::TIMEDOUT));
        let waiter = std::thread::spawn(move || ready_or_stopped(reader.as_fd(), Access::Read, stop.as_fd(), None));
        drop(stopper);
        assert_eq!(waiter.join().unwrap(), Ok(true));
        drop(writer);
    }
}
