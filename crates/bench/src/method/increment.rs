//! How long adding one to every byte of a file takes, N times over: by N processes and pipes between them, or by one network.
//!
//! ```text
//! pipe, millstream     source ═ add ═ add ═ ... ═ add ═ sum      N + 2 processes, N + 1 pipes
//! pipe-tight           source+add ═ add ═ ... ═ add+sum          N processes, N - 1 pipes: as few as can be
//! millstream-net       [ source add add ... add sum ]            one process
//! ```
//!
//! All of them read the same cached file, add with the same loop and end in the same sum, which is compared. Pipelines grow by
//! a process and a pipe for each stage, a network by one more pass over a buffer in the cache; the line through the times
//! says by how much.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::cached_file::CachedFile;
use crate::cell::Cell;
use crate::engine::placement::Placement;
use crate::engine::{Comparison, Job, Launch};
use crate::method::Depth;
use crate::transport::{Transport, kernel_pipe, millstream};

mod bounds;
mod network;
mod pipeline;
pub(super) mod sum;

use bounds::Expected;
pub(super) use sum::add_one;

/// The name in options and results.
pub const NAME: &str = "increment";

/// Bytes of the file that the classic comparison reads.
pub const SIZE: usize = 512 << 20;

/// The largest file.
pub const SIZE_MAX: usize = 4 << 30;

/// The most stages: as many processes have to run.
pub const STAGES_MAX: usize = 64;

/// What does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Processes over kernel pipes, the source and the sum among them.
    Pipe,
    /// The same with as few processes as can be: the first reads the file itself, the last adds up itself.
    PipeTight,
    /// As `Pipe`, over millstream pipes.
    Millstream,
    /// One network on one thread.
    NetworkOnOne,
    /// One network, on as many threads as there are CPUs.
    Network,
}

impl Way {
    /// All of them, in the order in which they are shown. The first is what the others are measured against.
    pub const ALL: [Way; 5] = [Way::Pipe, Way::PipeTight, Way::Millstream, Way::NetworkOnOne, Way::Network];

    /// The name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Way::Pipe => "pipe",
            Way::PipeTight => "pipe-tight",
            Way::Millstream => "millstream",
            Way::NetworkOnOne => "millstream-net-1",
            Way::Network => "millstream-net",
        }
    }
}

/// What to measure.
pub struct Plan {
    /// Numbers of stages, each at most [`STAGES_MAX`].
    pub stages: Vec<usize>,
    /// Bytes of the file, 64 to [`SIZE_MAX`].
    pub size: usize,
    /// Which ways.
    pub ways: Vec<Way>,
    /// Which placements.
    pub placements: Vec<Placement>,
}

impl Plan {
    /// The classic comparison goes up to 16 stages over 512 MiB, and takes minutes; a smaller file shows the same.
    pub fn of(depth: Depth) -> Plan {
        let (stages, size) = match depth {
            Depth::Quick => (vec![8], 16 << 20),
            Depth::Full => (vec![0, 1, 2, 4, 8, 16], 64 << 20),
            Depth::SeedFaithful => (vec![0, 1, 2, 4, 8, 16], SIZE),
        };
        let ways = match depth {
            Depth::Quick => vec![Way::Pipe, Way::Millstream, Way::Network],
            Depth::Full | Depth::SeedFaithful => Way::ALL.to_vec(),
        };
        Plan { stages, size, ways, placements: Placement::ALL.to_vec() }
    }
}

/// A comparison for each number of stages and placement.
///
/// # Errors
/// A sentence: the file cannot be made or read.
pub fn comparisons(plan: &Plan) -> Result<Vec<Comparison>, String> {
    let file = CachedFile::make(plan.size).map_err(|error| format!("cannot make a file to read: {error}"))?;
    let most = plan.stages.iter().copied().max().unwrap_or(0);
    let input = Rc::new(RefCell::new(Input { sums: sum::expected(&file, most)?, file }));
    let mut comparisons = Vec::new();
    for &stages in &plan.stages {
        for &placement in &plan.placements {
            let jobs = plan.ways.iter().map(|&way| job(&input, Shape { stages, placement, way })).collect();
            comparisons.push(Comparison { baseline: Some(Way::Pipe.name()), rehearsals: 1, jobs });
        }
    }
    Ok(comparisons)
}

struct Input {
    file: CachedFile,
    /// What comes out, for each number of stages.
    sums: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Shape {
    stages: usize,
    placement: Placement,
    way: Way,
}

fn job(input: &Rc<RefCell<Input>>, shape: Shape) -> Job {
    let input = Rc::clone(input);
    let size = input.borrow().file.len();
    let params = BTreeMap::from([("stages", shape.stages.into()), ("size", size.into())]);
    let cell = Cell::new(NAME, shape.way.name(), shape.placement.name(), params, "ms");
    Job::new(cell, move || launch(&input.borrow(), shape))
}

/// Milliseconds from the first read to the sum, or the check that failed.
fn launch(input: &Input, shape: Shape) -> Result<Launch, String> {
    let Shape { stages, placement, way } = shape;
    let expected = Expected { bytes: input.file.len() as u64, sum: input.sums[stages] };
    input.file.check_cached_again()?;
    let piped = |carrier: &'static dyn Transport| {
        let adds = [&[false][..], &vec![true; stages], &[false]].concat();
        pipeline::launch(&adds, carrier, placement, &input.file, expected)
    };
    match way {
        Way::Pipe => piped(&kernel_pipe::DEFAULT),
        Way::Millstream => piped(&millstream::ADAPTIVE),
        Way::PipeTight => {
            let adds = if stages == 0 { vec![false] } else { vec![true; stages] };
            pipeline::launch(&adds, &kernel_pipe::DEFAULT, placement, &input.file, expected)
        }
        Way::NetworkOnOne => network::launch(stages, Some(1), placement, &input.file, expected),
        Way::Network => network::launch(stages, None, placement, &input.file, expected),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(size: usize, most: usize) -> Input {
        let file = CachedFile::make(size).unwrap();
        Input { sums: sum::expected(&file, most).unwrap(), file }
    }

    #[test]
    fn every_way_gives_the_same_sum_for_any_number_of_stages() {
        // Not a multiple of anything.
        let input = input(1_234_567, 5);
        for way in Way::ALL {
            for placement in Placement::ALL {
                for stages in [0, 1, 2, 5] {
                    let seen = launch(&input, Shape { stages, placement, way });
                    let seen = seen.unwrap_or_else(|why| panic!("{way:?} {placement:?} {stages}: {why}"));
                    assert!(seen.samples[0] > 0.0);
                }
            }
        }
    }

    #[test]
    fn a_stage_too_many_or_too_few_is_found_out() {
        let mut input = input(100_000, 3);
        input.sums.swap(1, 2);
        for way in Way::ALL {
            let seen = launch(&input, Shape { stages: 1, placement: Placement::OneCpu, way });
            assert!(seen.unwrap_err().ends_with("the sum of what came out is wrong"), "{way:?}");
        }
    }
}
