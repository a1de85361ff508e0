//! How a thread that has ended wakes the sources: one of them may be blocked in a read that never returns.
//!
//! A wake-up says only that demand may have ended: [`Push::check_demand`](super::push::Push::check_demand) goes down
//! the network and finds out. It also ends each thread whose thread below has ended, and that end wakes the sources
//! again, until the source itself finds that nothing is wanted any more.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use millstream_sys::ready;

/// A source's end.
pub(super) struct WakePipe(PipeReader);

/// The other ends, of the pipes of all sources, for every thread.
#[derive(Clone)]
pub(super) struct Notifier(Arc<[PipeWriter]>);

/// A pipe for each of so many sources.
pub(super) fn wake_pipes(sources: usize) -> io::Result<(Vec<WakePipe>, Notifier)> {
    let pipes = (0..sources).map(|_| io::pipe()).collect::<io::Result<Vec<_>>>()?;
    let (readers, writers): (Vec<_>, Vec<_>) = pipes.into_iter().unzip();
    Ok((readers.into_iter().map(WakePipe).collect(), Notifier(writers.into())))
}

/// Why [`WakePipe::or_readable`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    Readable,
    Notified,
}

impl WakePipe {
    /// Sleeps until the file can be read, or is at its end, or a thread has ended.
    pub(super) fn or_readable(&mut self, file: &File) -> io::Result<Woken> {
        let [_, is_notified] = ready::either_readable(file.as_fd(), self.0.as_fd())?;
        if !is_notified {
            return Ok(Woken::Readable);
        }
        self.clear().map(|()| Woken::Notified)
    }

    /// Readable once a thread has ended.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Takes the wake tokens, of which there is at least one.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        // One check of demand finds every thread that has ended.
        self.0.read(&mut [0; 64]).map(drop)
    }
}

impl Notifier {
    pub(super) fn notify(&self) {
        // One byte for each thread: there is always room. And a source that has ended need not be told.
        for mut pipe in &*self.0 {
            let _ = pipe.write(&[1]);
        }
    }
}
