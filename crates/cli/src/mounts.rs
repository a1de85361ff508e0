//! `millstream mounts`, `link`, `push` and `pop`: what is mounted, and single files of it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use millstream_fs as fs;

use crate::bytes;
use crate::statistics::StatsFormat;
use millstream_command::failure::{self, Failure};

/// Shown below the options of `mounts`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  millstream mounts
  millstream mounts --stats=json | jq '.mounts[].statistics.errors'

Exit status: 0, also if nothing is mounted; 2 for wrong use; 125 if /proc cannot be read.";

/// Shown below the options of `link`.
pub(crate) const LINK_EXAMPLES: &str = "\
Examples:
  millstream link notes.txt NOTES.txt 'upper'     NOTES.txt is notes.txt in capitals, wherever the directory is mounted
  millstream link photo.age photo.jpg 'unage -i key'
  millstream link . now 'exec date'               the file 'now' in this directory is what date says whenever it is read
  millstream link notes.txt                       lists the links of a file
  millstream link --remove notes.txt NOTES.txt

Exit status: 0 done; 1 the file cannot have it; 2 wrong use.";

/// Shown below the options of `push`.
pub(crate) const PUSH_EXAMPLES: &str = "\
Examples:
  millstream push /mnt/notes.txt upper     every program that reads it gets capitals, those that have it open too
  millstream pop /mnt/notes.txt            and no longer

A stage stays until it is popped, or the directory is unmounted.
Exit status: 0 done; 1 the file cannot have it; 2 wrong use.";

/// Options of `millstream mounts`.
#[derive(Args)]
pub(crate) struct Options {
    /// How to write it
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    stats: StatsFormat,
}

/// Options of `millstream link`.
#[derive(Args)]
pub(crate) struct LinkOptions {
    /// The file; or a directory, in which NAME appears as a file of its own: what NETWORK makes of nothing
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The name under which it appears too, in the same directory
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// What its bytes go through when they are read under that name
    #[arg(value_name = "NETWORK", requires = "name")]
    network: Option<String>,

    /// What they go through when they are written [default: what undoes NETWORK, if anything does]
    #[arg(long, value_name = "NETWORK", requires = "network")]
    write: Option<String>,

    /// Remove the link
    #[arg(long, requires = "name", conflicts_with = "network")]
    remove: bool,
}

/// Options of `millstream push`.
#[derive(Args)]
pub(crate) struct PushOptions {
    /// The mounted file, or the number of a descriptor that this command inherits
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The stage
    #[arg(value_name = "STAGE")]
    stage: String,
}

/// Options of `millstream pop`.
#[derive(Args)]
pub(crate) struct PopOptions {
    /// The mounted file, or the number of a descriptor that this command inherits
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Lists what is mounted.
pub(crate) fn mounts(options: &Options) -> Result<ExitCode, Failure> {
    let mounts = fs::mounts().map_err(Failure::own)?;
    match options.stats {
        StatsFormat::Json => {
            let text = serde_json::to_string_pretty(&serde_json::json!({ "mounts": mounts }));
            let text = text.map_err(|error| Failure::own(format!("cannot write JSON: {error}")))?;
            failure::print(&format!("{text}\n"))
        }
        StatsFormat::Table => failure::print(&table(&mounts)),
    }
}

fn table(mounts: &[fs::Listed]) -> String {
    if mounts.is_empty() {
        return "nothing is mounted by millstream\n".into();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["MOUNTED ON", "SOURCE", "PID", "OPEN", "READ", "WRITTEN", "HITS", "ERRORS"]);
    for mount in mounts {
        let number = |name: &str| mount.statistics.as_ref().and_then(|statistics| statistics[name].as_u64());
        let shown = |name: &str| number(name).map_or_else(|| "-".into(), |number| number.to_string());
        let size = |name: &str| number(name).map_or_else(|| "-".into(), bytes::show);
        let hits = match (number("cache_hits"), number("cache_misses")) {
            (Some(hits), Some(misses)) if hits + misses > 0 => format!("{} %", hits * 100 / (hits + misses)),
            _ => "-".into(),
        };
        table.add_row([
            mount.mount_point.display().to_string(),
            mount.source.clone(),
            shown("pid"),
            shown("open_files"),
            size("bytes_read"),
            size("bytes_written"),
            hits,
            shown("errors"),
        ]);
    }
    for column in 2..8 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}

/// Makes, lists or removes links.
pub(crate) fn link(options: &LinkOptions) -> Result<ExitCode, Failure> {
    match (&options.name, &options.network) {
        (Some(name), Some(network)) => {
            fs::link(&options.file, name, network, options.write.as_deref()).map_err(Failure::data)?;
        }
        (Some(name), None) if options.remove => fs::unlink(&options.file, name).map_err(Failure::data)?,
        (Some(_), None) => {
            return Err(Failure::usage("what to put the bytes through is missing: millstream link FILE NAME NETWORK"));
        }
        (None, _) => {
            let links = fs::links(&options.file).map_err(Failure::data)?;
            let lines = links.iter().map(|link| format!("{}  {}\n", link.name, link.network));
            return failure::print(&lines.collect::<String>());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Puts a stage on a file.
pub(crate) fn push(options: PushOptions) -> Result<ExitCode, Failure> {
    fs::push(&path_of(options.file), &options.stage).map_err(Failure::data)?;
    Ok(ExitCode::SUCCESS)
}

/// Takes the last stage away.
pub(crate) fn pop(options: PopOptions) -> Result<ExitCode, Failure> {
    fs::pop(&path_of(options.file)).map_err(Failure::data)?;
    Ok(ExitCode::SUCCESS)
}

/// A number is a descriptor; for a file of that name there is `./3`.
fn path_of(file: PathBuf) -> PathBuf {
    match file.to_str().filter(|text| text.parse::<u32>().is_ok()) {
        Some(number) => format!("/proc/self/fd/{number}").into(),
        None => file,
    }
}
