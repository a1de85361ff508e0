//! What two runs say, for the terminal.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;

use crate::cell::{Params, Verdict};
use crate::compare::{Change, Key, Outcome, Report};

/// A row for each cell, the worst first, then what only one side has, then what it comes to.
pub fn render(report: &Report) -> String {
    let mut table = Table::new();
    let header =
        ["", "method", "", "transport", "CPUs", &report.a.name, &report.b.name, "", "change", "95 % interval", "band"];
    table.load_style(presets::NOTHING).set_header(header);
    let mut changes: Vec<&Change> = report.changes.iter().collect();
    changes.sort_by_key(|change| rank(change.verdict));
    for change in &changes {
        table.add_row(row(change));
    }
    for index in [5, 6, 8, 9, 10] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = if changes.is_empty() { String::new() } else { format!("{table}\n\n") };
    for (side, keys) in [(&report.a, &report.only_in_a), (&report.b, &report.only_in_b)] {
        for key in keys {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "only in {}: {}", side.name, name(key));
        }
    }
    for change in &changes {
        if let Some(why) = &change.why {
            let verdict = change.verdict.map_or("not valid".into(), |verdict| verdict.to_string());
            let _ = writeln!(text, "{verdict}: {}: {why}", name(&change.key));
        }
    }
    text + &summary(report)
}

fn row(change: &Change) -> [String; 11] {
    let figure = |median: Option<f64>| median.map_or("-".into(), |median| format!("{median:.4}"));
    let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    let [before, after] = change.medians;
    [
        change.verdict.map_or("not valid".into(), |verdict| verdict.to_string()),
        change.key.method.to_string(),
        params(&change.key.params),
        change.key.transport.to_string(),
        change.key.placement.to_string(),
        figure(before),
        figure(after),
        change.unit.to_string(),
        change.change.map_or("-".into(), percent),
        change.change_ci95.map_or("-".into(), |[low, high]| format!("{} .. {}", percent(low), percent(high))),
        change.band.map_or("-".into(), |band| format!("{:.0} %", 100.0 * band.width())),
    ]
}

/// How early it is shown.
fn rank(verdict: Option<Verdict>) -> usize {
    let order = [None, Some(Verdict::Worse), Some(Verdict::Better), Some(Verdict::Inconclusive), Some(Verdict::Same)];
    order.iter().position(|&shown| shown == verdict).unwrap_or(order.len())
}

fn summary(report: &Report) -> String {
    let count = |verdict| report.changes.iter().filter(|change| change.verdict == verdict).count();
    let says = match report.outcome {
        Outcome::Invalid if report.changes.is_empty() => "invalid: no cell is on both sides",
        Outcome::Invalid => "invalid: a cell failed its checks",
        Outcome::Worse => "worse",
        Outcome::Inconclusive => "inconclusive: nothing is worse as far as can be told",
        Outcome::Better => "better",
        Outcome::Same => "the same",
    };
    format!(
        "{} against {}: {says} ({} worse, {} better, {} the same, {} inconclusive, {} not valid).\n\
         Changes are of speed, of the ratio to the baseline of the same run where there is one.\n",
        report.b.name,
        report.a.name,
        count(Some(Verdict::Worse)),
        count(Some(Verdict::Better)),
        count(Some(Verdict::Same)),
        count(Some(Verdict::Inconclusive)),
        count(None),
    )
}

fn name(key: &Key) -> String {
    format!("{} {} over {} at {}", key.method, params(&key.params), key.transport, key.placement)
}

fn params(params: &Params) -> String {
    let value = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    params.values().map(value).collect::<Vec<_>>().join(" ")
}
