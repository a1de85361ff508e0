//! A directory with files to read, and mounts of it, which are gone when the measurement is.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use millstream_sys::signals::Held;
use millstream_sys::{own_pid, settings};

use crate::corpus::write_text;

/// Bytes of a small file.
pub(super) const SMALL_BYTES: usize = 4 << 10;

/// How long a mount may take to appear, or to go.
const LIMIT: Duration = Duration::from_secs(30);

/// Makes commands that have the signals which this process was started with: it may hold them back.
#[derive(Clone)]
pub(super) struct Commands(Option<Arc<Held>>);

impl Commands {
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        if let Some(held) = &self.0 {
            Held::restore_in(held, &mut command);
        }
        // Should this measurement itself be running under 'millstream run', what it measures must not.
        command.env_remove(settings::VARIABLE);
        command
    }
}

/// The directory, and all mounts of what is in it.
pub(super) struct Place {
    root: PathBuf,
    program: PathBuf,
    commands: Commands,
    /// By the mount point.
    mounts: BTreeMap<PathBuf, Child>,
}

impl Place {
    /// An empty directory among those for temporary files. `program`: the `millstream` that mounts.
    ///
    /// # Errors
    /// A sentence: it cannot be made.
    pub(super) fn new(program: PathBuf, held: Arc<Held>) -> Result<Place, String> {
        Place::at(format!("millstream-file-{}", own_pid()), program, Some(held))
    }

    fn at(name: String, program: PathBuf, held: Option<Arc<Held>>) -> Result<Place, String> {
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(&root).map_err(|error| format!("cannot make '{}': {error}", root.display()))?;
        Ok(Place { root, program, commands: Commands(held), mounts: BTreeMap::new() })
    }

    #[cfg(test)]
    pub(super) fn for_tests() -> Place {
        let name = format!("millstream-file-{}-{}", own_pid(), millstream_sys::clock::raw_nanoseconds());
        Place::at(name, "/bin/false".into(), None).unwrap()
    }

    pub(super) fn commands(&self) -> Commands {
        self.commands.clone()
    }

    /// A directory for files that are mounted, made if it is not there yet.
    pub(super) fn source(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).map_err(|error| format!("cannot make '{}': {error}", path.display()))?;
        Ok(path)
    }

    /// A text of so many bytes, the same on every machine.
    pub(super) fn text(&self, size: usize) -> Result<PathBuf, String> {
        let path = self.source("plain")?.join("text");
        if !path.exists() {
            let made = write_text(&path, size as u64);
            made.map_err(|error| format!("cannot make '{}': {error}", path.display()))?;
        }
        Ok(path)
    }

    /// The text, compressed by a program into a directory of its own.
    pub(super) fn packed(&self, size: usize, program: &str, end: &str) -> Result<PathBuf, String> {
        let (text, path) = (self.text(size)?, self.source(end)?.join(format!("text.{end}")));
        if !path.exists() {
            let error = |error: io::Error| format!("cannot make '{}': {error}", path.display());
            let (input, output) = (File::open(text).map_err(error)?, File::create(&path).map_err(error)?);
            let status =
                self.commands.command(program).arg("-qc").stdin(input).stdout(output).status().map_err(error)?;
            if !status.success() {
                return Err(format!("cannot make '{}': {program} failed: {status}", path.display()));
            }
        }
        Ok(path)
    }

    /// A directory with so many small files.
    pub(super) fn small_files(&self, count: usize) -> Result<PathBuf, String> {
        let directory = self.source("small")?;
        let error = |error: io::Error| format!("cannot make files in '{}': {error}", directory.display());
        for number in 0..count {
            let path = directory.join(format!("{number:06}"));
            if !path.exists() {
                fs::write(path, number.to_string().repeat(SMALL_BYTES).split_at(SMALL_BYTES).0).map_err(error)?;
            }
        }
        Ok(directory)
    }

    /// Where a directory is mounted with a network, or without one. The same one twice is one mount.
    pub(super) fn mounted(&mut self, source: &Path, network: Option<&str>) -> Result<PathBuf, String> {
        let mut command = self.commands.command(&self.program);
        command.args(["mount", "--foreground"]).arg(source);
        let name = network.map_or("none".into(), |network| network.replace([' ', '|'], "-"));
        self.mount(source, &name, command, |command, point| {
            command.arg(point).args(network);
        })
    }

    /// Where libfuse's example of a file system shows a directory.
    pub(super) fn passed_through(&mut self, program: &Path, source: &Path) -> Result<PathBuf, String> {
        let mut command = self.commands.command(program);
        command.args(["-f", "-o", &format!("source={}", source.display())]);
        self.mount(source, "passthrough_ll", command, |command, point| {
            command.arg(point);
        })
    }

    fn mount(
        &mut self,
        source: &Path,
        name: &str,
        mut command: Command,
        arguments: impl FnOnce(&mut Command, &Path),
    ) -> Result<PathBuf, String> {
        let file_name = source.file_name().and_then(OsStr::to_str).unwrap_or_default();
        // A network of many stages is longer than a name may be.
        let point = self.root.join(format!("{file_name}-{:.100}-{}", name, name.len()));
        if self.mounts.contains_key(&point) {
            return Ok(point);
        }
        let cannot = |why: &dyn std::fmt::Display| format!("cannot mount '{}': {why}", source.display());
        fs::create_dir_all(&point).map_err(|error| cannot(&error))?;
        arguments(&mut command, &point);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut daemon = command.spawn().map_err(|error| cannot(&error))?;
        let begun = Instant::now();
        while !is_mounted(&point) {
            match daemon.try_wait() {
                Ok(None) if begun.elapsed() < LIMIT => thread::sleep(Duration::from_millis(2)),
                Ok(None) => {
                    let _ = daemon.kill();
                    let _ = daemon.wait();
                    return Err(cannot(&"it does not appear"));
                }
                Ok(Some(status)) => return Err(cannot(&status)),
                Err(error) => return Err(cannot(&error)),
            }
        }
        self.mounts.insert(point.clone(), daemon);
        Ok(point)
    }

    /// Unmounts everything and removes all files.
    pub(super) fn remove(&mut self) {
        for (point, mut daemon) in std::mem::take(&mut self.mounts) {
            let unmounted = |program: &str, option: &str| {
                let mut command = self.commands.command(program);
                command.arg(option).arg(&point).stdout(Stdio::null()).stderr(Stdio::null());
                command.status().is_ok_and(|status| status.success())
            };
            // Only root may use the first. Without either the mount is gone with its daemon, but for its name.
            if !unmounted("umount", "-l") && !unmounted("fusermount3", "-uz") {
                let _ = daemon.kill();
            }
            let _ = daemon.wait();
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// A mount has another device than the directory that it is in.
fn is_mounted(point: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev());
    matches!((device(point), point.parent().map(device)), (Ok(own), Some(Ok(above))) if own != above)
}

impl Drop for Place {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_removes_itself_with_its_files() {
        let place = Place::for_tests();
        let text = place.text(1000).unwrap();
        assert_eq!(fs::read(&text).unwrap().len(), 1000);
        let small = place.small_files(3).unwrap();
        assert_eq!(fs::read_dir(&small).unwrap().count(), 3);
        assert_eq!(fs::metadata(small.join("000002")).unwrap().len(), SMALL_BYTES as u64);
        drop(place);
        assert!(!text.exists() && !small.exists());
    }

    #[test]
    fn program_that_does_not_mount_is_an_error() {
        let mut place = Place::for_tests();
        let source = place.source("plain").unwrap();
        let error = place.mounted(&source, None).unwrap_err();
        assert!(error.starts_with("cannot mount") && error.contains("exit status: 1"), "{error}");
    }
}
