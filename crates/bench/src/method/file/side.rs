//! A command that is measured: what it prints is proved in a rehearsal, and thrown away when it is timed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use millstream_sys::{clock, mapped_file};

use super::super::increment::sum::Sum;
use super::place::Commands;
use crate::engine::Launch;

/// A command of a comparison.
pub(super) struct Side {
    pub(super) transport: &'static str,
    /// For the shell. What it prints is thrown away when it is timed.
    pub(super) script: String,
    /// Prints what the script has written, if that prints nothing.
    pub(super) proof: Option<&'static str>,
    /// `$FILE`; dropped from the kernel's cache if it is mounted, a directory with all that is in it.
    pub(super) file: PathBuf,
    pub(super) environment: Vec<(&'static str, PathBuf)>,
    pub(super) is_mounted: bool,
}

impl Side {
    pub(super) fn new(transport: &'static str, script: String, file: PathBuf) -> Side {
        Side { transport, script, proof: None, file, environment: Vec::new(), is_mounted: false }
    }

    /// A command that reads what is mounted at `file`.
    pub(super) fn mounted(transport: &'static str, script: String, file: PathBuf) -> Side {
        Side { is_mounted: true, ..Side::new(transport, script, file) }
    }

    /// One program that reads a file.
    pub(super) fn cat(transport: &'static str, file: PathBuf) -> Side {
        Side::new(transport, "cat \"$FILE\"".into(), file)
    }

    /// The same for a file that is mounted.
    pub(super) fn cat_mounted(transport: &'static str, file: PathBuf) -> Side {
        Side { is_mounted: true, ..Side::cat(transport, file) }
    }

    fn command(&self, commands: &Commands, script: &str) -> Command {
        let mut command = commands.command("sh");
        command.args(["-ec", script]).env("FILE", &self.file);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null());
        command
    }

    /// A sum of what it prints.
    pub(super) fn digest(&self, commands: &Commands) -> Result<u64, String> {
        let script = match self.proof {
            Some(proof) => format!("{}\n{proof}", self.script),
            None => self.script.clone(),
        };
        let cannot = |error: io::Error| format!("cannot run '{script}': {error}");
        let mut command = self.command(commands, &script);
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(cannot)?;
        let (mut sum, mut buffer) = (Sum::default(), vec![0; 64 << 10]);
        if let Some(mut output) = child.stdout.take() {
            loop {
                match output.read(&mut buffer).map_err(cannot)? {
                    0 => break,
                    count => sum.add(&buffer[..count]),
                }
            }
        }
        let status = child.wait().map_err(cannot)?;
        if status.success() { Ok(sum.total()) } else { Err(format!("'{script}' failed: {status}")) }
    }

    /// Milliseconds from its start to its end.
    pub(super) fn launch(&self, commands: &Commands) -> Result<Launch, String> {
        if self.is_mounted {
            drop_cached(&self.file)
                .map_err(|error| format!("cannot drop '{}' from the cache: {error}", self.file.display()))?;
        }
        let mut command = self.command(commands, &self.script);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let start = clock::raw_nanoseconds();
        let output = command.output().map_err(|error| format!("cannot run '{}': {error}", self.script))?;
        let nanoseconds = clock::raw_nanoseconds() - start;
        if !output.status.success() || !output.stderr.is_empty() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("'{}' failed ({}): {}", self.script, output.status, said.trim()));
        }
        Ok(Launch::of(nanoseconds as f64 / 1e6))
    }
}

/// Drops a file from the kernel's cache, or all files below a directory.
pub(super) fn drop_cached(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        return Ok(mapped_file::drop_cached(&File::open(path)?)?);
    }
    for entry in fs::read_dir(path)? {
        drop_cached(&entry?.path())?;
    }
    Ok(())
}
