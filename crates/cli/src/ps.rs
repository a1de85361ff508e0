//! `millstream ps`: the live pipes of this user.

mod list;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use millstream_pipe::live::{self, Census};

use millstream_command::failure::{self, Failure};

/// Shown below the options.
pub(crate) const EXAMPLES: &str = "\
Examples:
  millstream ps
  millstream ps 1234 1240           only pipes with an end in one of these processes
  millstream ps --watch             again every second, until it is interrupted
  millstream ps --json | jq '.pipes[] | select(.waiting == .capacity)'

Looking takes no part in a pipe: no end is opened, and no process waits. Rates are from two looks,
--interval apart. Processes of other users are counted and not looked into; root sees all.

Exit status: 0, also if there is no pipe; 2 for wrong use; 125 if /proc cannot be read.";

/// Time between the two looks of a single list.
const MOMENT: Duration = Duration::from_millis(250);

/// Time between two lists.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Options of `millstream ps`.
#[derive(Args)]
pub(crate) struct Options {
    /// Only pipes with an end in one of these processes
    #[arg(value_name = "PID")]
    processes: Vec<u32>,

    /// As one JSON object; with --watch one on each line
    #[arg(long)]
    json: bool,

    /// Look again and again
    #[arg(long)]
    watch: bool,

    /// With --watch, stop after N lists
    #[arg(long, value_name = "N", requires = "watch")]
    count: Option<u64>,

    /// Seconds between two looks, 0.01 to 3600 [default: 0.25; with --watch 1]
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval)]
    interval: Option<Duration>,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "an interval is 0.01 to 3600 seconds".into())
}

/// Looks and lists.
pub(crate) fn ps(options: &Options) -> Result<ExitCode, Failure> {
    let interval = options.interval.unwrap_or(if options.watch { WATCH_EVERY } else { MOMENT });
    let lists = if options.watch { options.count.unwrap_or(u64::MAX) } else { 1 };
    let mut before = look()?;
    for list in 1..=lists {
        std::thread::sleep(interval);
        let now = look()?;
        let text = render(&now, &before, options, list)?;
        if !failure::print_or_stop(&text)? {
            break;
        }
        before = now;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn look() -> Result<Census, Failure> {
    live::look().map_err(|error| Failure::own(format!("cannot look at the processes of this machine: {error}")))
}

fn render(now: &Census, before: &Census, options: &Options, list: u64) -> Result<String, Failure> {
    let lists = list::Pipes::of(now, before, &options.processes);
    if options.json {
        return if options.watch { lists.json_line() } else { lists.json() };
    }
    let text = lists.table();
    Ok(match (options.watch, std::io::stdout().is_terminal()) {
        // To the first place of an empty screen (ECMA-48).
        (true, true) => format!("\x1b[H\x1b[2J{text}"),
        (true, false) if list > 1 => format!("\n{text}"),
        _ => text,
    })
}
