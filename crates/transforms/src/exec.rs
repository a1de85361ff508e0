//! A command as a transform: another process, between pipes.
//!
//! ```text
//!   the stage before ──▶ feed ──▶ pipe ──▶ command ──▶ pipe ──▶ drain ──▶ the stage behind
//!                                            │ stderr
//!                                            ╰──▶ our stderr, and its last words for the error
//! ```
//!
//! Feeds and drains run in threads of their own, so none waits for another, however the command reads and writes. The command is
//! reaped by the drain that sees its end; a thread that learns that the network has failed kills it.
//!
//! A named input or output is a further pipe that the command inherits, and its name in the command's words is replaced by
//! `/dev/fd/N`. No other process inherits it, and nothing has to be removed.

mod running;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Acquire};

use millstream_net::{Data, Drain, Ends, Entry, Export, Fault, Feed, Stage, Started, names};
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
        words => Ok(Stage::exported(Exec { names_ends: true, ..Exec::new(words.to_vec(), in_words) })),
    },
};

#[derive(Clone)]
pub(crate) struct Exec {
    words: Vec<String>,
    told: Told,
    /// Whether the words may have names of inputs and outputs.
    names_ends: bool,
}

impl Exec {
    /// The words of the command, of which there is at least one.
    pub(crate) fn new(words: Vec<String>, told: Told) -> Exec {
        Exec { words, told, names_ends: false }
    }
}

/// Bytes that wait between us and the command, at most, in each direction: as many as anybody may have in a pipe.
const CAPACITY: usize = 512 << 10;

impl Export for Exec {
    fn has_named_ends(&self) -> bool {
        self.names_ends
    }

    fn start(self: Box<Self>, ends: &Ends) -> Result<Started, Fault> {
        let pipes = Pipes::of(ends).map_err(|error| Fault::new(format!("cannot make a pipe: {error}")))?;
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
        let running = Arc::new(Running::spawn(&mut command, stdout, self.told)?);
        // It has the other ends of the pipes, which would never end.
        drop(command);
        let wanted = Arc::new(AtomicUsize::new(readers.len()));
        let feed = |writer| Box::new(Input { writer: Some(writer), running: Arc::clone(&running) }) as Box<dyn Feed>;
        let drain = |reader| {
            let (running, wanted) = (Arc::clone(&running), Arc::clone(&wanted));
            Box::new(Output { reader: Some(reader), running, wanted }) as Box<dyn Drain>
        };
        let (feeds, drains) = (writers.into_iter().map(feed).collect(), readers.into_iter().map(drain).collect());
        Ok(Started { feeds, drains, control: running })
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
        // Only our end: the command gets a description of its own.
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

/// One of its inputs.
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
    fn feed(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        let count = self.write(bytes);
        let count = count.map_err(|error| Fault::new(format!("cannot write to the command: {error}")))?;
        if count == 0 {
            self.writer = None;
        }
        Ok(count)
    }

    fn end(&mut self) -> Result<(), Fault> {
        self.writer = None;
        Ok(())
    }
}

/// One of its outputs.
struct Output {
    /// `None` once it has ended, or no more is wanted.
    reader: Option<Reader>,
    running: Arc<Running>,
    /// Outputs of the command that are wanted and have not ended.
    wanted: Arc<AtomicUsize>,
}

/// Bytes of an output that nothing wants any more, read at once.
const UNWANTED: usize = 64 << 10;

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
    fn drain(&mut self, output: &mut [u8]) -> Result<usize, Fault> {
        let count = self.read(output);
        let count = count.map_err(|error| Fault::new(format!("cannot read from the command: {error}")))?;
        if count == 0 {
            self.reader = None;
            self.wanted.fetch_sub(1, AcqRel);
            self.running.outcome()?;
        }
        Ok(count)
    }

    fn has_enough(&mut self) {
        // While another output is wanted the command must not get SIGPIPE for this one.
        if self.wanted.fetch_sub(1, AcqRel) > 1 {
            let mut unwanted = vec![0; UNWANTED];
            while self.wanted.load(Acquire) > 0 && self.read(&mut unwanted).is_ok_and(|count| count > 0) {}
        }
        self.reader = None;
        // As in a shell: how it ends says nothing about what it has written before.
        let _ = self.running.outcome();
    }
}
