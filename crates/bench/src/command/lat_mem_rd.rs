//! `millstream bench lat_mem_rd`: the latency of memory, by how much of it is used.

use std::process::ExitCode;

use clap::Args;
use millstream_command::failure::Failure;

use super::measuring::measure;
use super::options::{MemoryOptions, chosen, sorted};
use super::outputs::Outputs;
use super::sizes::{parse_chain_size, parse_stride};
use crate::method::Depth;
use crate::method::lat_mem_rd::{self, Curve, LINE, PageSize, Pattern, Plan};

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench lat_mem_rd --quick
  millstream bench lat_mem_rd --pattern random --pages 4k,2m
  millstream bench lat_mem_rd --size 16k,1m,256m --stride 64,8k --pattern sequential,random
  millstream bench lat_mem_rd --seed-faithful --json staircase.json

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench lat_mem_rd`.
#[derive(Args)]
pub(super) struct Options {
    /// Bytes of memory to walk through, with K, M or G, 512 to 4G [default: powers of two from 512 to four times the last
    /// level of cache]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_chain_size)]
    size: Vec<usize>,

    /// Bytes from one place to the next, 8 to 1M, a multiple of 8 [default: sequential all powers of two to 32k, random 64]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_stride)]
    stride: Vec<usize>,

    /// The order of the loads; tlb touches one line in each page [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = ["random", "sequential", "tlb"])]
    pattern: Vec<String>,

    /// The size of the pages [default: random and tlb both, sequential 4k]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = ["4k", "2m"])]
    pages: Vec<String>,

    /// What the random orders are made from
    #[arg(long, value_name = "N", default_value_t = lat_mem_rd::SEED)]
    seed: u64,

    /// The few cells that tell most
    #[arg(long, conflicts_with_all = ["size", "stride", "pattern", "pages"])]
    quick: bool,

    /// 1 KiB to 8 MiB by strides of 8 to 32768 bytes, in ascending order, as the classic study did, with its averages
    #[arg(long, conflicts_with_all = ["size", "stride", "pattern", "pages", "seed", "quick"])]
    seed_faithful: bool,

    #[command(flatten)]
    common: MemoryOptions,
}

/// Measures.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let outputs = Outputs::open(&options.common.output)?;
    let effort = options.common.effort();
    let depth = match (options.quick, options.seed_faithful) {
        (true, _) => Depth::Quick,
        (_, true) => Depth::SeedFaithful,
        _ => Depth::Full,
    };
    let Plan { curves, summary, .. } = Plan::of(depth);
    let plan = Plan { curves: chosen_curves(curves, &options), seed: options.seed, summary };
    let comparisons = lat_mem_rd::comparisons(&plan);
    if comparisons.is_empty() {
        return Err(Failure::usage("every size holds less than two places to load from; nothing was measured"));
    }
    measure(comparisons, effort, outputs)
}

/// Those of `planned` that the options leave, with the sizes, strides and pages that they name.
fn chosen_curves(planned: Vec<Curve>, options: &Options) -> Vec<Curve> {
    let (sizes, strides) = (sorted(options.size.clone()), sorted(options.stride.clone()));
    let pages = chosen(&PageSize::ALL, PageSize::name, &options.pages);
    let mut curves: Vec<Curve> = Vec::new();
    for curve in planned {
        let is_chosen = options.pattern.is_empty() || options.pattern.iter().any(|name| name == curve.pattern.name());
        // A walk of one line in each page has no other stride.
        let has_strides = !strides.is_empty() && curve.pattern != Pattern::Tlb;
        let strides = if has_strides { strides.clone() } else { vec![curve.stride] };
        let pages = if options.pages.is_empty() { vec![curve.pages] } else { pages.clone() };
        let sizes = if sizes.is_empty() { curve.sizes } else { sizes.clone() };
        for stride in strides {
            let stride = if curve.pattern == Pattern::Tlb { LINE } else { stride };
            for &pages in &pages {
                let curve = Curve { pattern: curve.pattern, stride, pages, sizes: sizes.clone() };
                if is_chosen && !curves.contains(&curve) {
                    curves.push(curve);
                }
            }
        }
    }
    curves
}
