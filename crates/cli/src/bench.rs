//! `millstream bench`: options in, measurements run with progress shown, table and JSON out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use millstream_bench::cell::{Cell, Document};
use millstream_bench::placement::Placement;
use millstream_bench::unmodified::{self, Workload};
use millstream_bench::{bw_pipe, corpus, lat_pipe, pipeline, table};

use crate::args::{BenchOptions, BwPipeOptions, GrepOptions, LatPipeOptions, PipelineOptions};
use crate::failure::{self, Failure};
use crate::progress::Progress;

/// Some cell failed its checks, so the comparison cannot be trusted.
const INVALID: u8 = 3;

/// The measurement that the options ask for.
pub(crate) fn bench(options: BenchOptions) -> Result<ExitCode, Failure> {
    match options {
        BenchOptions::Grep(options) => grep(options),
        BenchOptions::BwPipe(options) => bw_pipe(options),
        BenchOptions::LatPipe(options) => lat_pipe(options),
        BenchOptions::Pipeline(options) => run_pipeline(options),
    }
}

fn grep(options: GrepOptions) -> Result<ExitCode, Failure> {
    let json = options.json.as_deref().map(create).transpose()?;
    let file = match options.file {
        Some(file) => file,
        None => corpus::text()
            .map_err(|error| Failure::own(format!("cannot gather a text to read: {error}; name one with --file")))?,
    };
    let plan = unmodified::Plan {
        program: own_path()?,
        pattern: options.pattern,
        pairs: options.pairs as usize,
        workloads: chosen(&Workload::ALL, Workload::name, &options.workload),
        placements: chosen(&Placement::ALL, Placement::name, &options.placement),
        file,
    };
    let mut progress = Progress::new();
    let cells = unmodified::measure(&plan, |done, total| progress.update(done, total));
    drop(progress);
    let cells =
        cells.map_err(|error| Failure::own(format!("cannot measure over '{}': {error}", plan.file.display())))?;
    conclude(cells, json, table::render)
}

fn bw_pipe(options: BwPipeOptions) -> Result<ExitCode, Failure> {
    let BwPipeOptions { mut transfer, transport, common } = options;
    let json = common.json.as_deref().map(create).transpose()?;
    if transfer.is_empty() {
        transfer = bw_pipe::TRANSFERS.to_vec();
    }
    transfer.sort_unstable();
    transfer.dedup();
    let plan = bw_pipe::Plan {
        transfers: transfer,
        placements: chosen(&Placement::ALL, Placement::name, &common.placement),
        carriers: chosen(&bw_pipe::Carrier::ALL, bw_pipe::Carrier::name, &transport),
        rounds: common.rounds as usize,
    };
    let mut progress = Progress::new();
    let cells = bw_pipe::measure(&plan, |done, total| progress.update(done, total));
    drop(progress);
    if cells.is_empty() {
        return Err(Failure::usage("memcpy-twice is one process and has no placement but 1cpu; nothing was measured"));
    }
    conclude(cells, json, table::streams::bandwidth)
}

fn lat_pipe(options: LatPipeOptions) -> Result<ExitCode, Failure> {
    let LatPipeOptions { waiting, transport, common } = options;
    let json = common.json.as_deref().map(create).transpose()?;
    let plan = lat_pipe::Plan {
        waitings: chosen(&lat_pipe::Waiting::ALL, lat_pipe::Waiting::name, &waiting),
        placements: chosen(&Placement::ALL, Placement::name, &common.placement),
        carriers: chosen(&lat_pipe::Carrier::ALL, lat_pipe::Carrier::name, &transport),
        rounds: common.rounds as usize,
    };
    let mut progress = Progress::new();
    let cells = lat_pipe::measure(&plan, |done, total| progress.update(done, total));
    drop(progress);
    if cells.is_empty() {
        return Err(Failure::usage("spsc-bare never sleeps, so it is measured running only; nothing was measured"));
    }
    conclude(cells, json, table::streams::latency)
}

/// Shows and writes what was measured.
fn conclude(
    cells: Vec<Cell>,
    json: Option<(std::fs::File, PathBuf)>,
    render: fn(&Document) -> String,
) -> Result<ExitCode, Failure> {
    let document = Document::new(cells);
    if let Some((file, path)) = json {
        serde_json::to_writer_pretty(file, &document)
            .map_err(|error| Failure::own(format!("cannot write '{}': {error}", path.display())))?;
    }
    failure::print(&render(&document))?;
    let all_valid = document.cells.iter().all(|cell| cell.valid);
    Ok(if all_valid { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
}

/// Opened before the measurement: a mistake in the name costs no minute.
fn create(path: &Path) -> Result<(std::fs::File, PathBuf), Failure> {
    std::fs::File::create(path)
        .map(|file| (file, path.to_owned()))
        .map_err(|error| Failure::usage(format!("cannot write '{}': {error}", path.display())))
}

/// Those of `all` that are named, or all if none is.
fn chosen<T: Copy>(all: &[T], name: fn(T) -> &'static str, names: &[String]) -> Vec<T> {
    all.iter().copied().filter(|&item| names.is_empty() || names.iter().any(|chosen| chosen == name(item))).collect()
}

fn run_pipeline(options: PipelineOptions) -> Result<ExitCode, Failure> {
    let stages: Vec<Vec<OsString>> =
        options.stages.split(|word| word == pipeline::SEPARATOR).map(<[OsString]>::to_vec).collect();
    let seen = pipeline::run(&stages, &options.cpus).map_err(|error| Failure::own(error.to_string()))?;
    let report = serde_json::to_string(&seen).map_err(|error| Failure::own(error.to_string()))?;
    std::fs::write(&options.report, report)
        .map_err(|error| Failure::own(format!("cannot write '{}': {error}", options.report.display())))?;
    Ok(ExitCode::SUCCESS)
}

fn own_path() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::own(format!("cannot find its own file: {error}")))
}
