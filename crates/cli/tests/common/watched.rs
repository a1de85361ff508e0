//! Commands that are watched to their end: a hang is found and described, and so is a process that is left behind.

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Far more than the slowest of them takes on the most heavily loaded machine.
const WATCHDOG: Duration = Duration::from_secs(180);
/// How often a command is looked at.
const TICK: Duration = Duration::from_millis(2);
/// Each process of a watched command has it in its environment, with a value of the command's own.
const MARK: &str = "MILLSTREAM_TEST_TREE";

/// What a command left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
}

/// The processes of a watched command, also those that it no longer knows.
pub(crate) struct Tree {
    mark: Vec<u8>,
    directory: PathBuf,
}

impl Tree {
    fn new(directory: &Path) -> Tree {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{MARK}={}-{}-", std::process::id(), COUNT.fetch_add(1, Relaxed));
        Tree { mark: mark.into_bytes(), directory: directory.to_owned() }
    }

    fn value(&self) -> &str {
        std::str::from_utf8(&self.mark[MARK.len() + 1..]).unwrap()
    }

    /// All that run now: those with the mark, and those that work in the directory of the command, because some clear
    /// their environment.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let entries = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        entries.filter(|&pid| self.has(pid)).collect()
    }

    /// Whether a process is one of them. Zombies are not: they have no environment.
    pub(crate) fn has(&self, pid: u32) -> bool {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(self.mark.len()).any(|part| part == self.mark)
            || fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&self.directory))
    }

    fn kill(&self) {
        self.processes().into_iter().for_each(super::common::kill);
    }

    fn describe(&self) -> String {
        let mut text = String::new();
        for pid in self.processes() {
            let read = |name| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
            let (words, state) = (read("cmdline").replace('\0', " "), super::common::state(pid));
            let _ = write!(text, "\n  {pid} {state:?} in {}: {words}", read("wchan"));
        }
        text
    }
}

/// Runs `command` in `directory` with nothing on its standard input. `meanwhile` is called again and again until the
/// command itself has ended. The error is a sentence: it did not end, or something of it stayed.
pub(crate) fn watch(mut command: Command, directory: &Path, mut meanwhile: impl FnMut(&Tree)) -> Result<Ended, String> {
    let tree = Tree::new(directory);
    let start = Instant::now();
    command.current_dir(directory).env(MARK, tree.value()).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let stdout = collect(child.stdout.take().unwrap());
    let stderr = collect(child.stderr.take().unwrap());
    let mut status = None;
    loop {
        if status.is_none() {
            status = child.try_wait().unwrap();
            meanwhile(&tree);
        } else if stdout.is_finished() && stderr.is_finished() && tree.processes().is_empty() {
            break;
        }
        if start.elapsed() > WATCHDOG {
            let what = if status.is_none() { "did not end" } else { "ended and left something behind" };
            let report = format!("{what}:{}", tree.describe());
            tree.kill();
            let _ = child.wait();
            return Err(report);
        }
        thread::sleep(TICK);
    }
    let status = status.unwrap();
    Ok(Ended {
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
        code: status.code(),
        signal: status.signal(),
    })
}

fn collect(mut from: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        bytes
    })
}
