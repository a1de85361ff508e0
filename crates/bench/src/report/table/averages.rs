//! What the studies printed, beside what we print: plain averages, and improvements over the baseline in percent. Shown
//! for cells that were measured with their exact parameters.

use super::rows::{Shape, axes, label, new_table};
use crate::cell::Cell;

/// Improvement in percent over the pipe of its own kernel, by transfer in KiB, as a study of three Linux 2.5 pipe patches
/// reported it in 2002 for this measurement: larger pipe of 32 KiB, single copy, both; on two CPUs, then on one. Other
/// hardware; the shape is what compares.
const STUDY: [(u64, [[i32; 3]; 2]); 10] = [
    (2, [[4, 54, 102], [-18, 16, -10]]),
    (4, [[19, 21, 133], [-27, 21, -8]]),
    (6, [[50, 70, 89], [-23, 73, -42]]),
    (8, [[-1, 64, 55], [-31, 30, -62]]),
    (12, [[-13, 38, 8], [-36, 14, -23]]),
    (16, [[-16, 38, 6], [-34, 17, -24]]),
    (24, [[-24, 31, 6], [-35, 22, -14]]),
    (32, [[-26, 27, 1], [-33, 25, -13]]),
    (64, [[-24, 23, 23], [-35, 27, 26]]),
    (128, [[-23, 30, 27], [-36, 41, 28]]),
];

/// The table, or nothing for cells with other parameters.
pub(super) fn render(cells: &[&Cell], shape: &Shape, title: &str) -> String {
    let is_faithful = |cell: &&Cell| cell.params.contains_key("bytes");
    if !cells.iter().all(is_faithful) {
        return String::new();
    }
    let (transports, rows) = axes(cells, shape);
    let mut header = vec![shape.parameter.to_owned()];
    header.extend(transports.iter().map(ToString::to_string));
    header.push("improvement".into());
    let is_of_the_study = cells.iter().all(|cell| cell.method == "bw_pipe");
    if is_of_the_study {
        header.extend(["LP", "ZC", "LP+ZC"].map(str::to_owned));
    }
    let mut table = new_table(header);
    for value in rows {
        let mean = |transport: &str| {
            let is_it = |cell: &&&Cell| cell.transport == transport && cell.params.get(shape.parameter) == Some(value);
            cells.iter().find(is_it).filter(|cell| cell.valid).map(|cell| average(&cell.samples))
        };
        let mut row = vec![label(value)];
        row.extend(transports.iter().map(|transport| mean(transport).map_or("-".into(), |mean| format!("{mean:.0}"))));
        let gain = mean("millstream").zip(mean(shape.baseline)).map(|(ours, theirs)| (ours / theirs - 1.0) * 100.0);
        row.push(gain.map_or("-".into(), |gain| format!("{gain:+.0} %")));
        if is_of_the_study {
            let study = value.as_u64().and_then(|transfer| of_the_study(transfer, &cells[0].placement));
            row.extend(match study {
                Some(percent) => percent.map(|percent| format!("{percent:+}")),
                None => ["-"; 3].map(str::to_owned),
            });
        }
        table.add_row(row);
    }
    let note = if is_of_the_study {
        "LP, ZC, LP+ZC: what the larger-pipe, single-copy and combined kernel patches of 2002 gained here, each in %\n\
         over its own kernel, on other hardware.\n"
    } else {
        ""
    };
    format!("As the studies printed it: averages in MB/s, {title}\n{table}\n{note}\n")
}

fn average(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

fn of_the_study(transfer: u64, placement: &str) -> Option<[i32; 3]> {
    let (_, percents) = STUDY.iter().find(|(kibibytes, _)| kibibytes << 10 == transfer)?;
    Some(percents[usize::from(placement == "1cpu")])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::cell::Cell;
    use crate::report::table::made::{of_samples, rendered, rows};

    fn cell(transport: &'static str, samples: [f64; 3]) -> Cell {
        let params = BTreeMap::from([("transfer", 2048.into()), ("bytes", 50_000_000.into())]);
        of_samples(Cell::new("bw_pipe", transport, "1cpu", params, "MB/s"), &samples, None)
    }

    #[test]
    fn averages_stand_below_medians_with_what_the_study_found() {
        let cells = vec![cell("pipe", [100.0, 100.0, 400.0]), cell("millstream", [500.0, 500.0, 500.0])];
        let text = rendered(cells);
        let rows = rows(&text, "2k");
        assert_eq!(rows[0][..3], ["2k", "0.10", "0.50"], "{text}");
        assert_eq!(rows[1], ["2k", "200", "500", "+150", "%", "-18", "+16", "-10"], "{text}");
    }
}
