//! The bound on one CPU: what goes through a ring is copied in and copied out, and this does nothing else.

use std::hint::black_box;

use millstream_sys::clock;

use super::passes::{rehearsed_bytes, timed_bytes};
use super::task::Task;
use super::workload::{self, Timed, Workload};
use crate::engine::Launch;
use crate::page_aligned::PageAligned;

/// The name in options and results.
pub const NAME: &str = "memcpy-twice";

/// As large as the bare ring, so it lives in the same level of cache.
const RING_BYTES: usize = 512 << 10;

/// Copies pieces of a transfer, for as long as the other carriers do, and returns MB/s, those of the rehearsal as warm-up.
pub(super) fn copy(task: Task) -> Result<Launch, String> {
    let mut copier = Copier {
        from: PageAligned::new(task.transfer),
        ring: PageAligned::new(RING_BYTES),
        to: PageAligned::new(task.transfer),
        place: 0,
        workload: task.workload,
    };
    workload::fill_hot(&mut copier.from);
    let hot = copier.from.to_vec();
    let rehearsed = rehearsed_bytes(task.transfer);
    let estimated_ns = copier.time(rehearsed, &hot)?;
    copier.to.fill(0);
    let bytes = timed_bytes(rehearsed, estimated_ns, task);
    let nanoseconds = copier.time(bytes, &hot)?;
    let rate = |bytes: u64, nanoseconds: u64| bytes as f64 * 1e3 / nanoseconds as f64;
    Ok(Launch { warmup: vec![rate(rehearsed, estimated_ns)], ..Launch::of(rate(bytes, nanoseconds)) })
}

struct Copier {
    from: PageAligned,
    ring: PageAligned,
    to: PageAligned,
    place: usize,
    workload: Workload,
}

impl Copier {
    /// Moves `bytes`, whole transfers; returns the nanoseconds, at least 1.
    fn time(&mut self, bytes: u64, hot: &[u8]) -> Result<u64, String> {
        let transfer = self.from.len();
        let mut sum = 0_u64;
        let start = clock::raw_nanoseconds();
        for number in 0..bytes / transfer as u64 {
            if self.workload == Workload::Fresh {
                self.from.fill(workload::fresh_byte(number));
            }
            self.through_the_ring();
            if self.workload == Workload::Summed {
                sum = sum.wrapping_add(workload::sum(number * transfer as u64, &self.to));
            }
        }
        black_box(&self.to);
        let nanoseconds = clock::raw_nanoseconds() - start;
        self.workload.verify(&Timed { transfer, hot, bytes, last: &self.to, sum })?;
        Ok(nanoseconds.max(1))
    }

    fn through_the_ring(&mut self) {
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
}
