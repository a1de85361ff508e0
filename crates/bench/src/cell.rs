//! The result of one combination: what was measured, how often, and whether it can be believed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::launch::{Launch, Telemetry};
use crate::engine::statistics::{self, Cluster, median, median_interval, ratio_of_medians};
use crate::machine::Machine;

pub use crate::engine::statistics::Verdict;

mod reading;

/// The format that is written. Another first number for what old readers cannot read.
pub const SCHEMA: &str = "millstream bench 2";

/// The unit of bandwidths, 10^6 bytes for each second. Of everything for each second more is better, of all other units
/// less.
pub const MEGABYTES_PER_SECOND: &str = "MB/s";

/// A name that a method knows when it is compiled, or one read from a file.
pub type Name = Cow<'static, str>;

/// What tells a cell from others of its method.
pub type Params = BTreeMap<Name, Value>;

/// Everything that was measured in one go. Its fields are the JSON format, described in `docs/benchmarks.md`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`]
    pub schema: Name,
    /// Where it was measured.
    pub machine: Machine,
    /// The arguments that measure it again.
    pub command: Vec<String>,
    /// When it began: seconds since 1970, UTC.
    pub began: u64,
    /// How many seconds it took.
    pub seconds: f64,
    /// One for each combination of parameters, transport and placement.
    pub cells: Vec<Cell>,
}

/// One combination of parameters, transport and placement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// What was done.
    pub method: Name,
    /// What carried the bytes.
    pub transport: Name,
    /// `1cpu` or `2cpu`; `free` where nothing was pinned.
    pub placement: Name,
    /// What else tells this cell from others.
    pub params: Params,
    /// Of the samples.
    pub unit: Name,
    /// `None` when the cell is not valid.
    pub median: Option<f64>,
    /// 95 % interval of the median, by launch.
    pub ci95: Option<[f64; 2]>,
    /// How many samples.
    pub n: usize,
    /// In the order in which they were taken.
    pub samples: Vec<f64>,
    /// Which of the samples lie far out. They are counted all the same.
    pub outliers: Vec<usize>,
    /// The middles of two humps, where the samples have two: then the median is one of them, or a place where nothing
    /// is.
    pub humps: Option<[f64; 2]>,
    /// Which launches belong to each hump, the lower first. `None` without humps.
    #[serde(default)]
    pub hump_launches: Option<[HumpLaunches; 2]>,
    /// Samples from before it was warm, in no figure.
    pub warmup: Vec<f64>,
    /// Each launch, in order.
    pub launches: Vec<LaunchRecord>,
    /// Whether it ended because it was precise enough, and not because of a limit.
    pub converged: bool,
    /// Whether every run passed its checks.
    pub valid: bool,
    /// The first check that failed.
    pub why_invalid: Option<String>,
    /// The transport that it was compared with.
    pub baseline: Option<Name>,
    /// How many times as fast as the baseline: the medians' quotient, the other way up for a rate. `None` for the
    /// baseline itself.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio.
    pub ratio_ci95: Option<[f64; 2]>,
    /// 95 % interval of the ratio of the baseline to its own repetition: what no ratio can be believed within.
    pub noise_ci95: Option<[f64; 2]>,
    /// What the ratio says.
    pub verdict: Option<Verdict>,
}

/// What belongs to one of two humps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HumpLaunches {
    /// Places in [`Cell::launches`].
    pub launches: Vec<usize>,
    /// Where these ran: each combination of CPUs that occurs, as in [`Telemetry::cpus`].
    pub cpus: Vec<Vec<usize>>,
}

/// What is kept of a launch besides its samples.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// How many of the cell's samples are its.
    pub samples: usize,
    /// How many operations those are made of; 0 where the method does not count them.
    #[serde(default)]
    pub operations: u64,
    /// What the kernel counted.
    pub telemetry: Telemetry,
}

impl Cell {
    /// A cell without samples.
    pub fn new(
        method: impl Into<Name>,
        transport: impl Into<Name>,
        placement: impl Into<Name>,
        params: BTreeMap<&'static str, Value>,
        unit: impl Into<Name>,
    ) -> Cell {
        Cell {
            method: method.into(),
            transport: transport.into(),
            placement: placement.into(),
            params: params.into_iter().map(|(name, value)| (name.into(), value)).collect(),
            unit: unit.into(),
            median: None,
            ci95: None,
            n: 0,
            samples: Vec::new(),
            outliers: Vec::new(),
            humps: None,
            hump_launches: None,
            warmup: Vec::new(),
            launches: Vec::new(),
            converged: false,
            valid: false,
            why_invalid: None,
            baseline: None,
            ratio: None,
            ratio_ci95: None,
            noise_ci95: None,
            verdict: None,
        }
    }

    /// Whether more is better.
    pub fn is_rate(&self) -> bool {
        self.unit.ends_with("/s")
    }

    /// Takes what a launch gave.
    pub(crate) fn add(&mut self, launch: Launch) {
        self.launches.push(LaunchRecord {
            samples: launch.samples.len(),
            operations: launch.operations,
            telemetry: launch.telemetry,
        });
        self.samples.extend(launch.samples);
        self.warmup.extend(launch.warmup);
    }

    /// Takes what a rehearsal gave.
    pub(crate) fn warm_up(&mut self, launch: Launch) {
        self.warmup.extend(launch.warmup.into_iter().chain(launch.samples));
    }

    /// Begins again with nothing taken.
    pub(crate) fn forget_launches(&mut self) {
        (self.samples, self.warmup, self.launches) = Default::default();
    }

    /// The samples by launch.
    pub(crate) fn clusters(&self) -> Vec<Cluster<'_>> {
        let mut rest = self.samples.as_slice();
        self.launches.iter().filter_map(|launch| rest.split_off(..launch.samples)).collect()
    }

    /// Whether half the interval over the median is no more than `precision`; a cell that failed will not get better.
    pub(crate) fn is_as_precise_as(&self, precision: f64) -> bool {
        let [low, high] = median_interval(&self.clusters());
        self.why_invalid.is_some() || (high - low) / 2.0 <= precision * median(&self.samples)
    }

    /// Fills in the figures; a cell that is not valid gets none.
    pub(crate) fn conclude(&mut self) {
        self.n = self.samples.len();
        self.valid = self.why_invalid.is_none() && self.n > 0;
        if self.valid {
            self.median = Some(median(&self.samples));
            self.ci95 = Some(median_interval(&self.clusters()));
            self.outliers = statistics::outliers(&self.samples);
            self.humps = statistics::humps(&self.samples);
            self.hump_launches = self.humps.map(|middles| self.launches_of_humps(middles));
        }
    }

    /// The launches whose medians are nearer to either middle. Where a hump belongs to other CPUs, or to some launches
    /// and not to others, this shows it.
    fn launches_of_humps(&self, [low, high]: [f64; 2]) -> [HumpLaunches; 2] {
        let mut humps = [HumpLaunches::default(), HumpLaunches::default()];
        for (index, (launch, samples)) in self.launches.iter().zip(self.clusters()).enumerate() {
            let hump = &mut humps[usize::from(median(samples) > f64::midpoint(low, high))];
            hump.launches.push(index);
            if !hump.cpus.contains(&launch.telemetry.cpus) {
                hump.cpus.push(launch.telemetry.cpus.clone());
            }
        }
        humps.iter_mut().for_each(|hump| hump.cpus.sort());
        humps
    }

    /// Fills in what follows from the baseline's samples, which were taken in the same rounds.
    pub(crate) fn compare_with(&mut self, baseline: &Cell) {
        self.baseline = Some(baseline.transport.clone());
        let (ours, theirs) = (self.clusters(), baseline.clusters());
        if !self.valid || ours.len() != theirs.len() {
            return;
        }
        let (ratio, interval) =
            if self.is_rate() { ratio_of_medians(&ours, &theirs) } else { ratio_of_medians(&theirs, &ours) };
        self.ratio = Some(ratio);
        self.ratio_ci95 = Some(interval);
        self.verdict = Some(statistics::verdict(interval, self.noise_ci95));
    }
}

impl Document {
    /// Cells with the machine they were measured on.
    pub fn new(cells: Vec<Cell>, command: Vec<String>, began: u64, seconds: f64) -> Document {
        Document { schema: SCHEMA.into(), machine: Machine::this(), command, began, seconds, cells }
    }

    /// Cells on a machine that is always the same.
    #[cfg(test)]
    pub(crate) fn for_tests(cells: Vec<Cell>) -> Document {
        let machine = Machine {
            cpu: "Some CPU".into(),
            cpus: 2,
            kernel: "6.18".into(),
            memory: 8 << 30,
            caches: vec![32 << 10, 1 << 20, 32 << 20],
            huge_pages: "madvise".into(),
            is_virtual: true,
        };
        let command = ["millstream", "bench", "bw_pipe"].map(str::to_owned).to_vec();
        Document { schema: SCHEMA.into(), machine, command, began: 1_700_000_000, seconds: 12.5, cells }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(samples: &[f64], why_invalid: Option<&str>) -> Cell {
        let mut cell = Cell::new("grep", "millstream", "1cpu", BTreeMap::new(), "ms");
        samples.iter().for_each(|&sample| cell.add(Launch::of(sample)));
        cell.why_invalid = why_invalid.map(str::to_owned);
        cell.conclude();
        cell
    }

    #[test]
    fn half_the_time_is_a_ratio_of_two() {
        let mut cell = cell(&[5.0, 6.0, 7.0], None);
        cell.compare_with(&self::cell(&[10.0, 12.0, 14.0], None));
        assert!(cell.valid);
        assert_eq!((cell.n, cell.median, cell.ratio), (3, Some(6.0), Some(2.0)));
        assert_eq!(cell.verdict, Some(Verdict::Better));
    }

    #[test]
    fn twice_the_bandwidth_is_a_ratio_of_two() {
        let mut cell = Cell { unit: MEGABYTES_PER_SECOND.into(), ..cell(&[10.0, 12.0, 14.0], None) };
        cell.compare_with(&self::cell(&[5.0, 6.0, 7.0], None));
        assert_eq!(cell.ratio, Some(2.0));
    }

    #[test]
    fn a_cell_that_failed_a_check_or_ran_nothing_shows_no_number() {
        for mut cell in [cell(&[5.0], Some("wrong CPU")), cell(&[], None)] {
            cell.compare_with(&self::cell(&[5.0], None));
            assert_eq!((cell.valid, cell.median, cell.ci95, cell.ratio), (false, None, None, None));
        }
    }

    #[test]
    fn unpaired_launches_give_no_ratio() {
        let mut cell = cell(&[5.0, 6.0], None);
        cell.compare_with(&self::cell(&[5.0], None));
        assert_eq!((cell.valid, cell.ratio), (true, None));
    }

    #[test]
    fn samples_are_told_apart_by_launch() {
        let mut cell = cell(&[], None);
        cell.add(Launch { samples: vec![1.0, 2.0], ..Launch::default() });
        cell.add(Launch { samples: vec![3.0], warmup: vec![9.0], ..Launch::default() });
        assert_eq!(cell.clusters(), [&[1.0, 2.0][..], &[3.0]]);
        assert_eq!(cell.warmup, [9.0]);
    }

    #[test]
    fn humps_are_told_with_their_launches_and_cpus() {
        let mut cell = Cell::new("bw_pipe", "pipe", "2cpu", BTreeMap::new(), "ms");
        for index in 0..12 {
            let is_far = index % 3 == 0;
            let telemetry = Telemetry { cpus: vec![0, if is_far { 5 } else { 1 }], ..Telemetry::default() };
            let sample = if is_far { 30.0 } else { 10.0 } + 0.01 * index as f64;
            cell.add(Launch { telemetry, ..Launch::of(sample) });
        }
        cell.conclude();
        let near = HumpLaunches { launches: vec![1, 2, 4, 5, 7, 8, 10, 11], cpus: vec![vec![0, 1]] };
        let far = HumpLaunches { launches: vec![0, 3, 6, 9], cpus: vec![vec![0, 5]] };
        assert_eq!(cell.hump_launches, Some([near, far]));
    }

    #[test]
    fn a_document_is_read_back_as_it_was_written() {
        let mut document = Document::new(vec![cell(&[1.0, 2.0, 3.0], None)], vec!["bench".into()], 7, 1.5);
        document.machine.caches = vec![32768, 0, 1 << 20];
        let text = serde_json::to_string(&document).unwrap();
        let again: Document = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
    }
}
