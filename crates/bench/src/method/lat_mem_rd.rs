//! How long a load takes that nothing can begin before the one before it has ended, by how much memory is walked.
//!
//! A chain of references goes through memory of a size, one every `stride` bytes, and is followed for a million loads.
//! While all of it fits into a level of cache the time is that level's, so the curve over the sizes is a staircase.
//!
//! | pattern | the chain | shows |
//! |---|---|---|
//! | `sequential` | ascending, then back to the first | what is left when prefetchers guess right |
//! | `random` | one cycle through all places, at random over the whole size | caches, and the TLB's misses where pages are small |
//! | `tlb` | one line in each page, pages at random | mostly the TLB: the lines are a 64th of the size, or less |
//!
//! Random within a page and pages in order is not enough: prefetchers then hide two thirds of the latency.

use std::collections::BTreeMap;

use millstream_sys::pages::{Link, Pages};

use super::slices::{median_ns, timed};

use crate::cell::Cell;
use crate::engine::crew::{self, Post};
use crate::engine::placement::Placement;
use crate::engine::{Comparison, Job, Launch};
use crate::machine::{self, Machine};
use crate::method::Depth;

mod chain;
mod page_size;

pub use chain::LINE;
use chain::Order;
pub use page_size::PageSize;

/// What carries the bytes, in results: nothing but memory.
pub const TRANSPORT: &str = "memory";

/// The smallest size.
pub const SIZE_MIN: usize = 512;

/// The largest size: a slot's number has 32 bits, and a launch has half a minute.
pub const SIZE_MAX: usize = 4 << 30;

/// All strides of the classic study: powers of two, 8 to 32768 bytes.
pub const STRIDES: [usize; 13] = [8, 16, 32, 64, 128, 256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];

/// Loads of a sample, as in the classic study, and of a slice of it.
const LOADS: usize = 1_000_000;
const SLICE_LOADS: usize = 4_000;

/// What the random orders are made from, unless another is given.
pub const SEED: u64 = 1;

/// The order of the loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Ascending.
    Sequential,
    /// One random cycle through everything.
    Random,
    /// One line a page, in a random cycle.
    Tlb,
}

impl Pattern {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Pattern; 3] = [Pattern::Random, Pattern::Sequential, Pattern::Tlb];

    /// The name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Sequential => "sequential",
            Pattern::Random => "random",
            Pattern::Tlb => "tlb",
        }
    }
}

/// A column of the table: everything but the size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// In which order.
    pub pattern: Pattern,
    /// Bytes from one place to the next in memory, a multiple of 8; `tlb` takes the page's instead.
    pub stride: usize,
    /// Over which pages.
    pub pages: PageSize,
    /// How much memory, each [`SIZE_MIN`] to [`SIZE_MAX`]. Sizes of less than two strides are left out.
    pub sizes: Vec<usize>,
}

/// What the loads of a sample are put together to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summary {
    /// The median of slices, in which other programs do not show.
    MedianSlice,
    /// The average of all, which the classic study gave.
    Average,
}

/// What to measure.
pub struct Plan {
    /// Each with its own sizes.
    pub curves: Vec<Curve>,
    /// What the random orders are made from.
    pub seed: u64,
    /// What a sample is.
    pub summary: Summary,
}

impl Plan {
    /// Sizes go up to four times the last level of cache. What this machine has no memory for is left in: its cells say
    /// so.
    pub fn of(depth: Depth) -> Plan {
        let beyond_cache = beyond_cache();
        let curves = match depth {
            Depth::Quick => quick(beyond_cache),
            Depth::Full => full(&powers_of_two(SIZE_MIN, beyond_cache.next_power_of_two())),
            // 1 KiB to 8 MiB: which was main memory then.
            Depth::SeedFaithful => sequential(&powers_of_two(1 << 10, 8 << 20)),
        };
        let summary = if depth == Depth::SeedFaithful { Summary::Average } else { Summary::MedianSlice };
        Plan { curves, seed: SEED, summary }
    }
}

/// Four times the last level of cache, so that no more than a quarter of the loads can find their line there.
pub fn beyond_cache() -> usize {
    let bytes = Machine::this().last_level_cache().saturating_mul(4);
    usize::try_from(bytes).unwrap_or(SIZE_MAX).clamp(SIZE_MIN, SIZE_MAX)
}

fn quick(beyond_cache: usize) -> Vec<Curve> {
    let sizes = |sizes: &[usize]| sizes.iter().copied().chain([beyond_cache]).collect();
    let (pages, stride) = (PageSize::Small, LINE);
    let random = sizes(&[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20]);
    let sequential = sizes(&[16 << 10, 256 << 10, 4 << 20]);
    vec![
        Curve { pattern: Pattern::Random, stride, pages, sizes: random },
        Curve { pattern: Pattern::Sequential, stride, pages, sizes: sequential },
    ]
}

fn full(sizes: &[usize]) -> Vec<Curve> {
    let curve = |pattern, pages| Curve { pattern, stride: LINE, pages, sizes: sizes.to_vec() };
    let mut curves = Vec::new();
    for pattern in [Pattern::Random, Pattern::Tlb] {
        curves.extend(PageSize::ALL.map(|pages| curve(pattern, pages)));
    }
    curves.extend(sequential(sizes));
    curves
}

fn sequential(sizes: &[usize]) -> Vec<Curve> {
    let (pattern, pages) = (Pattern::Sequential, PageSize::Small);
    STRIDES.map(|stride| Curve { pattern, stride, pages, sizes: sizes.to_vec() }).to_vec()
}

/// Powers of two from `first` to `last`, which are two.
pub fn powers_of_two(first: usize, last: usize) -> Vec<usize> {
    std::iter::successors(Some(first), |size| size.checked_mul(2)).take_while(|&size| size <= last).collect()
}

/// A comparison for each size, so that the curves of a size are measured one after the other; none, if no size has two
/// places.
pub fn comparisons(plan: &Plan) -> Vec<Comparison> {
    let mut jobs: BTreeMap<usize, Vec<Job>> = BTreeMap::new();
    for curve in &plan.curves {
        for &size in &curve.sizes {
            let walk = Walk::new(curve, size, plan);
            if walk.slots() >= 2 {
                jobs.entry(size).or_default().push(walk.job());
            }
        }
    }
    // Each launch warms up for itself.
    jobs.into_values().map(|jobs| Comparison { baseline: None, rehearsals: 0, jobs }).collect()
}

/// One point of a curve.
#[derive(Clone, Copy)]
struct Walk {
    pattern: Pattern,
    stride: usize,
    pages: PageSize,
    size: usize,
    seed: u64,
    summary: Summary,
}

impl Walk {
    fn new(curve: &Curve, size: usize, plan: &Plan) -> Walk {
        let Curve { pattern, stride, pages, .. } = *curve;
        let stride = if pattern == Pattern::Tlb { pages.bytes() } else { stride };
        Walk { pattern, stride, pages, size, seed: plan.seed, summary: plan.summary }
    }

    fn slots(&self) -> usize {
        self.size / self.stride
    }

    fn job(self) -> Job {
        let mut params = BTreeMap::from([
            ("workload", self.pattern.name().into()),
            ("size", self.size.into()),
            ("stride", self.stride.into()),
            ("pages", self.pages.bytes().into()),
        ]);
        if self.pattern != Pattern::Sequential {
            params.insert("seed", self.seed.into());
        }
        if self.summary == Summary::Average {
            params.insert("summary", "average".into());
        }
        let cell = Cell::new("lat_mem_rd", TRANSPORT, Placement::OneCpu.name(), params, "ns");
        Job::new(cell, move || {
            let [cpu, _] = Placement::OneCpu.cpus()?;
            crew::run(&[Post { name: "walker", cpu }], |_| self.walk().map(Some))
        })
    }

    /// Nanoseconds for a load, or the check that failed.
    fn walk(&self) -> Result<Launch, String> {
        let order = self.order();
        let memory = self.memory(order.bytes())?;
        self.walk_through(memory, &order)
    }

    fn order(&self) -> Order {
        match self.pattern {
            Pattern::Sequential => Order::ascending(self.slots()),
            Pattern::Random | Pattern::Tlb => Order::shuffled(self.slots(), self.seed),
        }
    }

    /// Memory in which nothing has been touched, unless huge pages had to be made.
    fn memory(&self, besides: usize) -> Result<Pages, String> {
        let (needed, available) = (self.size as u64 + besides as u64, machine::available_memory());
        if needed > available / 2 {
            let [needed, available] = [needed, available].map(|bytes| bytes >> 20);
            return Err(format!("it takes {needed} MiB, more than half of the {available} MiB of memory left here"));
        }
        let mut memory = Pages::reserve(self.size).map_err(|error| format!("no memory: {error}"))?;
        self.pages.prepare(&mut memory)?;
        Ok(memory)
    }

    fn walk_through(&self, mut memory: Pages, order: &Order) -> Result<Launch, String> {
        let addresses = memory.addresses();
        let links = memory.links();
        let slots = chain::Slots { links, stride: self.stride, skews: self.pattern == Pattern::Tlb };
        slots.link(order);
        slots.check(order)?;
        let (middle, warm) = self.series(slots.get(0))?;
        let (end, sample) = self.series(middle)?;
        if !std::ptr::eq(end, slots.get(order.after(2 * LOADS))) {
            return Err(format!("after {} loads the walk was not where its chain leads", 2 * LOADS));
        }
        self.pages.check(addresses)?;
        Ok(Launch { warmup: vec![warm], ..Launch::of(sample) })
    }

    /// Walks on for as many loads as a sample has; returns where that led and the nanoseconds for a load.
    fn series<'a>(&self, from: &'a Link<'a>) -> Result<(&'a Link<'a>, f64), String> {
        let slice_loads = match self.summary {
            Summary::MedianSlice => SLICE_LOADS,
            Summary::Average => LOADS,
        };
        let (mut at, mut slices) = (from, Vec::with_capacity(LOADS / slice_loads));
        for _ in 0..LOADS / slice_loads {
            let (reached, nanoseconds) = timed(|| chain::walk(at, slice_loads));
            at = reached.ok_or("the chain ends")?;
            slices.push(nanoseconds);
        }
        Ok((at, median_ns(&slices, slice_loads as u64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(curves: Vec<Curve>) -> Plan {
        Plan { curves, seed: 9, summary: Summary::MedianSlice }
    }

    fn curve(pattern: Pattern, stride: usize, pages: PageSize, sizes: &[usize]) -> Curve {
        Curve { pattern, stride, pages, sizes: sizes.to_vec() }
    }

    #[test]
    fn every_pattern_gives_a_sample() {
        for pattern in Pattern::ALL {
            for summary in [Summary::MedianSlice, Summary::Average] {
                let plan = Plan { summary, ..plan(vec![]) };
                let walk = Walk::new(&curve(pattern, 64, PageSize::Small, &[]), 64 << 10, &plan);
                let seen = walk.walk().unwrap();
                assert!(seen.samples.len() == 1 && seen.samples[0] > 0.0 && seen.warmup.len() == 1, "{seen:?}");
            }
        }
    }

    #[test]
    fn sizes_without_two_places_are_left_out() {
        let curves = vec![
            curve(Pattern::Sequential, 4096, PageSize::Small, &[4096, 8192]),
            curve(Pattern::Tlb, 64, PageSize::Huge, &[2 << 20, 4 << 20]),
        ];
        let comparisons = comparisons(&plan(curves));
        let params: Vec<_> = comparisons.iter().flat_map(|one| &one.jobs).map(|job| &job.cell.params).collect();
        assert_eq!(params.len(), 2);
        assert_eq!((&params[0]["size"], params[0].get("seed")), (&8192.into(), None));
        assert_eq!((&params[1]["stride"], &params[1]["seed"]), (&(2 << 20).into(), &9.into()));
    }

    #[test]
    fn the_study_went_from_1_kib_to_8_mib_by_every_stride() {
        let plan = Plan::of(Depth::SeedFaithful);
        assert_eq!(plan.summary, Summary::Average);
        assert_eq!(plan.curves.iter().map(|curve| curve.stride).collect::<Vec<_>>(), STRIDES);
        for curve in &plan.curves {
            assert_eq!((curve.sizes.first(), curve.sizes.last()), (Some(&(1 << 10)), Some(&(8 << 20))));
        }
    }

    #[test]
    fn every_other_plan_goes_beyond_the_last_cache() {
        let least = Machine::this().last_level_cache().saturating_mul(4).min(SIZE_MAX as u64);
        for depth in [Depth::Quick, Depth::Full] {
            for curve in Plan::of(depth).curves {
                assert!(*curve.sizes.last().unwrap() as u64 >= least, "{curve:?}");
            }
        }
    }

    #[test]
    fn more_memory_than_there_is_is_refused() {
        let walk = Walk::new(&curve(Pattern::Sequential, 64, PageSize::Small, &[]), 1 << 50, &plan(vec![]));
        let why = walk.memory(0).err().unwrap();
        assert!(why.contains("more than half of the"), "{why}");
    }
}
