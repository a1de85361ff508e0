//! `millstream-rivals`: options in, every rival beside millstream and the kernel's pipe measured, table and JSON out.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use millstream_bench::cell::Document;
use millstream_bench::engine::placement::Placement;
use millstream_bench::engine::{self, Comparison, Effort};
use millstream_bench::method::bandwidth::{self, Carrier, TRANSFER_MAX};
use millstream_bench::method::round_trip::{self, Waiting};
use millstream_bench::method::{Depth, bw_pipe, lat_pipe};
use millstream_bench::report::table;
use millstream_bench::transport::{Transport, kernel_pipe, millstream, spsc_bare};
use millstream_rivals::{RIVALS, settle};

/// Something is wrong with the machine.
const FAILED: u8 = 1;
/// The program was used wrongly, which is what the argument parser says too.
const USAGE: u8 = 2;
/// Some cell failed its checks, so the comparison cannot be trusted.
const INVALID: u8 = 3;

/// Rounds where everything is to be quick.
const QUICK_ROUNDS: u32 = 5;

const EXAMPLES: &str = "\
Examples:
  millstream-rivals
  millstream-rivals --quick --transport pipe,millstream,iceoryx2
  millstream-rivals --method bw_pipe --transfer 4k,64k --placement 2cpu --rounds 41 --json rivals.json

Exit status: 0, 1 if the machine lacks something, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Measures other ways to move bytes between two processes beside millstream and the kernel's pipe
#[derive(Parser)]
#[command(name = "millstream-rivals", version, after_help = EXAMPLES, max_term_width = 100)]
struct Options {
    /// bw_pipe: bytes a second; lat_pipe: one byte there and back, both ends running [default: both]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = ["bw_pipe", "lat_pipe"])]
    method: Vec<String>,

    /// Bytes for each write and read, with K or M for 1024 or 1024², at most 16M [default: 512,4k,64k]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = transfer)]
    transfer: Vec<usize>,

    /// What carries the bytes [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = names())]
    transport: Vec<String>,

    /// Both processes on one CPU, or one CPU for each [default: both]
    #[arg(long, value_name = "PLACEMENT", value_delimiter = ',', value_parser = ["1cpu", "2cpu"])]
    placement: Vec<String>,

    /// Interleaved samples for each cell, each from two new processes
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(5..=10_000))]
    rounds: u32,

    /// The fewest rounds, and 64k only unless --transfer says otherwise
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,

    /// Write every cell with its raw samples to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    // Opened before the measurement: a mistake in the name costs no minute.
    let json = match options.json.as_deref().map(File::create).transpose() {
        Ok(json) => json,
        Err(error) => return fail(USAGE, options.json.as_deref(), &error),
    };
    let document = measure(&options);
    settle();
    if let Some(Err(error)) = json.map(|file| serde_json::to_writer_pretty(file, &document)) {
        return fail(FAILED, options.json.as_deref(), &error);
    }
    let versions = RIVALS.map(|rival| format!("{} {}", rival.transport.name(), (rival.version)()));
    // A pipe that was closed has read enough.
    let _ = writeln!(std::io::stdout(), "{}\n{}.", table::render(&document), versions.join(", "));
    let is_valid = document.cells.iter().all(|cell| cell.valid);
    if is_valid { ExitCode::SUCCESS } else { ExitCode::from(INVALID) }
}

fn fail(status: u8, path: Option<&Path>, error: &dyn std::error::Error) -> ExitCode {
    eprintln!("millstream-rivals: cannot write '{}': {error}", path.unwrap_or(Path::new("")).display());
    ExitCode::from(status)
}

fn measure(options: &Options) -> Document {
    let command = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (start, is_watched) = (Instant::now(), std::io::stderr().is_terminal());
    let rounds = if options.quick { QUICK_ROUNDS } else { options.rounds };
    let cells = engine::measure(comparisons(options), &Effort::exactly(rounds as usize), |now| {
        if is_watched {
            eprint!("\r\x1b[K{} of {} runs: {} over {}", now.done, now.total, now.last.method, now.last.transport);
        }
    });
    if is_watched {
        eprint!("\r\x1b[K");
    }
    Document::new(cells, command, began, start.elapsed().as_secs_f64())
}

/// Both methods, as far as they are asked for.
fn comparisons(options: &Options) -> Vec<Comparison> {
    let placements: Vec<Placement> =
        Placement::ALL.into_iter().filter(|placement| is_chosen(&options.placement, placement.name())).collect();
    let carriers = carriers().into_iter().filter(|carrier| is_chosen(&options.transport, carrier.name()));
    let mut bandwidth = bw_pipe::Plan::of(Depth::Quick);
    bandwidth.carriers = carriers.collect();
    bandwidth.placements = placements.clone();
    bandwidth.transfers = match (options.transfer.as_slice(), options.quick) {
        ([], true) => vec![64 << 10],
        ([], false) => vec![512, 4 << 10, 64 << 10],
        (chosen, _) => chosen.to_vec(),
    };
    bandwidth.transfers.sort_unstable();
    bandwidth.transfers.dedup();
    let mut round_trips = lat_pipe::Plan::of(Depth::Quick);
    round_trips.waitings = vec![Waiting::Running];
    round_trips.placements = placements;
    round_trips.transports = bandwidth.carriers.iter().filter_map(|carrier| transport_of(*carrier)).collect();
    let mut comparisons = Vec::new();
    if is_chosen(&options.method, "bw_pipe") {
        comparisons.extend(bandwidth::comparisons(&bandwidth));
    }
    if is_chosen(&options.method, "lat_pipe") {
        comparisons.extend(round_trip::comparisons(&round_trips));
    }
    comparisons
}

/// In the order in which they are shown: the baseline, ours, the rivals, the bounds.
fn carriers() -> Vec<Carrier> {
    let first: [&dyn Transport; 2] = [&kernel_pipe::DEFAULT, &millstream::ADAPTIVE];
    let rivals = RIVALS.map(|rival| rival.transport);
    let transports = first.into_iter().chain(rivals).chain([&spsc_bare::SPSC_BARE as &dyn Transport]);
    transports.map(Carrier::Transport).chain([Carrier::MemcpyTwice]).collect()
}

fn transport_of(carrier: Carrier) -> Option<&'static dyn Transport> {
    match carrier {
        Carrier::Transport(transport) => Some(transport),
        Carrier::MemcpyTwice => None,
    }
}

fn names() -> Vec<&'static str> {
    carriers().into_iter().map(Carrier::name).collect()
}

fn is_chosen(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|chosen| chosen == name)
}

/// A number of bytes as people write it.
fn transfer(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        _ => 0,
    };
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    bytes
        .filter(|bytes| (1..=TRANSFER_MAX).contains(bytes))
        .ok_or_else(|| "a transfer is a number of bytes, or a number with K or M, at most 16M".into())
}
