//! How many bytes a second a program sees of a file that it maps and that the kernel has in its cache.
//!
//! One process adds up the words of the mapping: what [`bw_file_rd`] does without the copy and
//! without a call for each piece, but with a page fault for each few pages where the mapping is new.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use super::bw_file_rd::{self, passes};
use super::cached_file::CachedFile;
use crate::cell::{Cell, MEGABYTES_PER_SECOND};
use crate::engine::crew::{self, Post};
use crate::engine::placement::Placement;
use crate::engine::{Comparison, Job, Launch};
use crate::method::Depth;

/// What carries the bytes, in results.
pub const TRANSPORT: &str = "mmap";

/// What belongs to the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Going through a mapping that has been gone through before.
    MmapOnly,
    /// Opening the file, mapping it, going through it, unmapping and closing it.
    Open2Close,
}

impl Workload {
    /// Both, in the order in which they are shown.
    pub const ALL: [Workload; 2] = [Workload::MmapOnly, Workload::Open2Close];

    /// The name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Workload::MmapOnly => "mmap_only",
            Workload::Open2Close => "open2close",
        }
    }
}

/// What to measure.
pub struct Plan {
    /// What belongs to the time.
    pub workloads: Vec<Workload>,
}

impl Plan {
    /// The same at every depth: it is what the classic study did.
    pub fn of(_: Depth) -> Plan {
        Plan { workloads: Workload::ALL.to_vec() }
    }
}

/// One comparison, over `file`, or one of 8 MiB that is made for it.
///
/// # Errors
/// A sentence: the file cannot be made or read.
pub fn comparisons(plan: &Plan, file: Option<&Path>) -> Result<Vec<Comparison>, String> {
    let file = Rc::new(bw_file_rd::open(file)?);
    let jobs = plan.workloads.iter().map(|&workload| job(&file, workload)).collect();
    Ok(vec![Comparison { baseline: None, rehearsals: 0, jobs }])
}

fn job(file: &Rc<CachedFile>, workload: Workload) -> Job {
    let params = BTreeMap::from([("workload", workload.name().into()), ("size", file.len().into())]);
    let cell = Cell::new("bw_mmap_rd", TRANSPORT, Placement::OneCpu.name(), params, MEGABYTES_PER_SECOND);
    let file = Rc::clone(file);
    Job::new(cell, move || {
        let [cpu, _] = Placement::OneCpu.cpus()?;
        crew::run(&[Post { name: "reader", cpu }], |_| launch(&file, workload).map(Some))
    })
}

fn launch(file: &CachedFile, workload: Workload) -> Result<Launch, String> {
    let kept = file.map(&file.open()?)?;
    passes::over(file, || match workload {
        Workload::MmapOnly => Ok(std::hint::black_box(&kept).words().sum()),
        Workload::Open2Close => Ok(file.map(&file.open()?)?.words().sum()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_workload_gives_a_sample() {
        let file = CachedFile::make(300_001).unwrap();
        for workload in Workload::ALL {
            let seen = launch(&file, workload).unwrap();
            assert!(seen.samples.len() == 1 && seen.samples[0] > 0.0, "{seen:?}");
        }
    }
}
