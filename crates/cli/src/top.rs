//! `millstream top`: pipelines that run already, however they were started, and which of their programs is the bound.

mod live;
mod look;
mod page;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use millstream_sys::open_files;

use crate::terminal::has_styles;
use crate::watch::pipelines::Pipeline;
use crate::watch::verdict;
use millstream_command::failure::{self, Failure};

pub(crate) use look::Look;
pub(crate) use page::wrapped;

/// Shown below the options.
pub(crate) const EXAMPLES: &str = "\
Examples:
  millstream top                        all pipelines of this user, again every second
  millstream top $(pgrep -n zstd)       the one that this process takes part in
  millstream top --once --interval 5    one look, of five seconds
  millstream top --once --json | jq -r '.pipelines[].bound'

At a terminal it has all of the screen until q is pressed; space pauses, + and - change the time of a look, j and k (or
  the arrows) show the next pipeline and the one before. The last look stays behind.

Looking takes no part in a pipe: no end is opened, and no program is stopped or loads anything. Processes of
other users are left out; root sees all.
Exit status: 0; 1 a PID is of no process; 2 for wrong use; 125 if /proc cannot be read.";

/// Options of `millstream top`.
#[derive(Args)]
pub(crate) struct Options {
    /// Only pipelines that these processes, or processes below them, take part in
    #[arg(value_name = "PID")]
    processes: Vec<u32>,

    /// Look once, and not until it is interrupted
    #[arg(long)]
    once: bool,

    /// Stop after N looks
    #[arg(long, value_name = "N", conflicts_with = "once")]
    count: Option<u64>,

    /// Seconds that a look lasts, 0.1 to 3600
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval, default_value = "1")]
    interval: Duration,

    /// As JSON, one object on a line for each look
    #[arg(long)]
    json: bool,
}

/// The time of a look.
pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "an interval is 0.1 to 3600 seconds".into())
}

/// Looks and shows.
pub(crate) fn top(options: &Options) -> Result<ExitCode, Failure> {
    must_be_there(&options.processes)?;
    let looks = if options.once { 1 } else { options.count.unwrap_or(u64::MAX) };
    if looks > 1 && !options.json && has_screen() {
        return live::run(&options.processes, options.interval, looks);
    }
    for number in 0..looks {
        let look = Look::take_all(&options.processes, options.interval)?;
        let text = match () {
            () if options.json => json(&look),
            () if number > 0 => format!("\n{}", page::text(&look, None, has_styles())),
            () => page::text(&look, None, has_styles()),
        };
        if !failure::print_or_stop(&text)? {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the standard output is a terminal that can be drawn on.
fn has_screen() -> bool {
    let kind = std::env::var_os("TERM").unwrap_or_default();
    !kind.is_empty() && kind != "dumb" && std::io::stdout().is_terminal()
}

/// Whether each of these processes exists.
pub(crate) fn must_be_there(processes: &[u32]) -> Result<(), Failure> {
    match processes.iter().find(|pid| !open_files::is_process(**pid)) {
        Some(pid) => Err(Failure::data(format!("there is no process {pid}: 'pgrep -a NAME' lists those of a program"))),
        None => Ok(()),
    }
}

fn json(look: &Look) -> String {
    let seen = &look.sample.seen;
    let of = |pipeline: &Pipeline| {
        let evidence = look.evidence(pipeline);
        let program_of = |place: usize| &seen.programs[pipeline.programs[place]];
        let pids = |places: &[usize]| places.iter().map(|&place| program_of(place).pid).collect::<Vec<u32>>();
        let programs = evidence.stages.iter().enumerate().map(|(place, stage)| {
            let program = program_of(place);
            serde_json::json!({ "name": program.name, "pid": program.pid, "looks": stage.looks, "computed": stage.computed,
                "queued": stage.queued, "reading": stage.did.read, "writing": stage.did.write })
        });
        let pipes = evidence.pipes.iter().zip(&pipeline.pipes).map(|(pipe, &inode)| {
            let (waiting, capacity) = look.waiting(inode).unzip();
            serde_json::json!({ "inode": inode, "writers": pids(&pipe.writers), "readers": pids(&pipe.readers),
                "bytes_per_second": look.sample.rate(inode), "looks": pipe.looks, "full": pipe.full, "empty": pipe.empty,
                "waiting": waiting, "capacity": capacity })
        });
        serde_json::json!({ "programs": programs.collect::<Vec<_>>(), "pipes": pipes.collect::<Vec<_>>(),
            "bound": verdict::of(&evidence) })
    };
    let pipelines: Vec<serde_json::Value> = look.sample.pipelines().iter().map(of).collect();
    let value = serde_json::json!({ "looks": seen.looks, "pipelines": pipelines });
    format!("{value}\n")
}
