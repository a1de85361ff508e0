//! `millstream bench bw_pipe`, `bw_unix` and `bw_tcp`: bandwidth.

use std::process::ExitCode;

use clap::Args;
use millstream_command::failure::Failure;

use super::measuring::measure;
use super::options::{StreamOptions, chosen, named};
use super::outputs::Outputs;
use super::sizes::parse_transfer;
use crate::engine::Effort;
use crate::engine::placement::Placement;
use crate::method::Depth;
use crate::method::bandwidth::{self, Amount, Carrier, MEMCPY_TWICE, Method, Plan, Workload};
use crate::transport;

/// Shown below the options of `bw_pipe`.
pub(super) const PIPE_EXAMPLES: &str = "\
Examples:
  millstream bench bw_pipe
  millstream bench bw_pipe --placement 2cpu --transfer 64k,128k --rounds 41
  millstream bench bw_pipe --transport pipe,vmsplice,millstream --variant hot,fresh,summed
  millstream bench bw_pipe --seed-faithful --json bw.json

Transports: pipe and pipe-1m are the kernel's, of 64 KiB and 1 MiB; fifo has a name, and vmsplice lends
its pages; unix and tcp are sockets, posix-mq is a message queue, and with process_vm_readv the reader
takes bytes from the writer's memory. spsc-bare is a ring in shared memory without locks, sleep or
safety, and memcpy-twice two copies in one process: the bounds.

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Shown below the options of `bw_unix`.
pub(super) const UNIX_EXAMPLES: &str = "\
Examples:
  millstream bench bw_unix
  millstream bench bw_unix --transfer 64k --variant summed --json unix.json

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of every bandwidth.
#[derive(Args)]
pub(super) struct Options {
    #[command(flatten)]
    pub(super) work: WorkOptions,

    /// What carries the bytes [default: what the method is about; 'all' for all there is]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = transports())]
    transport: Vec<String>,

    #[command(flatten)]
    pub(super) common: StreamOptions,
}

/// What is moved, whatever moves it.
#[derive(Args)]
pub(super) struct WorkOptions {
    /// Bytes for each write and read, with K or M for 1024 or 1024², at most 16M [default: 512 and 2k to 128k]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_transfer)]
    transfer: Vec<usize>,

    /// hot: one buffer that stays in the cache; fresh: filled before each write; summed: hot, and the reader adds up
    /// what it reads
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "hot",
        value_parser = ["hot", "fresh", "summed"])]
    variant: Vec<String>,

    /// The exact parameters of the studies that made the measurement known, and averages as they printed them below
    /// our medians
    #[arg(long)]
    seed_faithful: bool,
}

impl WorkOptions {
    pub(super) fn depth(&self) -> Depth {
        if self.seed_faithful { Depth::SeedFaithful } else { Depth::Full }
    }

    /// Those that were asked for, or else `usual`.
    pub(super) fn transfers(&self, usual: Vec<usize>) -> Vec<usize> {
        let mut transfers = if self.transfer.is_empty() { usual } else { self.transfer.clone() };
        transfers.sort_unstable();
        transfers.dedup();
        transfers
    }

    pub(super) fn workloads(&self) -> Vec<Workload> {
        chosen(&Workload::ALL, Workload::name, &self.variant)
    }

    pub(super) fn amount<M: Method>(&self) -> Amount {
        Plan::<M>::of(self.depth()).amount
    }
}

/// The names that `--transport` takes.
fn transports() -> Vec<&'static str> {
    transport::ALL.iter().map(|transport| transport.name()).chain([MEMCPY_TWICE, "all"]).collect()
}

/// Measures.
pub(super) fn run<M: Method>(options: Options) -> Result<ExitCode, Failure> {
    let Options { work, transport, common } = options;
    let outputs = Outputs::open(&common.output)?;
    let mut plan = Plan::<M>::of(work.depth());
    plan.transfers = work.transfers(plan.transfers);
    plan.workloads = work.workloads();
    plan.placements = chosen(&Placement::ALL, Placement::name, &common.placement);
    let everything = transport::ALL.into_iter().map(Carrier::Transport).chain([Carrier::MemcpyTwice]);
    plan.carriers = named(plan.carriers, everything, Carrier::name, &transport);
    let comparisons = bandwidth::comparisons(&plan);
    if comparisons.is_empty() {
        return Err(Failure::usage("memcpy-twice is one process and has no placement but 1cpu; nothing was measured"));
    }
    measure(comparisons, Effort::exactly(common.rounds as usize), outputs)
}
