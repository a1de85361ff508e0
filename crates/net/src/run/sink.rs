//! Where bytes go.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_sys::whole_file::WholeFile;

use super::count::Counter;
use super::{Flow, Push, target_called};
use crate::chunk::Chunk;
use crate::failure::Failure;
use crate::graph::Target;

/// Files that are complete and have not replaced the old ones yet: that happens when the whole network has done its work.
#[derive(Clone, Default)]
pub(super) struct Complete(Arc<Mutex<Vec<Finished>>>);

struct Finished {
    file: WholeFile,
    name: String,
    bytes: u64,
}

impl Complete {
    /// Puts all of them on disk, and then each in its place.
    pub(super) fn keep(&self) -> Result<(), Failure> {
        let finished = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let failure = |name: &str, offset, error| Failure::Sink { name: name.into(), offset, error };
        for Finished { file, name, bytes } in &finished {
            file.sync().map_err(|error| failure(name, *bytes, error))?;
        }
        for Finished { file, name, bytes } in finished {
            file.keep().map_err(|error| failure(&name, bytes, error))?;
        }
        Ok(())
    }
}

pub(super) struct Sink {
    to: To,
    complete: Complete,
    name: String,
    /// Not written yet: small pieces are gathered for a file, where nobody waits for them.
    gathered: Vec<u8>,
    counter: Arc<Counter>,
}

enum To {
    /// Appears when it is complete.
    Whole(Option<WholeFile>),
    /// Grows at its end.
    Append(File),
    /// A terminal, a pipe, a device: somebody may be waiting at the other end.
    Stream(File),
    Memory(Arc<Mutex<Vec<u8>>>),
}

impl Sink {
    pub(super) fn open(
        target: &Target,
        gather: usize,
        complete: &Complete,
        counter: Arc<Counter>,
    ) -> Result<Sink, Failure> {
        let name = target_called(target);
        let to = Sink::opened(target).map_err(|error| Failure::Sink { name: name.clone(), offset: 0, error })?;
        let gather = if matches!(to, To::Stream(_)) { 0 } else { gather };
        Ok(Sink { to, complete: complete.clone(), name, gathered: Vec::with_capacity(gather), counter })
    }

    pub(super) fn memory(output: Arc<Mutex<Vec<u8>>>, counter: Arc<Counter>) -> Sink {
        Sink {
            to: To::Memory(output),
            complete: Complete::default(),
            name: "memory".into(),
            gathered: Vec::new(),
            counter,
        }
    }

    fn opened(target: &Target) -> io::Result<To> {
        let stream = |file: File| Ok(if file.metadata()?.is_file() { To::Append(file) } else { To::Stream(file) });
        match target {
            Target::Stdout => stream(io::stdout().as_fd().try_clone_to_owned()?.into()),
            Target::Append(path) => stream(OpenOptions::new().append(true).create(true).open(path)?),
            Target::File(path) => match std::fs::metadata(path) {
                Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => {
                    stream(OpenOptions::new().write(true).open(path)?)
                }
                _ => Ok(To::Whole(Some(WholeFile::create(path)?))),
            },
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<Flow, Failure> {
        let to = &mut self.to;
        let written = self.counter.timed(|| match to {
            To::Whole(file) => file.as_mut().map_or(Ok(()), |file| file.write_all(bytes)),
            To::Append(file) | To::Stream(file) => file.write_all(bytes),
            To::Memory(output) => {
                output.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
                Ok(())
            }
        });
        match written {
            Ok(()) => {
                self.counter.count(bytes.len(), bytes.len(), bytes.len());
                Ok(Flow::More)
            }
            // Who does not want to read more is no failure, as in a shell.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Flow::Enough),
            Err(error) => Err(self.failure(error)),
        }
    }

    fn write_gathered(&mut self) -> Result<Flow, Failure> {
        let gathered = std::mem::take(&mut self.gathered);
        let flow = if gathered.is_empty() { Ok(Flow::More) } else { self.write(&gathered) };
        self.gathered = gathered;
        self.gathered.clear();
        flow
    }

    fn failure(&self, error: io::Error) -> Failure {
        Failure::Sink { name: self.name.clone(), offset: self.counter.bytes_out(), error }
    }
}

impl Push for Sink {
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, Failure> {
        let bytes = chunk.bytes();
        if self.gathered.len() + bytes.len() > self.gathered.capacity() && self.write_gathered()? == Flow::Enough {
            return Ok(Flow::Enough);
        }
        if bytes.len() < self.gathered.capacity() {
            self.gathered.extend_from_slice(bytes);
            return Ok(Flow::More);
        }
        self.write(bytes)
    }

    fn look(&mut self) -> Result<Flow, Failure> {
        Ok(Flow::More)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.write_gathered()?;
        if let To::Whole(file) = &mut self.to
            && let Some(file) = file.take()
        {
            let finished = Finished { file, name: self.name.clone(), bytes: self.counter.bytes_out() };
            self.complete.0.lock().unwrap_or_else(PoisonError::into_inner).push(finished);
        }
        Ok(())
    }
}
