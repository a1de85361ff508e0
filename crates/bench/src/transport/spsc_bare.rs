//! A bare ring for one producer and one consumer in shared memory: what the hardware gives before any semantics.
//!
//! ```text
//! 0         128        256       4096                                 4096 + 512 KiB
//! │write_pos│ read_pos │ is_over │ bytes, position p at p % CAPACITY │
//! ```
//!
//! No locks, no sleeping, no news of a peer's death. An end that has to wait spins, or gives way on one CPU.
//!
//! | edge | store | load | because |
//! |---|---|---|---|
//! | W | producer, `write_pos`, Release | consumer, Acquire | bytes are there before the position says so |
//! | R | consumer, `read_pos`, Release | producer, Acquire | bytes were taken before their place is used again |
//! | O | producer, `is_over`, Release | consumer, Acquire | a consumer that sees the end sees the last W |
#![allow(unsafe_code)]

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use millstream_sys::shared::Shared;

use super::ends::{Ends, Transport, WriteEnd};
use crate::engine::placement::Placement;

/// Half the second-level cache of today's servers: both copies stay in it.
const CAPACITY: u64 = 512 << 10;

/// What one end moves before it tells the other, so that long transfers overlap.
const STEP: usize = CAPACITY as usize / 8;

/// A line each: adjacent lines are fetched in pairs of 64 bytes on x86-64 (Intel 64 and IA-32 Architectures
/// Optimization Reference Manual, spatial prefetcher).
const WRITE_POS: usize = 0;
const READ_POS: usize = 128;
const IS_OVER: usize = 256;
const BYTES: usize = 4096;

/// The ring.
pub struct SpscBare;

/// The only one.
pub static SPSC_BARE: SpscBare = SpscBare;

impl Transport for SpscBare {
    fn name(&self) -> &'static str {
        "spsc-bare"
    }

    fn connect(&self, placement: Placement) -> Result<Ends, String> {
        let (producer, consumer) = ring(placement.idle()).map_err(|error| format!("no shared memory: {error}"))?;
        Ok(Ends { writer: Box::new(producer), reader: Box::new(consumer) })
    }

    fn sleeps(&self) -> bool {
        false
    }
}

fn ring(idle: fn()) -> io::Result<(Producer, Consumer)> {
    let memory = Arc::new(Shared::anonymous(BYTES + CAPACITY as usize)?);
    let producer = Producer { memory: Arc::clone(&memory), idle, write_pos: 0, read_pos_seen: 0 };
    Ok((producer, Consumer { memory, idle, read_pos: 0, write_pos_seen: 0 }))
}

struct Producer {
    memory: Arc<Shared>,
    idle: fn(),
    write_pos: u64,
    /// Not newer than what the consumer stored: there is at least as much room as it says.
    read_pos_seen: u64,
}

impl Producer {
    fn free(&self) -> u64 {
        CAPACITY - (self.write_pos - self.read_pos_seen)
    }

    /// Waits for room for `wanted` bytes, or for some if it must wait at all.
    fn wait_for_room(&mut self, wanted: usize) -> usize {
        if self.free() < wanted as u64 {
            self.read_pos_seen = self.memory.word(READ_POS).load(Acquire); // edge R
        }
        while self.free() == 0 {
            (self.idle)();
            self.read_pos_seen = self.memory.word(READ_POS).load(Acquire); // edge R
        }
        self.free() as usize
    }
}

impl Write for Producer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let wanted = rest.len().min(STEP);
            let count = wanted.min(self.wait_for_room(wanted));
            let (now, later) = rest.split_at(count);
            let (head, tail) = now.split_at(count.min(until_wrap(self.write_pos)));
            // SAFETY: positions from `write_pos` up to `read_pos + CAPACITY` are the producer's alone: the consumer has
            // taken what was there (edge R) and reads nothing before edge W gives it.
            unsafe {
                self.memory.copy_in(place(self.write_pos), head);
                self.memory.copy_in(BYTES, tail);
            }
            self.write_pos += count as u64;
            self.memory.word(WRITE_POS).store(self.write_pos, Release); // edge W
            rest = later;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteEnd for Producer {
    fn finish(self: Box<Self>) {
        self.memory.word(IS_OVER).store(1, Release); // edge O
    }
}

struct Consumer {
    memory: Arc<Shared>,
    idle: fn(),
    read_pos: u64,
    /// Not newer than what the producer stored: there are at least as many bytes as it says.
    write_pos_seen: u64,
}

impl Consumer {
    fn available(&self) -> u64 {
        self.write_pos_seen - self.read_pos
    }

    /// Waits for bytes; how many there are, 0 at the end.
    fn wait_for_bytes(&mut self, wanted: usize) -> usize {
        if self.available() < wanted as u64 {
            self.write_pos_seen = self.memory.word(WRITE_POS).load(Acquire); // edge W
        }
        while self.available() == 0 {
            let is_over = self.memory.word(IS_OVER).load(Acquire) != 0; // edge O
            self.write_pos_seen = self.memory.word(WRITE_POS).load(Acquire); // edge W
            if is_over || self.available() > 0 {
                break;
            }
            (self.idle)();
        }
        self.available() as usize
    }
}

impl Read for Consumer {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let count = bytes.len().min(self.wait_for_bytes(bytes.len()));
        for piece in bytes[..count].chunks_mut(STEP) {
            let len = piece.len();
            let (head, tail) = piece.split_at_mut(len.min(until_wrap(self.read_pos)));
            // SAFETY: positions from `read_pos` up to `write_pos` are the consumer's alone: the producer has put them
            // there (edge W) and overwrites nothing before edge R gives it back.
            unsafe {
                self.memory.copy_out(place(self.read_pos), head);
                self.memory.copy_out(BYTES, tail);
            }
            self.read_pos += len as u64;
            self.memory.word(READ_POS).store(self.read_pos, Release); // edge R
        }
        Ok(count)
    }
}

fn place(position: u64) -> usize {
    BYTES + (position % CAPACITY) as usize
}

fn until_wrap(position: u64) -> usize {
    (CAPACITY - position % CAPACITY) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern;

    #[test]
    fn bytes_arrive_in_order_over_many_turns_of_the_ring() {
        let (mut producer, mut consumer) = ring(std::thread::yield_now).unwrap();
        let total = 5 * CAPACITY + 12_345;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut sent = 0;
                // Prime, so that every kind of wrap happens; larger than the ring once.
                for len in [7919, 600_011, 104_729].iter().cycle() {
                    let mut bytes = vec![0; (total - sent).min(*len) as usize];
                    pattern::fill(sent, &mut bytes);
                    producer.write_all(&bytes).unwrap();
                    sent += bytes.len() as u64;
                    if sent == total {
                        break;
                    }
                }
                Box::new(producer).finish();
            });
            let (mut got, mut bytes) = (0, vec![0; 65_537]);
            loop {
                let count = consumer.read(&mut bytes).unwrap();
                if count == 0 {
                    break;
                }
                assert_eq!(pattern::first_difference(got, &bytes[..count]), None);
                got += count as u64;
            }
            assert_eq!(got, total);
        });
    }
}
