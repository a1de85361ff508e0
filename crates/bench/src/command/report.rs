//! `millstream bench report`: the page of results that were kept.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use millstream_command::failure::Failure;

use super::options::OutputOptions;
use super::outputs::Outputs;
use crate::cell::Document;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Example:
  millstream bench bw_pipe --json bw.json
  millstream bench report bw.json --html bw.html";

/// Options of `millstream bench report`.
#[derive(Args)]
pub(super) struct Options {
    /// What --json wrote
    #[arg(value_name = "RESULTS")]
    results: PathBuf,

    /// Draw the results as one page that needs no network
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
}

/// Reads and draws.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let path = options.results.display();
    let document = Document::from_file(&options.results).map_err(Failure::usage)?;
    if fs::canonicalize(&options.html)
        .is_ok_and(|page| fs::canonicalize(&options.results).is_ok_and(|results| page == results))
    {
        return Err(Failure::usage(format!("'{path}' and the page are the same file; give the page another name")));
    }
    Outputs::open(&OutputOptions { html: Some(options.html), no_history: true, ..OutputOptions::default() })?
        .write(&document)?;
    Ok(ExitCode::SUCCESS)
}
