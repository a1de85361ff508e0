//! `millstream run`: the command with our library in its environment.
//!
//! Without `--stats`, `--progress` and `--explain` the process becomes the command (`exec`): same process number, same
//! parent, nothing of ours left. With them it stays as the command's parent and hands everything on ([`supervise`]).

mod command;
mod elastic;
mod environment;
mod explain;
mod library;
mod lines;
mod meter;
mod options;
mod report;
mod supervise;

use std::process::ExitCode;

use millstream_command::failure::Failure;
use millstream_run::{Obstacle, Plan, ring};

use command::{Command, outer};

pub(crate) use options::{EXAMPLES, Options};

/// The run as the options describe it.
pub(crate) fn run(options: Options) -> Result<ExitCode, Failure> {
    let ring = match options.joins_after() {
        // Memory of a pipe holds less, and keeps it.
        _ if options.buffer.is_some() => Err("buffer"),
        None => Err("asked"),
        Some(after) => ring::of_this_run(after).map_err(why_not),
    };
    let plan = match (options.pipe_size, options.buffer) {
        (_, Some(bytes)) => elastic::plan(bytes)?,
        (Some(bytes), None) => Plan::fixed(bytes),
        (None, None) => Plan::for_this_machine(),
    };
    let wants_stats = options.stats.is_some() || options.stats_file.is_some();
    let output = wants_stats.then(|| report::Output::open(options.stats, options.stats_file.as_deref())).transpose()?;
    let wanted = supervise::Wanted { output, progress: options.progress, explain: options.explain };
    // A run inside one that flushes lines does so too.
    let flushes_lines = options.unbuffered || outer(|outer| outer.flushes_lines).unwrap_or(false);
    let command = Command { words: command::words(options)?, plan, flushes_lines, ring };
    plan.enlarge_standing_pipes();
    match wanted.needs_supervisor() {
        false => Err(command.exec()),
        true => supervise::run(&command, wanted),
    }
}

fn why_not(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Processor => "processor",
        Obstacle::Seccomp => "seccomp",
        Obstacle::Kernel => "kernel",
    }
}
