//! The order in which cells are measured: what is compared runs one after the other, in an order shuffled anew each
//! time, so whatever the machine is doing meets all of them alike.

use millstream_sys::clock;

use crate::cell::Cell;
use crate::statistics::Random;

/// Takes `rounds` samples for each cell after `rehearsals` that are thrown away, unless they fail: those warm caches.
///
/// Each of `groups` holds the indices of cells that are compared with each other. `run` takes a sample of the cell with
/// that index, or says which check failed; then the cell is not run again. `progress` is told how many runs of how many
/// are done, between runs, never during one.
pub fn measure(
    cells: &mut [Cell],
    mut groups: Vec<Vec<usize>>,
    rehearsals: usize,
    rounds: usize,
    mut run: impl FnMut(usize) -> Result<f64, String>,
    mut progress: impl FnMut(usize, usize),
) {
    let mut random = Random(clock::raw_nanoseconds());
    let total = cells.len() * (rehearsals + rounds);
    let mut done = 0;
    for round in 0..rehearsals + rounds {
        random.shuffle(&mut groups);
        groups.iter_mut().for_each(|group| random.shuffle(group));
        for &index in groups.iter().flatten() {
            let cell = &mut cells[index];
            if cell.why_invalid.is_none() {
                match run(index) {
                    Ok(sample) if round >= rehearsals => cell.samples.push(sample),
                    Ok(_) => {}
                    Err(why) => cell.why_invalid = Some(why),
                }
            }
            done += 1;
            progress(done, total);
        }
    }
    conclude(cells, &groups);
}

/// Gives each cell its figures, against the kernel pipe of its group.
fn conclude(cells: &mut [Cell], groups: &[Vec<usize>]) {
    for group in groups {
        let baseline = group.iter().find(|&&index| cells[index].transport == "pipe");
        let baseline = baseline.map(|&index| cells[index].samples.clone());
        for &index in group {
            let cell = &mut cells[index];
            cell.conclude(baseline.as_deref().filter(|_| cell.transport != "pipe"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn cells(transports: &[&'static str]) -> Vec<Cell> {
        let cell = |&transport| Cell::new("test", transport, "1cpu", BTreeMap::new(), "ms");
        transports.iter().map(cell).collect()
    }

    #[test]
    fn rehearsals_are_not_counted_and_a_group_stays_together() {
        let mut cells = cells(&["pipe", "millstream", "pipe", "millstream"]);
        let mut order = Vec::new();
        let run = |index| {
            order.push(index);
            Ok(if index % 2 == 0 { 10.0 } else { 5.0 })
        };
        let mut last = (0, 0);
        measure(&mut cells, vec![vec![0, 1], vec![2, 3]], 1, 5, run, |done, total| last = (done, total));
        assert_eq!(last, (24, 24));
        assert!(cells.iter().all(|cell| cell.n == 5 && cell.valid));
        assert_eq!(cells.iter().map(|cell| cell.ratio).collect::<Vec<_>>(), [None, Some(2.0), None, Some(2.0)]);
        assert!(order.chunks(2).all(|pair| pair[0] / 2 == pair[1] / 2), "{order:?}");
    }

    #[test]
    fn a_cell_that_failed_a_check_is_not_run_again() {
        let mut cells = cells(&["pipe", "millstream"]);
        let mut runs = 0;
        let run = |index| {
            runs += usize::from(index == 1);
            if index == 1 { Err("lost a byte".into()) } else { Ok(1.0) }
        };
        measure(&mut cells, vec![vec![0, 1]], 0, 5, run, |_, _| ());
        assert_eq!((runs, cells[0].valid, cells[1].valid), (1, true, false));
        assert_eq!(cells[1].why_invalid.as_deref(), Some("lost a byte"));
    }
}
