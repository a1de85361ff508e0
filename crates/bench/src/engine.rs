//! Takes samples until they are good enough: what is compared runs one after the other, in an order shuffled anew each
//! round, so whatever the machine is doing meets all of it alike.
//!
//! ```text
//! round 1      comparison B             comparison A                 round 2 ...
//!            [ millstream pipe pipe' ] [ pipe' spsc-bare pipe ... ]
//!               launch: new processes, a new stream, samples
//! ```
//!
//! The baseline of a comparison is launched twice a round; the second one, `pipe'`, enters no figure but the noise: how
//! far two measurements of the same thing lie apart here and now.

use std::time::{Duration, Instant};

use millstream_sys::clock;

use crate::cell::Cell;
use crate::random::Random;

pub mod crew;
pub mod fit;
pub mod launch;
pub mod placement;
pub mod significance;
pub mod statistics;

pub use launch::{Launch, Telemetry};

/// One thing to measure.
pub struct Job {
    /// What it is, without figures yet.
    pub cell: Cell,
    /// Measures it once, from scratch, or says which check failed.
    pub launch: Box<dyn FnMut() -> Result<Launch, String>>,
}

impl Job {
    /// What is measured, and how.
    pub fn new(cell: Cell, launch: impl FnMut() -> Result<Launch, String> + 'static) -> Job {
        Job { cell, launch: Box::new(launch) }
    }
}

/// Jobs that are compared with each other.
pub struct Comparison {
    /// Which of the transports the others are measured against, if that makes sense here.
    pub baseline: Option<&'static str>,
    /// Launches of each job that are recorded as warm-up: those of jobs that cannot warm up for themselves.
    pub rehearsals: usize,
    /// In the order in which they are shown.
    pub jobs: Vec<Job>,
}

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Each job is launched at least so often, should it fail no check, even past the limit.
    pub launches_min: usize,
    /// And at most so often.
    pub launches_max: usize,
    /// Half the width of an interval over its median at which a comparison is good enough.
    pub precision: f64,
    /// No round beyond the least begins later than this after the start.
    pub limit: Duration,
}

impl Effort {
    /// Exactly so many launches of each job.
    pub fn exactly(launches: usize) -> Effort {
        Effort { launches_min: launches, launches_max: launches, precision: 0.0, limit: Duration::MAX }
    }
}

/// How far a measurement is.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Launches that are over.
    pub done: usize,
    /// Launches there will be at most.
    pub total: usize,
    /// Of [`Effort::limit`]: when it is used up the measurement ends even if `total` is not reached.
    pub time_left: Duration,
    /// What was measured last.
    pub last: &'a Cell,
}

/// Measures. `progress` is called between launches, never during one. A job that fails a check is not launched again,
/// and its cell says why.
pub fn measure(comparisons: Vec<Comparison>, effort: &Effort, mut progress: impl FnMut(&Progress<'_>)) -> Vec<Cell> {
    let start = Instant::now();
    let time_left = || effort.limit.saturating_sub(start.elapsed());
    let mut random = Random(clock::raw_nanoseconds());
    let mut running: Vec<Running> =
        comparisons.into_iter().map(|comparison| Running::new(comparison, effort)).collect();
    let mut order: Vec<usize> = (0..running.len()).collect();
    let mut done = 0;
    loop {
        order.retain(|&index| running[index].wants_more(effort, !time_left().is_zero()));
        if order.is_empty() {
            break;
        }
        random.shuffle(&mut order);
        let mut to_come: usize = order.iter().map(|&index| running[index].launches_to_come()).sum();
        for &index in &order {
            running[index].round(&mut random, |last| {
                done += 1;
                to_come -= 1;
                progress(&Progress { done, total: done + to_come, time_left: time_left(), last });
            });
        }
    }
    running.into_iter().flat_map(Running::conclude).collect()
}

/// A comparison under way.
struct Running {
    jobs: Vec<Job>,
    /// The baseline's place among the jobs.
    baseline: Option<usize>,
    /// What is launched in a round: places among the jobs, and [`TWIN`].
    slots: Vec<usize>,
    /// The baseline's second launches.
    twins: Vec<Launch>,
    rehearsals_left: usize,
    rounds_left: usize,
    rounds_done: usize,
    is_converged: bool,
}

/// The slot of the baseline's second launch.
const TWIN: usize = usize::MAX;

impl Running {
    fn new(comparison: Comparison, effort: &Effort) -> Running {
        let Comparison { baseline, rehearsals, jobs } = comparison;
        let baseline = jobs.iter().position(|job| Some(&*job.cell.transport) == baseline);
        Running {
            slots: (0..jobs.len()).chain(baseline.map(|_| TWIN)).collect(),
            jobs,
            baseline,
            twins: Vec::new(),
            rehearsals_left: rehearsals,
            rounds_left: effort.launches_max,
            rounds_done: 0,
            is_converged: false,
        }
    }

    fn launches_to_come(&self) -> usize {
        (self.rehearsals_left + self.rounds_left) * self.slots.len()
    }

    fn wants_more(&mut self, effort: &Effort, is_time_left: bool) -> bool {
        let may_stop = self.rounds_done >= effort.launches_min;
        if may_stop && !self.is_converged {
            self.is_converged = self.jobs.iter().all(|job| job.cell.is_as_precise_as(effort.precision));
        }
        let is_hopeless = self.jobs.iter().all(|job| job.cell.why_invalid.is_some());
        self.rounds_left > 0 && !is_hopeless && (!may_stop || (is_time_left && !self.is_converged))
    }

    /// Launches each job once, and the baseline twice.
    fn round(&mut self, random: &mut Random, mut after_each: impl FnMut(&Cell)) {
        let is_rehearsal = self.rehearsals_left > 0;
        match is_rehearsal {
            true => self.rehearsals_left -= 1,
            false => (self.rounds_left, self.rounds_done) = (self.rounds_left - 1, self.rounds_done + 1),
        }
        random.shuffle(&mut self.slots);
        for &slot in &self.slots {
            let index = if slot == TWIN { self.baseline.unwrap_or(0) } else { slot };
            let Job { cell, launch } = &mut self.jobs[index];
            if cell.why_invalid.is_none() {
                match launch() {
                    Ok(seen) if is_rehearsal => cell.warm_up(seen),
                    Ok(seen) if slot == TWIN => self.twins.push(seen),
                    Ok(seen) => cell.add(seen),
                    Err(why) => cell.why_invalid = Some(why),
                }
            }
            after_each(&self.jobs[index].cell);
        }
    }

    /// The cells with their figures.
    fn conclude(self) -> Vec<Cell> {
        let mut cells: Vec<Cell> = self.jobs.into_iter().map(|job| job.cell).collect();
        let baseline = self.baseline.map(|index| cells[index].clone());
        for (index, cell) in cells.iter_mut().enumerate() {
            cell.conclude();
            cell.converged = self.is_converged;
            if let Some(baseline) = baseline.as_ref().filter(|baseline| baseline.why_invalid.is_none()) {
                cell.noise_ci95 = noise(baseline, &self.twins);
                if Some(index) != self.baseline {
                    cell.compare_with(baseline);
                }
            }
        }
        cells
    }
}

/// The interval of the ratio between a measurement and its repetition.
fn noise(baseline: &Cell, twins: &[Launch]) -> Option<[f64; 2]> {
    let mut twin = baseline.clone();
    twin.forget_launches();
    twins.iter().for_each(|launch| twin.add(launch.clone()));
    twin.conclude();
    twin.compare_with(baseline);
    twin.ratio_ci95
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    type Log = Rc<RefCell<Vec<String>>>;

    fn job(transport: &'static str, log: &Log, mut sample: impl FnMut() -> Result<f64, String> + 'static) -> Job {
        let log = Rc::clone(log);
        Job::new(Cell::new("test", transport, "1cpu", BTreeMap::new(), "ms"), move || {
            log.borrow_mut().push(transport.into());
            sample().map(Launch::of)
        })
    }

    fn comparison(jobs: Vec<Job>) -> Comparison {
        Comparison { baseline: Some("pipe"), rehearsals: 0, jobs }
    }

    #[test]
    fn a_comparison_stays_together_and_its_baseline_runs_twice_a_round() {
        let log = Log::default();
        let a = comparison(vec![job("pipe", &log, || Ok(10.0)), job("millstream", &log, || Ok(5.0))]);
        let b = Comparison { baseline: None, rehearsals: 1, jobs: vec![job("memory", &log, || Ok(1.0))] };
        let mut seen = Vec::new();
        let cells = measure(vec![a, b], &Effort::exactly(5), |progress| seen.push((progress.done, progress.total)));
        assert_eq!(cells.iter().map(|cell| cell.n).collect::<Vec<_>>(), [5, 5, 5]);
        assert_eq!(cells.iter().map(|cell| cell.ratio).collect::<Vec<_>>(), [None, Some(2.0), None]);
        assert_eq!(
            cells.iter().map(|cell| cell.noise_ci95).collect::<Vec<_>>(),
            [Some([1.0; 2]), Some([1.0; 2]), None]
        );
        assert_eq!(cells[2].warmup, [1.0]);
        assert_eq!(seen.first(), Some(&(1, 21)));
        assert_eq!(seen.last(), Some(&(21, 21)));
        let streams: Vec<_> = log.borrow().iter().filter(|name| *name != "memory").cloned().collect();
        assert!(streams.chunks(3).all(|round| round.iter().filter(|name| *name == "pipe").count() == 2), "{streams:?}");
    }

    #[test]
    fn a_job_that_failed_a_check_is_not_launched_again() {
        let log = Log::default();
        let jobs = vec![job("pipe", &log, || Ok(1.0)), job("millstream", &log, || Err("lost a byte".into()))];
        let cells = measure(vec![comparison(jobs)], &Effort::exactly(5), |_| ());
        assert_eq!(log.borrow().iter().filter(|name| *name == "millstream").count(), 1);
        assert_eq!((cells[0].valid, cells[1].valid), (true, false));
        assert_eq!(cells[1].why_invalid.as_deref(), Some("lost a byte"));
    }

    #[test]
    fn what_is_precise_enough_ends_early_and_what_is_not_goes_on() {
        let log = Log::default();
        let mut odd = 0.0;
        let steady = comparison(vec![job("pipe", &log, || Ok(1.0))]);
        let wild = comparison(vec![job("millstream", &log, move || {
            odd = 11.0 - odd;
            Ok(odd)
        })]);
        let effort = Effort { launches_min: 5, launches_max: 12, precision: 0.02, limit: Duration::MAX };
        let cells = measure(vec![steady, wild], &effort, |_| ());
        assert_eq!((cells[0].n, cells[0].converged), (5, true));
        assert_eq!((cells[1].n, cells[1].converged), (12, false));
    }

    #[test]
    fn the_limit_ends_it_but_not_before_the_least() {
        let log = Log::default();
        let jobs = vec![job("pipe", &log, || Ok(1.0))];
        let effort = Effort { launches_min: 3, launches_max: 1000, precision: 0.0, limit: Duration::ZERO };
        assert_eq!(measure(vec![comparison(jobs)], &effort, |_| ())[0].n, 3);
    }
}
