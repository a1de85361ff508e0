//! The thread that reads the input.

use std::fs::File;
use std::io::{self, ErrorKind, Read};

use millstream_sys::{Errno, foreign, transfer};

use crate::queue::{Queue, Room};
use crate::spill::{Slot, Spill};
use crate::stream::{self, Stream, StreamError};

/// So many bytes at most go past in one call.
const SPLICED: usize = 1 << 20;
/// Why the thread went on from one way to the other.
enum Passed {
    /// The output takes nothing at present, or something waits for it.
    Slow,
    /// These two cannot be spliced.
    Never,
    End,
}

/// What comes after a block.
enum Then {
    More,
    End,
    Error(io::Error),
}

/// Reads until the input ends or no output is left. What can go straight to `target`, which is the only output, does.
pub(crate) fn fill(queue: &Queue, mut input: Stream, target: Option<File>, spill: Option<&Spill>) {
    let outcome = fill_until_end(queue, &mut input.file, target, spill);
    queue.has_ended(outcome.err().map(|error| StreamError { name: input.name, is_input: true, error }));
}

fn fill_until_end(queue: &Queue, input: &mut File, mut target: Option<File>, spill: Option<&Spill>) -> io::Result<()> {
    loop {
        if let Some(output) = &target {
            match pass_on(queue, input, output)? {
                Passed::End => return Ok(()),
                Passed::Never => target = None,
                Passed::Slow => {}
            }
        }
        let room = queue.wait_for_room();
        if let Room::Over = room {
            return Ok(());
        }
        let mut bytes = queue.empty_block();
        let (len, then) = read_block(queue, input, &mut bytes);
        match (len, room) {
            (0, Room::Spill(slot)) => {
                queue.put_back(bytes);
                queue.give_back(slot);
            }
            (0, _) => queue.put_back(bytes),
            (_, Room::Spill(slot)) => match spill.map(|spill| put_into(queue, spill, slot, &bytes[..len])) {
                Some(Ok(())) => queue.put_back(bytes),
                // This block is one more in memory, and the next waits until one is written.
                _ => {
                    queue.is_spill_full();
                    queue.push(bytes, len);
                }
            },
            _ => queue.push(bytes, len),
        }
        match then {
            Then::More => {}
            Then::End => return Ok(()),
            Then::Error(error) => return Err(error),
        }
    }
}

/// Puts bytes behind those that were spilled last, if an output does not take these meanwhile, or into a slot of their own.
fn put_into(queue: &Queue, spill: &Spill, slot: Slot, bytes: &[u8]) -> io::Result<()> {
    if let Some((last, len)) = queue.last_spilled(bytes.len()) {
        spill.write(last, len, bytes)?;
        if queue.add_to_spilled(last, bytes.len()) {
            queue.give_back(slot);
            return Ok(());
        }
    }
    spill.write(slot, 0, bytes)?;
    queue.push_spilled(slot, bytes.len());
    Ok(())
}

/// Has the kernel move bytes from the one pipe to the other, as long as it can and nothing waits.
fn pass_on(queue: &Queue, input: &File, output: &File) -> io::Result<Passed> {
    while queue.may_pass_on() {
        match foreign::splice_now(input, output, SPLICED) {
            Ok(0) => return Ok(Passed::End),
            Ok(len) => queue.has_spliced(len),
            Err(Errno::INTR) => {}
            // There is room, so there are no bytes.
            Err(Errno::AGAIN) if transfer::readiness(output)?.writable => stream::wait_until_readable(input)?,
            Err(Errno::AGAIN) => return Ok(Passed::Slow),
            // Reading and writing tell what it is, if it is more than that these two cannot be spliced.
            Err(_) => return Ok(Passed::Never),
        }
    }
    Ok(Passed::Slow)
}

/// Reads until the block is full, or an output needs what there is, or no more is there. Returns how much it has read.
fn read_block(queue: &Queue, input: &mut File, bytes: &mut [u8]) -> (usize, Then) {
    let mut len = 0;
    loop {
        match input.read(&mut bytes[len..]) {
            Ok(0) => return (len, Then::End),
            Ok(count) => len += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => match stream::wait_until_readable(input) {
                Ok(()) => continue,
                Err(error) => return (len, Then::Error(error)),
            },
            Err(error) => return (len, Then::Error(error)),
        }
        let is_more_there = || transfer::readiness(&*input).is_ok_and(|readiness| readiness.readable);
        if len == bytes.len() || queue.is_short() || !is_more_there() {
            return (len, Then::More);
        }
    }
}
