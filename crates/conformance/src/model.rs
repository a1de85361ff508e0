//! The simplest pipe: a lock, a queue of bytes, and a condition variable for changes.
//!
//! For threads of one process; no signals, nothing to poll. Its room is counted in bytes, as in a ring: it holds exactly
//! [`capacity`](crate::End::capacity) bytes whatever the sizes of the writes were. (The kernel counts pages.)

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rustix::io::Errno;

use crate::{End, Implementation, PIPE_BUF, ReadEnd, WriteEnd};

/// The largest size that the model grants: the default of the kernel.
pub const CAPACITY_MAX: usize = 1 << 20;

/// The model.
#[derive(Debug)]
pub enum Model {}

/// The read end of a modelled pipe.
#[derive(Debug)]
pub struct Reader(Arc<Open>);

/// The write end of a modelled pipe.
#[derive(Debug)]
pub struct Writer(Arc<Open>);

/// An open file description: what the clones of an end have in common. The end is closed when the last of them is gone.
#[derive(Debug)]
struct Open {
    pipe: Arc<Pipe>,
    is_reader: bool,
    nonblocking: AtomicBool,
}

#[derive(Debug)]
struct Pipe {
    content: Mutex<Content>,
    changed: Condvar,
}

#[derive(Debug)]
struct Content {
    bytes: VecDeque<u8>,
    capacity: usize,
    has_reader: bool,
    has_writer: bool,
}

impl Implementation for Model {
    type Reader = Reader;
    type Writer = Writer;

    fn pipe() -> io::Result<(Reader, Writer)> {
        let content = Content { bytes: VecDeque::new(), capacity: 65_536, has_reader: true, has_writer: true };
        let pipe = Arc::new(Pipe { content: Mutex::new(content), changed: Condvar::new() });
        let open = |is_reader| Arc::new(Open { pipe: pipe.clone(), is_reader, nonblocking: AtomicBool::new(false) });
        Ok((Reader(open(true)), Writer(open(false))))
    }
}

impl Open {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.pipe.content.lock().unwrap()
    }

    /// Sleeps until something has changed, or says that this end does not sleep.
    fn wait<'a>(&self, content: MutexGuard<'a, Content>) -> Result<MutexGuard<'a, Content>, Errno> {
        match self.nonblocking.load(SeqCst) {
            true => Err(Errno::AGAIN),
            false => Ok(self.pipe.changed.wait(content).unwrap()),
        }
    }

    fn read(&self, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        if buffers.iter().all(|buffer| buffer.is_empty()) {
            return Ok(0);
        }
        let mut content = self.content();
        while content.bytes.is_empty() {
            if !content.has_writer {
                return Ok(0);
            }
            content = self.wait(content)?;
        }
        let mut read = 0;
        for buffer in buffers {
            let count = buffer.len().min(content.bytes.len());
            buffer.iter_mut().zip(content.bytes.drain(..count)).for_each(|(to, byte)| *to = byte);
            read += count;
        }
        self.pipe.changed.notify_all();
        Ok(read)
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        // Also without readers.
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut written = 0;
        let mut content = self.content();
        loop {
            if !content.has_reader {
                return if written > 0 { Ok(written) } else { Err(Errno::PIPE) };
            }
            let room = content.capacity - content.bytes.len();
            // A small write goes in as a whole or waits for room.
            let is_large = bytes.len() > PIPE_BUF;
            let count = if is_large || room >= bytes.len() { room.min(bytes.len() - written) } else { 0 };
            if count > 0 {
                content.bytes.extend(&bytes[written..written + count]);
                written += count;
                self.pipe.changed.notify_all();
            }
            if written == bytes.len() {
                return Ok(written);
            }
            content = match self.wait(content) {
                Err(_) if written > 0 => return Ok(written),
                waited => waited?,
            };
        }
    }

    fn set_capacity(&self, bytes: usize) -> Result<usize, Errno> {
        if bytes > 1 << 31 {
            return Err(Errno::INVAL);
        }
        let rounded = bytes.max(PIPE_BUF).next_power_of_two();
        let mut content = self.content();
        if rounded > content.capacity && rounded > CAPACITY_MAX {
            return Err(Errno::PERM);
        }
        if content.bytes.len() > rounded {
            return Err(Errno::BUSY);
        }
        content.capacity = rounded;
        self.pipe.changed.notify_all();
        Ok(rounded)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut content = self.content();
        match self.is_reader {
            true => content.has_reader = false,
            false => content.has_writer = false,
        }
        self.pipe.changed.notify_all();
    }
}

macro_rules! common {
    ($end:ident) => {
        impl End for $end {
            fn try_clone(&self) -> io::Result<Self> {
                Ok($end(self.0.clone()))
            }

            fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
                self.0.nonblocking.store(yes, SeqCst);
                Ok(())
            }

            fn capacity(&self) -> io::Result<usize> {
                Ok(self.0.content().capacity)
            }

            fn set_capacity(&self, bytes: usize) -> io::Result<usize> {
                Ok(self.0.set_capacity(bytes)?)
            }

            fn bytes_readable(&self) -> io::Result<usize> {
                Ok(self.0.content().bytes.len())
            }
        }
    };
}

common!(Reader);
common!(Writer);

impl ReadEnd for Reader {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(self.0.read(&mut [IoSliceMut::new(buffer)])?)
    }

    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(self.0.read(buffers)?)
    }
}

impl WriteEnd for Writer {
    fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        Ok(self.0.write(buffer)?)
    }

    fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
        Ok(self.0.write(&bytes)?)
    }
}
