//! On trial: FIFOs, with each side opened by millstream or by `open(2)`. With both sides by `open(2)` it is the
//! reference. In the mixed pairs a program shares a FIFO with one that does not use millstream.

use std::io;
use std::path::{Path, PathBuf};

use millstream_pipe::{Fifo, FifoOptions};
use rustix::fs::{Mode, OFlags};

use crate::pattern::{read_exact, write_all};
use crate::process::new_directory;
use crate::{BetweenProcesses, End, Implementation, Polled, ReadEnd, WriteEnd, kernel, ours};

/// An implementation that opens one end of a FIFO, without waiting for the other.
pub trait Hand: 'static {
    /// What is opened for reading.
    type Reader: ReadEnd + Polled;
    /// What is opened for writing.
    type Writer: WriteEnd + Polled;

    /// Opens for reading, without waiting.
    ///
    /// # Errors
    /// Those of `open(2)`.
    fn reader(path: &Path, nonblocking: bool) -> io::Result<Self::Reader>;

    /// Opens for writing.
    ///
    /// # Errors
    /// Those of `open(2)`.
    fn writer(path: &Path, nonblocking: bool) -> io::Result<Self::Writer>;

    /// Opens both sides at once, as one open file description, without waiting.
    ///
    /// # Errors
    /// Those of `open(2)`.
    fn both(path: &Path) -> io::Result<(Self::Reader, Self::Writer)>;
}

/// Opens with `open(2)`.
#[derive(Debug)]
pub enum Plain {}

/// Opens with millstream.
#[derive(Debug)]
pub enum Ours {}

impl Hand for Plain {
    type Reader = kernel::Reader;
    type Writer = kernel::Writer;

    fn reader(path: &Path, nonblocking: bool) -> io::Result<kernel::Reader> {
        Ok(kernel::Reader(rustix::fs::open(path, flags(OFlags::RDONLY, nonblocking), Mode::empty())?))
    }

    fn writer(path: &Path, nonblocking: bool) -> io::Result<kernel::Writer> {
        Ok(kernel::Writer(rustix::fs::open(path, flags(OFlags::WRONLY, nonblocking), Mode::empty())?))
    }

    fn both(path: &Path) -> io::Result<(kernel::Reader, kernel::Writer)> {
        let fd = rustix::fs::open(path, flags(OFlags::RDWR, false), Mode::empty())?;
        Ok((kernel::Reader(fd.try_clone()?), kernel::Writer(fd)))
    }
}

impl Hand for Ours {
    type Reader = ours::Reader;
    type Writer = ours::Writer;

    fn reader(path: &Path, nonblocking: bool) -> io::Result<ours::Reader> {
        Ok(ours::Reader(FifoOptions::new().ring(true).nonblocking(nonblocking).open_reader(path)?))
    }

    fn writer(path: &Path, nonblocking: bool) -> io::Result<ours::Writer> {
        Ok(ours::Writer(FifoOptions::new().ring(true).nonblocking(nonblocking).open_writer(path)?))
    }

    fn both(path: &Path) -> io::Result<(ours::Reader, ours::Writer)> {
        let ends = Fifo::open(path, &FifoOptions::new().ring(true).read(true).write(true))?;
        let (reader, writer) = (ends.reader.expect("asked for"), ends.writer.expect("asked for"));
        Ok((ours::Reader(reader), ours::Writer(writer)))
    }
}

/// Two ends of ours that are on their ring.
///
/// # Panics
/// When they cannot be opened, or bytes get lost.
pub fn acquainted(name: &Name) -> (ours::Reader, ours::Writer) {
    let reader = Ours::reader(name.path(), true).unwrap();
    let writer = Ours::writer(name.path(), false).unwrap();
    reader.set_nonblocking(false).unwrap();
    get_acquainted(&reader, &writer);
    (reader, writer)
}

/// Until a byte goes through the ring: a plain byte or two go before it.
///
/// # Panics
/// When bytes get lost.
pub fn get_acquainted(reader: &ours::Reader, writer: &ours::Writer) {
    loop {
        let before = reader.0.statistics().bytes_through_kernel;
        write_all(writer, b"?");
        assert_eq!(read_exact(reader, 1), b"?");
        if reader.0.statistics().bytes_through_kernel == before {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

fn flags(access: OFlags, nonblocking: bool) -> OFlags {
    access | OFlags::CLOEXEC | if nonblocking { OFlags::NONBLOCK } else { OFlags::empty() }
}

/// A FIFO whose writers are in the hand `W` and whose readers are in the hand `R`.
#[derive(Debug)]
pub struct Between<W, R>(std::marker::PhantomData<(W, R)>);

impl<W: Hand, R: Hand> Implementation for Between<W, R> {
    type Reader = R::Reader;
    type Writer = W::Writer;

    fn pipe() -> io::Result<(R::Reader, W::Writer)> {
        let name = Name::new()?;
        let reader = R::reader(&name.0, true)?;
        let writer = W::writer(&name.0, false)?;
        reader.set_nonblocking(false)?;
        Ok((reader, writer))
    }
}

impl<W: Hand, R: Hand> BetweenProcesses for Between<W, R> {}

/// The name of a new FIFO that no other process knows, in a directory of its own. Both are removed when this is
/// dropped.
#[derive(Debug)]
pub struct Name(PathBuf);

impl Name {
    /// Makes one that its owner may read and write.
    ///
    /// # Errors
    /// No room for temporary files.
    pub fn new() -> io::Result<Name> {
        let name = Name(new_directory()?.join("fifo"));
        Fifo::create(&name.0, 0o600)?;
        Ok(name)
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if let Some(directory) = self.0.parent() {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}
