//! Ends for programs that run on tokio; with the feature `tokio`.
//!
//! ```
//! use millstream_pipe::tokio::{AsyncReader, AsyncWriter};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
//! # runtime.block_on(async {
//! let (reader, writer) = millstream_pipe::pipe()?;
//! let (mut reader, mut writer) = (AsyncReader::new(reader)?, AsyncWriter::new(writer)?);
//! let writing = tokio::spawn(async move { writer.write_all(&[7; 1_000_000]).await });
//! let mut bytes = Vec::new();
//! assert_eq!(reader.read_to_end(&mut bytes).await?, 1_000_000);
//! writing.await??;
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The runtime waits for [`Reader::readiness`] and [`Writer::readiness`], at their price. The ends of a pipe report
//! every change between empty, partly filled and full to the kernel, and a FIFO's bytes go through the kernel from
//! then on.
#![allow(unsafe_code)]

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ::tokio::io::unix::AsyncFd;
use ::tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::reader::Reader;
use crate::writer::Writer;

/// An end that the runtime watches; made only of one that has been asked for its readiness.
#[derive(Debug)]
struct Watched<E> {
    end: E,
    /// Of the end, which keeps it open for as long as it lives and shows no way to close it.
    descriptor: RawFd,
}

impl<E> Watched<E> {
    fn by_the_runtime(self, interest: Interest) -> io::Result<AsyncFd<Watched<E>>> {
        // SAFETY: the descriptor is the end's own and open until that is dropped, which is when the runtime's part is
        // over, or is taken out of it, which is too.
        Ok(unsafe { AsyncFd::register_with_interest(self, interest) }?)
    }
}

impl<E> AsRawFd for Watched<E> {
    /// Stays open for as long as the end.
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor
    }
}

/// The read end of a pipe or FIFO, for tokio.
///
/// Dropping a read that has not ended has read nothing.
#[derive(Debug)]
pub struct AsyncReader(AsyncFd<Watched<Reader>>);

impl AsyncReader {
    /// Has the runtime watch `reader`, which becomes non-blocking, and with it its clones and what other processes
    /// have of it.
    ///
    /// # Errors
    /// Those of [`Reader::readiness`]; too many open files.
    ///
    /// # Panics
    /// Outside a tokio runtime, or in one whose I/O is not enabled.
    pub fn new(reader: Reader) -> io::Result<AsyncReader> {
        reader.set_nonblocking(true)?;
        let descriptor = reader.readiness()?.as_raw_fd();
        Watched { end: reader, descriptor }.by_the_runtime(Interest::READABLE).map(AsyncReader)
    }

    /// The end itself, which stays non-blocking.
    pub fn into_inner(self) -> Reader {
        self.0.into_inner().end
    }

    /// The end itself, for its statistics and capacity. What is read from it the runtime does not learn of.
    pub fn get_ref(&self) -> &Reader {
        &self.0.get_ref().end
    }
}

impl AsyncRead for AsyncReader {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(context))?;
            // After a "would block" here the runtime waits for the next edge.
            match guard.try_io(|watched| (&watched.get_ref().end).read(buffer.initialize_unfilled())) {
                Ok(Ok(count)) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

/// The write end of a pipe or FIFO, for tokio.
///
/// A write of at most [`PIPE_BUF`](crate::PIPE_BUF) bytes is atomic, as ever; a larger one may return a part. Nothing
/// is kept back, so flushing does nothing, and shutting down does not close the end: dropping it does.
#[derive(Debug)]
pub struct AsyncWriter(AsyncFd<Watched<Writer>>);

impl AsyncWriter {
    /// As [`AsyncReader::new`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn new(writer: Writer) -> io::Result<AsyncWriter> {
        writer.set_nonblocking(true)?;
        let descriptor = writer.readiness()?.as_raw_fd();
        Watched { end: writer, descriptor }.by_the_runtime(Interest::WRITABLE).map(AsyncWriter)
    }

    /// The end itself, which stays non-blocking.
    pub fn into_inner(self) -> Writer {
        self.0.into_inner().end
    }

    /// The end itself, for its statistics and capacity.
    pub fn get_ref(&self) -> &Writer {
        &self.0.get_ref().end
    }

    fn poll(
        &self,
        context: &mut Context<'_>,
        mut write: impl FnMut(&Writer) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(context))?;
            match guard.try_io(|watched| write(&watched.get_ref().end)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(outcome) => return Poll::Ready(outcome),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for AsyncWriter {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(context, |mut writer| writer.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll(context, |mut writer| writer.write_vectored(buffers))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
