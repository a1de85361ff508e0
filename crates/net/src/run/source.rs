//! Where bytes come from.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use millstream_pipe::Reader;
use millstream_sys::{Errno, promised};

use super::count::Counter;
use super::environment::Environment;
use super::wake::{WakePipe, Woken};
use super::{fifo, names, standard};
use crate::chunk::Chunk;
use crate::error::NetworkError;
use crate::graph::{Node, Work};
use crate::plan;

/// What a source has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Bytes,
    End,
    /// Nothing yet, but a thread below has ended.
    Notified,
}

pub(super) struct Source {
    origin: Origin,
    name: String,
    counter: Arc<Counter>,
}

enum Origin {
    /// A file of which all bytes are there.
    File(File),
    /// A file whose writer may take for ever, as a pipe or a terminal.
    Slow(File),
    /// A FIFO, or a pipe of the library.
    Pipe(Box<Reader>),
    /// The standard input in cooperative mode: one thread reads it. Its writer may take for ever too.
    Promised(promised::Input),
    Memory(io::Cursor<Vec<u8>>),
}

impl Source {
    pub(super) fn open(
        node: &Node,
        environment: &Environment,
        may_promise: bool,
        counter: &Arc<Counter>,
    ) -> Result<Source, NetworkError> {
        let Work::Read(path) = &node.work else { unreachable!("only a source is opened as one") };
        let name = names::of_source(path.as_deref());
        let origin = match environment.inputs.iter().find(|(of, _)| *of == node.name) {
            Some((_, input)) => Ok(Origin::Memory(io::Cursor::new(input.clone()))),
            None => match path {
                Some(path) if fifo::is_fifo(path) => fifo::reader(path).map(|reader| Origin::Pipe(Box::new(reader))),
                Some(path) => File::open(path).and_then(Origin::opened),
                None if standard::is_closed(0) => Err(Errno::BADF.into()),
                None if may_promise && let Some(input) = promised::Input::promise() => Ok(Origin::Promised(input)),
                None if environment.has_process
                    && let Some(reader) = standard::reader() =>
                {
                    Ok(Origin::Pipe(Box::new(reader)))
                }
                // Not `Stdin`, which has a buffer of its own and copies from it.
                None => io::stdin().as_fd().try_clone_to_owned().and_then(|fd| Origin::opened(fd.into())),
            },
        };
        let origin = origin.map_err(|error| NetworkError::Source { name: name.clone(), offset: 0, error })?;
        Ok(Source { origin, name, counter: Arc::clone(counter) })
    }

    /// Whether a read may take for ever.
    pub(super) fn is_slow(&self) -> bool {
        matches!(self.origin, Origin::Slow(_) | Origin::Pipe(_) | Origin::Promised(_))
    }

    /// The file, if threads can read it in pieces wherever they stand.
    pub(super) fn regular(&self) -> Option<RegularFile<'_>> {
        let Origin::File(file) = &self.origin else { return None };
        // The standard input may have been read before.
        let start = (&mut &*file).stream_position().ok()?;
        Some(RegularFile { file, start, source: self })
    }

    /// Reads once, unless a thread ends before there is something to read.
    pub(super) fn fill(
        &mut self,
        chunk: &mut Chunk,
        mut wake_pipe: Option<&mut WakePipe>,
    ) -> Result<Found, NetworkError> {
        chunk.clear();
        if let (Origin::Slow(file), Some(wake_pipe)) = (&self.origin, &mut wake_pipe)
            && wake_pipe.or_readable(file).map_err(|error| self.failure(error))? == Woken::Notified
        {
            return Ok(Found::Notified);
        }
        let wake_fd = wake_pipe.as_ref().map(|wake_pipe| wake_pipe.as_fd());
        let origin = &mut self.origin;
        let count = self.counter.timed(|| origin.read(chunk.free(), wake_fd));
        let Some(count) = count.map_err(|error| self.failure(error))? else {
            wake_pipe.map_or(Ok(()), WakePipe::clear).map_err(|error| self.failure(error))?;
            return Ok(Found::Notified);
        };
        chunk.grow(count);
        self.counter.count(0, count, count);
        if let Origin::Pipe(reader) = &self.origin {
            self.counter.set_in_memory(reader.statistics());
        }
        Ok(if count > 0 { Found::Bytes } else { Found::End })
    }

    fn failure(&self, error: io::Error) -> NetworkError {
        NetworkError::Source { name: self.name.clone(), offset: self.counter.bytes_out(), error }
    }
}

impl Origin {
    fn opened(file: File) -> io::Result<Origin> {
        Ok(if plan::is_at_hand(&file.metadata()?) { Origin::File(file) } else { Origin::Slow(file) })
    }

    /// Reads once. Returns `None` if a thread has ended before there is something to read.
    fn read(&mut self, buffer: &mut [u8], wake_fd: Option<BorrowedFd<'_>>) -> io::Result<Option<usize>> {
        loop {
            let count = match (&mut *self, wake_fd) {
                (Origin::File(file) | Origin::Slow(file), _) => file.read(buffer).map(Some),
                (Origin::Pipe(reader), Some(wake_fd)) => reader.read_or(buffer, wake_fd),
                (Origin::Pipe(reader), None) => reader.read(buffer).map(Some),
                (Origin::Promised(input), _) => input.read(buffer, wake_fd).map_err(io::Error::from),
                (Origin::Memory(bytes), _) => bytes.read(buffer).map(Some),
            };
            match count {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

/// A file of which every piece can be read at any time.
pub(super) struct RegularFile<'a> {
    file: &'a File,
    start: u64,
    source: &'a Source,
}

impl RegularFile<'_> {
    /// Fills the chunk with what stands there; less than fits only where the file ends. Not counted: it may be done
    /// again.
    pub(super) fn fill(&self, chunk: &mut Chunk, offset: u64) -> Result<(), NetworkError> {
        chunk.clear();
        let Source { name, counter, .. } = self.source;
        let filled = counter.timed(|| {
            loop {
                let at = self.start + offset + chunk.len() as u64;
                match self.file.read_at(chunk.free(), at) {
                    Ok(0) => return Ok(()),
                    Ok(count) => chunk.grow(count),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        });
        filled.map_err(|error| NetworkError::Source { name: name.clone(), offset, error })
    }

    /// Counts bytes that were handed on.
    pub(super) fn count(&self, bytes: usize) {
        self.source.counter.count(0, bytes, bytes);
    }

    /// So many bytes were used: a process that shares the open file goes on behind them.
    pub(super) fn leave_at(&self, bytes: u64) {
        // A file that has told its position can be moved to another.
        let _ = (&mut &*self.file).seek(SeekFrom::Start(self.start + bytes));
    }
}
