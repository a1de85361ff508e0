//! One writer, several readers that each see every byte.
//!
//! ```
//! use std::io::{Read, Write};
//!
//! let (mut writer, readers) = millstream_pipe::broadcast(3)?;
//! let reading = readers.into_iter().map(|mut reader| {
//!     std::thread::spawn(move || {
//!         let mut text = String::new();
//!         reader.read_to_string(&mut text).map(|_| text)
//!     })
//! });
//! let reading: Vec<_> = reading.collect();
//! writer.write_all(b"news")?;
//! drop(writer);
//! for thread in reading {
//!     assert_eq!(thread.join().unwrap()?, "news");
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The slowest reader decides how fast the writer is. With [`Builder::lossy`] the writer never waits, and a reader that
//! fell behind by more than the capacity is told how much it has lost ([`LostError`]). A reader that is closed or killed frees
//! its place; the writer goes on for the others, and gets `EPIPE` and SIGPIPE when none is left. When the writer is closed
//! or killed each reader gets what was written, and then the end of the stream. [`Writer::add_reader`] adds readers later.
//!
//! # Design
//! There is one ring for all readers ([`millstream_ring::Broadcast`]), so the bytes are copied in once, whatever the number
//! of readers. What only a kernel can do is done by a **backing pipe** for each reader, as for an ordinary pipe: the reader
//! has its read end, the writer all the write ends. No byte of the stream goes through them. The kernel tells the writer by
//! `POLLERR` that a reader has gone, and a reader by `POLLHUP` that the writer has, after fork, `dup` and kill too.
//!
//! A backing pipe has two pages, and says three things by how full it is:
//!
//! ```text
//! [   |   ]   the reader has nothing to wake up for       a sleeping reader waits for POLLIN, a sleeping writer for POLLOUT
//! [ x |   ]   bytes were written since it last looked     a reader wakes up
//! [ x | x ]   the writer waits for this reader            until the reader has read far enough, and takes a page out
//! ```
//!
//! A reader sleeps only when it has read everything, the writer only for a reader that has not. So both never sleep at one
//! pipe, and one that was woken in vain empties the pipe and looks at the ring again. The waiter stores a word, fences,
//! and looks at the position once more; the other side stores the position, fences, and looks at the word (edge E14). No
//! wake-up can be lost, and without a waiter there is no system call. A process that is killed between its position and its
//! wake-up closes its end of the pipe, which wakes as well; where another process holds a copy of that end, a timeout does.
//! The writer sleeps for one reader at a time, the one that is furthest behind.
//!
//! The writer counts the readers whose pipes it holds, so no shared word can add or remove one. A reader whose words are not
//! possible is cut off, and the others go on. Positions are checked and masked. A lossy reader copies first and then looks
//! whether the writer had come round (edge E15).
//!
//! # Ends and other processes
//! Each end is for one process at a time. A fork passes ends on as it does those of a pipe: a reader sees the end of the
//! stream when every copy of the writer is closed. [`Reader::into_fd`] and [`Reader::attach`] pass a reader to another
//! program. Processes that read through copies of one reader share its bytes; a wake-up may come a second late there.

use std::io;

use millstream_ring::READERS_MAX;

use crate::capacity::permitted_capacity;
use crate::policy::WaitPolicy;
use crate::settings::{self, table::DEFAULT_CAPACITY};

mod lost;
mod reader;
mod segment;
mod writer;

pub use lost::LostError;
pub use reader::Reader;
pub(crate) use reader::is_reader;
use segment::Segment;
pub use writer::Writer;

/// A new broadcast with default options: what the [`settings`] say, blocking, not lossy.
///
/// # Errors
/// As [`Builder::create`].
pub fn broadcast(readers: usize) -> io::Result<(Writer, Vec<Reader>)> {
    Builder::new().readers(readers).create()
}

/// Options for a new broadcast.
///
/// ```
/// use std::io::{Read, Write};
/// use millstream_pipe::broadcast::{Builder, LostError};
///
/// let (mut writer, mut readers) = Builder::new().readers(2).capacity(4096).lossy(true).create()?;
/// writer.write_all(&[7; 10_000])?;
/// let error = readers[0].read(&mut [0; 100]).unwrap_err();
/// assert_eq!(LostError::of(&error), Some(LostError { bytes: 10_000 }));
/// writer.write_all(b"and on")?;
/// assert_eq!(readers[0].read(&mut [0; 100])?, 6);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    readers: usize,
    capacity: Option<usize>,
    is_lossy: bool,
    is_nonblocking: bool,
    wait: Option<WaitPolicy>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder { readers: 1, capacity: None, is_lossy: false, is_nonblocking: false, wait: None }
    }
}

impl Builder {
    /// The defaults of [`broadcast`](fn@broadcast), with one reader.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Readers that there are at first: 1 to 64.
    #[must_use]
    pub fn readers(mut self, count: usize) -> Builder {
        self.readers = count;
        self
    }

    /// Bytes that the slowest reader can be behind, as [`crate::Builder::capacity`].
    #[must_use]
    pub fn capacity(mut self, bytes: usize) -> Builder {
        self.capacity = Some(bytes);
        self
    }

    /// Whether the writer overwrites what a slow reader has not read, instead of waiting for it.
    #[must_use]
    pub fn lossy(mut self, yes: bool) -> Builder {
        self.is_lossy = yes;
        self
    }

    /// Whether all ends are non-blocking at first.
    #[must_use]
    pub fn nonblocking(mut self, yes: bool) -> Builder {
        self.is_nonblocking = yes;
        self
    }

    /// How all ends wait; without it as the setting `wait` says.
    #[must_use]
    pub fn wait(mut self, policy: WaitPolicy) -> Builder {
        self.wait = Some(policy);
        self
    }

    /// Makes the broadcast.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput): no readers, or more than 64. Otherwise as
    /// [`crate::Builder::create`]; a broadcast needs two descriptors for each reader and one more.
    pub fn create(&self) -> io::Result<(Writer, Vec<Reader>)> {
        if !(1..=READERS_MAX).contains(&self.readers) {
            let says = format!("{} readers for a broadcast; ask for 1 to {READERS_MAX}", self.readers);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, says));
        }
        let capacity = match self.capacity {
            None => settings::capacity(),
            Some(wished) => permitted_capacity(wished, DEFAULT_CAPACITY.min(settings::capacity_limit()))?,
        };
        let segment = Segment::create(capacity, self.is_lossy)?;
        let wait = self.wait.unwrap_or_else(settings::wait);
        let mut writer = Writer::new(segment, wait);
        writer.set_nonblocking(self.is_nonblocking);
        let readers = (0..self.readers).map(|_| {
            let reader = writer.add_reader()?;
            reader.set_nonblocking(self.is_nonblocking);
            Ok(reader)
        });
        let readers = readers.collect::<io::Result<Vec<_>>>()?;
        Ok((writer, readers))
    }
}
