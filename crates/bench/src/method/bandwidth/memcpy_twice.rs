//! The bound on one CPU: what goes through a ring is copied in and copied out, and this does nothing else.

use std::hint::black_box;

use millstream_sys::clock;

use super::passes::{rehearsed_bytes, timed_bytes};
use crate::engine::Launch;
use crate::page_aligned::PageAligned;
use crate::pattern;

/// The name in options and results.
pub const NAME: &str = "memcpy-twice";

/// As large as the bare ring, so it lives in the same level of cache.
const RING_BYTES: usize = 512 << 10;

/// Copies pieces of `transfer` bytes, for as long as the other carriers do, and returns MB/s.
pub(super) fn copy(transfer: usize) -> Result<Launch, String> {
    let mut copier = Copier {
        from: PageAligned::new(transfer),
        ring: PageAligned::new(RING_BYTES),
        to: PageAligned::new(transfer),
        place: 0,
    };
    pattern::fill(0, &mut copier.from);
    let rehearsed = rehearsed_bytes(transfer);
    let estimated_ns = copier.time(rehearsed);
    copier.compare()?;
    copier.to.fill(0);
    let bytes = timed_bytes(rehearsed, estimated_ns, transfer);
    let nanoseconds = copier.time(bytes);
    copier.compare()?;
    Ok(Launch::of(bytes as f64 * 1e3 / nanoseconds as f64))
}

struct Copier {
    from: PageAligned,
    ring: PageAligned,
    to: PageAligned,
    place: usize,
}

impl Copier {
    /// Moves `bytes`, whole transfers; returns the nanoseconds, at least 1.
    fn time(&mut self, bytes: u64) -> u64 {
        let start = clock::raw_nanoseconds();
        for _ in 0..bytes / self.from.len() as u64 {
            for (from, to) in self.from.chunks(RING_BYTES).zip(self.to.chunks_mut(RING_BYTES)) {
                if self.place + from.len() > RING_BYTES {
                    self.place = 0;
                }
                let ring = &mut self.ring[self.place..self.place + from.len()];
                // Neither copy may be left out, nor the two be made one.
                black_box(&mut *ring).copy_from_slice(black_box(from));
                black_box(to).copy_from_slice(black_box(ring));
                self.place += from.len();
            }
        }
        black_box(&self.to);
        (clock::raw_nanoseconds() - start).max(1)
    }

    fn compare(&self) -> Result<(), String> {
        match pattern::first_difference(0, &self.to) {
            Some(at) => Err(format!("byte {at} of the copy is wrong")),
            None => Ok(()),
        }
    }
}
