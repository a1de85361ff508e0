//! Table 1 of the study of Linux pipe patches from 2002, with our paths in place of its patches.
//!
//! The study had three patches of a kernel: a larger pipe, a single copy straight between the processes, and both
//! integrated. It ran grep over a text, `bw_pipe` and `pipeflex` on two CPUs and on one, and printed how many percent each
//! gained over the kernel without it. Here the kernel's pipe of today stands for that kernel, and a [`Column`] for each
//! patch; what was measured then is shown beside it.

use std::path::PathBuf;

use super::bandwidth::Carrier;
use super::grep::Workload;
use super::{Depth, bw_pipe, grep, pipeflex};
use crate::engine::Comparison;
use crate::engine::placement::Placement;
use crate::programs::Programs;
use crate::transport::{Transport, kernel_pipe, loan, millstream};

/// What stands in the table beside the old figures.
pub struct Column {
    /// Above it.
    pub title: &'static str,
    /// What it is made of. `grep` has no transports but its own, of which `millstream` is shown where that is in a column.
    pub transport: &'static dyn Transport,
    /// In words.
    pub means: &'static str,
}

/// All of them, in the order in which they are shown.
pub static COLUMNS: [Column; 5] = [
    Column {
        title: "kernel 1m",
        transport: &kernel_pipe::ONE_MEBIBYTE,
        means: "the kernel's own pipe of 1 MiB, what the larger-pipe patch has become",
    },
    Column { title: "ring", transport: &millstream::RING, means: "the library's pipe, never direct" },
    Column {
        title: "direct",
        transport: &millstream::DIRECT,
        means: "the library's pipe, where a writer that must wait always lets its memory be read",
    },
    Column {
        title: "integrated",
        transport: &millstream::ADAPTIVE,
        means: "the library's pipe, which chooses by itself; for grep the same programs under millstream run",
    },
    Column {
        title: "loans",
        transport: &loan::LOAN,
        means: "bytes made and added up in the ring itself; pipeflex makes them there and reads them as usual",
    },
];

/// The measurements of the table, in its order.
pub const METHODS: [&str; 3] = ["grep", "bw_pipe", "pipeflex"];

/// What to measure.
pub struct Plan {
    /// Which of [`METHODS`].
    pub methods: Vec<String>,
    /// Bytes for each transfer of `bw_pipe`, and for each read of `pipeflex`.
    pub transfers: Vec<usize>,
    /// Which placements.
    pub placements: Vec<Placement>,
    /// How long each sample of `pipeflex` takes.
    pub seconds: f64,
    /// What `grep` runs.
    pub programs: Programs,
    /// The text that `grep` reads; the usual one if none is named.
    pub file: Option<PathBuf>,
}

/// A comparison for each cell of the table.
///
/// # Errors
/// A sentence: what is out of its range, or what this machine lacks.
pub fn comparisons(plan: &Plan) -> Result<Vec<Comparison>, String> {
    let mut comparisons = Vec::new();
    for method in METHODS.into_iter().filter(|method| plan.methods.iter().any(|chosen| chosen == method)) {
        comparisons.extend(match method {
            "grep" => plan.grep()?,
            "bw_pipe" => bw_pipe::comparisons(&plan.bw_pipe()),
            _ => pipeflex::comparisons(&plan.pipeflex())?,
        });
    }
    Ok(comparisons)
}

impl Plan {
    fn grep(&self) -> Result<Vec<Comparison>, String> {
        let gathered = || grep::corpus::text().map_err(|error| format!("cannot gather a text to read: {error}"));
        let file = self.file.clone().map_or_else(gathered, Ok)?;
        let usual = grep::Plan::of(Depth::Full, self.programs.clone(), file);
        let plan = grep::Plan { workloads: vec![Workload::Grep], placements: self.placements.clone(), ..usual };
        let name = plan.file.display().to_string();
        grep::comparisons(plan).map_err(|error| format!("cannot measure over '{name}': {error}"))
    }

    fn bw_pipe(&self) -> bw_pipe::Plan {
        let mut plan = bw_pipe::Plan::of(Depth::Full);
        plan.transfers = self.transfers.clone();
        plan.placements = self.placements.clone();
        plan.carriers = carriers().map(Carrier::Transport).collect();
        plan
    }

    fn pipeflex(&self) -> pipeflex::Plan {
        let runs = self.transfers.iter().map(|&read| pipeflex::Run { read, ..pipeflex::SEED_RUN });
        pipeflex::Plan {
            runs: runs.collect(),
            seconds: self.seconds,
            placements: self.placements.clone(),
            carriers: carriers().collect(),
            ..pipeflex::Plan::of(Depth::SeedFaithful)
        }
    }
}

/// What everything is measured against, and the columns.
fn carriers() -> impl Iterator<Item = &'static dyn Transport> {
    std::iter::once(&kernel_pipe::DEFAULT as &dyn Transport).chain(COLUMNS.iter().map(|column| column.transport))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(method: &str) -> Plan {
        Plan {
            methods: vec![method.into()],
            transfers: vec![2048, 65_536],
            placements: Placement::ALL.to_vec(),
            seconds: 0.01,
            programs: Programs::default(),
            file: Some("/proc/self/exe".into()),
        }
    }

    #[test]
    fn every_cell_is_compared_with_the_kernel_s_pipe() {
        for (method, cells) in [("grep", 2), ("bw_pipe", 4), ("pipeflex", 4)] {
            let comparisons = comparisons(&plan(method)).unwrap();
            assert_eq!(comparisons.len(), cells, "{method}");
            for comparison in comparisons {
                assert_eq!(comparison.baseline, Some("pipe"));
                assert!(comparison.jobs.iter().all(|job| job.cell.method == method));
                assert!(comparison.jobs.iter().any(|job| job.cell.transport == "millstream"));
                assert!(method == "grep" || comparison.jobs.len() == 1 + COLUMNS.len());
            }
        }
    }

    #[test]
    fn what_cannot_be_measured_is_told() {
        let no_file = Plan { file: Some("/nonexistent".into()), ..plan("grep") };
        assert!(comparisons(&no_file).err().unwrap().contains("cannot measure over '/nonexistent'"));
        assert!(comparisons(&Plan { seconds: 0.0, ..plan("pipeflex") }).is_err());
        assert_eq!(comparisons(&plan("bw_tcp")).unwrap().len(), 0);
    }
}
