//! `millstream explain`: a paragraph about a pipeline that runs: its programs and pipes, what they wait for, which of them is the
//! bound, and what would help.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::bytes;
use crate::top::{self, Look};
use crate::watch::pipelines::Pipeline;
use crate::watch::verdict::{self, Bound, Evidence, Pipe, Stage};
use millstream_command::failure::{self, Failure};

/// Shown below the options.
pub(crate) const EXAMPLES: &str = "\
Examples:
  millstream explain $(pgrep -n zstd)
  millstream explain --interval 10 4711 | fold -s

It looks as 'millstream top' does, and says in words what that shows, and what would help.
Exit status: 0; 1 a PID is of no process, or no pipe of it goes from one program to another; 2 for wrong use;
  125 if /proc cannot be read.";

/// Parts of the time above which a program, or a pipe, is said to have been so.
const WORTH_SAYING: f64 = 0.05;
const ALL_THE_TIME: f64 = 0.95;
/// A pipe that is both full and empty for so much of the time makes both sides wait in turn.
const IN_TURN: f64 = 0.15;

/// Options of `millstream explain`.
#[derive(Args)]
pub(crate) struct Options {
    /// Processes of the pipelines, or processes above them
    #[arg(value_name = "PID", required = true)]
    processes: Vec<u32>,

    /// Seconds to look for, 0.1 to 3600
    #[arg(long, value_name = "SECONDS", value_parser = top::parse_interval, default_value = "2")]
    interval: Duration,
}

/// Looks and tells.
pub(crate) fn explain(options: &Options) -> Result<ExitCode, Failure> {
    top::must_be_there(&options.processes)?;
    let look = Look::take_all(&options.processes, options.interval)?;
    let pipelines = look.sample.pipelines();
    if pipelines.is_empty() {
        let pids: Vec<String> = options.processes.iter().map(u32::to_string).collect();
        return Err(Failure::data(format!(
            "no pipe goes from one program to another at process {}: name one of a pipeline, or the shell above it",
            pids.join(", ")
        )));
    }
    let paragraphs: Vec<String> = pipelines.iter().map(|pipeline| paragraph(&look, pipeline)).collect();
    failure::print(&paragraphs.join("\n"))
}

/// Lines of a readable width.
fn paragraph(look: &Look, pipeline: &Pipeline) -> String {
    const COLUMNS: usize = 80;
    let evidence = look.evidence(pipeline);
    let rates: Vec<Option<f64>> = pipeline.pipes.iter().map(|&inode| look.sample.rate(inode)).collect();
    let mut sentences = vec![connections(&evidence)];
    sentences.extend(evidence.pipes.iter().zip(rates).filter_map(|(pipe, rate)| traffic(pipe, rate)));
    sentences.push(activities(&evidence));
    let verdict = verdict::judge(&evidence);
    sentences.push(format!("{}.", capitalised(&verdict.sentence)));
    sentences.push(advice(&verdict.bound, &evidence));
    let lines = top::wrapped(&sentences.join(" "), COLUMNS);
    lines.iter().map(|line| line.trim_start().to_owned() + "\n").collect()
}

/// `yes 8035 writes to gzip 8036 (pipe 1), gzip 8036 writes to cat 8037 (pipe 2).`
fn connections(evidence: &Evidence) -> String {
    let names = |places: &[usize]| {
        let names: Vec<&str> = places.iter().map(|&place| evidence.stages[place].name.as_str()).collect();
        if names.is_empty() { "a program that is not seen".to_owned() } else { names.join(" and ") }
    };
    let of = |pipe: &Pipe| {
        let verb = if pipe.writers.len() > 1 { "write" } else { "writes" };
        format!("{} {verb} to {} (pipe {})", names(&pipe.writers), names(&pipe.readers), pipe.id)
    };
    format!("{}.", evidence.pipes.iter().map(of).collect::<Vec<String>>().join(", "))
}

/// What went through a pipe, and whether it was full or empty.
fn traffic(pipe: &Pipe, rate: Option<f64>) -> Option<String> {
    let part = |looks: u32| f64::from(looks) / f64::from(pipe.looks.max(1));
    let mut said = Vec::new();
    said.extend(rate.map(|rate| format!("carried {} a second", bytes::show(rate as u64))));
    for (share, state) in [(part(pipe.full), "was full"), (part(pipe.empty), "was empty")] {
        said.extend(for_how_long(share).map(|time| format!("{state} {time}")));
    }
    (!said.is_empty()).then(|| format!("Pipe {} {}.", pipe.id, listed(&said)))
}

/// What each program did most.
fn activities(evidence: &Evidence) -> String {
    let of = |stage: &Stage| {
        let part = |looks: u32| f64::from(looks) / f64::from(stage.looks.max(1));
        let did = stage.did;
        let shares = [
            (stage.computed.unwrap_or_else(|| part(did.want)), "had a CPU"),
            (stage.queued.unwrap_or(0.0), "queued for a CPU"),
            (part(did.read), "slept in a read of a pipe"),
            (part(did.write), "slept in a write to a pipe"),
            (part(did.several), "slept in poll or its like"),
            (part(did.child), "waited for a child"),
            (part(did.other), "waited for a time, a disk, a network or a lock"),
        ];
        let said: Vec<String> =
            shares.into_iter().filter_map(|(share, what)| Some(format!("{what} {}", for_how_long(share)?))).collect();
        let said = if said.is_empty() { "did hardly anything".to_owned() } else { listed(&said) };
        format!("{} {said}", stage.name)
    };
    format!("{}.", capitalised(&evidence.stages.iter().map(of).collect::<Vec<String>>().join("; ")))
}

/// Several threads may have more than one CPU.
fn for_how_long(share: f64) -> Option<String> {
    match share {
        share if share < WORTH_SAYING => None,
        share if share > ALL_THE_TIME && share < 1.5 => Some("all the time".into()),
        share => Some(format!("for {:.0} % of the time", share * 100.0)),
    }
}

/// What would help against it.
fn advice(bound: &Bound, evidence: &Evidence) -> String {
    let name = |place: &usize| evidence.stages[*place].name.as_str();
    match bound {
        Bound::Computing(places) => {
            let known = places.iter().find_map(|place| faster(name(place).split(' ').next()?));
            let known = known.map(|instead| format!(", here {instead}")).unwrap_or_default();
            format!("What would help: less work for it, or a program that uses several CPUs{known}.")
        }
        Bound::Cpus => "What would help: more CPUs, fewer programs at a time, or several steps in one process \
                        ('millstream net')."
            .into(),
        Bound::Waiting(place) => format!(
            "What would help: whatever {0} waits for, sooner. If that comes in bursts: 'millstream buffer' between {0} \
             and its neighbours.",
            name(place)
        ),
        Bound::Polling(place) => {
            let pid = name(place).rsplit(' ').next().unwrap_or_default();
            format!("'strace -p {pid}' shows for which descriptors it polls.")
        }
        Bound::Outside => "What is at the other end of that pipe decides; root sees processes of other users too.".into(),
        Bound::Unclear if evidence.pipes.iter().any(makes_both_wait) => {
            "What would help: larger pipes, because both sides of a pipe wait in turn: start it with 'millstream run', or \
             put 'millstream buffer' between them."
                .into()
        }
        Bound::Unclear => "A longer look may tell more: '--interval 10'.".into(),
    }
}

fn makes_both_wait(pipe: &Pipe) -> bool {
    let part = |looks: u32| f64::from(looks) / f64::from(pipe.looks.max(1));
    part(pipe.full) >= IN_TURN && part(pipe.empty) >= IN_TURN
}

/// What does the same with more than one CPU.
fn faster(program: &str) -> Option<&'static str> {
    Some(match program {
        "gzip" => "pigz",
        "bzip2" => "lbzip2",
        "xz" => "xz -T0",
        "zstd" => "zstd -T0",
        "sort" => "sort --parallel=N with a larger -S",
        "gpg" | "openssl" | "ssh" => "a cipher that the CPU has instructions for, such as AES",
        _ => return None,
    })
}

fn listed(parts: &[String]) -> String {
    match parts {
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
        [] => String::new(),
    }
}

/// A program's name keeps its letters.
fn capitalised(sentence: &str) -> String {
    ["the CPUs", "something", "unclear", "looked"]
        .into_iter()
        .find(|beginning| sentence.starts_with(beginning))
        .map_or_else(|| sentence.to_owned(), |_| sentence[..1].to_uppercase() + &sentence[1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::doing::Did;

    fn stage(name: &str, did: Did, computed: f64) -> Stage {
        Stage { name: name.into(), looks: 100, did, computed: Some(computed), queued: Some(0.0) }
    }

    fn pipe(id: u32, [full, empty]: [u32; 2], writer: usize, reader: usize) -> Pipe {
        Pipe { id, looks: 100, full, empty, writers: vec![writer], readers: vec![reader] }
    }

    fn evidence() -> Evidence {
        let stages = vec![
            stage("yes 1", Did { write: 90, want: 10, ..Did::default() }, 0.1),
            stage("gzip 2", Did { want: 100, ..Did::default() }, 1.0),
            stage("cat 3", Did { read: 100, ..Did::default() }, 0.0),
        ];
        Evidence { looks: 100, cpus: 2, stages, pipes: vec![pipe(1, [90, 0], 0, 1), pipe(2, [0, 100], 1, 2)] }
    }

    #[test]
    fn paragraph_names_programs_pipes_and_what_they_did() {
        let evidence = evidence();
        assert_eq!(connections(&evidence), "yes 1 writes to gzip 2 (pipe 1), gzip 2 writes to cat 3 (pipe 2).");
        let said = traffic(&evidence.pipes[0], Some(1048576.0));
        assert_eq!(said.as_deref(), Some("Pipe 1 carried 1 MiB a second and was full for 90 % of the time."));
        assert_eq!(traffic(&pipe(3, [0, 0], 0, 1), None), None);
        assert_eq!(
            activities(&evidence),
            "yes 1 had a CPU for 10 % of the time and slept in a write to a pipe for 90 % of the time; \
             gzip 2 had a CPU all the time; cat 3 slept in a read of a pipe all the time."
        );
    }

    #[test]
    fn advice_follows_the_bound() {
        let evidence = evidence();
        let verdict = verdict::judge(&evidence);
        assert_eq!(verdict.bound, Bound::Computing(vec![1]), "{}", verdict.sentence);
        assert!(advice(&verdict.bound, &evidence).ends_with("here pigz."));
        assert!(advice(&Bound::Waiting(0), &evidence).contains("between yes 1 and its neighbours"));
        assert!(advice(&Bound::Polling(2), &evidence).contains("strace -p 3"));
        assert!(advice(&Bound::Unclear, &evidence).contains("longer look"));
        let in_turn = Evidence { pipes: vec![pipe(1, [30, 30], 0, 1)], ..evidence };
        assert!(advice(&Bound::Unclear, &in_turn).contains("larger pipes"));
    }
}
