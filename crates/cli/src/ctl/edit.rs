//! Changing a file of settings: the lines that are meant, and no other.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;
use std::time::{Duration, Instant};

use millstream_pipe::settings::Line;

/// One change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edit<'a> {
    /// Key and value.
    Set(&'a str, &'a str),
    Unset(&'a str),
}

/// What is written lies here until it is whole; one at a time, by the lock of the directory.
pub(crate) const UNFINISHED: &str = ".millstream.conf.new";

/// How long to wait for other processes that change the file, each for milliseconds; and the time between two attempts.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(10);

/// Changes the file: afterwards it is as it was or as it should be. Other processes that change it wait.
///
/// # Errors
/// A sentence.
pub(super) fn apply(path: &Path, edits: &[Edit<'_>]) -> Result<(), String> {
    // What a link leads to is changed, and not the link.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let cannot = |error: io::Error| format!("cannot change {}: {error}", path.display());
    let directory = path.parent().ok_or_else(|| format!("{} lies in no directory", path.display()))?;
    fs::create_dir_all(directory).map_err(cannot)?;
    let lock = File::open(directory).map_err(cannot)?;
    wait_for(&lock, directory, PATIENCE)?;
    let before = match fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes)
            .map_err(|_| format!("{} is not text in UTF-8, so it is left as it is; mend it by hand", path.display()))?,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(cannot(error)),
    };
    let after = edits.iter().fold(before.clone(), |text, edit| edited(&text, *edit));
    if after == before {
        return Ok(());
    }
    replace(path, directory, &after).and_then(|()| lock.sync_all()).map_err(cannot)
}

/// Waits for processes that change the file at this moment. Any process that can list a directory can lock it, and may keep
/// the lock.
fn wait_for(lock: &File, directory: &Path, patience: Duration) -> Result<(), String> {
    let began = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if began.elapsed() < patience => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "another process has {} locked and keeps it, so nothing was changed; 'lslocks' says which",
                    directory.display()
                ));
            }
            Err(TryLockError::Error(error)) => return Err(format!("cannot lock {}: {error}", directory.display())),
        }
    }
}

fn replace(path: &Path, directory: &Path, text: &str) -> io::Result<()> {
    let unfinished = directory.join(UNFINISHED);
    // Left by a process that was killed: the lock is ours.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o644).open(&unfinished)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| keep_owner(path, &file)).and_then(|()| file.sync_all());
    written.and_then(|()| fs::rename(&unfinished, path)).inspect_err(|_| {
        let _ = fs::remove_file(&unfinished);
    })
}

/// Root may change the file of a user, whose it stays.
fn keep_owner(path: &Path, file: &File) -> io::Result<()> {
    let Ok(before) = fs::metadata(path) else { return Ok(()) };
    let now = file.metadata()?;
    if (before.uid(), before.gid()) != (now.uid(), now.gid()) {
        fchown(file, Some(before.uid()), Some(before.gid()))?;
    }
    file.set_permissions(before.permissions())
}

/// The text after a change. Of several lines for one key the last counts, so that is the one that changes.
fn edited(text: &str, edit: Edit<'_>) -> String {
    let is_about = |line: &str, key: &str| matches!(Line::of(line), Line::Pair(found, _) if found == key);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match edit {
        Edit::Set(key, value) => match lines.iter().rposition(|line| is_about(line, key)) {
            Some(at) => lines[at] = with_value(&lines[at], key, value),
            None => lines.push(format!("{key} = {value}")),
        },
        Edit::Unset(key) => {
            lines = lines
                .into_iter()
                .filter_map(|line| if is_about(&line, key) { comment(&line) } else { Some(line) })
                .collect();
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// The same line with another value: its comment stays.
fn with_value(line: &str, key: &str, value: &str) -> String {
    let said = line.split('#').next().unwrap_or("");
    let indent = &line[..line.len() - line.trim_start().len()];
    let rest = &line[said.trim_end().len()..];
    format!("{indent}{key} = {value}{rest}")
}

/// What stays of a line without its pair.
fn comment(line: &str) -> Option<String> {
    line.find('#').map(|at| line[at..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# mine\ncapacity = 64K\n\n  capacity=128K   # for the tests\nwait = spin # alone here";

    #[test]
    fn the_line_that_counts_is_changed_and_the_others_stay() {
        assert_eq!(
            edited(TEXT, Edit::Set("capacity", "1M")),
            "# mine\ncapacity = 64K\n\n  capacity = 1M   # for the tests\nwait = spin # alone here\n"
        );
        assert_eq!(edited("", Edit::Set("wait", "block")), "wait = block\n");
        assert_eq!(edited("# x", Edit::Set("wait", "block")), "# x\nwait = block\n");
    }

    #[test]
    fn lock_that_is_never_released_is_an_error() {
        let directory = std::env::temp_dir();
        let (theirs, ours) = (File::open(&directory).unwrap(), File::open(&directory).unwrap());
        theirs.lock_shared().unwrap();
        let refusal = wait_for(&ours, &directory, Duration::from_millis(30)).unwrap_err();
        assert!(refusal.contains("locked") && refusal.contains("nothing was changed"), "{refusal}");
        theirs.unlock().unwrap();
    }

    #[test]
    fn what_is_unset_is_gone_wherever_it_stood_and_comments_stay() {
        assert_eq!(edited(TEXT, Edit::Unset("capacity")), "# mine\n\n# for the tests\nwait = spin # alone here\n");
        assert_eq!(edited(TEXT, Edit::Unset("pipes_max")), format!("{TEXT}\n"));
        assert_eq!(edited("a line that means nothing", Edit::Unset("wait")), "a line that means nothing\n");
    }
}
