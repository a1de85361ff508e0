//! The one table of the options and commands of `millstream bench`. Help texts come from here, in the main program too.

use clap::{Args, Subcommand};

use super::{
    bandwidth, bw_file_rd, bw_mmap_rd, bw_tcp, cache_to_cache, compare, corpus, fifo_grid, file, grep, history,
    increment, lat_mem_rd, memcpy, pipeflex, pipeline, report, round_trip, seeds, suite,
};

/// Options of `millstream bench`.
#[derive(Args)]
pub(super) struct Options {
    #[command(subcommand)]
    pub(super) command: Option<Action>,

    #[command(flatten)]
    pub(super) suite: suite::Options,
}

/// What to do.
#[derive(Subcommand)]
pub(super) enum Action {
    /// Unmodified pipelines over a 50 MB text: kernel pipes against millstream run
    #[command(after_help = grep::EXAMPLES)]
    Grep(grep::Options),
    /// One added to every byte of a file, N times: N processes and pipes against one network
    #[command(after_help = increment::EXAMPLES)]
    Increment(increment::Options),
    /// Bytes a second from one process to another: millstream, kernel pipes, and what the hardware allows
    #[command(name = "bw_pipe", after_help = bandwidth::PIPE_EXAMPLES)]
    BwPipe(bandwidth::Options),
    /// Bytes a second over a pair of Unix sockets, and how pipes compare
    #[command(name = "bw_unix", after_help = bandwidth::UNIX_EXAMPLES)]
    BwUnix(bandwidth::Options),
    /// Bytes a second over TCP, within this machine or between two
    #[command(name = "bw_tcp", after_help = bw_tcp::EXAMPLES)]
    BwTcp(bw_tcp::Options),
    /// Time for one byte there and back between two processes, both running or one of them asleep
    #[command(name = "lat_pipe", after_help = round_trip::PIPE_EXAMPLES)]
    LatPipe(round_trip::Options),
    /// Time for one byte there and back over a FIFO, and how pipes compare
    #[command(name = "lat_fifo", after_help = round_trip::FIFO_EXAMPLES)]
    LatFifo(round_trip::Options),
    /// Time for one byte there and back over Unix sockets, and how pipes compare
    #[command(name = "lat_unix", after_help = round_trip::UNIX_EXAMPLES)]
    LatUnix(round_trip::Options),
    /// Bytes a second of reading a cached file again
    #[command(name = "bw_file_rd", after_help = bw_file_rd::EXAMPLES)]
    BwFileRd(bw_file_rd::Options),
    /// Bytes a second of going through a mapped, cached file
    #[command(name = "bw_mmap_rd", after_help = bw_mmap_rd::EXAMPLES)]
    BwMmapRd(bw_mmap_rd::Options),
    /// The latency of memory by how much of it is used: the staircase of the caches
    #[command(name = "lat_mem_rd", after_help = lat_mem_rd::EXAMPLES)]
    LatMemRd(lat_mem_rd::Options),
    /// Bytes a second of one copy, by its size: the bound on one CPU
    #[command(name = "memcpy", after_help = memcpy::EXAMPLES)]
    Memcpy(memcpy::Options),
    /// Lines of cache that go from one CPU to another: the bound on two CPUs
    #[command(name = "cache_to_cache", after_help = cache_to_cache::EXAMPLES)]
    CacheToCache(cache_to_cache::Options),
    /// Bytes a second through pipes between processes that compute between their calls
    #[command(after_help = pipeflex::EXAMPLES)]
    Pipeflex(pipeflex::Options),
    /// Time for many small messages from a producer to a consumer: kernel FIFOs and pipes against millstream
    #[command(name = "fifo_grid", after_help = fifo_grid::EXAMPLES)]
    FifoGrid(fifo_grid::Options),
    /// Files that a mount transforms, against the bare file system and against pipelines that do the same
    #[command(after_help = file::EXAMPLES)]
    File(file::Options),
    /// A hundred real pipelines, bare and under millstream run: whether any is slower
    #[command(after_help = corpus::EXAMPLES)]
    Corpus(corpus::Options),
    /// The table of the pipe study of 2002: what each way gains over the kernel's pipe, and what was gained then
    #[command(after_help = seeds::EXAMPLES)]
    Seeds(seeds::Options),
    /// Draw the results of an earlier run as one page
    #[command(after_help = report::EXAMPLES)]
    Report(report::Options),
    /// Earlier runs, kept in the user's data directory: list them, show one, forget the oldest
    #[command(after_help = history::EXAMPLES)]
    History(history::Options),
    /// Tell whether a run is slower than another, or than the runs before it
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::Options),
    /// Runs one pipeline with a CPU for each stage and tells how it went; `bench grep` runs itself this way
    #[command(hide = true)]
    Pipeline(pipeline::Options),
    /// Adds one to each byte of its input; a stage of the pipelines of `bench file`
    #[command(hide = true)]
    Add,
}
