//! What the processes do: in the study, in real pipelines, and where none computes.

/// Bytes of a read in the study.
pub const READS: [usize; 10] =
    [2 << 10, 4 << 10, 6 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, 32 << 10, 64 << 10, 128 << 10];

/// What the processes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The name in options and results.
    pub workload: &'static str,
    /// How many, an even number from 2 to [`PROCESSES_MAX`](super::PROCESSES_MAX): a writer and a reader for each pipe.
    pub processes: usize,
    /// What a reader computes after each read, in microseconds: drawn from half of it to one and a half.
    pub reader_us: u32,
    /// What a writer computes after each write, likewise.
    pub writer_us: u32,
    /// Bytes of a read, at most.
    pub read: usize,
    /// Bytes of a write.
    pub write: usize,
}

/// The study's run, but for the size of a read.
pub const SEED_RUN: Run =
    Run { workload: "study", processes: 2, reader_us: 500, writer_us: 0, read: 64 << 10, write: 512 };

/// What stages of real pipelines were seen to do: microseconds between calls as traced, and the sizes that GNU
/// coreutils 9.1, grep 3.8, gzip and tar ask for.
pub const SHAPES: [Run; 4] = [
    Run { workload: "grep", reader_us: 950, writer_us: 13, read: 96 << 10, write: 128 << 10, ..SEED_RUN },
    Run { workload: "cat-wc", reader_us: 850, writer_us: 13, read: 16 << 10, write: 128 << 10, ..SEED_RUN },
    Run { workload: "cat-sort", reader_us: 38, writer_us: 14, read: 4 << 10, write: 128 << 10, ..SEED_RUN },
    Run { workload: "gunzip-tar", reader_us: 55, writer_us: 3000, read: 10 << 10, write: 32 << 10, ..SEED_RUN },
];

/// No process computes: what the calls alone cost, where writes are small and reads are not.
pub const NO_COMPUTE: [Run; 3] = [no_compute(4 << 10), no_compute(16 << 10), no_compute(64 << 10)];

const fn no_compute(read: usize) -> Run {
    Run { workload: "no-compute", reader_us: 0, read, ..SEED_RUN }
}

/// The study's runs: one for each size of a read.
pub fn seed_runs() -> Vec<Run> {
    READS.iter().map(|&read| Run { read, ..SEED_RUN }).collect()
}
