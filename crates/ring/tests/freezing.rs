//! A model of how a participant is to freeze a channel whose main path has no locked instruction
//! (`docs/design/engine.md`). There are a writer and a reader of one byte at a time, and a third process that detaches
//! the pipe at any moment. Each access to what they share is one step. The two positions go through a store buffer, as
//! on x86-64, which `membarrier(2)` empties. The model visits all orders of these steps.
//!
//! In none of them is a byte lost, doubled or out of its turn, and none ends before the reader has all. The tests leave
//! out each check (`Look`) of the protocol in turn, and each time the model must find something.

use std::collections::HashSet;

/// Bytes of the ring, and bytes of the stream, whose values are their positions.
const CAPACITY: usize = 2;
const STREAM: u8 = 4;

/// The checks without which the protocol fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Every CPU passes a fence after `FROZEN` is set.
    Fence,
    /// A side that has loaded the other's position loads `FROZEN` again, before it uses that position.
    AfterRefresh,
    /// A writer that finds `FROZEN` after it has published compares its position with the final one.
    LateWriter,
    /// A reader that finds `FROZEN` after it has consumed compares its position with the final one.
    LateReader,
    /// A participant that compares waits for the final positions.
    Final,
}

const LOOKS: [Look; 5] = [Look::Fence, Look::AfterRefresh, Look::LateWriter, Look::LateReader, Look::Final];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Begin,
    /// Has the other's position and may use it.
    Refreshed,
    Copies,
    Publishes,
    Published,
    Compares,
    /// Goes on in the backing pipe.
    Kernel,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Side {
    at: At,
    /// Bytes that this side has moved.
    done: u8,
    /// Its own position, and the other's as this side last loaded it.
    own: u8,
    other: u8,
    /// A byte that the reader has copied and not yet returned.
    copied: u8,
    /// A store that no other CPU sees yet.
    buffered: Option<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Detacher {
    Begins,
    Fences,
    LoadsRead,
    LoadsWritten,
    Stores,
    Drains(u8),
    IsDone,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    is_frozen: bool,
    /// The final read and write positions, once they are known.
    last: Option<(u8, u8)>,
    loaded: (u8, u8),
    is_in_kernel: bool,
    read: u8,
    written: u8,
    ring: [u8; CAPACITY],
    backing: Vec<u8>,
    writer: Side,
    reader: Side,
    detacher: Detacher,
    /// A byte that the reader has returned and should not have.
    wrong: Option<u8>,
}

impl World {
    fn new() -> World {
        let side = || Side { at: At::Begin, done: 0, own: 0, other: 0, copied: 0, buffered: None };
        World {
            is_frozen: false,
            last: None,
            loaded: (0, 0),
            is_in_kernel: false,
            read: 0,
            written: 0,
            ring: [0; CAPACITY],
            backing: Vec::new(),
            writer: side(),
            reader: side(),
            detacher: Detacher::Begins,
            wrong: None,
        }
    }

    fn is_over(&self) -> bool {
        self.reader.done == STREAM && self.writer.done == STREAM && self.backing.is_empty()
    }

    fn returned(&mut self, byte: u8) {
        if byte != self.reader.done {
            self.wrong = Some(byte);
        }
        self.reader.done += 1;
    }

    /// Everything that can happen next.
    fn next(&self, without: Option<Look>) -> Vec<World> {
        let steps = [World::drain_writers_store, World::drain_readers_store];
        let mut next: Vec<World> = steps.into_iter().filter_map(|step| self.after(step)).collect();
        next.extend(self.after(|world| world.write(without)));
        next.extend(self.after(|world| world.read(without)));
        next.extend(self.after(|world| world.detach(without)));
        next
    }

    fn after(&self, step: impl FnOnce(&mut World) -> bool) -> Option<World> {
        let mut world = self.clone();
        step(&mut world).then_some(world)
    }

    fn drain_writers_store(&mut self) -> bool {
        self.writer.buffered.take().map(|position| self.written = position).is_some()
    }

    fn drain_readers_store(&mut self) -> bool {
        self.reader.buffered.take().map(|position| self.read = position).is_some()
    }

    /// A side whose cached position is not enough loads the other's, and then `FROZEN`. The other order would be wrong.
    fn begin(side: &mut Side, has_enough: bool, others: u8, is_frozen: bool, without: Option<Look>) {
        let looks_later = !has_enough && without != Some(Look::AfterRefresh);
        if looks_later {
            side.other = others;
        }
        side.at = match (is_frozen && !looks_later, has_enough) {
            (true, _) => At::Kernel,
            (false, true) => At::Copies,
            (false, false) => At::Refreshed,
        };
    }

    fn refreshed(side: &mut Side, others: u8, is_frozen: bool, is_enough: fn(u8, u8) -> bool, without: Option<Look>) {
        if without == Some(Look::AfterRefresh) {
            side.other = others;
        }
        side.at = match (is_frozen && without != Some(Look::AfterRefresh), is_enough(side.own, side.other)) {
            (true, _) => At::Kernel,
            (false, true) => At::Copies,
            (false, false) => At::Begin,
        };
    }

    fn write(&mut self, without: Option<Look>) -> bool {
        let (frozen, read, last) = (self.is_frozen, self.read, self.last);
        let side = &mut self.writer;
        if side.done == STREAM {
            return false;
        }
        let is_room = |own: u8, read: u8| usize::from(own - read) < CAPACITY;
        match side.at {
            At::Begin => World::begin(side, is_room(side.own, side.other), read, frozen, without),
            At::Refreshed => World::refreshed(side, read, frozen, is_room, without),
            At::Copies => {
                self.ring[usize::from(side.own) % CAPACITY] = side.done;
                side.at = At::Publishes;
            }
            At::Publishes if side.buffered.is_some() => return false,
            At::Publishes => {
                side.own += 1;
                side.buffered = Some(side.own);
                side.at = At::Published;
            }
            At::Published if frozen && without != Some(Look::LateWriter) => side.at = At::Compares,
            At::Published => (side.at, side.done) = (At::Begin, side.done + 1),
            At::Compares => match last {
                None if without != Some(Look::Final) => return false,
                // Taken: this write is done, and the next one goes to the kernel.
                Some((_, written)) if written >= side.own => (side.at, side.done) = (At::Kernel, side.done + 1),
                _ => side.at = At::Kernel,
            },
            At::Kernel if !self.is_in_kernel => return false,
            At::Kernel => {
                self.backing.push(side.done);
                side.done += 1;
            }
        }
        true
    }

    fn read(&mut self, without: Option<Look>) -> bool {
        let (frozen, written, last) = (self.is_frozen, self.written, self.last);
        let side = &mut self.reader;
        if side.done == STREAM {
            return false;
        }
        let are_bytes = |own: u8, written: u8| written > own;
        match side.at {
            At::Begin => World::begin(side, are_bytes(side.own, side.other), written, frozen, without),
            At::Refreshed => World::refreshed(side, written, frozen, are_bytes, without),
            At::Copies => {
                side.copied = self.ring[usize::from(side.own) % CAPACITY];
                side.at = At::Publishes;
            }
            At::Publishes if side.buffered.is_some() => return false,
            At::Publishes => {
                side.own += 1;
                side.buffered = Some(side.own);
                side.at = At::Published;
            }
            At::Published if frozen && without != Some(Look::LateReader) => side.at = At::Compares,
            At::Published => {
                side.at = At::Begin;
                let byte = side.copied;
                self.returned(byte);
            }
            At::Compares => match last {
                None if without != Some(Look::Final) => return false,
                // Consumed before the stream was frozen; otherwise the byte is in the backing pipe as well.
                Some((read, _)) if read >= side.own => {
                    side.at = At::Kernel;
                    let byte = side.copied;
                    self.returned(byte);
                }
                _ => side.at = At::Kernel,
            },
            At::Kernel if !self.is_in_kernel || self.backing.is_empty() => return false,
            At::Kernel => {
                let byte = self.backing.remove(0);
                self.returned(byte);
            }
        }
        true
    }

    fn detach(&mut self, without: Option<Look>) -> bool {
        self.detacher = match self.detacher {
            Detacher::Begins => {
                self.is_frozen = true;
                Detacher::Fences
            }
            Detacher::Fences => {
                if without != Some(Look::Fence) {
                    self.drain_writers_store();
                    self.drain_readers_store();
                }
                Detacher::LoadsRead
            }
            Detacher::LoadsRead => {
                self.loaded.0 = self.read;
                Detacher::LoadsWritten
            }
            Detacher::LoadsWritten => {
                self.loaded.1 = self.written;
                Detacher::Stores
            }
            Detacher::Stores => {
                self.last = Some(self.loaded);
                Detacher::Drains(self.loaded.0)
            }
            Detacher::Drains(position) if position < self.loaded.1 => {
                self.backing.push(self.ring[usize::from(position) % CAPACITY]);
                Detacher::Drains(position + 1)
            }
            Detacher::Drains(_) => {
                self.is_in_kernel = true;
                Detacher::IsDone
            }
            Detacher::IsDone => return false,
        };
        true
    }
}

/// Returns the number of states, or a state in which something is wrong.
fn visit(without: Option<Look>) -> Result<usize, World> {
    let (mut seen, mut left) = (HashSet::from([World::new()]), vec![World::new()]);
    while let Some(world) = left.pop() {
        let next = world.next(without);
        if world.wrong.is_some() || (next.is_empty() && !world.is_over()) {
            return Err(world);
        }
        left.extend(next.into_iter().filter(|next| seen.insert(next.clone())));
    }
    Ok(seen.len())
}

#[test]
fn frozen_stream_keeps_every_byte_in_its_turn() {
    let states = visit(None).unwrap_or_else(|world| panic!("{world:#?}"));
    println!("{states} states");
    assert!(states > 10_000, "{states}");
}

#[test]
fn model_finds_a_fault_without_any_one_check() {
    for look in LOOKS {
        assert!(visit(Some(look)).is_err(), "{look:?} is not needed");
    }
}
