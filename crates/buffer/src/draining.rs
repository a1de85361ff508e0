//! A thread that writes an output.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::thread;
use std::time::Instant;

use millstream_sys::written;

use crate::queue::{Place, Queue};
use crate::rate::Rate;
use crate::spill::Spill;
use crate::stream::{self, Stream, StreamError};

/// Writes until there is no more, or it cannot be written.
pub(crate) fn drain(queue: &Queue, number: usize, mut output: Stream, rate: Option<u64>, spill: Option<&Spill>) {
    let mut rate = rate.map(Rate::new);
    let mut from_spill = Vec::new();
    while let Some(place) = queue.next(number) {
        let written = match &place {
            Place::Memory(block) => write(&mut output.file, block.filled(), rate.as_mut()),
            Place::Spill(slot, len) => {
                from_spill.resize(*len, 0);
                let read = spill.map_or(Ok(()), |spill| spill.read(*slot, &mut from_spill));
                let read = read.map_err(|error| io::Error::new(error.kind(), format!("the spill is lost: {error}")));
                read.and_then(|()| write(&mut output.file, &from_spill, rate.as_mut()))
            }
        };
        drop(place);
        match written {
            Ok(()) => queue.has_written(number),
            Err(error) => {
                queue.has_failed(number, StreamError { name: output.name, is_input: false, error });
                return;
            }
        }
    }
    // Some file systems say only here that there was no room.
    match written::close_copy(&output.file) {
        Ok(()) => queue.has_finished(number),
        Err(error) => queue.has_failed(number, StreamError { name: output.name, is_input: false, error }),
    }
}

fn write(file: &mut File, bytes: &[u8], rate: Option<&mut Rate>) -> io::Result<()> {
    let Some(rate) = rate else { return write_all(file, bytes) };
    for piece in bytes.chunks(rate.piece()) {
        thread::sleep(rate.wait_for(piece.len(), Instant::now()));
        write_all(file, piece)?;
    }
    Ok(())
}

fn write_all(file: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Another process has made the description one that does not block.
            Err(error) if error.kind() == ErrorKind::WouldBlock => stream::wait_until_writable(file)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
