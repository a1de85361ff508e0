//! How statistics are written, and where: `--stats` and `--stats-file`.

use std::fs::{File, Metadata};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use millstream_command::failure::Failure;

/// How statistics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsFormat {
    /// For people.
    Table,
    /// One JSON object.
    Json,
}

/// Where statistics go: on stderr, unless a file is named.
pub(crate) struct StatsFile(Option<(File, PathBuf)>);

impl StatsFile {
    /// Opens the file before the run, so that a mistake in its name costs nothing.
    pub(crate) fn open(path: Option<&Path>) -> Result<StatsFile, Failure> {
        let open = |path: &Path| {
            let opened = create_or_append(path).map_err(|error| {
                Failure::usage(format!("cannot write the statistics to '{}': {error}", path.display()))
            })?;
            Ok((opened, path.to_owned()))
        };
        path.map(open).transpose().map(StatsFile)
    }

    /// Writes the text; the error is a sentence.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), String> {
        match &mut self.0 {
            None => std::io::stderr().write_all(text.as_bytes()).map_err(|error| error.to_string()),
            Some((file, path)) => file
                .write_all(text.as_bytes())
                .map_err(|error| format!("cannot write the statistics to '{}': {error}", path.display())),
        }
    }
}

/// An empty file, unless it is one that this process has open already, as `/dev/stderr` is: what others wrote stays.
fn create_or_append(path: &Path) -> std::io::Result<File> {
    let is_open_here = |metadata: &Metadata| {
        [1, 2]
            .iter()
            .filter_map(|fd| std::fs::metadata(format!("/proc/self/fd/{fd}")).ok())
            .any(|standard| (standard.dev(), standard.ino()) == (metadata.dev(), metadata.ino()))
    };
    match std::fs::metadata(path) {
        Ok(metadata) if is_open_here(&metadata) => File::options().append(true).open(path),
        _ => File::create(path),
    }
}
