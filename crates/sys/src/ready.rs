//! Sleeping until one of two descriptors is ready.

use rustix::event::{PollFd, PollFlags};
use rustix::fd::BorrowedFd;

use crate::Errno;

/// Sleeps until one of two descriptors can be read or is at end of file; returns which are. A regular file and the like
/// can always be read.
///
/// # Errors
/// `ENOMEM`. A handled signal does not end the sleep.
pub fn either_readable(first: BorrowedFd<'_>, second: BorrowedFd<'_>) -> Result<[bool; 2], Errno> {
    let mut polled = [first, second].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, None))?;
    Ok(polled.map(|fd| !fd.revents().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;

    #[test]
    fn bytes_on_either_side_and_ends_are_noticed() {
        let pipes = [crate::pipe::create().unwrap(), crate::pipe::create().unwrap()];
        let ask = || either_readable(pipes[0].0.as_fd(), pipes[1].0.as_fd()).unwrap();
        rustix::io::write(&pipes[1].1, b"x").unwrap();
        assert_eq!(ask(), [false, true]);
        rustix::io::write(&pipes[0].1, b"x").unwrap();
        assert_eq!(ask(), [true, true]);
        let [(first, writer), (second, _other)] = pipes;
        rustix::io::read(&first, &mut [0; 1]).unwrap();
        rustix::io::read(&second, &mut [0; 1]).unwrap();
        drop(writer);
        assert_eq!(either_readable(first.as_fd(), second.as_fd()), Ok([true, false]));
    }
}
