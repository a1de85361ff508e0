//! What is seen of all pipelines in one stretch of time.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_command::failure::Failure;
use millstream_pipe::live as library;

use crate::watch::pipelines::{self, Pipeline, Sample};
use crate::watch::verdict::Evidence;

/// What was seen in one stretch of time.
pub(crate) struct Look {
    pub(crate) sample: Sample,
    /// Bytes that wait in pipes of the library, and how many these hold.
    waiting: BTreeMap<u64, (usize, usize)>,
}

impl Look {
    /// Looks for so long. `pause` waits between two glances; `None` if it says that this is to end.
    pub(crate) fn take(
        processes: &[u32],
        length: Duration,
        pause: impl FnMut(Duration) -> bool,
    ) -> Result<Option<Look>, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::own(format!("cannot look at the processes of this machine: {error}"))
        };
        let Some(sample) = pipelines::sample(processes, length, pause).map_err(|error| failed(&error))? else {
            return Ok(None);
        };
        let pipes = library::look().map_err(|error| failed(&error))?.pipes;
        let waiting = pipes.iter().filter_map(|pipe| Some((pipe.number, (pipe.waiting?, pipe.capacity)))).collect();
        Ok(Some(Look { sample, waiting }))
    }

    /// The same, to the end.
    pub(crate) fn take_all(processes: &[u32], length: Duration) -> Result<Look, Failure> {
        let sleep = |pause| {
            std::thread::sleep(pause);
            true
        };
        Look::take(processes, length, sleep)?.ok_or_else(|| Failure::own("a look has no end"))
    }

    /// Bytes that wait in a pipe of the library, and how many it holds. The kernel tells this of its own pipes only through an open end.
    pub(crate) fn waiting(&self, inode: u64) -> Option<(usize, usize)> {
        self.waiting.get(&inode).copied()
    }

    /// Programs and pipes of one pipeline.
    pub(crate) fn evidence(&self, pipeline: &Pipeline) -> Evidence {
        // The verdict knows programs by their place among these.
        let place = |place: &usize| pipeline.programs.iter().position(|program| program == place);
        let pipes = (1..).zip(&pipeline.pipes).map(|(id, inode)| {
            let mut pipe = self.sample.seen.pipes[inode].pipe(id);
            pipe.writers = pipe.writers.iter().filter_map(place).collect();
            pipe.readers = pipe.readers.iter().filter_map(place).collect();
            pipe
        });
        Evidence {
            looks: self.sample.seen.looks,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            stages: pipeline.programs.iter().map(|&program| self.sample.seen.programs[program].stage()).collect(),
            pipes: pipes.collect(),
        }
    }

    /// Programs of a pipeline, by their places in it.
    pub(crate) fn names(&self, pipeline: &Pipeline, places: &[usize]) -> String {
        let name = |&place: &usize| self.sample.seen.programs[pipeline.programs[place]].name.as_str();
        let names: Vec<&str> = places.iter().map(name).collect();
        if names.is_empty() { "?".to_owned() } else { names.join(", ") }
    }
}
