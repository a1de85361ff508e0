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
        let mut command = self.commands.command(program);
        command.arg("-qc");
        self.packed_by(size, command, end, end)
    }

    /// The same by any command from its input to its output.
    pub(super) fn packed_by(
        &self,
        size: usize,
        mut command: Command,
        directory: &str,
        end: &str,
    ) -> Result<PathBuf, String> {
        let (text, path) = (self.text(size)?, self.source(directory)?.join(format!("text.{end}")));
        if !path.exists() {
            let error = |error: io::Error| format!("cannot make '{}': {error}", path.display());
            let (input, output) = (File::open(text).map_err(error)?, File::create(&path).map_err(error)?);
            self.run(command.stdin(input).stdout(output), &path)?;
        }
        Ok(path)
    }

    /// By millstream itself, with a network.
    pub(super) fn packed_by_network(&self, size: usize, network: &str, end: &str) -> Result<PathBuf, String> {
        let mut command = self.commands.command(&self.program);
        command.args(["net", network]);
        self.packed_by(size, command, network.split(' ').next().unwrap_or(network), end)
    }

    /// Runs a command that makes a file.
    fn run(&self, command: &mut Command, made: &Path) -> Result<(), String> {
        let name = command_name(command.get_program()).into_owned();
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("cannot make '{}': {name} failed: {status}", made.display())),
            Err(error) => Err(format!("cannot make '{}': cannot run {name}: {error}", made.display())),
        }
    }

    /// Runs a script that makes a file, `$MADE`, of `$FILE`, unless it is there.
    fn made(&self, made: &Path, file: &Path, script: &str) -> Result<(), String> {
        if made.exists() {
            return Ok(());
        }
        let mut command = self.commands.command("sh");
        command.args(["-ec", script]).env("FILE", file).env("MADE", made);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.run(&mut command, made)
    }

    /// The small files in one archive, in a directory of its own.
    pub(super) fn archive(&self, count: usize) -> Result<PathBuf, String> {
        let (small, made) = (self.small_files(count)?, self.source("archive")?.join("small.tar.gz"));
        self.made(&made, &small, "tar -c --sort=name -C \"$FILE\" . | gzip -c >\"$MADE\"")?;
        Ok(made)
    }

    /// The same files in an image of squashfs.
    pub(super) fn image(&self, count: usize) -> Result<PathBuf, String> {
        let (small, made) = (self.small_files(count)?, self.source("image")?.join("small.squashfs"));
        self.made(&made, &small, "mksquashfs \"$FILE\" \"$MADE\" -comp gzip -no-progress")?;
        Ok(made)
    }

    /// A key, and the text encrypted with it.
    pub(super) fn encrypted(&self, size: usize) -> Result<(PathBuf, PathBuf), String> {
        let (text, made) = (self.text(size)?, self.source("age")?.join("text.age"));
        let key = self.source("keys")?.join("key");
        self.made(&key, &text, "age-keygen -o \"$MADE\"")?;
        self.made(&made, &text, "age -e -i \"${MADE%/*/*}/keys/key\" -o \"$MADE\" \"$FILE\"")?;
        Ok((key, made))
    }

    /// The text in a directory that gocryptfs has mounted. The cost of its password is the least: it is paid once, when mounting.
    pub(super) fn gocryptfs(&mut self, program: &Path, size: usize) -> Result<PathBuf, String> {
        let (text, cipher) = (self.text(size)?, self.root.join("cipher"));
        self.made(&cipher, &text, "mkdir \"$MADE\"; gocryptfs -init -q -extpass 'echo key' -scryptn 10 \"$MADE\"")?;
        let options = ["-fg", "-q", "-extpass", "echo key"].map(OsStr::new);
        let point = self.mounted_by(program, &cipher, &[&options[..], &[cipher.as_os_str()]].concat())?;
        let inside = point.join("text");
        fs::copy(text, &inside).map_err(|error| format!("cannot write to '{}': {error}", inside.display()))?;
        Ok(inside)
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

    /// Where the members of an archive are: a directory of the mount.
    pub(super) fn mounted_archives(&mut self, archive: &Path) -> Result<PathBuf, String> {
        let rules = self.root.join("archives.toml");
        let text = "[[rule]]\nmatch = '*.tar.gz'\nas = '*'\nread = 'gunzip'\narchive = 'tar'\n";
        fs::write(&rules, text).map_err(|error| format!("cannot write '{}': {error}", rules.display()))?;
        let source = archive.parent().unwrap_or(&self.root).to_owned();
        let mut command = self.commands.command(&self.program);
        command.args(["mount", "--foreground", "--rules"]).arg(rules).arg(&source);
        let point = self.mount(&source, "archives", command, |command, point| {
            command.arg(point);
        })?;
        Ok(point.join("small"))
    }

    /// Where another file system shows a file or a directory. Its program wants the mount point last.
    pub(super) fn mounted_by(&mut self, program: &Path, source: &Path, options: &[&OsStr]) -> Result<PathBuf, String> {
        let mut command = self.commands.command(program);
        command.args(options).stderr(Stdio::null());
        let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
        self.mount(source, name, command, |command, point| {
            command.arg(point);
        })
    }

    /// MiB of memory that the daemon of a mount has had at most.
    pub(super) fn peak_memory(&self, point: &Path) -> Result<f64, String> {
        let daemon = self.mounts.get(point).ok_or_else(|| format!("'{}' is not mounted", point.display()))?;
        let status = fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        Ok(kibibytes.ok_or("the kernel does not tell the memory of the daemon")? / 1024.0)
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

fn command_name(program: &OsStr) -> std::borrow::Cow<'_, str> {
    Path::new(program).file_name().unwrap_or(program).to_string_lossy()
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
