//! On trial: `millstream_pipe`.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use millstream_pipe::{Builder, DirectPolicy, WaitPolicy};
use rustix::fd::{BorrowedFd, OwnedFd};

use crate::paths::{READ_PATHS, WRITE_PATHS};
use crate::{BetweenProcesses, End, Implementation, Polled, ReadEnd, WriteEnd};

/// millstream's pipe.
#[derive(Debug)]
pub enum Ours {}

/// The read end of a millstream pipe.
#[derive(Debug)]
pub struct Reader(pub millstream_pipe::Reader);

/// The write end of a millstream pipe.
#[derive(Debug)]
pub struct Writer(pub millstream_pipe::Writer);

impl Implementation for Ours {
    type Reader = Reader;
    type Writer = Writer;

    fn pipe() -> io::Result<(Reader, Writer)> {
        let (reader, writer) = millstream_pipe::pipe()?;
        Ok((Reader(reader), Writer(writer)))
    }
}

impl BetweenProcesses for Ours {}

/// millstream's pipe of the kernel's size, over which every write that does not fit is read straight out of the writer's memory.
#[derive(Debug)]
pub enum Direct {}

impl Implementation for Direct {
    type Reader = Reader;
    type Writer = Writer;

    const REFILLS: bool = false;

    fn pipe() -> io::Result<(Reader, Writer)> {
        let (reader, writer) = Builder::new().capacity(65_536).direct(DirectPolicy::Always).create()?;
        Ok((Reader(reader), Writer(writer)))
    }
}

impl BetweenProcesses for Direct {}

/// millstream's pipe in idle mode: its reader has slept so often, for so few bytes, that the stream goes through the
/// backing pipe while it sleeps. With `DOZES` the reader sleeps there whenever it waits.
#[derive(Debug)]
pub enum Quiet<const DOZES: bool> {}

impl<const DOZES: bool> Implementation for Quiet<DOZES> {
    type Reader = Reader;
    type Writer = Writer;

    fn pipe() -> io::Result<(Reader, Writer)> {
        let policy = if DOZES { WaitPolicy::Block } else { WaitPolicy::Adaptive };
        let (reader, writer) = Builder::new().wait(policy).create()?;
        become_quiet(&reader, &writer)?;
        Ok((Reader(reader), Writer(writer)))
    }
}

impl<const DOZES: bool> BetweenProcesses for Quiet<DOZES> {}

/// Has a reader that sleeps get byte after byte, until one goes through the kernel.
///
/// # Errors
/// Those of reading and writing.
///
/// # Panics
/// When none does.
pub fn become_quiet(mut reader: &millstream_pipe::Reader, mut writer: &millstream_pipe::Writer) -> io::Result<()> {
    std::thread::scope(|scope| {
        for _ in 0..1000 {
            let sleeper = scope.spawn(move || reader.read(&mut [0]));
            std::thread::sleep(Duration::from_micros(300));
            let _ = writer.write(&[0])?;
            sleeper.join().expect("a reader")?;
            if reader.statistics().bytes_through_kernel > 0 {
                return Ok(());
            }
        }
        panic!("a pipe whose reader always sleeps does not become quiet: {:?}", reader.statistics());
    })
}

/// The shared memory of every pipe that this process has a descriptor for, opened once more, as a hostile process would.
///
/// # Panics
/// When `/proc` is not mounted.
pub fn segments() -> Vec<File> {
    let listed: Vec<_> = std::fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| entry.path()).collect();
    let is_segment = |path: &&PathBuf| {
        // Not what has been closed meanwhile: the listing itself.
        std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:millstream-ring"))
    };
    listed.iter().filter(is_segment).map(|path| File::options().read(true).write(true).open(path).unwrap()).collect()
}

macro_rules! common {
    ($end:ident) => {
        impl End for $end {
            fn try_clone(&self) -> io::Result<Self> {
                Ok($end(self.0.try_clone()?))
            }

            fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
                self.0.set_nonblocking(yes)
            }

            fn capacity(&self) -> io::Result<usize> {
                self.0.capacity()
            }

            fn set_capacity(&self, bytes: usize) -> io::Result<usize> {
                self.0.set_capacity(bytes)
            }

            fn bytes_readable(&self) -> io::Result<usize> {
                self.0.bytes_readable()
            }
        }

        impl Polled for $end {
            fn readiness(&self) -> io::Result<BorrowedFd<'_>> {
                self.0.readiness()
            }

            fn into_descriptor(self) -> io::Result<OwnedFd> {
                self.0.into_fd()
            }

            fn from_descriptor(descriptor: OwnedFd) -> io::Result<Self> {
                Ok($end(millstream_pipe::$end::attach(descriptor)?))
            }
        }
    };
}

common!(Reader);
common!(Writer);

impl ReadEnd for Reader {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(buffer)
    }

    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&self.0).read_vectored(buffers)
    }

    fn read_by(&self, path: usize, buffer: &mut [u8]) -> io::Result<usize> {
        (READ_PATHS[path].read)(&self.0, buffer)
    }
}

impl WriteEnd for Writer {
    fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        (&self.0).write(buffer)
    }

    fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.0).write_vectored(buffers)
    }

    fn write_by(&self, path: usize, bytes: &[u8]) -> io::Result<usize> {
        (WRITE_PATHS[path].write)(&self.0, bytes)
    }
}
