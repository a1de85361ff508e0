//! A command that was started: how it ends, and what it says.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::process::{Child, ChildStderr, Command, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_net::TransformError;
use millstream_sys::process::{self, Pid};

/// Bytes of its stderr that are kept for the error.
const WORDS_MAX: usize = 1024;

/// How long its stderr is waited for when it has ended: something that it started may hold it open for ever.
const WORDS_WAIT: Duration = Duration::from_secs(1);

/// What is told of a command that did not end well: from how it ended, and what it said last.
pub(crate) type Told = fn(ExitStatus, &str) -> String;

/// Killed and reaped, if it still runs when this is dropped.
pub(super) struct Running {
    child: Mutex<Child>,
    pid: Option<Pid>,
    stop: PipeReader,
    /// `None`: it was stopped.
    stopper: Mutex<Option<PipeWriter>>,
    words: Mutex<Words>,
    told: Told,
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
    /// Starts it. Its stderr has to be a pipe.
    pub(super) fn spawn(command: &mut Command, told: Told) -> Result<Running, TransformError> {
        let (stop, stopper) =
            std::io::pipe().map_err(|error| TransformError::new(format!("cannot make a pipe: {error}")))?;
        let name = command.get_program().display().to_string();
        let mut child = command.spawn().map_err(|error| TransformError::new(why_not(&name, &error)))?;
        let (stderr, last) = (child.stderr.take(), Arc::default());
        let (until_read, all_read) = channel();
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let running = Running {
            child: Mutex::new(child),
            pid,
            stop,
            stopper: Mutex::new(Some(stopper)),
            words: Mutex::new(Words { last: Arc::clone(&last), all_read }),
            told,
        };
        if let Some(stderr) = stderr {
            let thread = std::thread::Builder::new().spawn(move || listen(stderr, &last, until_read));
            thread.map_err(|error| TransformError::new(format!("cannot start a thread: {error}")))?;
        }
        Ok(running)
    }

    /// At its end once the command was stopped.
    pub(super) fn stop(&self) -> &PipeReader {
        &self.stop
    }

    /// Ends the command, and all waiting for what it has started.
    pub(super) fn kill(&self) {
        *locked(&self.stopper) = None;
        // It may have ended by itself.
        let _ = locked(&self.child).kill();
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
        let words = self.last_words();
        match status.success() {
            true => Ok(()),
            false => Err(TransformError::new((self.told)(status, &words))),
        }
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

/// Hands on what the command says, and keeps the end of it.
#[allow(clippy::needless_pass_by_value, reason = "dropping the sender says that all was read")]
fn listen(mut stderr: ChildStderr, last: &Mutex<Vec<u8>>, _until_read: Sender<()>) {
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

fn why_not(name: &str, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound if name.contains('/') => format!("cannot run '{name}': there is no such file"),
        ErrorKind::NotFound => format!("cannot run '{name}': no directory in PATH has it"),
        ErrorKind::PermissionDenied => format!("cannot run '{name}': permission denied; is it executable?"),
        _ => format!("cannot run '{name}': {error}"),
    }
}

/// For any command.
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
