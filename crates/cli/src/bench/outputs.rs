//! The files that results go to.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use millstream_bench::cell::Document;
use millstream_bench::report::html;

use super::options::OutputOptions;
use crate::failure::Failure;

/// Opened before the measurement: a mistake in a name costs no minute.
pub(super) struct Outputs {
    json: Option<Output>,
    html: Option<Output>,
}

struct Output {
    file: File,
    path: PathBuf,
}

impl Outputs {
    /// Creates every file that is asked for.
    pub(super) fn open(options: &OutputOptions) -> Result<Outputs, Failure> {
        let create = |path: &Option<PathBuf>| path.as_deref().map(Output::create).transpose();
        Ok(Outputs { json: create(&options.json)?, html: create(&options.html)? })
    }

    /// Writes every file.
    pub(super) fn write(self, document: &Document) -> Result<(), Failure> {
        if let Some(Output { file, path }) = self.json {
            serde_json::to_writer_pretty(file, document).map_err(|error| cannot_write(&path, &error))?;
        }
        if let Some(Output { mut file, path }) = self.html {
            file.write_all(html::render(document).as_bytes()).map_err(|error| cannot_write(&path, &error))?;
        }
        Ok(())
    }
}

impl Output {
    fn create(path: &Path) -> Result<Output, Failure> {
        match File::create(path) {
            Ok(file) => Ok(Output { file, path: path.to_owned() }),
            Err(error) => Err(Failure::usage(format!("cannot write '{}': {error}", path.display()))),
        }
    }
}

fn cannot_write(path: &Path, error: &dyn std::error::Error) -> Failure {
    Failure::own(format!("cannot write '{}': {error}", path.display()))
}
