//! The hidden `millstream-bench pipeline`, as which `bench grep` starts itself.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use millstream_command::failure::Failure;

use crate::method::grep::pipeline;

/// Options of the hidden `millstream-bench pipeline`.
#[derive(Args)]
pub(super) struct Options {
    /// One CPU for each stage
    #[arg(long, value_delimiter = ',', required = true)]
    cpus: Vec<usize>,

    /// Where the report goes
    #[arg(long)]
    report: PathBuf,

    /// Stages, separated by `,`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    stages: Vec<OsString>,
}

/// Runs it and writes the report.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let stages: Vec<Vec<OsString>> =
        options.stages.split(|word| word == pipeline::SEPARATOR).map(<[OsString]>::to_vec).collect();
    let seen = pipeline::run(&stages, &options.cpus).map_err(|error| Failure::own(error.to_string()))?;
    let report = serde_json::to_string(&seen).map_err(|error| Failure::own(error.to_string()))?;
    std::fs::write(&options.report, report)
        .map_err(|error| Failure::own(format!("cannot write '{}': {error}", options.report.display())))?;
    Ok(ExitCode::SUCCESS)
}
