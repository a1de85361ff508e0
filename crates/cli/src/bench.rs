//! `millstream bench`: options in, measurements run with progress shown, table and JSON out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use millstream_bench::cell::Document;
use millstream_bench::placement::Placement;
use millstream_bench::unmodified::{self, Workload};
use millstream_bench::{corpus, pipeline, table};

use crate::args::{BenchOptions, GrepOptions, PipelineOptions};
use crate::failure::{self, Failure};
use crate::progress::Progress;

/// Some cell failed its checks, so the comparison cannot be trusted.
const INVALID: u8 = 3;

/// The measurement that the options ask for.
pub(crate) fn bench(options: BenchOptions) -> Result<ExitCode, Failure> {
    match options {
        BenchOptions::Grep(options) => grep(options),
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
    let document = Document::new(cells);
    if let Some((file, path)) = json {
        serde_json::to_writer_pretty(file, &document)
            .map_err(|error| Failure::own(format!("cannot write '{}': {error}", path.display())))?;
    }
    failure::print(&table::render(&document))?;
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
