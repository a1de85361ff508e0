//! A command as a transform: another process, between two pipes.
//!
//! ```text
//!   the stage before ──▶ feed ──▶ pipe ──▶ command ──▶ pipe ──▶ drain ──▶ the stage behind
//!                                            │ stderr
//!                                            ╰──▶ our stderr, and its last words for the error
//! ```
//!
//! Feed and drain run in threads of their own, so neither waits for the other, however the command reads and writes. The
//! command is reaped by the drain, which sees its end; whichever half learns first that the network has failed kills it.

mod running;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::Arc;

use millstream_net::{Data, Drain, Entry, Export, Feed, Halves, Stage, TransformError};
use millstream_pipe::{Builder, Reader, Writer};
use millstream_sys::child;
use millstream_sys::transfer::Access;

pub(crate) use running::in_words;
use running::{Running, Told};

/// `exec`
pub(crate) static EXEC: Entry = Entry {
    name: "exec",
    usage: "exec COMMAND [ARGUMENT...]",
    summary: "what a command writes that is fed the stream; an error if it fails or is killed",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| match arguments {
        [] => Err("COMMAND is missing".into()),
        [name, ..] if name.is_empty() => Err("the name of the command is empty".into()),
        words => Ok(Stage::exported(Exec::new(words.to_vec(), in_words))),
    },
};

pub(crate) struct Exec {
    words: Vec<String>,
    told: Told,
}

impl Exec {
    /// The words of the command, of which there is at least one.
    pub(crate) fn new(words: Vec<String>, told: Told) -> Exec {
        Exec { words, told }
    }
}

/// Bytes that wait between us and the command, at most, in each direction: as many as anybody may have in a pipe.
const CAPACITY: usize = 512 << 10;

impl Export for Exec {
    fn start(self: Box<Self>) -> Result<Halves, TransformError> {
        let no_pipe = |error: std::io::Error| TransformError::new(format!("cannot make a pipe: {error}"));
        let (stdin, writer) = Builder::new().capacity(CAPACITY).create().map_err(no_pipe)?;
        let (reader, stdout) = Builder::new().capacity(CAPACITY).create().map_err(no_pipe)?;
        // Only our end: the command gets a description of its own.
        writer.set_nonblocking(true).map_err(no_pipe)?;
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).stderr(Stdio::piped());
        command.stdin(stdin.into_fd().map_err(no_pipe)?).stdout(stdout.into_fd().map_err(no_pipe)?);
        child::die_with_this_thread(&mut command);
        let running = Arc::new(Running::spawn(&mut command, self.told)?);
        // It has the other ends of the pipes, which would never end.
        drop(command);
        let feed = Input { writer: Some(writer), running: Arc::clone(&running) };
        Ok(Halves { feed: Box::new(feed), drain: Box::new(Output { reader: Some(reader), running }) })
    }
}

/// Its standard input.
struct Input {
    /// `None` once it is closed on either side.
    writer: Option<Writer>,
    running: Arc<Running>,
}

impl Input {
    /// Like [`feed`](Feed::feed); 0 also when the command was stopped.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let Some(writer) = &mut self.writer else { return Ok(0) };
        loop {
            match writer.write(bytes) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(0),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if child::ready_or_stopped(writer.readiness()?, Access::Write, self.running.stop().as_fd())? {
                        return Ok(0);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Feed for Input {
    fn feed(&mut self, bytes: &[u8]) -> Result<usize, TransformError> {
        let count = self.write(bytes);
        let count = count.map_err(|error| TransformError::new(format!("cannot write to the command: {error}")))?;
        if count == 0 {
            self.writer = None;
        }
        Ok(count)
    }

    fn end(&mut self) {
        self.writer = None;
    }

    fn break_off(&mut self) {
        self.running.kill();
        self.writer = None;
    }
}

/// Its standard output.
struct Output {
    /// `None` once it has ended, or no more is wanted.
    reader: Option<Reader>,
    running: Arc<Running>,
}

impl Output {
    /// 0 also when the command was stopped.
    fn read(&mut self, output: &mut [u8]) -> std::io::Result<usize> {
        let Some(reader) = &mut self.reader else { return Ok(0) };
        if child::ready_or_stopped(reader.readiness()?, Access::Read, self.running.stop().as_fd())? {
            return Ok(0);
        }
        loop {
            match reader.read(output) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

impl Drain for Output {
    fn drain(&mut self, output: &mut [u8]) -> Result<usize, TransformError> {
        let count = self.read(output);
        let count = count.map_err(|error| TransformError::new(format!("cannot read from the command: {error}")))?;
        if count == 0 {
            self.reader = None;
            self.running.outcome()?;
        }
        Ok(count)
    }

    fn has_enough(&mut self) {
        self.reader = None;
        // As in a shell: how it ends says nothing about what it has written before.
        let _ = self.running.outcome();
    }

    fn break_off(&mut self) {
        self.reader = None;
        self.running.kill();
    }
}
