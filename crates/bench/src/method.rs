//! What can be measured: each method gives comparisons for a plan, and checks what its launches do.

pub mod bandwidth;
mod baton;
pub mod bw_file_rd;
pub mod bw_mmap_rd;
pub mod bw_pipe;
pub mod bw_tcp;
pub mod bw_unix;
pub mod cache_to_cache;
mod cached_file;
pub mod fifo_grid;
pub mod file;
pub mod grep;
pub mod increment;
pub mod lat_fifo;
pub mod lat_mem_rd;
pub mod lat_pipe;
pub mod lat_unix;
pub mod memcpy;
mod messages;
pub mod pipeflex;
pub mod round_trip;
pub mod seeds;
mod slices;
pub mod suite;

pub use cached_file::CachedFile;

/// How much of a method a suite measures. Every method has a plan for each (`Plan::of`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The few cells that tell most.
    Quick,
    /// What the method is known for, with sound settings.
    Full,
    /// What the study did that made the method known, with its exact parameters.
    SeedFaithful,
}
