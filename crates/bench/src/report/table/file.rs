//! The table of files through a mount: verdicts, what else was measured beside them, and what each row was to reach.

use std::fmt::Write;

use super::rows::new_table;
use super::verdicts;
use crate::cell::{Cell, Document};
use crate::method::file::{Target, target};

/// Verdicts against the baselines, then all others, then targets.
pub fn render(document: &Document) -> String {
    let mut text = verdicts::render(document);
    for part in [others(document), targets(document)].into_iter().flatten() {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{part}");
    }
    text
}

fn is_ours(cell: &&Cell) -> bool {
    cell.transport == "millstream"
}

fn beside<'a>(document: &'a Document, cell: &'a Cell) -> impl Iterator<Item = &'a Cell> {
    document.cells.iter().filter(move |other| other.params == cell.params && other.transport != cell.transport)
}

/// What is no baseline, beside ours. `None` if there is nothing.
fn others(document: &Document) -> Option<String> {
    let mut table = new_table(["cell", "beside", "its", "millstream", "x"].map(str::to_owned).into());
    for cell in document.cells.iter().filter(is_ours) {
        for other in beside(document, cell).filter(|other| Some(&other.transport) != cell.baseline.as_ref()) {
            table.add_row([
                verdicts::params(cell),
                other.transport.to_string(),
                verdicts::figure(Some(other)),
                verdicts::figure(Some(cell)),
                times(cell, other).map_or("-".into(), |times| format!("{times:.2}")),
            ]);
        }
    }
    (table.row_count() > 0).then(|| format!("{table}\n\nx: how many times as fast millstream is, or as small.\n"))
}

/// A line for each cell that is to reach something.
fn targets(document: &Document) -> Option<String> {
    let mut table = new_table(["cell", "target", "measured", ""].map(str::to_owned).into());
    for cell in document.cells.iter().filter(is_ours) {
        if let Some(target) = target(cell) {
            let [wanted, measured, outcome] = held_against(document, cell, target);
            table.add_row([verdicts::params(cell), wanted, measured, outcome]);
        }
    }
    (table.row_count() > 0).then(|| format!("{table}\n"))
}

/// What is wanted, what was measured, and whether that is enough.
fn held_against(document: &Document, cell: &Cell, target: Target) -> [String; 3] {
    let outcome = |is_met: Option<bool>| match is_met {
        Some(true) => "met".to_owned(),
        Some(false) => "MISSED".to_owned(),
        None => "not measured".to_owned(),
    };
    match target {
        Target::AtMost(most) => [
            format!("at most {most} {}", cell.unit),
            verdicts::figure(Some(cell)),
            outcome(cell.median.map(|median| median <= most)),
        ],
        Target::AtLeast(least, transport) => {
            let other = beside(document, cell).find(|other| other.transport == transport);
            let times = other.and_then(|other| times(cell, other));
            [
                format!("{least:.2}x {transport}"),
                times.map_or("-".into(), |times| format!("{times:.2}x")),
                outcome(times.map(|times| times >= least)),
            ]
        }
    }
}

/// How many times as fast the one is as the other: less is better of all that this method measures.
fn times(cell: &Cell, other: &Cell) -> Option<f64> {
    Some(other.median? / cell.median?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::table::made::{of_samples, rows};

    fn cell(workload: &'static str, transport: &'static str, sample: f64) -> Cell {
        let cell = Cell::new("file", transport, "free", BTreeMap::from([("workload", workload.into())]), "ms");
        of_samples(cell, &[sample; 5], None)
    }

    #[test]
    fn target_is_met_missed_or_not_measured() {
        let cells = vec![
            cell("unbound", "bare", 10.0),
            cell("unbound", "millstream", 20.0),
            cell("gunzip", "pipe", 10.0),
            cell("gunzip", "millstream", 5.0),
            cell("identity", "millstream", 5.0),
            cell("random-gzip", "millstream", 19.0),
            cell("random-zstd", "millstream", 21.0),
        ];
        let text = targets(&Document::for_tests(cells)).unwrap();
        assert_eq!(rows(&text, "unbound"), [["unbound", "0.95x", "bare", "0.50x", "MISSED"]]);
        assert_eq!(rows(&text, "gunzip"), [["gunzip", "0.90x", "pipe", "2.00x", "met"]]);
        assert_eq!(rows(&text, "identity"), [["identity", "0.90x", "passthrough_ll", "-", "not", "measured"]]);
        assert_eq!(rows(&text, "random-gzip")[0].last(), Some(&"met"));
        assert_eq!(rows(&text, "random-zstd"), [["random-zstd", "at", "most", "20", "ms", "21.0", "ms", "MISSED"]]);
    }

    #[test]
    fn each_rival_is_shown_beside_ours_but_for_the_baseline() {
        let mut cells = vec![
            cell("archive", "pipe", 10.0),
            cell("archive", "millstream", 5.0),
            cell("archive", "ratarmount", 20.0),
        ];
        let baseline = cells[0].clone();
        cells[1].compare_with(&baseline);
        let text = others(&Document::for_tests(cells)).unwrap();
        assert_eq!(rows(&text, "archive"), [["archive", "ratarmount", "20.0", "ms", "5.00", "ms", "4.00"]]);
        assert!(others(&Document::for_tests(vec![cell("archive", "millstream", 5.0)])).is_none());
    }
}
