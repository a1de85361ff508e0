//! Where bytes go.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use millstream_pipe::Writer;
use millstream_sys::whole_file::WholeFile;
use millstream_sys::{Errno, inherited, promised, written};

use super::count::Counter;
use super::push::{Flow, Push};
use super::unfinished::UnfinishedFiles;
use super::{fifo, names, standard};
use crate::chunk::Chunk;
use crate::error::NetworkError;
use crate::files::descriptor_named;
use crate::graph::Target;

pub(super) struct Sink {
    destination: Destination,
    files: UnfinishedFiles,
    name: String,
    /// Not written yet: small pieces for a file are batched, because no reader waits for them.
    batch: Vec<u8>,
    counter: Arc<Counter>,
}

enum Destination {
    /// A file that appears when it is complete.
    Whole(Option<WholeFile>),
    /// A file that grows at its end. It is there before the first byte.
    Append(Arc<OnceLock<File>>),
    /// A terminal, a pipe, a device: a reader may be waiting at the other end.
    Stream(File),
    /// A FIFO, or a pipe of the library.
    Pipe(Option<Box<Writer>>),
    /// The standard output in cooperative mode: one thread writes it.
    Promised(promised::Output),
    /// Where the caller wants it.
    Given(Arc<Mutex<dyn Write + Send>>),
}

impl Sink {
    /// `may_promise`: nothing else in this process uses the standard output, so that it may be in cooperative mode.
    pub(super) fn open(
        target: &Target,
        batch_bytes: usize,
        files: &UnfinishedFiles,
        may_promise: bool,
        counter: Arc<Counter>,
    ) -> Result<Sink, NetworkError> {
        let name = names::of_target(target);
        let destination = Sink::opened(target, files, may_promise);
        let destination = destination.map_err(|error| NetworkError::Sink { name: name.clone(), offset: 0, error })?;
        let batch_bytes =
            if matches!(destination, Destination::Stream(_) | Destination::Pipe(_) | Destination::Promised(_)) {
                0
            } else {
                batch_bytes
            };
        Ok(Sink { destination, files: files.clone(), name, batch: Vec::with_capacity(batch_bytes), counter })
    }

    pub(super) fn given(output: Arc<Mutex<dyn Write + Send>>, counter: Arc<Counter>) -> Sink {
        Sink {
            destination: Destination::Given(output),
            files: UnfinishedFiles::default(),
            name: "the output".into(),
            batch: Vec::new(),
            counter,
        }
    }

    fn opened(target: &Target, files: &UnfinishedFiles, may_promise: bool) -> io::Result<Destination> {
        let stream = |file: File| {
            let is_file = file.metadata()?.is_file();
            Ok(if is_file { Destination::Append(Arc::new(OnceLock::from(file))) } else { Destination::Stream(file) })
        };
        match target {
            Target::Stdout if standard::is_closed(1) => Err(Errno::BADF.into()),
            Target::Stdout if may_promise && let Some(output) = promised::Output::promise() => {
                Ok(Destination::Promised(output))
            }
            Target::Stdout if may_promise && let Some(writer) = standard::writer() => {
                Ok(Destination::Pipe(Some(Box::new(writer))))
            }
            Target::Stdout => stream(io::stdout().as_fd().try_clone_to_owned()?.into()),
            Target::Append(path) | Target::File(path) if fifo::is_fifo(path) => {
                fifo::writer(path).map(|writer| Destination::Pipe(Some(Box::new(writer))))
            }
            Target::Append(path) => match OpenOptions::new().append(true).open(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    Ok(Destination::Append(files.add_missing(path.clone(), names::of_target(target))))
                }
                opened => stream(opened?),
            },
            Target::File(path) => match std::fs::metadata(path) {
                Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => {
                    stream(OpenOptions::new().write(true).open(path)?)
                }
                Ok(_) if let Some(descriptor) = descriptor_named(path) => {
                    stream(inherited::copy_of(descriptor)?.into())
                }
                _ => Ok(Destination::Whole(Some(WholeFile::create(path)?))),
            },
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<Flow, NetworkError> {
        let destination = &mut self.destination;
        let written = self.counter.timed(|| match destination {
            Destination::Whole(file) => file.as_mut().map_or(Ok(()), |file| file.write_all(bytes)),
            Destination::Append(file) => file.get().expect("every file is made before the first byte").write_all(bytes),
            Destination::Stream(file) => file.write_all(bytes),
            Destination::Pipe(writer) => writer.as_mut().map_or(Ok(()), |writer| writer.write_all(bytes)),
            Destination::Promised(output) => write_all(output, bytes),
            Destination::Given(output) => output.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes),
        });
        match written {
            Ok(()) => {
                self.counter.count(bytes.len(), bytes.len(), bytes.len());
                if let Destination::Pipe(Some(writer)) = &self.destination {
                    self.counter.set_in_memory(writer.statistics());
                }
                Ok(Flow::More)
            }
            // A reader that wants no more is no failure, as in a shell.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Flow::Enough),
            Err(error) => Err(self.failure(error)),
        }
    }

    fn write_batch(&mut self) -> Result<Flow, NetworkError> {
        let batch = std::mem::take(&mut self.batch);
        let flow = if batch.is_empty() { Ok(Flow::More) } else { self.write(&batch) };
        self.batch = batch;
        self.batch.clear();
        flow
    }

    fn failure(&self, error: io::Error) -> NetworkError {
        NetworkError::Sink { name: self.name.clone(), offset: self.counter.bytes_out(), error }
    }
}

impl Push for Sink {
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, NetworkError> {
        let bytes = chunk.bytes();
        if self.batch.len() + bytes.len() > self.batch.capacity() && self.write_batch()? == Flow::Enough {
            return Ok(Flow::Enough);
        }
        if bytes.len() < self.batch.capacity() {
            self.batch.extend_from_slice(bytes);
            return Ok(Flow::More);
        }
        self.write(bytes)
    }

    fn check_demand(&mut self) -> Result<Flow, NetworkError> {
        Ok(Flow::More)
    }

    fn finish(&mut self) -> Result<(), NetworkError> {
        self.write_batch()?;
        if let Destination::Whole(file) = &mut self.destination
            && let Some(file) = file.take()
        {
            self.files.add_finished(file, self.name.clone(), self.counter.bytes_out());
        }
        if let Destination::Pipe(writer) = &mut self.destination
            && let Some(writer) = writer.take()
        {
            writer.close().map_err(|error| self.failure(error))?;
        }
        if let Destination::Append(file) = &self.destination
            && let Some(file) = file.get()
        {
            written::confirm(file).map_err(|error| self.failure(error))?;
        }
        Ok(())
    }
}

fn write_all(output: &promised::Output, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match output.write(bytes) {
            Err(Errno::INTR) => {}
            written => bytes = &bytes[written?..],
        }
    }
    Ok(())
}
