//! How a thread that has ended tells the source, which may be asleep in a read that never returns.
//!
//! The bell says only that somebody should look: [`Push::look`](super::Push::look) goes down the network and finds out.
//! A thread that is told so by the one below it ends too and rings again, until the source itself finds that nothing is
//! wanted any more.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use millstream_sys::ready;

/// A source's side.
pub(super) struct Bell {
    heard: PipeReader,
}

/// A thread's side, of the bells of all sources.
#[derive(Clone)]
pub(super) struct Rope(Arc<[PipeWriter]>);

/// A bell for each of so many sources.
pub(super) fn bells(sources: usize) -> io::Result<(Vec<Bell>, Rope)> {
    let (mut bells, mut ropes) = (Vec::new(), Vec::new());
    for _ in 0..sources {
        let (heard, rope) = io::pipe()?;
        bells.push(Bell { heard });
        ropes.push(rope);
    }
    Ok((bells, Rope(ropes.into())))
}

/// Why [`Bell::or_readable`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    Readable,
    Rung,
}

impl Bell {
    /// Sleeps until the file can be read, or is at its end, or the bell was rung.
    pub(super) fn or_readable(&mut self, file: &File) -> io::Result<Woken> {
        let [_, is_rung] = ready::either_readable(file.as_fd(), self.heard.as_fd())?;
        if !is_rung {
            return Ok(Woken::Readable);
        }
        self.hear().map(|()| Woken::Rung)
    }

    /// What can be read when it was rung.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.heard.as_fd()
    }

    /// It was rung: silences it.
    pub(super) fn hear(&mut self) -> io::Result<()> {
        // One look finds everybody who has ended.
        self.heard.read(&mut [0; 64]).map(drop)
    }
}

impl Rope {
    pub(super) fn ring(&self) {
        // One byte for each thread: there is always room. And a source that has ended need not be told.
        for mut rope in &*self.0 {
            let _ = rope.write(&[1]);
        }
    }
}
