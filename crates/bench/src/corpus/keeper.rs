//! No pipeline outlives the measurement, and no directory stays behind, whatever signal ends it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use millstream_sys::process::{self, Pid};
use millstream_sys::signals::{self, Held};

/// A directory that is emptied for each run, and the process group of the one that goes on.
pub struct Keeper {
    directory: PathBuf,
    /// 0: none goes on.
    group: Arc<AtomicU32>,
    held: Arc<Held>,
}

impl Keeper {
    /// Makes a directory inside of `parent`, and removes those of earlier measurements that were killed. From now on a signal that
    /// would end this process ends what it has started first. To be called before other threads are started.
    ///
    /// # Errors
    /// A sentence: the directory cannot be made.
    pub fn start(parent: &Path) -> Result<Keeper, String> {
        remove_abandoned(parent);
        let directory = parent.join(format!("run.{}", std::process::id()));
        fs::create_dir_all(&directory).map_err(|error| format!("cannot make '{}': {error}", directory.display()))?;
        let keeper = Keeper { directory, group: Arc::new(AtomicU32::new(0)), held: Arc::new(Held::hold()) };
        let (held, group, directory) = (Arc::clone(&keeper.held), Arc::clone(&keeper.group), keeper.directory.clone());
        thread::spawn(move || end_all_when_told(&held, &group, &directory));
        Ok(keeper)
    }

    /// Removes what is in the directory.
    pub(super) fn empty(&self) -> Result<(), String> {
        let remove = |entry: fs::DirEntry| {
            let path = entry.path();
            if entry.file_type()?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
        };
        fs::read_dir(&self.directory)
            .and_then(|entries| entries.flatten().try_for_each(remove))
            .map_err(|error| format!("cannot empty '{}': {error}", self.directory.display()))
    }

    /// Has a command run in the directory, in a group of its own, with the signals that this process was started with.
    pub(super) fn prepare(&self, command: &mut Command) {
        command.current_dir(&self.directory).process_group(0);
        Held::restore_in(&self.held, command);
    }

    /// From now on this group is ended with the measurement.
    pub(super) fn watch(&self, group: u32) {
        self.group.store(group, SeqCst);
    }

    /// Ends what is left of the group.
    pub(super) fn end(&self) {
        end_group(self.group.swap(0, SeqCst));
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn end_group(group: u32) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        process::kill_group(group);
    }
}

fn end_all_when_told(held: &Held, group: &AtomicU32, directory: &Path) {
    loop {
        let signal = held.next().signal;
        if signals::ends_a_process(signal) {
            end_group(group.load(SeqCst));
            let _ = fs::remove_dir_all(directory);
            signals::die_of(signal);
        } else if signals::OF_THE_TERMINAL.contains(&signal) {
            signals::raise_unblocked(signal);
        }
    }
}

/// Directories whose process is gone.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix("run."));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
