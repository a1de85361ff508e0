//! The bound of everything that copies: how many bytes a second one copy moves on one CPU, by its size.

use std::collections::BTreeMap;
use std::hint::black_box;

use super::lat_mem_rd::{self, TRANSPORT, powers_of_two};
use super::slices::{median_ns, rate, timed, times_in_slice};
use crate::cell::{Cell, MEGABYTES_PER_SECOND};
use crate::engine::crew::{self, Post};
use crate::engine::placement::Placement;
use crate::engine::{Comparison, Job, Launch};
use crate::machine;
use crate::method::Depth;
use crate::page_aligned::PageAligned;
use crate::pattern;

/// The largest size: a launch has half a minute.
pub const SIZE_MAX: usize = 2 << 30;

/// What a sample lasts, by the estimate.
const TIMED_NS: u64 = 10_000_000;

/// Bounds on the slices of a sample.
const TIMED_SLICES: std::ops::RangeInclusive<u64> = 3..=200;

/// What to measure.
pub struct Plan {
    /// Bytes for each copy, each 1 to [`SIZE_MAX`].
    pub sizes: Vec<usize>,
}

impl Plan {
    /// Both sides of the largest copy are four times the last level of cache together. No study of pipes measured it, so
    /// there is nothing to be faithful to.
    pub fn of(depth: Depth) -> Plan {
        let sizes = match depth {
            Depth::Quick => vec![16 << 10, 256 << 10, 16 << 20],
            Depth::Full | Depth::SeedFaithful => {
                powers_of_two(512, (lat_mem_rd::beyond_cache() / 2).next_power_of_two())
            }
        };
        Plan { sizes }
    }
}

/// A comparison for each size.
pub fn comparisons(plan: &Plan) -> Vec<Comparison> {
    let comparison = |&size| Comparison { baseline: None, rehearsals: 0, jobs: vec![job(size)] };
    plan.sizes.iter().map(comparison).collect()
}

fn job(size: usize) -> Job {
    let params = BTreeMap::from([("size", size.into())]);
    let cell = Cell::new("memcpy", TRANSPORT, Placement::OneCpu.name(), params, MEGABYTES_PER_SECOND);
    Job::new(cell, move || {
        let [cpu, _] = Placement::OneCpu.cpus()?;
        crew::run(&[Post { name: "copier", cpu }], |_| launch(size).map(Some))
    })
}

/// MB/s, each byte counted once.
fn launch(size: usize) -> Result<Launch, String> {
    let (needed, available) = (2 * size as u64, machine::available_memory());
    if needed > available / 2 {
        let [needed, available] = [needed, available].map(|bytes| bytes >> 20);
        return Err(format!("it takes {needed} MiB, more than half of the {available} MiB of memory left here"));
    }
    let (mut from, mut to) = (PageAligned::new(size), PageAligned::new(size));
    pattern::fill(0, &mut from);
    // Twice, because the first copy meets whatever filling left behind.
    let (_, first_ns) = timed(|| copy(&from, &mut to, 2));
    let copies = times_in_slice(first_ns / 2);
    let (_, warm_ns) = timed(|| copy(&from, &mut to, copies));
    to.fill(0);
    let slices = (TIMED_NS / warm_ns.max(1)).clamp(*TIMED_SLICES.start(), *TIMED_SLICES.end());
    let slices: Vec<u64> = (0..slices).map(|_| timed(|| copy(&from, &mut to, copies)).1).collect();
    if let Some(at) = pattern::first_difference(0, &to) {
        return Err(format!("byte {at} of the copy is wrong"));
    }
    let [warm, sample] = [&[warm_ns][..], &slices].map(|slices| rate(size, median_ns(slices, copies)));
    Ok(Launch { warmup: vec![warm], ..Launch::of(sample) })
}

fn copy(from: &PageAligned, to: &mut PageAligned, copies: u64) {
    for _ in 0..copies {
        // None may be left out.
        black_box(&mut **to).copy_from_slice(black_box(from));
    }
    black_box(&**to);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_any_kind_give_a_sample() {
        for size in [1, 1000, 1 << 20] {
            let seen = launch(size).unwrap();
            assert!(seen.samples.len() == 1 && seen.samples[0] > 0.0, "{seen:?}");
        }
    }

    #[test]
    fn more_memory_than_there_is_is_refused() {
        assert!(launch(1 << 50).unwrap_err().contains("more than half of the"));
    }
}
