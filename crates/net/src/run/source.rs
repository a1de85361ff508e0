//! Where bytes come from.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::sync::Arc;

use super::count::Counter;
use super::{Ends, called};
use crate::chunk::Chunk;
use crate::failure::Failure;
use crate::graph::{Node, Work};

pub(super) struct Source {
    from: From,
    name: String,
    counter: Arc<Counter>,
}

enum From {
    File(File),
    Memory(io::Cursor<Vec<u8>>),
}

impl Source {
    pub(super) fn open(node: &Node, ends: &Ends, counter: &Arc<Counter>) -> Result<Source, Failure> {
        let Work::Read(path) = &node.work else { unreachable!("only a source is opened as one") };
        let name = called(path.as_ref(), "input");
        let from = match ends.inputs.iter().find(|(of, _)| *of == node.name) {
            Some((_, input)) => Ok(From::Memory(io::Cursor::new(input.clone()))),
            None => match path {
                Some(path) => File::open(path).map(From::File),
                // Not `Stdin`, which has a buffer of its own and copies from it.
                None => io::stdin().as_fd().try_clone_to_owned().map(|fd| From::File(fd.into())),
            },
        };
        let from = from.map_err(|error| Failure::Source { name: name.clone(), offset: 0, error })?;
        Ok(Source { from, name, counter: Arc::clone(counter) })
    }

    /// Reads once; whether there was something.
    pub(super) fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, Failure> {
        chunk.clear();
        let count = self.counter.timed(|| {
            loop {
                let count = match &mut self.from {
                    From::File(file) => file.read(chunk.free()),
                    From::Memory(bytes) => bytes.read(chunk.free()),
                };
                match count {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    other => break other,
                }
            }
        });
        let offset = self.counter.bytes_out();
        let count = count.map_err(|error| Failure::Source { name: self.name.clone(), offset, error })?;
        chunk.grow(count);
        self.counter.count(0, count, count);
        Ok(count > 0)
    }
}
