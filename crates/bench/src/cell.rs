//! The result of one combination: what was measured, how often, and whether it can be believed.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::statistics::{median, median_interval, ratio_of_medians};

/// The unit of bandwidths, 10^6 bytes for each second: the one unit of which more is better.
pub const MEGABYTES_PER_SECOND: &str = "MB/s";

/// Everything that was measured in one go. Its fields are the JSON format, described in `docs/benchmarks.md`.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// `millstream bench 1`
    pub schema: &'static str,
    /// Where it was measured.
    pub machine: Machine,
    /// One for each combination of parameters, transport and placement.
    pub cells: Vec<Cell>,
}

/// What tells one machine from another.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// As the kernel calls the processor.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// Release of the kernel.
    pub kernel: String,
}

/// One combination of parameters, transport and placement.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// What was done.
    pub method: &'static str,
    /// What carried the bytes.
    pub transport: &'static str,
    /// `1cpu` or `2cpu`.
    pub placement: &'static str,
    /// What else tells this cell from others.
    pub params: BTreeMap<&'static str, serde_json::Value>,
    /// Of the samples.
    pub unit: &'static str,
    /// `None` when the cell is not valid.
    pub median: Option<f64>,
    /// 95 % interval of the median.
    pub ci95: Option<[f64; 2]>,
    /// How many samples.
    pub n: usize,
    /// In the order in which they were taken.
    pub samples: Vec<f64>,
    /// Whether every run passed its checks.
    pub valid: bool,
    /// The first check that failed.
    pub why_invalid: Option<String>,
    /// How many times as fast as the kernel pipe: the medians' quotient, the other way up for a bandwidth. `None` for
    /// the kernel pipe itself.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio.
    pub ratio_ci95: Option<[f64; 2]>,
}

impl Document {
    /// Cells with the machine they were measured on.
    pub fn new(cells: Vec<Cell>) -> Document {
        Document { schema: "millstream bench 1", machine: Machine::this(), cells }
    }
}

impl Machine {
    fn this() -> Machine {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo")
            .lines()
            .find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned()));
        Machine {
            cpu: cpu.unwrap_or_else(|| "unknown".into()),
            cpus: millstream_sys::cpu::allowed().map_or(0, |cpus| cpus.len()),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

impl Cell {
    /// A cell without samples.
    pub fn new(
        method: &'static str,
        transport: &'static str,
        placement: &'static str,
        params: BTreeMap<&'static str, serde_json::Value>,
        unit: &'static str,
    ) -> Cell {
        Cell {
            method,
            transport,
            placement,
            params,
            unit,
            median: None,
            ci95: None,
            n: 0,
            samples: Vec::new(),
            valid: false,
            why_invalid: None,
            ratio: None,
            ratio_ci95: None,
        }
    }

    /// Fills in the figures; a cell that is not valid gets none.
    pub fn conclude(&mut self, baseline: Option<&[f64]>) {
        self.n = self.samples.len();
        self.valid = self.why_invalid.is_none() && self.n > 0;
        if !self.valid {
            return;
        }
        self.median = Some(median(&self.samples));
        self.ci95 = Some(median_interval(&self.samples));
        if let Some(baseline) = baseline.filter(|baseline| baseline.len() == self.n) {
            let (ratio, interval) = match self.unit {
                MEGABYTES_PER_SECOND => ratio_of_medians(&self.samples, baseline),
                _ => ratio_of_medians(baseline, &self.samples),
            };
            self.ratio = Some(ratio);
            self.ratio_ci95 = Some(interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(samples: &[f64], why_invalid: Option<&str>) -> Cell {
        let mut cell = Cell::new("grep", "millstream", "1cpu", BTreeMap::new(), "ms");
        cell.samples = samples.to_vec();
        cell.why_invalid = why_invalid.map(str::to_owned);
        cell
    }

    #[test]
    fn half_the_time_is_a_ratio_of_two() {
        let mut cell = cell(&[5.0, 6.0, 7.0], None);
        cell.conclude(Some(&[10.0, 12.0, 14.0]));
        assert!(cell.valid);
        assert_eq!((cell.n, cell.median, cell.ratio), (3, Some(6.0), Some(2.0)));
    }

    #[test]
    fn twice_the_bandwidth_is_a_ratio_of_two() {
        let mut cell = Cell { unit: MEGABYTES_PER_SECOND, ..cell(&[10.0, 12.0, 14.0], None) };
        cell.conclude(Some(&[5.0, 6.0, 7.0]));
        assert_eq!(cell.ratio, Some(2.0));
    }

    #[test]
    fn a_cell_that_failed_a_check_or_ran_nothing_shows_no_number() {
        for mut cell in [cell(&[5.0], Some("wrong CPU")), cell(&[], None)] {
            cell.conclude(Some(&[5.0]));
            assert_eq!((cell.valid, cell.median, cell.ci95, cell.ratio), (false, None, None, None));
        }
    }

    #[test]
    fn unpaired_samples_give_no_ratio() {
        let mut cell = cell(&[5.0, 6.0], None);
        cell.conclude(Some(&[5.0]));
        assert_eq!((cell.valid, cell.ratio), (true, None));
    }
}
