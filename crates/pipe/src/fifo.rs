//! FIFOs. `docs/fifo.md` has the design.

pub(crate) mod company;
mod doorbell;
mod lookout;
pub(crate) mod reading;
pub(crate) mod routes;
pub(crate) mod writing;

use std::io;
use std::path::Path;
use std::sync::Arc;

use millstream_sys::transfer::Access;
use millstream_sys::{Errno, fifo, pipe};

use crate::end::{End, Pipe};
use crate::error::PipeErrorKind;
use crate::policy::WaitPolicy;
use crate::reader::Reader;
use crate::settings;
use crate::writer::Writer;

/// A FIFO: a pipe with a path in the file system (`fifo(7)`), which any program can open at either end.
///
/// ```
/// use std::io::{Read, Write};
/// use millstream_pipe::Fifo;
///
/// let path = std::env::temp_dir().join(format!("mill-race-{}", std::process::id()));
/// Fifo::create(&path, 0o600)?;
/// let child = std::process::Command::new("sh").arg("-c").arg("echo grain > \"$0\"").arg(&path).spawn()?;
/// let mut text = String::new();
/// Fifo::reader(&path)?.read_to_string(&mut text)?;
/// assert_eq!(text, "grain\n");
/// std::fs::remove_file(&path)?;
/// # child.wait_with_output()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Fifo {}

impl Fifo {
    /// Makes a FIFO at `path`. Its permissions are those in `mode` (0 to `0o7777`), less what the process's umask
    /// forbids; its owner is the calling user. Needs no privilege. The permissions and the owner alone decide which
    /// processes may open it.
    ///
    /// # Errors
    /// Those of `mkfifo(3)`: [`AlreadyExists`](io::ErrorKind::AlreadyExists) whatever is there, also a link that leads
    /// nowhere; [`PermissionDenied`](io::ErrorKind::PermissionDenied), [`NotFound`](io::ErrorKind::NotFound) of the
    /// directory; `ENOSPC`, `EROFS`, `ENOTDIR`.
    pub fn create(path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        Ok(fifo::make(path.as_ref(), mode)?)
    }

    /// Opens the FIFO at `path` as `options` say.
    ///
    /// # Blocking
    /// Without [`FifoOptions::nonblocking`]: opening one side waits until a process has opened the other, also if
    /// that process has closed it again meanwhile. Opening both sides at once never waits.
    ///
    /// # Errors
    /// Those of `open(2)`: [`PermissionDenied`](io::ErrorKind::PermissionDenied),
    /// [`NotFound`](io::ErrorKind::NotFound), `EMFILE`; `ENXIO` for writing only, without blocking, if no process
    /// reads; [`Interrupted`](io::ErrorKind::Interrupted) if a signal handler without `SA_RESTART` ran while it
    /// waited. [`InvalidInput`](io::ErrorKind::InvalidInput) with a [`PipeError`](crate::PipeError): something else
    /// is there (`EINVAL`), or the options name no side.
    pub fn open(path: impl AsRef<Path>, options: &FifoOptions) -> io::Result<FifoEnds> {
        let access = match (options.read, options.write) {
            (true, false) => Access::Read,
            (false, true) => Access::Write,
            (true, true) => Access::Both,
            (false, false) => return Err(PipeErrorKind::NoAccessMode.into()),
        };
        let fd = match fifo::open(path.as_ref(), access, options.nonblocking, options.cloexec) {
            Err(Errno::INVAL) => return Err(PipeErrorKind::NotAFifo.into()),
            opened => opened?,
        };
        let end = |fd, side| {
            // What any program may come to hold, programs must be able to read and write.
            let pipe = if options.cloexec && options.ring { Pipe::of_a_fifo(side) } else { Pipe::of_the_kernel() };
            End::new(fd, Arc::new(pipe), options.wait)
        };
        let (reading, writing) = (Access::Read, Access::Write);
        Ok(match access {
            Access::Read => FifoEnds { reader: Some(Reader::new(end(fd, reading))), writer: None },
            Access::Write => FifoEnds { reader: None, writer: Some(Writer::new(end(fd, writing))) },
            Access::Both => {
                let other = fd.try_clone()?;
                if !options.cloexec {
                    pipe::survive_exec(&other)?;
                }
                let (reader, writer) = (Reader::new(end(fd, reading)), Writer::new(end(other, writing)));
                FifoEnds { reader: Some(reader), writer: Some(writer) }
            }
        })
    }

    /// Opens the FIFO at `path` for reading, as soon as a process writes: [`Fifo::open`] with its defaults.
    ///
    /// # Errors
    /// As there.
    pub fn reader(path: impl AsRef<Path>) -> io::Result<Reader> {
        FifoOptions::new().open_reader(path)
    }

    /// Opens the FIFO at `path` for writing, as soon as a process reads: [`Fifo::open`] with its defaults.
    ///
    /// # Errors
    /// As there.
    pub fn writer(path: impl AsRef<Path>) -> io::Result<Writer> {
        FifoOptions::new().open_writer(path)
    }
}

/// What [`Fifo::open`] was asked for.
#[derive(Debug)]
#[non_exhaustive]
pub struct FifoEnds {
    /// The read end, if reading was asked for.
    pub reader: Option<Reader>,
    /// The write end, if writing was asked for. With both, they are one open file description, as after `open(path,
    /// O_RDWR)`: a reader that never sees an end, a writer that never lacks a reader, until both are dropped.
    pub writer: Option<Writer>,
}

/// How a FIFO is opened. At first: neither side, blocking, closed on exec, carried by the kernel, waiting as
/// [`settings`] say.
#[derive(Clone, Debug)]
pub struct FifoOptions {
    read: bool,
    write: bool,
    nonblocking: bool,
    cloexec: bool,
    ring: bool,
    wait: WaitPolicy,
}

impl Default for FifoOptions {
    fn default() -> FifoOptions {
        FifoOptions {
            read: false,
            write: false,
            nonblocking: false,
            cloexec: true,
            ring: false,
            wait: settings::wait(),
        }
    }
}

impl FifoOptions {
    /// The defaults.
    pub fn new() -> FifoOptions {
        FifoOptions::default()
    }

    /// Whether it is opened for reading.
    #[must_use]
    pub fn read(mut self, yes: bool) -> FifoOptions {
        self.read = yes;
        self
    }

    /// Whether it is opened for writing.
    #[must_use]
    pub fn write(mut self, yes: bool) -> FifoOptions {
        self.write = yes;
        self
    }

    /// Whether opening returns at once and the ends are non-blocking at first (`O_NONBLOCK`). For reading that always
    /// succeeds; for writing there must be a reader.
    #[must_use]
    pub fn nonblocking(mut self, yes: bool) -> FifoOptions {
        self.nonblocking = yes;
        self
    }

    /// Whether the ends are closed when this process, or a child, executes another program (`O_CLOEXEC`). If not, the
    /// kernel carries what goes through them.
    #[must_use]
    pub fn cloexec(mut self, yes: bool) -> FifoOptions {
        self.cloexec = yes;
        self
    }

    /// Whether bytes may go through shared memory where both ends are ours and say so; not unless asked for.
    ///
    /// A reader that asks for it reads ahead. It then holds up to a FIFO full of bytes before it returns them, and
    /// other readers get these bytes only if it leaves. That is right for a program that reads the stream to its end.
    /// To a writer it makes no difference. `docs/fifo.md` has the limits while plain programs have the same FIFO
    /// open.
    #[must_use]
    pub fn ring(mut self, yes: bool) -> FifoOptions {
        self.ring = yes;
        self
    }

    /// How the ends wait.
    #[must_use]
    pub fn wait(mut self, policy: WaitPolicy) -> FifoOptions {
        self.wait = policy;
        self
    }

    /// Opens for reading only, whatever [`read`](Self::read) and [`write`](Self::write) said.
    ///
    /// # Errors
    /// As [`Fifo::open`].
    pub fn open_reader(&self, path: impl AsRef<Path>) -> io::Result<Reader> {
        let ends = Fifo::open(path, &self.clone().read(true).write(false))?;
        ends.reader.ok_or_else(|| PipeErrorKind::NoAccessMode.into())
    }

    /// Opens for writing only, whatever [`read`](Self::read) and [`write`](Self::write) said.
    ///
    /// # Errors
    /// As [`Fifo::open`].
    pub fn open_writer(&self, path: impl AsRef<Path>) -> io::Result<Writer> {
        let ends = Fifo::open(path, &self.clone().read(false).write(true))?;
        ends.writer.ok_or_else(|| PipeErrorKind::NoAccessMode.into())
    }
}
