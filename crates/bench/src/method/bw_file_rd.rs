//! How many bytes a second a program reads again from a file that the kernel has in its cache.
//!
//! One process reads the whole file in pieces, adds up its words, and does so again: the copy out of the kernel's cache,
//! the call for each piece, and the look at what came. Not a measurement of a disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use super::cached_file::{BYTES, CachedFile, WordSum, read_full};
use crate::cell::{Cell, MEGABYTES_PER_SECOND};
use crate::engine::crew::{self, Post};
use crate::engine::placement::Placement;
use crate::engine::{Comparison, Job, Launch};
use crate::method::Depth;
use crate::page_aligned::PageAligned;

pub(super) mod passes;

/// What carries the bytes, in results.
pub const TRANSPORT: &str = "file";

/// The largest piece.
pub const TRANSFER_MAX: usize = 16 << 20;

/// What the classic study reads at once.
const TRANSFER: usize = 64 << 10;

/// What belongs to the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Reading a file that is open.
    IoOnly,
    /// Opening it, reading it and closing it.
    Open2Close,
}

impl Workload {
    /// Both, in the order in which they are shown.
    pub const ALL: [Workload; 2] = [Workload::IoOnly, Workload::Open2Close];

    /// The name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Workload::IoOnly => "io_only",
            Workload::Open2Close => "open2close",
        }
    }
}

/// What to measure.
pub struct Plan {
    /// Bytes for each read, multiples of 8 up to [`TRANSFER_MAX`].
    pub transfers: Vec<usize>,
    /// What belongs to the time.
    pub workloads: Vec<Workload>,
}

impl Plan {
    /// 64 KiB is what the classic study read at once, and all that there is to be faithful to.
    pub fn of(depth: Depth) -> Plan {
        let transfers = match depth {
            Depth::Quick | Depth::SeedFaithful => vec![TRANSFER],
            Depth::Full => vec![4 << 10, TRANSFER, 1 << 20],
        };
        Plan { transfers, workloads: Workload::ALL.to_vec() }
    }
}

/// A comparison for each piece, over `file`, or one of 8 MiB that is made for it.
///
/// # Errors
/// A sentence: the file cannot be made or read.
pub fn comparisons(plan: &Plan, file: Option<&Path>) -> Result<Vec<Comparison>, String> {
    let file = Rc::new(open(file)?);
    let comparison = |&transfer| {
        let jobs = plan.workloads.iter().map(|&workload| job(&file, transfer, workload)).collect();
        Comparison { baseline: None, rehearsals: 0, jobs }
    };
    Ok(plan.transfers.iter().map(comparison).collect())
}

/// The one that is named, or one that is made.
pub(super) fn open(file: Option<&Path>) -> Result<CachedFile, String> {
    match file {
        Some(path) => {
            CachedFile::named(path).map_err(|error| format!("cannot measure over '{}': {error}", path.display()))
        }
        None => CachedFile::make(BYTES).map_err(|error| format!("cannot make a file to read: {error}")),
    }
}

fn job(file: &Rc<CachedFile>, transfer: usize, workload: Workload) -> Job {
    let params = BTreeMap::from([
        ("workload", workload.name().into()),
        ("size", file.len().into()),
        ("transfer", transfer.into()),
    ]);
    let cell = Cell::new("bw_file_rd", TRANSPORT, Placement::OneCpu.name(), params, MEGABYTES_PER_SECOND);
    let file = Rc::clone(file);
    Job::new(cell, move || {
        let [cpu, _] = Placement::OneCpu.cpus()?;
        crew::run(&[Post { name: "reader", cpu }], |_| launch(&file, transfer, workload).map(Some))
    })
}

fn launch(file: &CachedFile, transfer: usize, workload: Workload) -> Result<Launch, String> {
    let mut buffer = PageAligned::new(transfer);
    let mut kept = file.open()?;
    passes::over(file, || match workload {
        Workload::IoOnly => {
            kept.seek(SeekFrom::Start(0)).map_err(|error| format!("cannot go back to the start: {error}"))?;
            sum(&mut kept, file.len(), &mut buffer)
        }
        Workload::Open2Close => sum(&mut file.open()?, file.len(), &mut buffer),
    })
}

/// Of all words of the file.
fn sum(file: &mut File, len: usize, buffer: &mut PageAligned) -> Result<u64, String> {
    let (mut sum, mut position) = (WordSum::default(), 0);
    while position < len {
        let wanted = buffer.len().min(len - position);
        let piece = &mut buffer[..wanted];
        match read_full(file, piece).map_err(|error| format!("cannot read at byte {position}: {error}"))? {
            count if count == wanted => sum.add(piece),
            count => return Err(format!("the file ended after {} of {len} bytes", position + count)),
        }
        position += wanted;
    }
    Ok(sum.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_workload_gives_a_sample() {
        let file = CachedFile::make(300_001).unwrap();
        for workload in Workload::ALL {
            for transfer in [8, 4096, TRANSFER] {
                let seen = launch(&file, transfer, workload).unwrap();
                assert!(seen.samples.len() == 1 && seen.samples[0] > 0.0, "{seen:?}");
            }
        }
    }

    #[test]
    fn a_file_that_is_shorter_than_it_was_is_an_error() {
        let file = CachedFile::make(100_000).unwrap();
        let seen = sum(&mut file.open().unwrap(), 100_008, &mut PageAligned::new(4096));
        assert_eq!(seen.unwrap_err(), "the file ended after 100000 of 100008 bytes");
    }
}
