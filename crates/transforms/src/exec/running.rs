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

/// How long its stderr is waited for when it has ended: something that it started may hold it open for ever.
const WORDS_WAIT: Duration = Duration::from_secs(1);

/// The error of a command that did not end well: from how it ended, and what it said last.
pub(crate) type Told = fn(ExitStatus, &str) -> TransformError;

/// The signal of [`Running::kill`].
const KILLED: i32 = 9;

/// The exit status for a command that was found and cannot be run.
const CANNOT_RUN: u8 = 126;
/// The exit status for a command that was not found.
const NOT_FOUND: u8 = 127;

/// Killed and reaped, if it still runs when this is dropped.
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
    /// Since when there is input that the command could read, or its input has ended, and no output of it has given.
    has_input: Mutex<Option<Instant>>,
}

struct Words {
    last: Arc<Mutex<Vec<u8>>>,
    /// Hangs up when everything was read.
    all_read: Receiver<()>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    /// Starts it. Without an end of a pipe for its standard output, what it writes there is told as what it says on stderr.
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

    /// At its end once the command was stopped.
    pub(super) fn stop(&self) -> &PipeReader {
        &self.stop
    }

    /// The command could read, and does not, or its input has ended.
    pub(super) fn has_input(&self) {
        locked(&self.has_input).get_or_insert_with(Instant::now);
    }

    /// The command has read.
    pub(super) fn takes_input(&self) {
        *locked(&self.has_input) = None;
    }

    /// The command has written, to any of its outputs.
    pub(super) fn gives_output(&self) {
        if let Some(since) = &mut *locked(&self.has_input) {
            *since = Instant::now();
        }
    }

    /// How long its output may be waited for yet, since `begun`; `None`: for ever. The time goes from when it has input.
    pub(super) fn time_left(&self, begun: Instant) -> Option<Duration> {
        let timeout = self.timeout?;
        let waited = locked(&self.has_input).map(|since| since.max(begun).elapsed());
        Some(timeout.saturating_sub(waited.unwrap_or(Duration::ZERO)))
    }

    /// Ends a command that has given nothing for too long.
    pub(super) fn end_hanging(&self) -> TransformError {
        self.kill();
        let timeout = self.timeout.unwrap_or_default();
        TransformError::new(format!(
            "the command gave nothing for {timeout:?} and was ended; a longer timeout lets it go on"
        ))
    }

    /// Ends the command, and all waiting for what it has started.
    pub(super) fn kill(&self) {
        *locked(&self.stopper) = None;
        // It may have ended by itself.
        let _ = locked(&self.child).kill();
    }

    /// Sleeps until the command has ended, which has ended its last output.
    ///
    /// # Errors
    /// It did not end in time, or not well: how, and what it said last.
    pub(super) fn outcome_in_time(&self) -> Result<(), TransformError> {
        // Its number may be that of another process by the second time that this is asked.
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
    /// It did not end well: how, and what it said last.
    pub(super) fn outcome(&self) -> Result<(), TransformError> {
        // Without the lock, which whoever kills it needs.
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
        // Nothing is ever sent.
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

/// Hands on what the command says, and keeps the end of it.
#[allow(clippy::needless_pass_by_value, reason = "dropping the sender says that all was read")]
fn listen(mut stderr: PipeReader, last: &Mutex<Vec<u8>>, _until_read: Sender<()>) {
    let mut buffer = [0; WORDS_MAX];
    loop {
        match stderr.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(count) => {
                // Nobody to tell when nobody listens.
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
