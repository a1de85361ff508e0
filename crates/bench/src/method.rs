//! What can be measured: each method gives comparisons for a plan, and checks what its launches do.

pub mod bw_pipe;
pub mod fifo_grid;
pub mod grep;
pub mod lat_pipe;
mod messages;
pub mod pipeflex;

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
