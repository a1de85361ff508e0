//! Results as comma-separated values (RFC 4180), a row for each cell, for spreadsheets and data frames.

use std::io::Write;

use serde_json::Value;

use crate::cell::{Cell, Document};

/// The first row.
pub const HEADER: [&str; 28] = [
    "began",
    "machine",
    "method",
    "transport",
    "placement",
    "params",
    "unit",
    "median",
    "ci95_low",
    "ci95_high",
    "n",
    "launches",
    "outliers",
    "hump_low",
    "hump_high",
    "converged",
    "valid",
    "why_invalid",
    "baseline",
    "ratio",
    "ratio_ci95_low",
    "ratio_ci95_high",
    "noise_ci95_low",
    "noise_ci95_high",
    "verdict",
    "steal_ticks",
    "migrations",
    "involuntary_switches",
];

/// Writes all cells. What a cell does not have is empty; parameters are a JSON object; a row says when and on which
/// machine (its fingerprint), so that files can be put together.
///
/// # Errors
/// Those of `file`.
pub fn write(document: &Document, file: impl Write) -> std::io::Result<()> {
    let mut writer = csv::Writer::from_writer(file);
    writer.write_record(HEADER)?;
    for cell in &document.cells {
        writer.write_record(row(document, cell))?;
    }
    writer.flush()
}

fn row(document: &Document, cell: &Cell) -> [String; HEADER.len()] {
    let number = |figure: Option<f64>| figure.map_or(String::new(), |figure| figure.to_string());
    let bounds = |interval: Option<[f64; 2]>| [0, 1].map(|end| number(interval.map(|bounds| bounds[end])));
    let [ci_low, ci_high] = bounds(cell.ci95);
    let [hump_low, hump_high] = bounds(cell.humps);
    let [ratio_low, ratio_high] = bounds(cell.ratio_ci95);
    let [noise_low, noise_high] = bounds(cell.noise_ci95);
    let sum = |count: fn(&crate::engine::Telemetry) -> u64| {
        cell.launches.iter().map(|launch| count(&launch.telemetry)).sum::<u64>().to_string()
    };
    [
        document.began.to_string(),
        document.machine.fingerprint(),
        cell.method.to_string(),
        cell.transport.to_string(),
        cell.placement.to_string(),
        Value::from_iter(cell.params.iter().map(|(name, value)| (name.to_string(), value.clone()))).to_string(),
        cell.unit.to_string(),
        number(cell.median),
        ci_low,
        ci_high,
        cell.n.to_string(),
        cell.launches.len().to_string(),
        cell.outliers.len().to_string(),
        hump_low,
        hump_high,
        cell.converged.to_string(),
        cell.valid.to_string(),
        cell.why_invalid.clone().unwrap_or_default(),
        cell.baseline.as_deref().unwrap_or_default().to_owned(),
        number(cell.ratio),
        ratio_low,
        ratio_high,
        noise_low,
        noise_high,
        cell.verdict.map_or(String::new(), |verdict| verdict.to_string()),
        sum(|seen| seen.steal_ticks),
        sum(|seen| seen.migrations),
        sum(|seen| seen.involuntary_switches),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::engine::Launch;

    #[test]
    fn a_cell_is_a_row_and_what_it_does_not_have_is_empty() {
        let params = BTreeMap::from([("workload", "a \"b\", c".into()), ("size", 5.into())]);
        let mut valid = Cell::new("grep", "pipe", "1cpu", params, "ms");
        (0..5).for_each(|_| valid.add(Launch::of(1.5)));
        valid.conclude();
        let mut failed = Cell::new("grep", "millstream", "1cpu", BTreeMap::new(), "ms");
        failed.why_invalid = Some("two lines,\nand a comma".into());
        failed.conclude();
        let mut bytes = Vec::new();
        write(&Document::for_tests(vec![valid, failed]), &mut bytes).unwrap();
        let mut reader = csv::Reader::from_reader(bytes.as_slice());
        assert_eq!(reader.headers().unwrap(), &HEADER[..]);
        let rows: Vec<BTreeMap<String, String>> = reader.deserialize().collect::<Result<_, _>>().unwrap();
        let has = |row: usize, name: &str| rows[row][name].clone();
        assert_eq!((has(0, "median"), has(0, "n"), has(0, "valid")), ("1.5".into(), "5".into(), "true".into()));
        assert_eq!(has(0, "params"), r#"{"size":5,"workload":"a \"b\", c"}"#);
        assert_eq!((has(1, "median"), has(1, "why_invalid")), ("".into(), "two lines,\nand a comma".into()));
        assert_eq!(rows.len(), 2);
    }
}
