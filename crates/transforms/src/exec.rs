//! A command as a transform: another process, between pipes.
//!
//! ```text
//!   the stage before ──▶ feed ──▶ pipe ──▶ command ──▶ pipe ──▶ drain ──▶ the stage behind
//!                                            │ stderr
//!                                            ╰──▶ our stderr, and its last words for the error
//! ```
//!
//! Feeds and drains run in threads of their own, so none waits for another, however the command reads and writes. The
//! drain that sees the end of the command reaps it; a thread that learns that the network has failed kills it.
//!
//! A named input or output is a further pipe that the command inherits. `/dev/fd/N` replaces its name in the words of
//! the command. No other process inherits it, and there is no file to remove.

mod running;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Acquire};
use std::time::{Duration, Instant};

use millstream_net::{Data, Drain, Ends, Entry, Export, Feed, Stage, Started, TransformError, names};
use millstream_pipe::{Builder, Reader, Writer};
use millstream_sys::transfer::Access;
use millstream_sys::{Errno, child};

use running::{Running, Told};
pub(crate) use running::{exit_status, failed, in_words};

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
        words => Ok(Stage::exported(Exec { names_ends: true, ..Exec::new(words.to_vec(), failed) })),
    },
};

#[derive(Clone)]
pub(crate) struct Exec {
    words: Vec<String>,
    told: Told,
    /// Whether the words may contain names of inputs and outputs.
    names_ends: bool,
    timeout: Option<Duration>,
}

impl Exec {
    /// `words` are the command and its arguments; there is at least one.
    pub(crate) fn new(words: Vec<String>, told: Told) -> Exec {
        Exec { words, told, names_ends: false, timeout: None }
    }
}

/// The capacity of each pipe to and from the command: any user may have as many bytes in a pipe.
const CAPACITY: usize = 512 << 10;

impl Export for Exec {
    fn has_named_ends(&self) -> bool {
        self.names_ends
    }

    fn start(self: Box<Self>, ends: &Ends) -> Result<Started, TransformError> {
        let pipes = Pipes::of(ends).map_err(|error| TransformError::new(format!("cannot make a pipe: {error}")))?;
        let Pipes { stdin, stdout, named, writers, readers } = pipes;
        let path = |name: &str| {
            let (_, end) = named.iter().find(|(other, _)| other == name)?;
            Some(format!("/dev/fd/{}", end.as_raw_fd()))
        };
        let words =
            self.words.iter().map(|word| if ends.are_named() { names::replaced(word, path) } else { word.clone() });
        let words: Vec<String> = words.collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(stdin.map_or_else(Stdio::null, Stdio::from));
        child::inherit(&mut command, named.into_iter().map(|(_, end)| end).collect());
        child::die_with_this_thread(&mut command);
        let running = Arc::new(Running::spawn(&mut command, stdout, self.told, self.timeout)?);
        // It holds the command's ends of the pipes: with them open here, no pipe would ever end.
        drop(command);
        let (open, wanted) = (Arc::new(AtomicUsize::new(writers.len())), Arc::new(AtomicUsize::new(readers.len())));
        let feed = |writer| {
            let (running, open) = (Arc::clone(&running), Arc::clone(&open));
            Box::new(Input { writer: Some(writer), running, open }) as Box<dyn Feed>
        };
        let drain = |reader| {
            let (running, wanted) = (Arc::clone(&running), Arc::clone(&wanted));
            Box::new(Output { reader: Some(reader), running, wanted }) as Box<dyn Drain>
        };
        let (feeds, drains) = (writers.into_iter().map(feed).collect(), readers.into_iter().map(drain).collect());
        Ok(Started { feeds, drains, control: running })
    }

    fn limit(&mut self, timeout: Duration) {
        self.timeout = Some(timeout);
    }
}

/// The pipes of a command: its ends, and ours in the order of [`Ends`].
#[derive(Default)]
struct Pipes {
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    named: Vec<(String, OwnedFd)>,
    writers: Vec<Writer>,
    readers: Vec<Reader>,
}

impl Pipes {
    fn of(ends: &Ends) -> std::io::Result<Pipes> {
        let mut pipes = Pipes::default();
        if ends.has_input {
            pipes.stdin = Some(pipes.input()?);
        }
        for name in &ends.inputs {
            let end = pipes.input()?;
            pipes.named.push((name.clone(), end));
        }
        if ends.has_output {
            pipes.stdout = Some(pipes.output()?);
        }
        for name in &ends.outputs {
            let end = pipes.output()?;
            pipes.named.push((name.clone(), end));
        }
        Ok(pipes)
    }

    fn input(&mut self) -> std::io::Result<OwnedFd> {
        let (reader, writer) = Builder::new().capacity(CAPACITY).create()?;
        // Only for our end: the command gets an open file description of its own.
        writer.set_nonblocking(true)?;
        self.writers.push(writer);
        reader.into_fd()
    }

    fn output(&mut self) -> std::io::Result<OwnedFd> {
        let (reader, writer) = Builder::new().capacity(CAPACITY).create()?;
        self.readers.push(reader);
        writer.into_fd()
    }
}

/// One input of the command.
struct Input {
    /// `None` once either end is closed.
    writer: Option<Writer>,
    running: Arc<Running>,
    /// How many inputs of the command are not closed.
    open: Arc<AtomicUsize>,
}

impl Input {
    /// Like [`feed`](Feed::feed); 0 also when the command was stopped.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let Some(writer) = &mut self.writer else { return Ok(0) };
        loop {
            match writer.write(bytes) {
                Ok(count) => {
                    self.running.takes_input();
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(0),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.running.has_input();
                    let stop = self.running.stop().as_fd();
                    if child::ready_or_stopped(writer.readiness()?, Access::Write, stop, None)? {
                        return Ok(0);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Closes the input. After the last one, the time of the command's timeout runs.
    fn close(&mut self) {
        if self.writer.take().is_some() && self.open.fetch_sub(1, AcqRel) == 1 {
            self.running.has_input();
        }
    }
}

impl Feed for Input {
    fn feed(&mut self, bytes: &[u8]) -> Result<usize, TransformError> {
        let count = self.write(bytes);
        let count = count.map_err(|error| TransformError::new(format!("cannot write to the command: {error}")))?;
        if count == 0 {
            self.close();
        }
        Ok(count)
    }

    fn end(&mut self) -> Result<(), TransformError> {
        self.close();
        Ok(())
    }
}

/// One output of the command.
struct Output {
    /// `None` once it has ended, or the network wants no more of it.
    reader: Option<Reader>,
    running: Arc<Running>,
    /// How many outputs of the command are wanted and have not ended.
    wanted: Arc<AtomicUsize>,
}

/// Bytes that one read takes from an output that is no longer wanted.
const UNWANTED: usize = 64 << 10;

impl Output {
    /// Reads from the output; 0 also if the command was stopped. `TimedOut` only if there is a timeout and `is_wanted`.
    fn read(&mut self, output: &mut [u8], is_wanted: bool) -> std::io::Result<usize> {
        let Some(reader) = &mut self.reader else { return Ok(0) };
        let (begun, stop) = (Instant::now(), self.running.stop().as_fd());
        loop {
            let left = self.running.time_left(begun).filter(|_| is_wanted);
            match child::ready_or_stopped(reader.readiness()?, Access::Read, stop, left) {
                Err(Errno::TIMEDOUT) if self.running.time_left(begun) == Some(Duration::ZERO) => {
                    return Err(Errno::TIMEDOUT.into());
                }
                Err(Errno::TIMEDOUT) => {}
                Ok(true) => return Ok(0),
                Ok(false) => break,
                Err(error) => return Err(error.into()),
            }
        }
        loop {
            match reader.read(output) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => {
                    self.running.gives_output();
                    return other;
                }
            }
        }
    }

    /// Sleeps until the command has ended. The timeout holds only for the last wanted output: before that, the command
    /// may still write to another.
    fn outcome(&self, was_wanted: usize) -> Result<(), TransformError> {
        match was_wanted {
            0 | 1 => self.running.outcome_in_time(),
            _ => self.running.outcome(),
        }
    }
}

impl Drain for Output {
    fn drain(&mut self, output: &mut [u8]) -> Result<usize, TransformError> {
        let count = self.read(output, true).map_err(|error| match error.kind() {
            ErrorKind::TimedOut => self.running.end_hanging(),
            _ => TransformError::new(format!("cannot read from the command: {error}")),
        })?;
        if count == 0 {
            self.reader = None;
            let was_wanted = self.wanted.fetch_sub(1, AcqRel);
            self.outcome(was_wanted)?;
        }
        Ok(count)
    }

    fn has_enough(&mut self) {
        // While another output is wanted, the command must not get SIGPIPE for this one: its bytes are read and
        // dropped.
        let was_wanted = self.wanted.fetch_sub(1, AcqRel);
        if was_wanted > 1 {
            let mut unwanted = vec![0; UNWANTED];
            while self.wanted.load(Acquire) > 0 && self.read(&mut unwanted, false).is_ok_and(|count| count > 0) {}
        }
        self.reader = None;
        // As in a shell: the status of the command does not matter for the bytes that it has written before.
        let _ = self.outcome(was_wanted);
    }
}
