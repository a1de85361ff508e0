//! `millstream bench fifo_grid`: messages from a producer to a consumer.

use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use millstream_command::failure::Failure;

use super::measuring::measure;
use super::options::{OutputOptions, chosen};
use super::outputs::Outputs;
use super::sizes::parse_transfer;
use crate::engine::Effort;
use crate::engine::placement::Placement;
use crate::method::Depth;
use crate::method::fifo_grid::{self, CARRIERS, COUNT_MAX, Plan, REPETITIONS_MAX, Repetitions};

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench fifo_grid
  millstream bench fifo_grid --seed-faithful --json grid.json
  millstream bench fifo_grid --seed-faithful --placement 1cpu,2cpu --transport fifo,pipe,millstream
  millstream bench fifo_grid --size 64,4k --messages 1000 --placement 2cpu --rounds 41

Transports: fifo is the kernel's, under a name that is removed as soon as both ends are open;
millstream-fifo is the same with both ends opened by the library; pipe and unix are the kernel's pipe and
socket, millstream the library's pipe, all without a name.

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Rounds unless given.
const ROUNDS: u32 = 11;

/// The study's 100 repetitions are five launches of 20.
const SEED_ROUNDS: u32 = 5;

/// Options of `millstream bench fifo_grid`.
#[derive(Args)]
pub(super) struct Options {
    /// Bytes for each message, with K or M for 1024 or 1024², at most 16M [default: the powers of two from 64 to 4096]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_transfer)]
    size: Vec<usize>,

    /// Messages for each repetition [default: 100, 1000, 5000, 10000 and 100000]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    messages: Vec<u64>,

    /// Repetitions in each launch, each a sample [default: up to 20, while they take less than 30 ms]
    #[arg(long, value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=REPETITIONS_MAX as u64))]
    repetitions: Option<u64>,

    /// The grid of the study that made this known with its 100 repetitions, fifo, millstream and millstream-fifo on 2cpu unless
    /// others are named: 9 minutes or more
    #[arg(long, conflicts_with_all = ["size", "messages", "repetitions", "rounds"])]
    seed_faithful: bool,

    /// What carries the messages [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',',
        value_parser = PossibleValuesParser::new(CARRIERS.map(|carrier| carrier.name())))]
    transport: Vec<String>,

    /// Both processes on one CPU, or one CPU for each [default: both]
    #[arg(long, value_name = "PLACEMENT", value_delimiter = ',', value_parser = ["1cpu", "2cpu"])]
    placement: Vec<String>,

    /// Interleaved launches for each cell, each with two new processes [default: 11]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(5..=10_000))]
    rounds: Option<u32>,

    #[command(flatten)]
    output: OutputOptions,
}

/// Measures.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let outputs = Outputs::open(&options.output)?;
    let usual = Plan::of(if options.seed_faithful { Depth::SeedFaithful } else { Depth::Full });
    let rounds = options.rounds.unwrap_or(if options.seed_faithful { SEED_ROUNDS } else { ROUNDS });
    let comparisons = fifo_grid::comparisons(&Plan {
        sizes: sorted_or(options.size, usual.sizes),
        counts: sorted_or(options.messages, usual.counts),
        repetitions: options.repetitions.map_or(usual.repetitions, |count| Repetitions::exactly(count as usize)),
        placements: named_or(&Placement::ALL, Placement::name, &options.placement, usual.placements),
        carriers: named_or(&CARRIERS, |carrier| carrier.name(), &options.transport, usual.carriers),
    });
    measure(comparisons, Effort::exactly(rounds as usize), outputs)
}

/// Those of `all` that are named, or the usual ones if none is.
fn named_or<T: Copy>(all: &[T], name: fn(T) -> &'static str, names: &[String], usual: Vec<T>) -> Vec<T> {
    if names.is_empty() { usual } else { chosen(all, name, names) }
}

/// Each once and in order, or the usual ones if none is named.
fn sorted_or<T: Ord>(mut named: Vec<T>, usual: Vec<T>) -> Vec<T> {
    if named.is_empty() {
        return usual;
    }
    named.sort_unstable();
    named.dedup();
    named
}
