//! Where results go besides the table: files, the standard output, and the history.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use millstream_command::failure::{Failure, warn};
use serde::Serialize;

use super::options::OutputOptions;
use crate::cell::Document;
use crate::history::{self, History};
use crate::report::{csv, html};

/// Opened before the measurement: a mistake in a name costs no minute.
pub(super) struct Outputs {
    json: Option<Output>,
    csv: Option<Output>,
    html: Option<Output>,
    is_remembered: bool,
}

pub(super) struct Output {
    target: Target,
    path: PathBuf,
}

enum Target {
    File(File),
    Stdout,
}

impl Outputs {
    /// Creates every file that is asked for.
    pub(super) fn open(options: &OutputOptions) -> Result<Outputs, Failure> {
        let is_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
        if is_stdout(&options.json) && is_stdout(&options.csv) {
            return Err(Failure::usage("--json and --csv cannot both be -, the standard output"));
        }
        let create = |path: &Option<PathBuf>| path.as_deref().map(Output::create).transpose();
        Ok(Outputs {
            json: create(&options.json)?,
            csv: create(&options.csv)?,
            html: create(&options.html)?,
            is_remembered: !options.no_history,
        })
    }

    /// Whether the standard output has something else to carry than the table.
    pub(super) fn takes_stdout(&self) -> bool {
        [&self.json, &self.csv, &self.html].into_iter().flatten().any(Output::is_stdout)
    }

    /// Writes every file, and keeps the run.
    pub(super) fn write(self, document: &Document) -> Result<(), Failure> {
        if self.is_remembered {
            remember(document);
        }
        if let Some(output) = self.json {
            output.write_json(document)?;
        }
        if let Some(output) = self.csv {
            output.write(|file| csv::write(document, file))?;
        }
        if let Some(output) = self.html {
            output.write(|file| file.write_all(html::render(document).as_bytes()))?;
        }
        Ok(())
    }
}

/// A history that cannot be written costs a warning, and never the measurement.
fn remember(document: &Document) {
    let kept = match history::default_path() {
        Some(path) => History::open(&path).and_then(|mut history| history.add(document)),
        None => Err("neither XDG_DATA_HOME nor HOME is set, so there is no place for the history".into()),
    };
    if let Err(why) = kept {
        warn(format_args!("{why}; the run was measured but not kept (--no-history keeps none and says nothing)"));
    }
}

impl Output {
    /// Creates the file, if it is one.
    pub(super) fn create(path: &Path) -> Result<Output, Failure> {
        let target = match path == Path::new("-") {
            true => Ok(Target::Stdout),
            false => File::create(path).map(Target::File),
        };
        match target {
            Ok(target) => Ok(Output { target, path: path.to_owned() }),
            Err(error) => Err(Failure::usage(format!("cannot write '{}': {error}", path.display()))),
        }
    }

    pub(super) fn is_stdout(&self) -> bool {
        matches!(self.target, Target::Stdout)
    }

    pub(super) fn write_json(self, content: &impl Serialize) -> Result<(), Failure> {
        self.write(|file| {
            serde_json::to_writer_pretty(&mut *file, content)?;
            file.write_all(b"\n")
        })
    }

    fn write(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        let (outcome, name) = match self.target {
            Target::File(file) => {
                let mut file = io::BufWriter::new(file);
                (write(&mut file).and_then(|()| file.flush()), format!("'{}'", self.path.display()))
            }
            Target::Stdout => (write(&mut io::stdout().lock()), "to the standard output".to_owned()),
        };
        match outcome {
            // A reader that went away early is no error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            outcome => outcome.map_err(|error| Failure::own(format!("cannot write {name}: {error}"))),
        }
    }
}
