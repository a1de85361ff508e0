//! What a test must not leave behind.

use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};

/// What there is that was not there `before`: descriptors, mappings of pipes, processes, and files where every file would be
/// ours.
pub(crate) fn left_behind(before: &[String]) -> Vec<String> {
    let mut left = open_files();
    left.retain(|file| !before.contains(file));
    let mappings = std::fs::read_to_string("/proc/self/maps").expect("/proc");
    left.extend(mappings.lines().filter(|line| line.contains("memfd:")).map(str::to_owned));
    match wait(WaitOptions::NOHANG) {
        Err(Errno::CHILD) => {}
        Ok(Some((id, status))) => left.push(format!("process {id}, which ended with {status:?}")),
        other => left.push(format!("a process: {other:?}")),
    }
    // As root, the tests have directories that no other process sees.
    if rustix::process::geteuid().is_root() {
        left.extend(crate::process::files_left());
    }
    left
}

/// What the descriptors of this process lead to.
pub(crate) fn open_files() -> Vec<String> {
    let files = std::fs::read_dir("/proc/self/fd").expect("/proc");
    // Not the directory itself, which has a number while it is read.
    let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    let targets = targets.map(|target| target.display().to_string());
    targets.filter(|target| !target.starts_with("/proc/")).collect()
}
