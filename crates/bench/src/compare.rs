//! Whether one run is slower than another, told only when chance, noise and the machine can be ruled out.
//!
//! ```text
//!  run A   ours  theirs     ours speed over theirs, launch by launch ─┐
//!  run B   ours  theirs     ours speed over theirs, launch by launch ─┴─▶ change, interval, chance ─▶ verdict
//!                                                      other transports, earlier runs ─▶ band ─┘
//! ```
//!
//! A shared machine is faster or slower from one run to the next, by a few percent or by a factor of four, so a time of
//! one run says little beside a time of another. Two runs are compared by what each says within itself: how fast a
//! transport was beside the baseline that was launched in the same rounds. A cell without a baseline has nothing but its
//! own figure, and is believed less.
//!
//! "Worse" is said only if all of this holds; "better" needs the same in the other direction:
//!
//! 1. The launches differ by the rank test of Mann and Whitney, with a chance below 2 % of one such difference in a
//!    table in which nothing changed (Holm).
//! 2. The 95 % interval of the change, by launch, lies beyond the [margin](MARGIN).
//! 3. The change lies outside the noise that each run found in itself by launching its baseline twice.
//! 4. It lies outside of what the other transports did meanwhile, on the same CPUs: if spsc-bare and pipe-1m moved as
//!    far, it was the machine.
//! 5. It lies outside of what the same cell did from run to run so far, where three runs are known.
//! 6. The transport itself became slower, and by more than the baseline changed. If its own speed stayed and the
//!    baseline's rose, nothing is said.
//! 7. A cell without a baseline has 5 to go by, if the machine is a virtual one.
//!
//! What remains is "same" if the interval rules out a change of [a tenth](RESOLUTION), and inconclusive if not.

// Not the standard library's, which would make the program depend on libm.so: loading it takes longer than the start of
// `millstream run` may.
use libm::{exp, log};
use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Document, Name, Params, Verdict};
use crate::engine::significance::{holm, mann_whitney, typical_distance};
use crate::engine::statistics::{self, MARGIN, median};
use crate::random::Random;

#[cfg(test)]
mod simulation;

/// The format of a [`Report`]. Another first number for what old readers cannot read.
pub const SCHEMA: &str = "millstream bench compare 1";

/// A table is not called the same while changes of this size may hide in it: a tenth.
pub const RESOLUTION: f64 = 0.10;

/// The chance that the rank test finds something, better or worse, in a table in which nothing changed.
const CHANCE: f64 = 0.02;

/// Standard deviations that a band reaches. In a table of sixty cells one in forty lies beyond two by chance alone, and
/// the deviation itself is an estimate from few cells.
const REACH: f64 = 4.0;

/// Resamples for an interval; simulations of thousands of tables make do with fewer.
const RESAMPLES: usize = if cfg!(test) { 400 } else { statistics::RESAMPLES };

/// Fewer others say nothing about the machine.
const OTHERS_MIN: usize = 3;

/// Fewer earlier runs say nothing about how far runs lie apart.
const RUNS_MIN: usize = 3;

/// What is compared: one run, or several whose median counts.
#[derive(Clone, Debug)]
pub struct Side<'a> {
    /// As the user called it.
    pub name: String,
    /// At least one.
    pub runs: Vec<&'a Document>,
}

/// What two sides say. Its fields are the JSON format, described in `docs/benchmarks.md`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`]
    pub schema: Name,
    /// What is compared with.
    pub a: SideNote,
    /// What is judged.
    pub b: SideNote,
    /// What it says as a whole.
    pub outcome: Outcome,
    /// Each cell that both have.
    pub changes: Vec<Change>,
    /// Cells that only the first has.
    pub only_in_a: Vec<Key>,
    /// Cells that only the second has.
    pub only_in_b: Vec<Key>,
}

/// Which runs a side consists of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SideNote {
    /// As the user called it.
    pub name: String,
    /// How many runs.
    pub runs: usize,
    /// When the last of them began: seconds since 1970, UTC.
    pub began: u64,
    /// [`Machine::fingerprint`](crate::machine::Machine::fingerprint)
    pub fingerprint: String,
}

/// What a comparison says as a whole: the first that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// A cell failed its checks on either side, or no cell is on both.
    Invalid,
    /// A cell is worse.
    Worse,
    /// Of a cell nothing can be told.
    Inconclusive,
    /// Every cell is the same or better, and one is better.
    Better,
    /// Every cell is the same.
    Same,
}

/// What tells a cell from all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Key {
    /// As in [`Cell::method`].
    pub method: Name,
    /// As in [`Cell::transport`].
    pub transport: Name,
    /// As in [`Cell::placement`].
    pub placement: Name,
    /// As in [`Cell::params`].
    pub params: Params,
}

/// What became of a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Change {
    /// Which cell.
    #[serde(flatten)]
    pub key: Key,
    /// Of the medians.
    pub unit: Name,
    /// The median of each side; `None` if not valid.
    pub medians: [Option<f64>; 2],
    /// The baseline that both were compared with, if `change` is that of the ratio to it.
    pub against: Option<Name>,
    /// How many times as fast as before, beside `against`; below 1 is slower.
    pub change: Option<f64>,
    /// Its 95 % interval, by launch and, on a side of several runs, by run.
    pub change_ci95: Option<[f64; 2]>,
    /// How many times as fast as before by its own figure, whatever the machine did.
    pub absolute: Option<f64>,
    /// What `change` must lie outside of.
    pub band: Option<Band>,
    /// The chance of launches so different if nothing changed, for the table as a whole.
    pub chance: Option<f64>,
    /// `None` if not valid.
    pub verdict: Option<Verdict>,
    /// Why nothing is known, or no more than this.
    pub why: Option<String>,
}

/// How far changes lie from 1 that mean nothing; 0.05 stands for 1/1.05 to 1.05.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// [`MARGIN`]
    pub margin: f64,
    /// By the second launches of the baseline in the same runs.
    pub noise: Option<f64>,
    /// By the other transports of the table.
    pub others: Option<f64>,
    /// By earlier runs of the cell.
    pub runs: Option<f64>,
}

impl Band {
    /// The widest.
    pub fn width(&self) -> f64 {
        [self.noise, self.others, self.runs].into_iter().flatten().fold(self.margin, f64::max)
    }

    /// Which one is the widest, for sentences.
    fn name(&self) -> &'static str {
        let width = self.width();
        match width {
            _ if self.runs == Some(width) => "what earlier runs of the cell did",
            _ if self.others == Some(width) => "what the other transports did",
            _ if self.noise == Some(width) => "the noise of the runs",
            _ => "the margin",
        }
    }
}

/// Compares `b` with `a`. `past` are earlier runs on the machine of `b`, the oldest first, without those of `b`.
///
/// # Errors
/// A sentence: a side has no run, or the machines differ and `is_across_machines` is not set.
pub fn compare(a: &Side<'_>, b: &Side<'_>, past: &[&Document], is_across_machines: bool) -> Result<Report, String> {
    let notes = [note(a)?, note(b)?];
    let mut machines = a.runs.iter().chain(&b.runs).map(|run| run.machine.fingerprint());
    let first = machines.next();
    if !is_across_machines && machines.any(|machine| Some(machine) != first) {
        return Err(format!(
            "{} and {} were measured on different machines ({} and {}); --across-machines compares them all the same",
            a.name,
            b.name,
            describe(a),
            describe(b)
        ));
    }
    let (keys_a, keys_b) = (keys(a), keys(b));
    let mut found: Vec<Found> =
        keys_b.iter().filter(|key| keys_a.contains(key)).map(|key| Found::new(key, a, b)).collect();
    judge(&mut found, past, a.runs.iter().chain(&b.runs).any(|run| run.machine.is_virtual));
    let changes: Vec<Change> = found.into_iter().map(|found| found.change).collect();
    let [a, b] = notes;
    Ok(Report {
        schema: SCHEMA.into(),
        a,
        b,
        outcome: outcome(&changes),
        changes,
        only_in_a: keys_a.iter().filter(|key| !keys_b.contains(key)).cloned().collect(),
        only_in_b: keys_b.into_iter().filter(|key| !keys_a.contains(key)).collect(),
    })
}

fn note(side: &Side<'_>) -> Result<SideNote, String> {
    let last = side.runs.last().ok_or_else(|| format!("{} is no run", side.name))?;
    let (runs, fingerprint) = (side.runs.len(), last.machine.fingerprint());
    Ok(SideNote { name: side.name.clone(), runs, began: last.began, fingerprint })
}

fn describe(side: &Side<'_>) -> String {
    let machine = side.runs.last().map(|run| &run.machine);
    machine.map_or(String::new(), |is| format!("{}, {} CPUs, Linux {}", is.cpu, is.cpus, is.kernel))
}

fn outcome(changes: &[Change]) -> Outcome {
    let any = |verdict| changes.iter().any(|change| change.verdict == verdict);
    match () {
        () if changes.is_empty() || any(None) => Outcome::Invalid,
        () if any(Some(Verdict::Worse)) => Outcome::Worse,
        () if any(Some(Verdict::Inconclusive)) => Outcome::Inconclusive,
        () if any(Some(Verdict::Better)) => Outcome::Better,
        () => Outcome::Same,
    }
}

fn key_of(cell: &Cell) -> Key {
    Key {
        method: cell.method.clone(),
        transport: cell.transport.clone(),
        placement: cell.placement.clone(),
        params: cell.params.clone(),
    }
}

impl Key {
    fn is_of(&self, cell: &Cell) -> bool {
        self.method == cell.method
            && self.transport == cell.transport
            && self.placement == cell.placement
            && self.params == cell.params
    }
}

/// Whether there is anything to compare.
pub fn share_a_cell(one: &Document, other: &Document) -> bool {
    one.cells.iter().any(|cell| other.cells.iter().any(|candidate| key_of(cell).is_of(candidate)))
}

/// In the order in which they were measured.
fn keys(side: &Side<'_>) -> Vec<Key> {
    let mut keys = Vec::new();
    for cell in side.runs.iter().flat_map(|run| &run.cells) {
        let key = key_of(cell);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// The speed of each launch of a cell in one run, and of the baseline in the same rounds.
#[derive(Clone, Debug)]
struct Series {
    ours: Vec<f64>,
    theirs: Option<Vec<f64>>,
}

impl Series {
    /// `None` where the run does not have the cell.
    ///
    /// # Errors
    /// Why the cell is not valid.
    fn of(run: &Document, key: &Key) -> Option<Result<Series, String>> {
        let cell = run.cells.iter().find(|cell| key.is_of(cell))?;
        Some(speeds(cell).map(|ours| {
            let is_baseline = |other: &&Cell| {
                Some(&other.transport) == cell.baseline.as_ref()
                    && other.transport != cell.transport
                    && Key { transport: other.transport.clone(), ..key.clone() }.is_of(other)
            };
            let theirs = run.cells.iter().find(is_baseline).and_then(|other| speeds(other).ok());
            Series { theirs: theirs.filter(|theirs| theirs.len() == ours.len()), ours }
        }))
    }

    fn alone(mut self) -> Series {
        self.theirs = None;
        self
    }

    /// The logarithm of the speed of each launch, beside the baseline's of the same round if there is one: whatever the
    /// machine did in that round is in both.
    fn levels(&self) -> Vec<f64> {
        match &self.theirs {
            Some(theirs) => self.ours.iter().zip(theirs).map(|(ours, theirs)| log(ours / theirs)).collect(),
            None => self.ours.iter().copied().map(log).collect(),
        }
    }
}

/// What a launch counts for, however many samples it gave: the median, as a speed.
fn speeds(cell: &Cell) -> Result<Vec<f64>, String> {
    if !cell.valid {
        return Err(cell.why_invalid.clone().unwrap_or_else(|| "no run was counted".into()));
    }
    let launches = cell.clusters();
    let medians = launches.iter().filter(|samples| !samples.is_empty()).map(|samples| median(samples));
    let speeds: Vec<f64> = medians.map(|figure| if cell.is_rate() { figure } else { 1.0 / figure }).collect();
    match speeds.iter().all(|speed| speed.is_finite() && *speed > 0.0) && !speeds.is_empty() {
        true => Ok(speeds),
        false => Err("its samples are no positive numbers, or belong to no launch".into()),
    }
}

/// A cell on its way to a verdict.
struct Found {
    change: Change,
    /// Of each side; empty if not valid.
    series: [Vec<Series>; 2],
    noise: Option<f64>,
}

impl Found {
    fn new(key: &Key, a: &Side<'_>, b: &Side<'_>) -> Found {
        let cells = |side: &Side<'_>| -> Vec<Cell> {
            side.runs.iter().flat_map(|run| run.cells.iter().find(|cell| key.is_of(cell))).cloned().collect()
        };
        let (cells_a, cells_b) = (cells(a), cells(b));
        let mut change = Change {
            key: key.clone(),
            unit: cells_b[0].unit.clone(),
            medians: [median_of_runs(&cells_a), median_of_runs(&cells_b)],
            against: None,
            change: None,
            change_ci95: None,
            absolute: None,
            band: None,
            chance: None,
            verdict: None,
            why: None,
        };
        let series = [(a, &cells_a), (b, &cells_b)].map(|(side, cells)| {
            if cells.iter().any(|cell| cell.unit != change.unit) {
                change.why = Some(format!("{} has it in another unit", side.name));
            }
            let all: Result<Vec<Series>, String> = side.runs.iter().filter_map(|run| Series::of(run, key)).collect();
            all.unwrap_or_else(|why| {
                change.why.get_or_insert(format!("not valid in {}: {why}", side.name));
                Vec::new()
            })
        });
        let noise = cells_a.iter().chain(&cells_b).filter_map(|cell| cell.noise_ci95).map(half_width);
        let noise = noise
            .filter(|noise| noise.is_finite())
            .fold(None, |most: Option<f64>, next| Some(most.unwrap_or(0.0).max(next)));
        let mut found = Found { change, series, noise };
        found.measure(&cells_a[0], &cells_b[0]);
        found
    }

    /// Fills in what follows from the launches alone.
    fn measure(&mut self, in_a: &Cell, in_b: &Cell) {
        if self.change.why.is_some() {
            return;
        }
        let has_baseline = self.series.iter().flatten().all(|series| series.theirs.is_some());
        let alone = self.series.clone().map(|side| side.into_iter().map(Series::alone).collect::<Vec<_>>());
        self.change.absolute = Some(exp(level(&alone[1]) - level(&alone[0])));
        if has_baseline && in_a.baseline == in_b.baseline {
            self.change.against = in_b.baseline.clone();
        } else {
            self.series = alone;
        }
        self.change.change = Some(exp(level(&self.series[1]) - level(&self.series[0])));
        self.change.change_ci95 = Some(interval(&self.series));
        let launches = |side: &[Series]| side.iter().flat_map(Series::levels).collect::<Vec<f64>>();
        self.change.chance = Some(mann_whitney(&launches(&self.series[0]), &launches(&self.series[1])));
    }

    fn is_beside(&self, other: &Found) -> bool {
        let (ours, theirs) = (&self.change.key, &other.change.key);
        ours.method == theirs.method && ours.placement == theirs.placement && ours.transport != theirs.transport
    }
}

fn median_of_runs(cells: &[Cell]) -> Option<f64> {
    let medians: Vec<f64> = cells.iter().filter_map(|cell| cell.median).collect();
    (!medians.is_empty()).then(|| median(&medians))
}

fn half_width([low, high]: [f64; 2]) -> f64 {
    exp(log(low).abs().max(log(high).abs())) - 1.0
}

/// The median of a side: that of its runs, each that of its launches.
fn level(runs: &[Series]) -> f64 {
    median(&runs.iter().map(|run| median(&run.levels())).collect::<Vec<_>>())
}

/// The 95 % interval of the change: runs of a side are resampled, and launches of a run.
fn interval(sides: &[Vec<Series>; 2]) -> [f64; 2] {
    let sides = sides.each_ref().map(|runs| runs.iter().map(Series::levels).collect::<Vec<_>>());
    // Whichever comes first, the same resamples are drawn: the other way round the same launches say the opposite, and no less.
    if sides[1] < sides[0] {
        let [before, after] = sides;
        let [low, high] = interval_between(&after, &before);
        return [1.0 / high, 1.0 / low];
    }
    interval_between(&sides[0], &sides[1])
}

fn interval_between(before: &[Vec<f64>], after: &[Vec<f64>]) -> [f64; 2] {
    let (mut picked, mut levels) = (Vec::new(), Vec::new());
    let mut resampled = |runs: &[Vec<f64>], random: &mut Random| {
        levels.clear();
        for _ in 0..runs.len() {
            let run = &runs[random.below(runs.len())];
            picked.clear();
            picked.extend((0..run.len()).map(|_| run[random.below(run.len())]));
            levels.push(median_in_place(&mut picked));
        }
        median_in_place(&mut levels)
    };
    statistics::percentiles(RESAMPLES, |random| {
        let (before, after) = (resampled(before, random), resampled(after, random));
        exp(after - before)
    })
}

/// Thousands of these make an interval, so nothing is sorted that need not be.
fn median_in_place(values: &mut [f64]) -> f64 {
    let (len, middle) = (values.len(), values.len() / 2);
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    match len % 2 {
        1 => upper,
        _ => f64::midpoint(below.iter().copied().fold(f64::NEG_INFINITY, f64::max), upper),
    }
}

/// Gives each valid cell its chance in the table, its band and its verdict.
fn judge(found: &mut [Found], past: &[&Document], is_virtual: bool) {
    let valid: Vec<usize> = (0..found.len()).filter(|&index| found[index].change.change.is_some()).collect();
    let chances: Vec<f64> = valid.iter().filter_map(|&index| found[index].change.chance).collect();
    for (&index, chance) in valid.iter().zip(holm(&chances)) {
        let band = Band {
            margin: MARGIN,
            noise: found[index].noise,
            others: others(&found[index], found),
            runs: between_runs(&found[index].change, past),
        };
        let change = &mut found[index].change;
        (change.chance, change.band) = (Some(chance), Some(band));
        let (verdict, why) = verdict(change, &band, chance, is_virtual);
        (change.verdict, change.why) = (Some(verdict), why);
    }
}

/// How far the other transports of the method moved, at the same placement.
fn others(of: &Found, found: &[Found]) -> Option<f64> {
    let is_ratio = of.change.against.is_some();
    let beside = found.iter().filter(|other| other.is_beside(of));
    let moved = beside.filter_map(|other| match is_ratio {
        true if other.change.against == of.change.against => other.change.change,
        true => None,
        false => other.change.absolute,
    });
    let moved: Vec<f64> = moved.map(log).collect();
    (moved.len() >= OTHERS_MIN).then(|| exp(REACH * typical_distance(&moved)) - 1.0)
}

/// How far the cell moved from one earlier run to the next.
fn between_runs(change: &Change, past: &[&Document]) -> Option<f64> {
    let series = past.iter().filter_map(|run| Series::of(run, &change.key)?.ok());
    let levels: Vec<f64> = match change.against {
        Some(_) => series.filter(|series| series.theirs.is_some()).map(|series| level(&[series])).collect(),
        None => series.map(|series| level(&[series.alone()])).collect(),
    };
    let steps: Vec<f64> = levels.windows(2).map(|pair| pair[1] - pair[0]).collect();
    (levels.len() >= RUNS_MIN).then(|| exp(REACH * typical_distance(&steps)) - 1.0)
}

fn verdict(change: &Change, band: &Band, chance: f64, is_virtual: bool) -> (Verdict, Option<String>) {
    let (Some(ratio), Some(absolute), Some([low, high])) = (change.change, change.absolute, change.change_ci95) else {
        return (Verdict::Inconclusive, None);
    };
    let is_less = ratio < 1.0;
    let is_beyond = |figure: f64, width: f64| if is_less { figure < 1.0 / (1.0 + width) } else { figure > 1.0 + width };
    let doubt = match () {
        () if !is_beyond(if is_less { high } else { low }, MARGIN) => {
            return if is_the_same([low, high]) {
                (Verdict::Same, None)
            } else {
                (Verdict::Inconclusive, Some("the launches of a run lie too far apart".into()))
            };
        }
        () if chance >= CHANCE => "it may be chance, in a table of this size".to_owned(),
        () if !is_beyond(ratio, band.width()) => format!("it lies within {}", band.name()),
        () if change.against.is_some() && !is_beyond(absolute, MARGIN.max(exp(log(absolute / ratio).abs()) - 1.0)) => {
            "its own speed did not change more than the baseline's: the machine may have".into()
        }
        () if change.against.is_none() && is_virtual && band.runs.is_none() => {
            "a figure without a baseline, on a virtual machine, needs three earlier runs in the history".into()
        }
        () => return (if is_less { Verdict::Worse } else { Verdict::Better }, None),
    };
    (Verdict::Inconclusive, Some(doubt))
}

/// Whether a change of a tenth is ruled out.
fn is_the_same([low, high]: [f64; 2]) -> bool {
    low > 1.0 / (1.0 + RESOLUTION) && high < 1.0 + RESOLUTION
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::engine::launch::Launch;

    /// A cell of eleven launches around `speed`, the baseline's at 1000.
    fn cell(transport: &'static str, speed: f64) -> Cell {
        let mut cell = Cell::new("bw_pipe", transport, "1cpu", BTreeMap::from([("transfer", 4096.into())]), "MB/s");
        (0..11).for_each(|i| cell.add(Launch::of(speed * (1.0 + 0.001 * f64::from(i * 7 % 11)))));
        cell.baseline = Some("pipe".into());
        cell.conclude();
        cell
    }

    fn document(cells: &[(&'static str, f64)]) -> Document {
        Document::for_tests(cells.iter().map(|&(transport, speed)| cell(transport, speed)).collect())
    }

    fn compared(a: &Document, b: &Document) -> Report {
        let side = |name: &str, run| Side { name: name.into(), runs: vec![run] };
        compare(&side("a", a), &side("b", b), &[], false).unwrap()
    }

    fn verdicts(report: &Report) -> Vec<(&str, Option<Verdict>)> {
        report.changes.iter().map(|change| (&*change.key.transport, change.verdict)).collect()
    }

    #[test]
    fn a_transport_that_lost_a_tenth_is_worse_and_the_baseline_is_the_same() {
        let a = document(&[("pipe", 1000.0), ("millstream", 4000.0)]);
        let b = document(&[("pipe", 1000.0), ("millstream", 3600.0)]);
        let report = compared(&a, &b);
        assert_eq!(verdicts(&report), [("pipe", Some(Verdict::Same)), ("millstream", Some(Verdict::Worse))]);
        assert_eq!(report.outcome, Outcome::Worse);
        assert!((report.changes[1].change.unwrap() - 0.9).abs() < 1e-9);
        assert_eq!(compared(&b, &a).outcome, Outcome::Better);
        assert_eq!(compared(&a, &a).outcome, Outcome::Same);
    }

    #[test]
    fn the_other_way_round_the_same_launches_say_the_opposite() {
        let mut random = Random(7);
        let mut told = 0;
        for _ in 0..50 {
            let mut noisy = |speed: f64| {
                let mut cell = cell("millstream", speed);
                cell.samples.iter_mut().for_each(|sample| *sample *= 0.9 + 0.002 * random.below(100) as f64);
                Document::for_tests(vec![self::cell("pipe", 1000.0), cell])
            };
            let (a, b) = (noisy(4000.0), noisy(3600.0));
            let [there, back] = [compared(&a, &b), compared(&b, &a)].map(|report| report.changes[1].clone());
            let ([low, high], [back_low, back_high]) = (there.change_ci95.unwrap(), back.change_ci95.unwrap());
            assert!((low * back_high - 1.0).abs() < 1e-9 && (high * back_low - 1.0).abs() < 1e-9, "{there:?} {back:?}");
            let opposite = match there.verdict {
                Some(Verdict::Worse) => Some(Verdict::Better),
                Some(Verdict::Better) => Some(Verdict::Worse),
                other => other,
            };
            assert_eq!(back.verdict, opposite);
            told += usize::from(there.verdict == Some(Verdict::Worse));
        }
        assert!((1..50).contains(&told), "some of these can be told and some not: {told}");
    }

    #[test]
    fn a_machine_at_half_speed_is_no_news_of_a_transport() {
        let a = document(&[("pipe", 1000.0), ("millstream", 4000.0)]);
        let b = document(&[("pipe", 500.0), ("millstream", 2000.0)]);
        let report = compared(&a, &b);
        assert_eq!(verdicts(&report)[1], ("millstream", Some(Verdict::Same)));
        assert_eq!(
            verdicts(&report)[0],
            ("pipe", Some(Verdict::Inconclusive)),
            "on a virtual machine, without a history"
        );
        assert_eq!(report.outcome, Outcome::Inconclusive);
    }

    #[test]
    fn a_baseline_that_became_faster_makes_nothing_worse() {
        let a = document(&[("pipe", 1000.0), ("millstream", 4000.0)]);
        let b = document(&[("pipe", 1200.0), ("millstream", 4000.0)]);
        let report = compared(&a, &b);
        assert_eq!(verdicts(&report)[1], ("millstream", Some(Verdict::Inconclusive)));
        assert!(report.changes[1].why.as_ref().unwrap().contains("the machine may have"));
    }

    #[test]
    fn what_all_other_transports_did_too_was_the_machine() {
        let all = |factor: f64| {
            [
                ("pipe", 1000.0),
                ("pipe-1m", 1500.0 * factor),
                ("millstream", 4000.0 * factor),
                ("spsc-bare", 5000.0 * factor),
                ("memcpy-twice", 9000.0 * factor),
            ]
        };
        let report = compared(&document(&all(1.0)), &document(&all(0.8)));
        assert_eq!(verdicts(&report)[2], ("millstream", Some(Verdict::Inconclusive)));
        assert_eq!(report.changes[2].why.as_deref(), Some("it lies within what the other transports did"));
    }

    #[test]
    fn a_cell_that_failed_its_checks_makes_the_comparison_invalid() {
        let a = document(&[("pipe", 1000.0), ("millstream", 4000.0)]);
        let mut b = a.clone();
        b.cells[1].valid = false;
        b.cells[1].why_invalid = Some("a byte was lost".into());
        let report = compared(&a, &b);
        assert_eq!((verdicts(&report)[1], report.outcome), (("millstream", None), Outcome::Invalid));
        assert_eq!(report.changes[1].why.as_deref(), Some("not valid in b: a byte was lost"));
        assert_eq!(compared(&document(&[]), &a).outcome, Outcome::Invalid, "nothing is on both sides");
    }

    #[test]
    fn samples_that_are_no_positive_numbers_are_not_valid() {
        let a = document(&[("pipe", 1000.0)]);
        for samples in [vec![0.0; 11], vec![-1.0; 11], vec![f64::NAN; 11], Vec::new()] {
            let mut b = a.clone();
            b.cells[0].samples = samples;
            assert_eq!(compared(&a, &b).outcome, Outcome::Invalid);
        }
        let mut b = a.clone();
        b.cells[0].launches.clear();
        assert_eq!(compared(&a, &b).outcome, Outcome::Invalid);
        b.cells[0] = Cell { unit: "ms".into(), ..a.cells[0].clone() };
        assert_eq!(compared(&a, &b).outcome, Outcome::Invalid, "another unit");
    }

    #[test]
    fn cells_of_other_parameters_are_listed_and_not_compared() {
        let a = document(&[("pipe", 1000.0), ("millstream", 4000.0)]);
        let mut b = a.clone();
        b.cells[1].params.insert("transfer".into(), 8192.into());
        let report = compared(&a, &b);
        assert_eq!((report.changes.len(), report.only_in_a.len(), report.only_in_b.len()), (1, 1, 1));
        assert_eq!(report.only_in_b[0].params["transfer"], 8192);
    }

    #[test]
    fn different_machines_are_compared_only_on_request() {
        let a = document(&[("pipe", 1000.0)]);
        let mut b = a.clone();
        b.machine.cpus = 64;
        let [a, b] = [("a", &a), ("b", &b)].map(|(name, run)| Side { name: name.into(), runs: vec![run] });
        let refusal = compare(&a, &b, &[], false).unwrap_err();
        assert!(refusal.contains("different machines") && refusal.contains("64 CPUs"), "{refusal}");
        assert_eq!(compare(&a, &b, &[], true).unwrap().outcome, Outcome::Same);
    }

    #[test]
    fn a_side_of_several_runs_is_their_median() {
        let runs = [900.0, 1000.0, 5000.0].map(|speed| document(&[("millstream", speed)]));
        let side = Side { name: "baseline".into(), runs: runs.iter().collect() };
        let last = Side { name: "last".into(), runs: vec![&runs[1]] };
        let report = compare(&side, &last, &[], false).unwrap();
        assert!((report.changes[0].change.unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(report.a.runs, 3);
    }
}
