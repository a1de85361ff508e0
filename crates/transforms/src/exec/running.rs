//! A command that was started: how it ends, and what it says.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use millstream_net::{Control, Ending, TransformError};
use millstream_sys::child;
use millstream_sys::process::{self, Pid};

/// Bytes of its stderr that are kept for the error.
const WORDS_MAX: usize = 1024;

/// How long to wait for the rest of stderr after its end: a process that it started may hold stderr open for ever.
const WORDS_WAIT: Duration = Duration::from_secs(1);

/// Makes the error of a command that failed from its status and the last line of its stderr.
pub(crate) type Told = fn(ExitStatus, &str) -> TransformError;

/// The signal of [`Running::kill`].
const KILLED: i32 = 9;

/// The exit status for a command that was found and cannot be run.
const CANNOT_RUN: u8 = 126;
/// The exit status for a command that was not found.
const NOT_FOUND: u8 = 127;

/// A command that was started. Dropping it kills and reaps the command, if it still runs.
pub(super) struct Running {
    child: Mutex<Child>,
    pid: Option<Pid>,
    stop: PipeReader,
    /// `None`: it was stopped.
    stopper: Mutex<Option<PipeWriter>>,
    words: Mutex<Words>,
    told: Told,
    start: Instant,
    ending: OnceLock<Ending>,
    timeout: Option<Duration>,
    /// Since when the command could go on without us: it has unread input or its input has ended, and it wrote no
    /// output.
    has_input: Mutex<Option<Instant>>,
}

struct Words {
    last: Arc<Mutex<Vec<u8>>>,
    /// Hangs up when all of stderr was read.
    all_read: Receiver<()>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    /// Starts the command. Without a pipe for its standard output, that goes where its stderr goes.
    pub(super) fn spawn(
        command: &mut Command,
        stdout: Option<OwnedFd>,
        told: Told,
        timeout: Option<Duration>,
    ) -> Result<Running, TransformError> {
        let pipe = || std::io::pipe().map_err(|error| TransformError::new(format!("cannot make a pipe: {error}")));
        let ((stop, stopper), (said, stderr)) = (pipe()?, pipe()?);
        let stdout = match stdout {
            Some(stdout) => stdout,
            None => stderr
                .try_clone()
                .map_err(|error| TransformError::new(format!("cannot copy a descriptor: {error}")))?
                .into(),
        };
        command.stdout(Stdio::from(stdout)).stderr(stderr);
        let start = Instant::now();
        let name = command.get_program().display().to_string();
        let child = command.spawn().map_err(|error| why_not(&name, &error))?;
        let last = Arc::default();
        let (until_read, all_read) = channel();
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let running = Running {
            child: Mutex::new(child),
            pid,
            stop,
            stopper: Mutex::new(Some(stopper)),
            words: Mutex::new(Words { last: Arc::clone(&last), all_read }),
            told,
            start,
            ending: OnceLock::new(),
            timeout,
            has_input: Mutex::default(),
        };
        let thread = std::thread::Builder::new().spawn(move || listen(said, &last, until_read));
        thread.map_err(|error| TransformError::new(format!("cannot start a thread: {error}")))?;
        Ok(running)
    }

    /// A pipe that is at end of file once the command was stopped.
    pub(super) fn stop(&self) -> &PipeReader {
        &self.stop
    }

    /// Notes that the command does not read its input, or that the input has ended.
    pub(super) fn has_input(&self) {
        locked(&self.has_input).get_or_insert_with(Instant::now);
    }

    /// Notes that the command has read.
    pub(super) fn takes_input(&self) {
        *locked(&self.has_input) = None;
    }

    /// Notes that the command has written to one of its outputs.
    pub(super) fn gives_output(&self) {
        if let Some(since) = &mut *locked(&self.has_input) {
            *since = Instant::now();
        }
    }

    /// How much of the timeout is left for a wait that began at `begun`; `None`: there is no timeout. The time runs
    /// only while the command has input.
    pub(super) fn time_left(&self, begun: Instant) -> Option<Duration> {
        let timeout = self.timeout?;
        let waited = locked(&self.has_input).map(|since| since.max(begun).elapsed());
        Some(timeout.saturating_sub(waited.unwrap_or(Duration::ZERO)))
    }

    /// Kills a command that has reached its timeout, and returns the error.
    pub(super) fn end_hanging(&self) -> TransformError {
        self.kill();
        let timeout = self.timeout.unwrap_or_default();
        TransformError::new(format!(
            "the command gave nothing for {timeout:?} and was ended; a longer timeout lets it go on"
        ))
    }

    /// Kills the command, and ends all waits for it and for processes that it has started.
    pub(super) fn kill(&self) {
        *locked(&self.stopper) = None;
        // It may have ended by itself.
        let _ = locked(&self.child).kill();
    }

    /// Sleeps until the command, whose last output has ended, has ended itself; at most for its timeout.
    ///
    /// # Errors
    /// It reached its timeout, or failed: its status and the last line of its stderr.
    pub(super) fn outcome_in_time(&self) -> Result<(), TransformError> {
        // After the command was reaped, its number may belong to another process.
        let has_ended = matches!(locked(&self.child).try_wait(), Ok(Some(_)));
        if let (Some(timeout), Some(pid)) = (self.timeout, self.pid)
            && !has_ended
            && !child::ends_within(pid, timeout)
        {
            return Err(self.end_hanging());
        }
        self.outcome()
    }

    /// Sleeps until the command has ended.
    ///
    /// # Errors
    /// It failed: its status and the last line of its stderr.
    pub(super) fn outcome(&self) -> Result<(), TransformError> {
        // Waits without the lock, which a thread that kills the command needs.
        let _ = self.pid.map(process::wait_unreaped);
        let status = locked(&self.child).wait();
        let status = status.map_err(|error| TransformError::new(format!("lost track of the command: {error}")))?;
        self.has_ended(status);
        let words = self.last_words();
        match status.success() {
            true => Ok(()),
            false => Err((self.told)(status, &words)),
        }
    }

    fn has_ended(&self, status: ExitStatus) {
        self.ending.get_or_init(|| Ending {
            status: status.code(),
            signal: status.signal(),
            is_stopped: status.signal() == Some(KILLED) && locked(&self.stopper).is_none(),
            wall: self.start.elapsed(),
            processes: 1,
        });
    }

    fn last_words(&self) -> String {
        let words = locked(&self.words);
        // Returns when the other thread hangs up: it never sends anything.
        let _ = words.all_read.recv_timeout(WORDS_WAIT);
        let last = locked(&words.last);
        let text = String::from_utf8_lossy(&last);
        text.trim_end().rsplit(['\n', '\r']).next().unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let _ = locked(&self.child).wait();
    }
}

impl Control for Running {
    fn stop(&self) {
        self.kill();
    }

    fn ending(&self) -> Option<Ending> {
        if self.ending.get().is_none() {
            let is_stopped = locked(&self.stopper).is_none();
            let mut child = locked(&self.child);
            let status = if is_stopped { child.wait().map(Some) } else { child.try_wait() };
            drop(child);
            if let Ok(Some(status)) = status {
                self.has_ended(status);
            }
        }
        self.ending.get().copied()
    }
}

/// Copies the command's stderr to ours, and keeps the end of it.
#[allow(clippy::needless_pass_by_value, reason = "dropping the sender says that all was read")]
fn listen(mut stderr: PipeReader, last: &Mutex<Vec<u8>>, _until_read: Sender<()>) {
    let mut buffer = [0; WORDS_MAX];
    loop {
        match stderr.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(count) => {
                // A failure has no one to be reported to.
                let _ = std::io::stderr().write_all(&buffer[..count]);
                let mut last = locked(last);
                last.extend_from_slice(&buffer[..count]);
                let surplus = last.len().saturating_sub(WORDS_MAX);
                last.drain(..surplus);
            }
        }
    }
}

fn why_not(name: &str, error: &std::io::Error) -> TransformError {
    let (status, why) = match error.kind() {
        ErrorKind::NotFound if name.contains('/') => (NOT_FOUND, "there is no such file".into()),
        ErrorKind::NotFound => (NOT_FOUND, "no directory in PATH has it".into()),
        ErrorKind::PermissionDenied => (CANNOT_RUN, "permission denied; is it executable?".into()),
        _ => (CANNOT_RUN, error.to_string()),
    };
    TransformError::new(format!("cannot run '{name}': {why}")).with_exit_status(status)
}

/// For any command.
pub(crate) fn failed(status: ExitStatus, words: &str) -> TransformError {
    TransformError::new(in_words(status, words)).with_exit_status(exit_status(status))
}

/// As a shell gives it.
pub(crate) fn exit_status(status: ExitStatus) -> u8 {
    let number = status.code().or(status.signal().map(|signal| 128 + signal));
    number.and_then(|number| u8::try_from(number).ok()).unwrap_or(u8::MAX)
}

/// How any command ended.
pub(crate) fn in_words(status: ExitStatus, words: &str) -> String {
    let said = if words.is_empty() { String::new() } else { format!("; it said last: {words}") };
    match status.code() {
        Some(code) => format!("the command ended with status {code}{said}"),
        None => {
            let status = status.to_string();
            format!("the command was killed by {}{said}", status.replacen("signal: ", "signal ", 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_status_is_that_of_a_shell() {
        for (raw, expected) in [(0, 0), (3 << 8, 3), (255 << 8, 255), (9, 137), (15, 143), (0x80 | 11, 139)] {
            assert_eq!(exit_status(ExitStatus::from_raw(raw)), expected, "{raw:#x}");
        }
    }
}
