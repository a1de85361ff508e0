//! The encoder of a frame, with the threads of the library.

use std::io;
use std::ops::RangeInclusive;

use zstd::stream::raw::{self, CParameter, InBuffer, Operation, OutBuffer};

/// The most threads that the library starts.
const WORKERS_MAX: u32 = 64;

/// Bytes that a thread compresses at once at [`SMALLER_JOBS`], where the library would give it 8 or 16 MiB. Two threads
/// would have nine such jobs of 75 MB, and one would be idle during the last job. This costs at most half a percent of
/// the size.
const JOB: u32 = 4 << 20;

/// Levels at which jobs are made smaller. From 13 on the library's jobs are large too, but smaller ones would cost
/// more.
const SMALLER_JOBS: RangeInclusive<i32> = 3..=12;

pub(super) struct Encoder(raw::Encoder<'static>);

impl Encoder {
    pub(super) fn new(level: i32) -> io::Result<Encoder> {
        let mut encoder = raw::Encoder::new(level)?;
        encoder.set_parameter(CParameter::ChecksumFlag(true))?;
        // The library cuts a frame into jobs at places that depend only on the level. So its bytes are the same for any
        // number of threads from one on. Without a thread it would cut at other places.
        encoder.set_parameter(CParameter::NbWorkers(1))?;
        if SMALLER_JOBS.contains(&level) {
            encoder.set_parameter(CParameter::JobSize(JOB))?;
        }
        Ok(Encoder(encoder))
    }

    pub(super) fn use_threads(&mut self, most: usize) {
        // Above a limit of its own, the library uses one thread.
        let workers = u32::try_from(most).unwrap_or(u32::MAX).clamp(1, WORKERS_MAX);
        let _ = self.0.set_parameter(CParameter::NbWorkers(workers));
    }

    /// Compresses bytes of a frame. Returns how many were read and written.
    pub(super) fn compress(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<(usize, usize)> {
        let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(output));
        self.0.run(&mut from, &mut to)?;
        Ok((from.pos(), to.pos()))
    }

    /// Writes what is left of a frame. Returns how many bytes were written, and whether the frame is complete.
    pub(super) fn end_frame(&mut self, output: &mut [u8]) -> io::Result<(usize, bool)> {
        let mut to = OutBuffer::around(output);
        // The threads of the library may still be busy, with no output ready.
        let mut left = self.0.finish(&mut to, true)?;
        while left > 0 && to.pos() == 0 {
            left = self.0.finish(&mut to, true)?;
        }
        Ok((to.pos(), left == 0))
    }
}
