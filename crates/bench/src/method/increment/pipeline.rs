//! Processes in a row.

use std::io::{self, Read};

use millstream_sys::{clock, cpu};

use super::bounds::{Expected, LIMIT};
use super::sum::{Sum, add_one};
use crate::engine::Launch;
use crate::engine::crew::{self, Post};
use crate::engine::placement::Placement;
use crate::method::baton::{Baton, SharedBaton};
use crate::method::cached_file::CachedFile;
use crate::page_aligned::PageAligned;
use crate::transport::{Ends, Transport, WriteEnd};

/// What each process reads and writes at once: as much as a kernel pipe holds. Smaller and larger ones were slower over
/// both kinds of pipes.
const BUFFER: usize = 64 << 10;

/// A process for each of `adds`, which says whether it adds one; the first reads the file, the last adds up.
pub(super) fn launch(
    adds: &[bool],
    carrier: &'static dyn Transport,
    placement: Placement,
    file: &CachedFile,
    expected: Expected,
) -> Result<Launch, String> {
    let (cpus, last) = (placement.cpus()?, adds.len() - 1);
    // The first half on one CPU and the second on the other: one pipe only goes from CPU to CPU.
    let post = |index: usize| Post { name: "stage", cpu: cpus[index * 2 / adds.len()] };
    let posts: Vec<Post> = (0..adds.len()).map(post).collect();
    let pipes = (0..last).map(|_| carrier.connect(placement)).collect::<Result<Vec<_>, _>>()?;
    // A process that waits yields: all the others may be on the same CPU.
    let mut baton = SharedBaton::new(cpu::give_way).map_err(|error| format!("no shared memory: {error}"))?;
    crew::run_within(LIMIT, &posts, move |index| {
        let (from, to) = own_ends(pipes, index);
        let is_first = from.is_none();
        let from = match from {
            Some(from) => from,
            None => Box::new(file.open()?),
        };
        let stage = Stage { from, adds: adds[index], buffer: PageAligned::new(BUFFER) };
        match to {
            Some(to) => {
                if is_first {
                    baton.await_go()?;
                }
                stage.pass_on(to).map(|()| None)
            }
            None => {
                // By now all other processes have been started.
                let start = if is_first { clock::raw_nanoseconds() } else { baton.go(expected.bytes)? };
                stage.add_up(start, expected).map(Some)
            }
        }
    })
}

/// Where a process reads, unless it is the first, and where it writes, unless it is the last.
type OwnEnds = (Option<Box<dyn Read>>, Option<Box<dyn WriteEnd>>);

/// The ends of one process. All others are dropped, so that the end of the stream is seen where it must be.
fn own_ends(pipes: Vec<Ends>, index: usize) -> OwnEnds {
    let (mut from, mut to) = (None, None);
    for (place, Ends { writer, reader }) in pipes.into_iter().enumerate() {
        if place == index {
            to = Some(writer);
        }
        if place + 1 == index {
            from = Some(reader);
        }
    }
    (from, to)
}

/// One process.
struct Stage {
    from: Box<dyn Read>,
    adds: bool,
    buffer: PageAligned,
}

impl Stage {
    /// Reads once and adds, if it does; nothing at the end of the stream.
    fn next(&mut self) -> Result<&[u8], String> {
        let count = loop {
            match self.from.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other.map_err(|error| format!("cannot read: {error}"))?,
            }
        };
        let bytes = &mut self.buffer[..count];
        if self.adds {
            add_one(bytes);
        }
        Ok(bytes)
    }

    fn pass_on(mut self, mut to: Box<dyn WriteEnd>) -> Result<(), String> {
        loop {
            match self.next()? {
                [] => break,
                bytes => to.write_all(bytes).map_err(|error| format!("cannot write: {error}"))?,
            }
        }
        to.finish();
        Ok(())
    }

    fn add_up(mut self, start: u64, expected: Expected) -> Result<Launch, String> {
        let mut sum = Sum::default();
        loop {
            match self.next()? {
                [] => break,
                bytes => sum.add(bytes),
            }
        }
        let total = sum.total();
        let nanoseconds = clock::raw_nanoseconds() - start;
        expected.check(sum.bytes(), total)?;
        Ok(Launch { operations: sum.bytes(), ..Launch::of(nanoseconds as f64 / 1e6) })
    }
}
