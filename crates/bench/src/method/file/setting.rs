//! What the rows of the table have in common: the place, the cells, and rivals that may not be installed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::place::Place;
use super::plan::{NAME, Plan, Row};
use super::side::Side;
use crate::cell::Cell;
use crate::engine::{Comparison, Job};
use crate::programs::installed;

/// The transport of all cells that are measured through a mount of ours.
pub(super) const OURS: &str = "millstream";

/// The kernel's own file system.
pub(super) const BARE: &str = "bare";

/// A pipeline of processes that does the same.
pub(super) const PIPE: &str = "pipe";

/// What to measure, where, and what cannot be.
pub(super) struct Setting<'a> {
    pub(super) plan: &'a Plan,
    pub(super) place: &'a Arc<Mutex<Place>>,
    /// A sentence for each.
    pub(super) left_out: RefCell<Vec<String>>,
}

pub(super) fn locked(place: &Mutex<Place>) -> MutexGuard<'_, Place> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Setting<'_> {
    pub(super) fn place(&self) -> MutexGuard<'_, Place> {
        locked(self.place)
    }

    /// Another file system, if its program is installed and does mount. Otherwise it is left out, which is told once.
    pub(super) fn rival<T>(&self, program: &str, mount: impl FnOnce(&Path) -> Result<T, String>) -> Option<T> {
        let path = installed(program).ok_or_else(|| "it is not installed".to_owned());
        match path.and_then(|path| mount(&path)) {
            Ok(mounted) => Some(mounted),
            Err(why) => {
                let sentence = format!("left out: {program}: {why}");
                let mut left_out = self.left_out.borrow_mut();
                if !left_out.contains(&sentence) {
                    left_out.push(sentence);
                }
                None
            }
        }
    }

    pub(super) fn cell(&self, row: Row, stages: Option<usize>, transport: &'static str, unit: &'static str) -> Cell {
        self.named_cell(row, row.name(), stages, transport, unit)
    }

    /// A cell of a row with several workloads.
    pub(super) fn named_cell(
        &self,
        row: Row,
        workload: &'static str,
        stages: Option<usize>,
        transport: &'static str,
        unit: &'static str,
    ) -> Cell {
        let mut params = BTreeMap::from([("workload", workload.into())]);
        match row {
            Row::Open => {}
            Row::Tar | Row::Archive => drop(params.insert("files", self.plan.files.into())),
            _ => drop(params.insert("size", self.plan.size.into())),
        }
        if let Some(stages) = stages {
            params.insert("stages", stages.into());
        }
        Cell::new(NAME, transport, "free", params, unit)
    }

    /// Commands that have to print the same.
    pub(super) fn comparison(
        &self,
        row: Row,
        stages: Option<usize>,
        baseline: &'static str,
        sides: Vec<Side>,
    ) -> Comparison {
        let expected = Rc::new(RefCell::new(None));
        let job = |side: Side| {
            let (place, commands) = (Arc::clone(self.place), self.place().commands());
            let expected = Rc::clone(&expected);
            let mut is_proven = false;
            Job::new(self.cell(row, stages, side.transport, "ms"), move || {
                let _until_measured = &place;
                if !is_proven {
                    let found = side.digest(&commands)?;
                    if *expected.borrow_mut().get_or_insert(found) != found {
                        return Err("other bytes came out than from those measured beside it".into());
                    }
                    is_proven = true;
                }
                side.launch(&commands)
            })
        };
        Comparison { baseline: Some(baseline), rehearsals: 1, jobs: sides.into_iter().map(job).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Launch;
    use crate::programs::Programs;

    fn sides(scripts: [&str; 2]) -> Vec<Side> {
        let [first, second] = scripts.map(str::to_owned);
        vec![Side::new(BARE, first, "/dev/null".into()), Side::new(OURS, second, "/dev/null".into())]
    }

    fn with_setting<T>(test: impl FnOnce(&Setting<'_>) -> T) -> T {
        let plan = Plan { programs: Programs::default(), rows: Vec::new(), size: 64, files: 1 };
        let place = Arc::new(Mutex::new(Place::for_tests()));
        test(&Setting { plan: &plan, place: &place, left_out: RefCell::default() })
    }

    fn outcomes(scripts: [&str; 2]) -> Vec<Result<Launch, String>> {
        with_setting(|setting| {
            let Comparison { jobs, .. } = setting.comparison(Row::Unbound, None, BARE, sides(scripts));
            jobs.into_iter().map(|mut job| (job.launch)()).collect()
        })
    }

    #[test]
    fn command_that_prints_something_else_is_not_valid() {
        assert!(outcomes(["echo a", "printf 'a\\n'"]).iter().all(Result::is_ok));
        let outcomes = outcomes(["echo a", "echo b"]);
        assert!(outcomes[0].is_ok() && outcomes[1].as_ref().unwrap_err().contains("other bytes"));
    }

    #[test]
    fn command_that_fails_or_complains_is_not_valid() {
        for script in ["false", "echo >&2 it hurts"] {
            assert!(outcomes([":", script])[1].is_err(), "{script}");
        }
    }

    #[test]
    fn rival_that_is_missing_or_does_not_mount_is_told_once() {
        with_setting(|setting| {
            for _ in 0..2 {
                assert!(setting.rival("pigeonfs", |_| Ok(())).is_none());
                assert!(setting.rival("sh", |_| Err::<(), _>("it broke".into())).is_none());
            }
            assert_eq!(setting.rival("sh", |path| Ok(path.ends_with("sh"))), Some(true));
            let left_out = setting.left_out.borrow();
            assert_eq!(left_out[..], ["left out: pigeonfs: it is not installed", "left out: sh: it broke"]);
        });
    }
}
