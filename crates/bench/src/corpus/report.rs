//! What a trial says: its fields are the JSON format, described in `docs/benchmarks.md`, and [`Report::render`] is the table.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::cell::Verdict;
use crate::engine::statistics::median;
use crate::machine::Machine;
use crate::report::table::new_table;

/// The format of a [`Report`]. Another last number for what old readers cannot read.
pub const SCHEMA: &str = "millstream bench corpus 1";

/// What a trial says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`]
    pub schema: String,
    /// Where it was made.
    pub machine: Machine,
    /// Bytes of the text that pipelines read.
    pub size: u64,
    /// Interleaved pairs for each placement.
    pub pairs: usize,
    /// What it says as a whole.
    pub outcome: Outcome,
    /// Bytes in the pipes of all pipelines, and those of them that went through shared memory.
    pub bytes: u64,
    /// See [`bytes`](Self::bytes).
    pub shared_bytes: u64,
    /// The pipelines that ran.
    pub rows: Vec<Row>,
    /// The others, and why.
    pub left_out: Vec<LeftOut>,
}

/// What a trial says as a whole: the first that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Nothing ran.
    Nothing,
    /// A pipeline failed under `millstream run`, or printed something else.
    Failed,
    /// A pipeline is slower, outside the noise.
    Slower,
    /// None is.
    Fine,
}

/// One pipeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// As in the list.
    pub name: String,
    /// As in the list.
    pub class: String,
    /// Bytes in its pipes.
    pub bytes: u64,
    /// Those of them that went through shared memory.
    pub shared_bytes: u64,
    /// What kept the others with the kernel, in the words of `millstream run --stats`, and how many bytes.
    pub why_not: BTreeMap<String, u64>,
    /// How fast it was, where.
    pub placements: Vec<Placed>,
    /// What went wrong under `millstream run`.
    pub error: Option<String>,
}

/// One pipeline in one placement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Placed {
    /// `2cpu` or `1cpu`.
    pub placement: String,
    /// Median time bare over that under `millstream run`: below 1 is a loss.
    pub ratio: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
    /// Worse: the interval lies below 0.97.
    pub verdict: Verdict,
    /// Milliseconds of each run.
    pub bare: Vec<f64>,
    /// Those of its partner.
    pub run: Vec<f64>,
}

/// A pipeline that did not run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LeftOut {
    /// As in the list.
    pub name: String,
    /// A sentence.
    pub why: String,
}

impl Row {
    pub(super) fn new(name: &str, class: &str) -> Row {
        Row {
            name: name.into(),
            class: class.into(),
            bytes: 0,
            shared_bytes: 0,
            why_not: BTreeMap::new(),
            placements: Vec::new(),
            error: None,
        }
    }

    fn is_slower(&self) -> bool {
        self.placements.iter().any(|placed| placed.verdict == Verdict::Worse)
    }

    /// What kept most of the bytes with the kernel.
    fn main_reason(&self) -> &str {
        self.why_not.iter().max_by_key(|(_, bytes)| **bytes).map_or("", |(reason, _)| reason)
    }
}

impl Report {
    pub(super) fn new(size: u64, pairs: usize) -> Report {
        Report {
            schema: SCHEMA.into(),
            machine: Machine::this(),
            size,
            pairs,
            outcome: Outcome::Nothing,
            bytes: 0,
            shared_bytes: 0,
            rows: Vec::new(),
            left_out: Vec::new(),
        }
    }

    pub(super) fn leave_out(&mut self, name: &str, why: String) {
        self.left_out.push(LeftOut { name: name.into(), why });
    }

    pub(super) fn finish(&mut self) {
        self.bytes = self.rows.iter().map(|row| row.bytes).sum();
        self.shared_bytes = self.rows.iter().map(|row| row.shared_bytes).sum();
        self.outcome = match &self.rows {
            rows if rows.is_empty() => Outcome::Nothing,
            rows if rows.iter().any(|row| row.error.is_some()) => Outcome::Failed,
            rows if rows.iter().any(Row::is_slower) => Outcome::Slower,
            _ => Outcome::Fine,
        };
    }

    /// A line for each pipeline, and below what people should know first.
    pub fn render(&self) -> String {
        let mut placements: Vec<&str> = Vec::new();
        for placed in self.rows.iter().flat_map(|row| &row.placements) {
            if !placements.contains(&&*placed.placement) {
                placements.push(&placed.placement);
            }
        }
        let columns =
            placements.iter().flat_map(|placement| [format!("{placement} ms"), "ratio".into(), "95 %".into()]);
        let header = ["pipeline".into(), "MB".into(), "shared".into()];
        let mut table = new_table(header.into_iter().chain(columns).chain(["kernel because".into()]).collect());
        for row in &self.rows {
            let mut line =
                vec![row.name.clone(), format!("{:.1}", row.bytes as f64 / 1e6), share(row.shared_bytes, row.bytes)];
            for placement in &placements {
                let placed = row.placements.iter().find(|placed| placed.placement == *placement);
                line.extend(placed.map_or([const { String::new() }; 3], |placed| {
                    let [low, high] = placed.interval;
                    let mark = if placed.verdict == Verdict::Worse { " !" } else { "" };
                    let times = format!("{:.0}", median(&placed.bare));
                    [times, format!("{:.2}{mark}", placed.ratio), format!("{low:.2}-{high:.2}")]
                }));
            }
            line.push(row.main_reason().into());
            table.add_row(line);
        }
        let mut text =
            format!("{table}\n\nratio: median time bare over that under 'millstream run', above 1 is faster\n");
        self.summarise(&mut text);
        text
    }

    fn summarise(&self, text: &mut String) {
        let shared = share(self.shared_bytes, self.bytes);
        let megabytes = self.bytes as f64 / 1e6;
        let (ran, left) = (self.rows.len(), self.left_out.len());
        let _ =
            writeln!(text, "{ran} pipelines, {megabytes:.0} MB in pipes, {shared} over shared memory, {left} left out");
        for row in &self.rows {
            for placed in row.placements.iter().filter(|placed| placed.verdict == Verdict::Worse) {
                let Placed { placement, ratio, interval: [low, high], .. } = placed;
                let _ = writeln!(text, "slower: {} on {placement}: {ratio:.2} [{low:.2}, {high:.2}]", row.name);
            }
            if let Some(error) = &row.error {
                let _ = writeln!(text, "failed: {}: {error}", row.name);
            }
        }
        for LeftOut { name, why } in &self.left_out {
            let _ = writeln!(text, "left out: {name}: {why}");
        }
    }
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.0} %", part as f64 * 100.0 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(verdict: Verdict) -> Placed {
        Placed {
            placement: "2cpu".into(),
            ratio: 0.9,
            interval: [0.88, 0.92],
            verdict,
            bare: vec![9.0],
            run: vec![10.0],
        }
    }

    fn report(rows: Vec<Row>) -> Report {
        let mut report = Report { rows, ..Report::new(1 << 20, 11) };
        report.finish();
        report
    }

    #[test]
    fn outcome_is_the_worst_row() {
        let fine = Row { placements: vec![placed(Verdict::Inconclusive)], ..Row::new("fine", "") };
        let slower = Row { placements: vec![placed(Verdict::Worse)], ..Row::new("slower", "") };
        let failed = Row { error: Some("hangs".into()), ..Row::new("failed", "") };
        assert_eq!(report(Vec::new()).outcome, Outcome::Nothing);
        assert_eq!(report(vec![fine.clone()]).outcome, Outcome::Fine);
        assert_eq!(report(vec![fine.clone(), slower.clone()]).outcome, Outcome::Slower);
        assert_eq!(report(vec![fine, slower, failed]).outcome, Outcome::Failed);
    }

    #[test]
    fn render_lists_losses_below_the_table() {
        let slower = Row {
            placements: vec![placed(Verdict::Worse)],
            bytes: 4_000_000,
            shared_bytes: 1_000_000,
            why_not: BTreeMap::from([("little".into(), 10), ("threads".into(), 2_999_990)]),
            ..Row::new("slower", "")
        };
        let failed = Row { error: Some("hangs".into()), ..Row::new("bad", "") };
        let mut report = report(vec![slower, failed]);
        report.leave_out("absent", "not installed: it".into());
        let text = report.render();
        for says in [
            "2 pipelines, 4 MB in pipes, 25 % over shared memory, 1 left out",
            "slower: slower on 2cpu: 0.90 [0.88, 0.92]",
            "failed: bad: hangs",
            "left out: absent: not installed: it",
            "threads",
        ] {
            assert!(text.contains(says), "{says}: {text}");
        }
    }
}
