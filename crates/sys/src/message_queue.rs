//! POSIX message queues (`mq_overview(7)`).
#![allow(unsafe_code)]

use core::ffi::CStr;

use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::Errno;
use crate::process::last_errno;

/// A queue without a name, which only holders of its descriptor can use. On Linux the descriptor is closed on exec.
#[derive(Debug)]
pub struct MessageQueue(OwnedFd);

impl MessageQueue {
    /// Makes a queue of at most `messages` waiting messages of at most `bytes` bytes. `name` is `/` and at most 254 other
    /// bytes, and taken for a moment only.
    ///
    /// # Errors
    /// `EEXIST`: the name is taken. `EINVAL`: 0, or more than `/proc/sys/fs/mqueue` allows. `EMFILE`: that much memory is
    /// above the user's limit (`RLIMIT_MSGQUEUE`), or too many files are open. `ENOSPC`: too many queues. `ENOSYS`.
    pub fn create(name: &CStr, messages: usize, bytes: usize) -> Result<MessageQueue, Errno> {
        // SAFETY: a structure of integers, for which zero is valid.
        let mut sizes: libc::mq_attr = unsafe { core::mem::zeroed() };
        sizes.mq_maxmsg = messages.try_into().map_err(|_| Errno::INVAL)?;
        sizes.mq_msgsize = bytes.try_into().map_err(|_| Errno::INVAL)?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        let mode: libc::mode_t = 0o600;
        // SAFETY: the name ends with a zero, and the kernel reads the sizes.
        let queue = unsafe { libc::mq_open(name.as_ptr(), flags, mode, &raw mut sizes) };
        if queue < 0 {
            return Err(last_errno());
        }
        // SAFETY: a descriptor that was just opened, and that nothing else owns.
        let queue = MessageQueue(unsafe { OwnedFd::from_raw_fd(queue) });
        // SAFETY: the name ends with a zero.
        let unlinked = unsafe { libc::mq_unlink(name.as_ptr()) };
        if unlinked == 0 { Ok(queue) } else { Err(last_errno()) }
    }

    /// The same queue once more.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn try_clone(&self) -> Result<MessageQueue, Errno> {
        rustix::io::fcntl_dupfd_cloexec(&self.0, 0).map(MessageQueue)
    }

    /// Sends one message, which may be empty; sleeps while the queue is full.
    ///
    /// # Errors
    /// `EMSGSIZE`: too long. `EINTR`: a signal was handled while it waited.
    pub fn send(&self, message: &[u8]) -> Result<(), Errno> {
        // SAFETY: the kernel reads the message.
        let sent = unsafe { libc::mq_send(self.0.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
        if sent == 0 { Ok(()) } else { Err(last_errno()) }
    }

    /// Receives the message that has waited longest, and returns how long it is; sleeps while there is none.
    ///
    /// # Errors
    /// `EMSGSIZE`: `buffer` is shorter than the longest message that the queue allows. `EINTR`: a signal was handled while
    /// it waited.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let (start, len) = (buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: the kernel writes at most the buffer's length.
        let received = unsafe { libc::mq_receive(self.0.as_raw_fd(), start, len, core::ptr::null_mut()) };
        usize::try_from(received).map_err(|_| last_errno())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    #[test]
    fn messages_keep_their_order_and_their_lengths() {
        let name = CString::new(std::format!("/millstream-sys-{}", std::process::id())).unwrap();
        let queue = MessageQueue::create(&name, 3, 100).unwrap();
        let again = MessageQueue::create(&name, 3, 100).expect("the name is free at once");
        drop(again);
        let other = queue.try_clone().unwrap();
        queue.send(b"mill").unwrap();
        queue.send(b"").unwrap();
        assert_eq!(queue.send(&[0; 101]), Err(Errno::MSGSIZE));
        let mut buffer = [0; 100];
        assert_eq!(other.receive(&mut buffer[..99]), Err(Errno::MSGSIZE));
        assert_eq!(other.receive(&mut buffer), Ok(4));
        assert_eq!(&buffer[..4], b"mill");
        assert_eq!(other.receive(&mut buffer), Ok(0));
    }

    #[test]
    fn queue_without_messages_is_refused() {
        assert_eq!(MessageQueue::create(c"/millstream-sys-none", 0, 1).unwrap_err(), Errno::INVAL);
    }
}
