//! Two pipes, one each way, as one value: what other systems call a bidirectional pipe.

use std::io::{self, BufRead, IoSlice, IoSliceMut, Read, Write};

use crate::builder::Builder;
use crate::reader::Reader;
use crate::writer::Writer;

/// One end of two pipes: what is written here is read at the other end, and the other way round; from [`duplex`].
///
/// Everything that holds for a [`Reader`] and a [`Writer`] holds for the two in it, each for itself: non-blocking,
/// capacity, clones, forks. Reading gives 0 when the other end is gone and nothing waits; writing is refused with
/// [`BrokenPipe`](io::ErrorKind::BrokenPipe) then. To close one way only, [split](Duplex::into_split) it and drop
/// that half.
///
/// Two ends that both write more than a pipe holds before they read wait for each other for ever, as with
/// `socketpair(2)`.
#[derive(Debug)]
pub struct Duplex {
    reader: Reader,
    writer: Writer,
}

/// Two ends that are connected both ways, with default options.
///
/// ```
/// use std::io::{BufRead, Write};
///
/// let (mut here, mut there) = millstream_pipe::duplex()?;
/// let miller = std::thread::spawn(move || {
///     let mut grain = String::new();
///     there.read_line(&mut grain)?;
///     there.write_all(grain.replace("grain", "flour").as_bytes())
/// });
/// here.write_all(b"a sack of grain\n")?;
/// let mut flour = String::new();
/// here.read_line(&mut flour)?;
/// assert_eq!(flour, "a sack of flour\n");
/// miller.join().unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A way that is never used costs descriptors, three for both its ends, and no shared memory.
///
/// # Errors
/// As [`Builder::create`].
pub fn duplex() -> io::Result<(Duplex, Duplex)> {
    Builder::new().create_duplex()
}

impl Builder {
    /// Makes two pipes with these options, one each way.
    ///
    /// # Errors
    /// As [`Builder::create`].
    pub fn create_duplex(&self) -> io::Result<(Duplex, Duplex)> {
        let (first_reader, first_writer) = self.create()?;
        let (second_reader, second_writer) = self.create()?;
        Ok((Duplex::new(first_reader, second_writer), Duplex::new(second_reader, first_writer)))
    }
}

impl Duplex {
    /// Of a read end and a write end, of whatever pipes.
    pub fn new(reader: Reader, writer: Writer) -> Duplex {
        Duplex { reader, writer }
    }

    /// The way here.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The way here, to borrow from.
    pub fn reader_mut(&mut self) -> &mut Reader {
        &mut self.reader
    }

    /// The way there.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// The way there, to reserve in.
    pub fn writer_mut(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// Both ways, each for itself.
    pub fn into_split(self) -> (Reader, Writer) {
        (self.reader, self.writer)
    }

    /// Another handle to the same open end, as `dup(2)` makes it.
    ///
    /// # Errors
    /// Too many open files (`EMFILE`).
    pub fn try_clone(&self) -> io::Result<Duplex> {
        Ok(Duplex::new(self.reader.try_clone()?, self.writer.try_clone()?))
    }

    /// Whether reading and writing here return [`WouldBlock`](io::ErrorKind::WouldBlock) instead of sleeping.
    ///
    /// # Errors
    /// None in practice.
    pub fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        self.reader.set_nonblocking(yes)?;
        self.writer.set_nonblocking(yes)
    }
}

impl Read for &Duplex {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.reader).read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&self.reader).read_vectored(buffers)
    }
}

impl Read for Duplex {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(buffers)
    }
}

impl BufRead for Duplex {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.reader.consume(count);
    }
}

impl Write for &Duplex {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&self.writer).write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.writer).write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Duplex {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn each_way_carries_its_own_bytes() {
        let (here, there) = duplex().unwrap();
        (&here).write_all(b"question").unwrap();
        (&there).write_all(b"answer").unwrap();
        let (mut question, mut answer) = ([0; 8], [0; 6]);
        (&there).read_exact(&mut question).unwrap();
        (&here).read_exact(&mut answer).unwrap();
        assert_eq!((&question, &answer), (b"question", b"answer"));
    }

    #[test]
    fn what_was_written_before_the_other_end_went_is_read_and_then_comes_the_end() {
        let (mut here, mut there) = duplex().unwrap();
        there.write_all(b"last words").unwrap();
        drop(there);
        let mut text = String::new();
        here.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), here.read(&mut [0; 1]).unwrap()), ("last words", 0));
        assert_eq!(here.write(b"anyone?").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn one_way_is_closed_and_the_other_goes_on() {
        let (here, mut there) = duplex().unwrap();
        let (mut reader, writer) = here.into_split();
        drop(writer);
        assert_eq!(there.read(&mut [0; 1]).unwrap(), 0);
        there.write_all(b"still").unwrap();
        let mut text = [0; 5];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"still");
    }

    #[test]
    fn options_hold_for_both_ways() {
        let (here, there) = Builder::new().capacity(4096).nonblocking(true).create_duplex().unwrap();
        for end in [&here, &there] {
            assert_eq!((end.reader().capacity().unwrap(), end.writer().capacity().unwrap()), (4096, 4096));
            let mut end = end;
            assert_eq!(end.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
        here.set_nonblocking(false).unwrap();
        let clone = here.try_clone().unwrap();
        drop(here);
        (&there).write_all(b"x").unwrap();
        assert_eq!((&clone).read(&mut [0; 9]).unwrap(), 1);
    }
}
