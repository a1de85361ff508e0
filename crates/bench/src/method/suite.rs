//! Every method in one go.

use std::path::PathBuf;
use std::time::Duration;

use super::{Depth, bw_pipe, grep, lat_pipe};
use crate::engine::{Comparison, Effort};

/// The methods, in the order in which they are shown.
pub const METHODS: [&str; 3] = ["bw_pipe", "lat_pipe", "grep"];

/// What to measure.
pub struct Plan {
    /// How much of each method.
    pub depth: Depth,
    /// Which methods, by name; all if none is named.
    pub methods: Vec<String>,
    /// The `millstream` program, which `grep` runs.
    pub program: PathBuf,
}

impl Plan {
    /// The comparisons of every method.
    ///
    /// # Errors
    /// A sentence: what this machine lacks for one of them.
    pub fn comparisons(&self) -> Result<Vec<Comparison>, String> {
        let mut comparisons = Vec::new();
        for method in METHODS.into_iter().filter(|&method| self.includes(method)) {
            comparisons.extend(self.comparisons_of(method)?);
        }
        Ok(comparisons)
    }

    fn includes(&self, method: &str) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|chosen| chosen == method)
    }

    fn comparisons_of(&self, method: &str) -> Result<Vec<Comparison>, String> {
        let depth = self.depth;
        Ok(match method {
            "bw_pipe" => bw_pipe::comparisons(&bw_pipe::Plan::of(depth)),
            "lat_pipe" => lat_pipe::comparisons(&lat_pipe::Plan::of(depth)),
            "grep" => {
                let text = grep::corpus::text().map_err(|error| format!("cannot gather a text to read: {error}"))?;
                let plan = grep::Plan::of(depth, self.program.clone(), text);
                grep::comparisons(plan).map_err(|error| format!("cannot read the text: {error}"))?
            }
            unknown => return Err(format!("there is no method '{unknown}'")),
        })
    }

    /// How long to go on: three minutes and twenty-five, with what starting and reporting take left over.
    pub fn effort(&self) -> Effort {
        match self.depth {
            Depth::Quick => {
                Effort { launches_min: 5, launches_max: 11, precision: 0.03, limit: Duration::from_secs(140) }
            }
            Depth::Full | Depth::SeedFaithful => {
                Effort { launches_min: 11, launches_max: 41, precision: 0.02, limit: Duration::from_secs(20 * 60) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_comparisons_at_every_depth() {
        for depth in [Depth::Quick, Depth::Full, Depth::SeedFaithful] {
            for method in METHODS.into_iter().filter(|&method| method != "grep") {
                let plan = Plan { depth, methods: vec![method.into()], program: PathBuf::new() };
                let comparisons = plan.comparisons().unwrap();
                assert!(!comparisons.is_empty());
                assert!(
                    comparisons.iter().flat_map(|each| &each.jobs).all(|job| job.cell.method == method),
                    "{method}"
                );
            }
        }
    }

    #[test]
    fn a_method_that_does_not_exist_is_refused() {
        let plan = Plan { depth: Depth::Quick, methods: Vec::new(), program: PathBuf::new() };
        assert_eq!(plan.comparisons_of("bw_pigeon").err().unwrap(), "there is no method 'bw_pigeon'");
    }
}
