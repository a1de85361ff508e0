//! `millstream top`: pipelines that run already, however they were started, and which of their programs is the bound.

use std::fmt::Write;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use millstream_sys::open_files;

use crate::bytes;
use crate::failure::{self, Failure};
use crate::terminal;
use crate::watch::pipelines::{self, Pipeline, Sample};
use crate::watch::verdict::{self, Evidence};

/// Shown below the options.
pub(crate) const EXAMPLES: &str = "\
Examples:
  millstream top                        all pipelines of this user, again every second
  millstream top $(pgrep -n zstd)       the one that this process takes part in
  millstream top --once --interval 5    one look, of five seconds
  millstream top --once --json | jq -r '.pipelines[].bound'

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

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "an interval is 0.1 to 3600 seconds".into())
}

/// Looks and shows.
pub(crate) fn top(options: &Options) -> Result<ExitCode, Failure> {
    if let Some(pid) = options.processes.iter().find(|pid| !open_files::is_process(**pid)) {
        return Err(Failure::data(format!("there is no process {pid}")));
    }
    let looks = if options.once { 1 } else { options.count.unwrap_or(u64::MAX) };
    let is_redrawn = looks > 1 && !options.json && std::io::stdout().is_terminal();
    for look in 0..looks {
        let sample = pipelines::sample(&options.processes, options.interval)
            .map_err(|error| Failure::own(format!("cannot look at the processes of this machine: {error}")))?;
        let text = match () {
            () if options.json => json(&sample),
            // To the first place of an empty screen (ECMA-48).
            () if is_redrawn => format!("\x1b[H\x1b[2J{}", text(&sample)),
            () if look > 0 => format!("\n{}", text(&sample)),
            () => text(&sample),
        };
        if !failure::print_or_stop(&text)? {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Programs and pipes of one pipeline, and what bounds it.
fn evidence(sample: &Sample, pipeline: &Pipeline) -> Evidence {
    // The verdict knows programs by their place among these.
    let place = |place: &usize| pipeline.programs.iter().position(|program| program == place);
    let pipes = (1..).zip(&pipeline.pipes).map(|(id, inode)| {
        let mut pipe = sample.seen.pipes[inode].pipe(id);
        pipe.writers = pipe.writers.iter().filter_map(place).collect();
        pipe.readers = pipe.readers.iter().filter_map(place).collect();
        pipe
    });
    Evidence {
        looks: sample.seen.looks,
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        stages: pipeline.programs.iter().map(|&program| sample.seen.programs[program].stage()).collect(),
        pipes: pipes.collect(),
    }
}

fn text(sample: &Sample) -> String {
    let pipelines = sample.pipelines();
    if pipelines.is_empty() {
        return "no pipe goes from one program to another\n".into();
    }
    let blocks: Vec<String> = pipelines.iter().map(|pipeline| block(sample, pipeline)).collect();
    blocks.join("\n")
}

fn block(sample: &Sample, pipeline: &Pipeline) -> String {
    let evidence = evidence(sample, pipeline);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["PROGRAM", "PID", "CPU", "QUEUED", "READING", "WRITING"]);
    let share = |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.0} %", share * 100.0));
    for (stage, &program) in evidence.stages.iter().zip(&pipeline.programs) {
        let program = &sample.seen.programs[program];
        let of_looks = |looks: u32| share(Some(f64::from(looks) / f64::from(stage.looks.max(1))));
        table.add_row([
            program.name.clone(),
            program.pid.to_string(),
            share(stage.computed),
            share(stage.queued),
            of_looks(stage.did.read),
            of_looks(stage.did.write),
        ]);
    }
    right(&mut table, 1..6);
    let mut text = terminal::with_heading(&table.to_string());
    for (pipe, &inode) in evidence.pipes.iter().zip(&pipeline.pipes) {
        let name = |places: &[usize]| {
            let names: Vec<&str> =
                places.iter().map(|&place| sample.seen.programs[pipeline.programs[place]].name.as_str()).collect();
            if names.is_empty() { "?".to_owned() } else { names.join(", ") }
        };
        let rate = sample.rate(inode).map_or("-".into(), |rate| format!("{}/s", bytes::show(rate as u64)));
        let percent = |part: u32| 100 * part / pipe.looks.max(1);
        let (full, empty) = (percent(pipe.full), percent(pipe.empty));
        let between = format!("{} > {}", name(&pipe.writers), name(&pipe.readers));
        let _ = writeln!(text, "pipe {} ({between}): {rate}, full {full} %, empty {empty} % of the time", pipe.id);
    }
    let _ = writeln!(text, "{}", verdict::of(&evidence));
    text
}

fn right(table: &mut Table, columns: std::ops::Range<usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

fn json(sample: &Sample) -> String {
    let pipelines = sample.pipelines();
    let of = |pipeline: &Pipeline| {
        let evidence = evidence(sample, pipeline);
        let program_of = |place: usize| &sample.seen.programs[pipeline.programs[place]];
        let pids = |places: &[usize]| places.iter().map(|&place| program_of(place).pid).collect::<Vec<u32>>();
        let programs = evidence.stages.iter().enumerate().map(|(place, stage)| {
            let program = program_of(place);
            serde_json::json!({ "name": program.name, "pid": program.pid, "looks": stage.looks, "computed": stage.computed,
                "queued": stage.queued, "reading": stage.did.read, "writing": stage.did.write })
        });
        let pipes = evidence.pipes.iter().zip(&pipeline.pipes).map(|(pipe, &inode)| {
            serde_json::json!({ "inode": inode, "writers": pids(&pipe.writers), "readers": pids(&pipe.readers),
                "bytes_per_second": sample.rate(inode), "looks": pipe.looks, "full": pipe.full, "empty": pipe.empty })
        });
        serde_json::json!({ "programs": programs.collect::<Vec<_>>(), "pipes": pipes.collect::<Vec<_>>(),
            "bound": verdict::of(&evidence) })
    };
    let value =
        serde_json::json!({ "looks": sample.seen.looks, "pipelines": pipelines.iter().map(of).collect::<Vec<_>>() });
    format!("{value}\n")
}
