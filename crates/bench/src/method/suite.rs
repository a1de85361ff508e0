//! Every method in one go.

use std::time::Duration;

use super::{
    Depth, bw_file_rd, bw_mmap_rd, bw_pipe, bw_tcp, bw_unix, cache_to_cache, fifo_grid, grep, increment, lat_fifo,
    lat_mem_rd, lat_pipe, lat_unix, memcpy, pipeflex,
};
use crate::engine::{Comparison, Effort};
use crate::programs::Programs;

/// The methods, in the order in which they are shown.
pub const METHODS: [&str; 15] = [
    "bw_pipe",
    "bw_unix",
    "bw_tcp",
    "lat_pipe",
    "lat_fifo",
    "lat_unix",
    "pipeflex",
    "fifo_grid",
    "grep",
    "increment",
    "memcpy",
    "cache_to_cache",
    "lat_mem_rd",
    "bw_file_rd",
    "bw_mmap_rd",
];

/// What to measure.
pub struct Plan {
    /// How much of each method.
    pub depth: Depth,
    /// Which methods, by name; all if none is named.
    pub methods: Vec<String>,
    /// What `grep` runs.
    pub programs: Programs,
}

/// What is measured interleaved, and for how long.
pub struct Part {
    /// All of it.
    pub comparisons: Vec<Comparison>,
    /// For how long.
    pub effort: Effort,
}

/// The launches of the study's grid of messages: with 20 repetitions each they make its 100.
const GRID_LAUNCHES: usize = 5;

impl Plan {
    /// Every method, and after them the grid of messages where it is done as the study did it: that has a number of
    /// repetitions of its own.
    ///
    /// # Errors
    /// A sentence: what this machine lacks for one of them.
    pub fn parts(&self) -> Result<Vec<Part>, String> {
        let (mut comparisons, mut grid) = (Vec::new(), Vec::new());
        for method in METHODS.into_iter().filter(|&method| self.includes(method)) {
            match method {
                "fifo_grid" if self.depth != Depth::Quick => {
                    grid = fifo_grid::comparisons(&fifo_grid::Plan::of(Depth::SeedFaithful));
                }
                method => comparisons.extend(self.comparisons_of(method)?),
            }
        }
        let parts = [(comparisons, self.effort()), (grid, Effort::exactly(GRID_LAUNCHES))];
        let parts = parts.into_iter().filter(|(comparisons, _)| !comparisons.is_empty());
        Ok(parts.map(|(comparisons, effort)| Part { comparisons, effort }).collect())
    }

    fn includes(&self, method: &str) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|chosen| chosen == method)
    }

    fn comparisons_of(&self, method: &str) -> Result<Vec<Comparison>, String> {
        let depth = self.depth;
        Ok(match method {
            "bw_pipe" => bw_pipe::comparisons(&bw_pipe::Plan::of(depth)),
            "bw_unix" => bw_unix::comparisons(&bw_unix::Plan::of(depth)),
            "bw_tcp" => bw_tcp::comparisons(&bw_tcp::Plan::of(depth)),
            "lat_pipe" => lat_pipe::comparisons(&lat_pipe::Plan::of(depth)),
            "lat_fifo" => lat_fifo::comparisons(&lat_fifo::Plan::of(depth)),
            "lat_unix" => lat_unix::comparisons(&lat_unix::Plan::of(depth)),
            "pipeflex" => pipeflex::comparisons(&pipeflex::Plan::of(depth))?,
            "fifo_grid" => fifo_grid::comparisons(&fifo_grid::Plan::of(depth)),
            "grep" => self.grep()?,
            "increment" => increment::comparisons(&increment::Plan::of(depth))?,
            "memcpy" => memcpy::comparisons(&memcpy::Plan::of(depth)),
            "cache_to_cache" => cache_to_cache::comparisons(&cache_to_cache::Plan::of(depth)),
            "lat_mem_rd" => lat_mem_rd::comparisons(&lat_mem_rd::Plan::of(depth)),
            "bw_file_rd" => bw_file_rd::comparisons(&bw_file_rd::Plan::of(depth), None)?,
            "bw_mmap_rd" => bw_mmap_rd::comparisons(&bw_mmap_rd::Plan::of(depth), None)?,
            unknown => return Err(format!("there is no method '{unknown}'")),
        })
    }

    fn grep(&self) -> Result<Vec<Comparison>, String> {
        let text = grep::corpus::text().map_err(|error| format!("cannot gather a text to read: {error}"))?;
        let plan = grep::Plan::of(self.depth, self.programs.clone(), text);
        grep::comparisons(plan).map_err(|error| format!("cannot read the text: {error}"))
    }

    /// Three minutes, or 25 with the grid, with what starting and reporting take left over.
    fn effort(&self) -> Effort {
        match self.depth {
            Depth::Quick => {
                Effort { launches_min: 5, launches_max: 11, precision: 0.03, limit: Duration::from_secs(130) }
            }
            Depth::Full | Depth::SeedFaithful => {
                Effort { launches_min: 5, launches_max: 41, precision: 0.02, limit: Duration::from_secs(12 * 60) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(depth: Depth, method: &str) -> Plan {
        Plan { depth, methods: vec![method.into()], programs: Programs::default() }
    }

    /// All but grep, whose text takes a while to gather.
    #[test]
    fn every_method_has_comparisons_at_every_depth() {
        for depth in [Depth::Quick, Depth::Full, Depth::SeedFaithful] {
            for method in METHODS.into_iter().filter(|&method| method != "grep") {
                let comparisons: Vec<Comparison> =
                    plan(depth, method).parts().unwrap().into_iter().flat_map(|part| part.comparisons).collect();
                assert!(!comparisons.is_empty(), "{method}");
                assert!(
                    comparisons.iter().flat_map(|each| &each.jobs).all(|job| job.cell.method == method),
                    "{method}"
                );
            }
        }
    }

    #[test]
    fn the_whole_grid_of_the_study_is_in_the_full_suite() {
        let parts = plan(Depth::Full, "fifo_grid").parts().unwrap();
        assert_eq!((parts.len(), parts[0].comparisons.len(), parts[0].effort.launches_max), (1, 35, 5));
    }

    #[test]
    fn a_method_that_does_not_exist_is_refused() {
        assert_eq!(plan(Depth::Quick, "").comparisons_of("bw_pigeon").err().unwrap(), "there is no method 'bw_pigeon'");
    }
}
