//! `--explain`: what was seen of the run, and what bounded it.

use std::fmt::Write;

use millstream_sys::ledger::Ledger;

use crate::watch::verdict::{self, Evidence, Pipe};
use crate::watch::{ProgramSeen, Seen};

/// Programs that are listed, those that computed most.
const PROGRAMS: usize = 12;
/// Pipes that are listed, those that were there longest.
const PIPES: usize = 12;

/// The text, which ends with a verdict.
pub(super) fn text(seen: &Seen, ledger: &Ledger) -> String {
    let evidence = evidence(seen, ledger);
    let mut text = format!("millstream: looked at {} times, CPUs: {}\n", seen.looks, evidence.cpus);
    let mut programs: Vec<&ProgramSeen> = seen.programs.iter().filter(|program| program.computed().is_some()).collect();
    programs.sort_by(|a, b| b.computed().unwrap_or(0.0).total_cmp(&a.computed().unwrap_or(0.0)));
    for program in programs.iter().take(PROGRAMS) {
        let _ = writeln!(text, "  {}", line(program));
    }
    let mut pipes: Vec<&Pipe> = evidence.pipes.iter().collect();
    pipes.sort_by_key(|pipe| std::cmp::Reverse(pipe.looks));
    pipes.truncate(PIPES);
    pipes.sort_by_key(|pipe| pipe.id);
    for pipe in &pipes {
        let (full, empty) = (percent(pipe.full, pipe.looks), percent(pipe.empty, pipe.looks));
        let between = between(seen, &pipe.writers, &pipe.readers);
        let _ = writeln!(text, "  pipe {} ({between}): full {full} %, empty {empty} % of the time", pipe.id);
    }
    if evidence.pipes.len() > pipes.len() {
        let _ = writeln!(text, "  and {} pipes that were there for a shorter time", evidence.pipes.len() - pipes.len());
    }
    let _ = writeln!(text, "  {}", verdict::of(&evidence));
    text
}

fn line(program: &ProgramSeen) -> String {
    let share = |share: Option<f64>| share.map_or("?".into(), |share| format!("{:.0}", share * 100.0));
    let [reading, writing] = [program.did.read, program.did.write].map(|looks| percent(looks, program.looks));
    format!(
        "{} {}: computed {} %, waited for a CPU {} %, for input {reading} %, for room {writing} % of its time",
        program.name,
        program.pid,
        share(program.computed()),
        share(program.queued())
    )
}

fn evidence(seen: &Seen, ledger: &Ledger) -> Evidence {
    Evidence {
        looks: seen.looks,
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        stages: seen.programs.iter().map(ProgramSeen::stage).collect(),
        pipes: ledger
            .records()
            .filter_map(|record| Some(seen.pipes.get(&record.inode)?.pipe(record.ordinal)))
            .filter(|pipe| pipe.looks > 0)
            .collect(),
    }
}

/// The programs that write and read, as far as they were seen.
pub(super) fn between<'a>(
    seen: &Seen,
    writers: impl IntoIterator<Item = &'a usize>,
    readers: impl IntoIterator<Item = &'a usize>,
) -> String {
    format!("{} > {}", names(seen, writers), names(seen, readers))
}

fn names<'a>(seen: &Seen, places: impl IntoIterator<Item = &'a usize>) -> String {
    let mut names: Vec<&str> = places.into_iter().map(|&place| seen.programs[place].name.as_str()).collect();
    names.dedup();
    if names.is_empty() { "?".to_owned() } else { names.join(", ") }
}

fn percent(part: u32, whole: u32) -> u32 {
    100 * part / whole.max(1)
}
