//! Memory whose pages a pipe refers to instead of copying them (`vmsplice(2)` without `SPLICE_F_GIFT`).
#![allow(unsafe_code)]

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::pipe::{IoSliceRaw, SpliceFlags};

use crate::Errno;
use crate::transfer::{Access, is_open_for};

/// Pieces of such memory that a pipe of the default size holds (`pipe(7)`: 16 pages), each within one page.
pub const SLOTS: usize = 16;

/// The write end of a pipe, checked to be one: at the read end the same call would write to the memory.
#[derive(Debug)]
pub struct Lender(OwnedFd);

impl Lender {
    /// Takes the write end of a pipe.
    ///
    /// # Errors
    /// `EBADF`: `end` can be read from, or cannot be written to.
    pub fn new(end: OwnedFd) -> Result<Lender, Errno> {
        match is_open_for(&end, Access::Write)? && !is_open_for(&end, Access::Read)? {
            true => Ok(Lender(end)),
            false => Err(Errno::BADF),
        }
    }

    /// Puts the first bytes of `bytes` into the pipe and returns how many. Sleeps while every slot is taken; each page
    /// that they lie on takes one.
    ///
    /// The kernel keeps the pages and copies from them when they are read: a reader gets what they hold at that moment.
    /// The caller must not change them until the pipe is empty, or until all slots of the pipe were filled after them.
    /// Only the bytes that come out depend on this.
    ///
    /// # Errors
    /// `EPIPE`: no reader is left. `EBADF`: not a pipe. `EINTR`: a signal was handled while it waited.
    pub fn lend(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let memory = [IoSliceRaw::from_slice(bytes)];
        // SAFETY: this is a write end, so the kernel only reads the pages; it holds on to them itself.
        unsafe { rustix::pipe::vmsplice(&self.0, &memory, SpliceFlags::empty()) }
    }
}

impl AsFd for Lender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_gets_bytes_of_lent_pages() {
        let _guard = crate::children::none();
        let (reader, writer) = crate::pipe::create().unwrap();
        let lender = Lender::new(writer).unwrap();
        let page = std::vec![1_u8; 100];
        assert_eq!(lender.lend(&page), Ok(100));
        let mut seen = [0; 200];
        assert_eq!(rustix::io::read(&reader, &mut seen), Ok(100));
        assert_eq!(&seen[..100], page.as_slice());
        drop(reader);
        assert_eq!(lender.lend(&page), Err(Errno::PIPE));
    }

    #[test]
    fn only_a_write_end_lends() {
        let (reader, writer) = crate::pipe::create().unwrap();
        let both = crate::transfer::reopened(&writer, Access::Both, false).unwrap();
        assert_eq!(Lender::new(both).unwrap_err(), Errno::BADF);
        assert_eq!(Lender::new(reader).unwrap_err(), Errno::BADF);
    }
}
