//! Pipelines of small C programs under `millstream run`, what is seen of them and what their statistics say.
//! A suite that uses this has its `PROGRAMS`.
#![allow(dead_code)]

use std::process::{Command, Stdio};

use crate::PROGRAMS;
use crate::common::{Scratch, Seen, millstream, output, statistics};

/// Much more than it takes until a pipe is attached.
pub(crate) const MANY: u64 = 24 << 20;

/// What all programs here check bytes with.
pub(crate) const ENDS: &str = include_str!("../ring/ends.c");

/// C programs, each by the variable that has its path in the scripts.
pub(crate) struct Programs {
    _scratch: Scratch,
    paths: Vec<(&'static str, String)>,
}

impl Programs {
    /// From variables, sources and options for the compiler.
    pub(crate) fn built(programs: &[(&'static str, &str, &[&str])]) -> Self {
        let scratch = Scratch::new();
        let built = |&(variable, source, options): &(&'static str, &str, &[&str])| {
            (variable, scratch.c_program(variable, source, options))
        };
        Programs { paths: programs.iter().map(built).collect(), _scratch: scratch }
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.paths.iter().map(|(variable, path)| (*variable, path.as_str()))
    }

    pub(crate) fn path(&self, wanted: &str) -> &str {
        self.paths().find_map(|(variable, path)| (variable == wanted).then_some(path)).unwrap()
    }
}

pub(crate) fn over_ring(script: &str) -> Command {
    over_ring_with(&[], script)
}

pub(crate) fn over_ring_with(options: &[&str], script: &str) -> Command {
    let mut command = millstream([&["run"], options, &["--shell", "/bin/bash", "-c", script]].concat());
    command.envs(PROGRAMS.paths()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn seen(script: &str) -> Seen {
    output(&mut over_ring(script))
}

/// What followed a word on stderr, as numbers.
pub(crate) fn said(seen: &Seen, word: &str) -> Vec<u64> {
    let line = seen.stderr.lines().find_map(|line| line.strip_prefix(word));
    let line = line.unwrap_or_else(|| panic!("no {word:?} in {seen:?}"));
    line.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Everything arrived, checked byte for byte by the reader. Returns how much the writer gave to the kernel.
pub(crate) fn assert_arrived(seen: &Seen, bytes: u64) -> u64 {
    assert_eq!((seen.code, said(seen, "read ")), (Some(0), vec![bytes]), "{seen:?}");
    let wrote = said(seen, "wrote ");
    assert_eq!(wrote[0], bytes, "{seen:?}");
    wrote[1]
}

/// What the statistics of such a run say of its first pipe.
pub(crate) fn told(script: &str) -> serde_json::Value {
    told_of_all(script).remove(0)
}

/// The same of each pipe that was made in it.
pub(crate) fn told_of_all(script: &str) -> Vec<serde_json::Value> {
    told_with(&[], script)
}

pub(crate) fn told_with(options: &[&str], script: &str) -> Vec<serde_json::Value> {
    let scratch = Scratch::new();
    let file = scratch.path("stats.json");
    let options = [&["--stats=json", "--stats-file", file.to_str().unwrap()], options].concat();
    assert_eq!(output(&mut over_ring_with(&options, script)).code, Some(0), "{script}");
    let stats = statistics(&file);
    assert_eq!(stats["ring"], true);
    stats["pipes"].as_array().unwrap().iter().filter(|pipe| pipe["origin"] == "pipe").cloned().collect()
}
