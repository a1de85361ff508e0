//! A broadcast: wake-ups in both directions, ends that die, copies that the writer comes round to. The backing pipes
//! behave as the kernel's, and no sleep ends by itself.
#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use millstream_ring::sync::{AtomicU32, Ordering};
use millstream_ring::{Broadcast, BroadcastHeader, Bytes, Received};

use crate::world::{Me, check};

/// A segment with a bank of two bytes, and a backing pipe for each of two readers.
struct World {
    header: BroadcastHeader,
    cells: Vec<UnsafeCell<u8>>,
    pipes: [BackingPipe; 2],
}

// SAFETY: the cells are what the model is about: loom stops it if two threads use one at once.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

/// The pages in use, and which ends are left.
#[derive(Default)]
struct State {
    pages: u32,
    reader_gone: bool,
    writer_gone: bool,
}

struct BackingPipe {
    state: Mutex<State>,
    changed: Condvar,
}

impl BackingPipe {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn sleep_until(&self, is_ready: impl Fn(&State) -> bool) {
        let mut state = self.state.lock().unwrap();
        while !is_ready(&state) {
            state = self.changed.wait(state).unwrap();
        }
    }

    fn asks(&self, question: impl FnOnce(&State) -> bool) -> bool {
        question(&self.state.lock().unwrap())
    }
}

impl World {
    fn new() -> Arc<World> {
        let world = World {
            header: BroadcastHeader::new(),
            cells: (0..2).map(|_| UnsafeCell::new(0)).collect(),
            pipes: [(); 2].map(|()| BackingPipe { state: Mutex::new(State::default()), changed: Condvar::new() }),
        };
        world.shared().found(0);
        Arc::new(world)
    }

    fn shared(&self) -> Broadcast<'_> {
        Broadcast::new(&self.header, Bytes::new(&self.cells), false)
    }
}

/// Writes as the writer of the pipe library does, for these `readers`, and removes those from them that have gone.
/// Returns whether any is left.
fn write(world: &World, readers: &mut Vec<usize>, byte: u8) -> bool {
    let (shared, me) = (world.shared(), Me(1));
    loop {
        let writer = shared.lock_writer(&me).unwrap();
        let position = writer.position();
        // Each word once: a reader that goes on meanwhile must not hide another.
        let behind = |&place: &usize| (position - writer.read_position(place, position).unwrap(), place);
        let Some((behind, slowest)) = readers.iter().map(behind).max() else { return false };
        if behind < 2 {
            assert_eq!(writer.write([&[byte][..]].into_iter(), 1, 0, None), 1);
            drop(writer);
            shared.take_waiters(readers.iter().copied(), |place| {
                world.pipes[place].change(|pipe| pipe.pages = pipe.pages.max(1));
            });
            return true;
        }
        drop(writer);
        let (pipe, wanted) = (&world.pipes[slowest], position + 1 - 2);
        pipe.change(|pipe| pipe.pages = 2);
        shared.writer_will_sleep(slowest, wanted);
        if !shared.has_reached(slowest, wanted) {
            pipe.sleep_until(|pipe| pipe.pages < 2 || pipe.reader_gone);
        }
        shared.writer_woke(slowest);
        if pipe.asks(|pipe| pipe.reader_gone) {
            readers.retain(|&place| place != slowest);
        }
    }
}

/// Reads as a reader of the pipe library does. `None`: the end of the stream.
fn read(world: &World, place: usize, has_token: &mut bool) -> Option<u8> {
    let (shared, me, pipe, mut byte) = (world.shared(), Me(2 + place as u32), &world.pipes[place], [0]);
    loop {
        let reader = shared.lock_reader(place, &me).unwrap();
        let received = reader.read([&mut byte[..]].into_iter(), 0).unwrap();
        drop(reader);
        if received == Received::Bytes(1) {
            if shared.take_wish(place) {
                pipe.change(|pipe| pipe.pages = pipe.pages.saturating_sub(1));
                *has_token = true;
            }
            return Some(byte[0]);
        }
        if std::mem::take(has_token) {
            pipe.change(|pipe| pipe.pages = 0);
        }
        shared.reader_will_sleep(place);
        if shared.waiting(place) == 0 {
            pipe.sleep_until(|pipe| pipe.pages > 0 || pipe.writer_gone);
        }
        shared.reader_woke(place);
        *has_token |= pipe.asks(|pipe| pipe.pages > 0);
        // The kernel first, the ring second.
        if pipe.asks(|pipe| pipe.writer_gone) && shared.waiting(place) == 0 {
            return None;
        }
    }
}

fn writer_goes(world: &World) {
    world.pipes.iter().for_each(|pipe| pipe.change(|pipe| pipe.writer_gone = true));
}

#[test]
fn broadcast_wakes_a_sleeping_reader_and_a_sleeping_writer() {
    check(3, || {
        let world = World::new();
        let theirs = world.clone();
        let writer = thread::spawn(move || {
            (1..=4).for_each(|byte| assert!(write(&theirs, &mut vec![0], byte)));
            writer_goes(&theirs);
        });
        let mut has_token = false;
        (1..=4).for_each(|byte| assert_eq!(read(&world, 0, &mut has_token), Some(byte)));
        assert_eq!(read(&world, 0, &mut has_token), None);
        writer.join().unwrap();
    });
}

/// A reader that went to sleep would find the pipe full, and empty it. So this one does not sleep.
#[test]
fn broadcast_wakes_the_writer_for_a_reader_that_reads_one_byte_and_no_more() {
    check(3, || {
        let world = World::new();
        (1..=2).for_each(|byte| assert!(write(&world, &mut vec![0], byte)));
        let theirs = world.clone();
        let writer = thread::spawn(move || assert!(write(&theirs, &mut vec![0], 3)));
        assert_eq!(read(&world, 0, &mut false), Some(1));
        writer.join().unwrap();
    });
}

#[test]
fn broadcast_gives_each_of_two_readers_every_byte() {
    check(2, || {
        let world = World::new();
        let readers: Vec<_> = (0..2)
            .map(|place| {
                let world = world.clone();
                thread::spawn(move || {
                    let mut has_token = false;
                    (1..=3).for_each(|byte| assert_eq!(read(&world, place, &mut has_token), Some(byte)));
                })
            })
            .collect();
        (1..=3).for_each(|byte| assert!(write(&world, &mut vec![0, 1], byte)));
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn broadcast_goes_on_after_the_death_of_the_reader_that_it_waits_for() {
    check(3, || {
        let world = World::new();
        let theirs = world.clone();
        let dying = thread::spawn(move || {
            // It has copied a byte and not published that, with its lock held.
            let (shared, me) = (theirs.shared(), Me(2));
            shared.lock_reader(0, &me).unwrap().abandon();
            theirs.pipes[0].change(|pipe| pipe.reader_gone = true);
        });
        let mut readers = vec![0];
        let written = (1..=3).take_while(|&byte| write(&world, &mut readers, byte)).count();
        assert_eq!((written, readers), (2, vec![]), "room for two, and then none is left");
        dying.join().unwrap();
    });
}

#[test]
fn broadcast_frees_the_place_of_a_reader_that_dies_before_it_wakes_the_writer() {
    check(2, || {
        let world = World::new();
        let theirs = world.clone();
        let dying = thread::spawn(move || {
            // It reads, takes the wish, and is killed before it takes out a page.
            let (shared, me, mut byte) = (theirs.shared(), Me(2), [0]);
            let reader = shared.lock_reader(0, &me).unwrap();
            let _ = reader.read([&mut byte[..]].into_iter(), 0).unwrap();
            drop(reader);
            shared.take_wish(0);
            theirs.pipes[0].change(|pipe| pipe.reader_gone = true);
        });
        let mut readers = vec![0, 1];
        let (other, mut has_token) = (world.clone(), false);
        let reading = thread::spawn(move || {
            (1..=3).for_each(|byte| assert_eq!(read(&other, 1, &mut has_token), Some(byte)));
        });
        (1..=3).for_each(|byte| assert!(write(&world, &mut readers, byte)));
        reading.join().unwrap();
        dying.join().unwrap();
    });
}

#[test]
fn broadcast_ends_after_all_bytes_of_a_writer_that_dies_before_it_wakes_its_reader() {
    check(3, || {
        let world = World::new();
        let theirs = world.clone();
        let dying = thread::spawn(move || {
            let (shared, me) = (theirs.shared(), Me(1));
            let writer = shared.lock_writer(&me).unwrap();
            assert_eq!(writer.write([&[7][..]].into_iter(), 1, 0, None), 1);
            // With its lock held, and before it checks for waiters.
            writer.abandon();
            writer_goes(&theirs);
        });
        let mut has_token = false;
        assert_eq!(read(&world, 0, &mut has_token), Some(7));
        assert_eq!(read(&world, 0, &mut has_token), None);
        dying.join().unwrap();
    });
}

/// The bytes of a lossy broadcast are written and read at once, which loom would report as a race. So these are words
/// instead.
#[test]
fn lossy_reader_never_believes_a_copy_that_the_writer_came_round_to() {
    check(3, || {
        let world = World::new();
        let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let (theirs, their_words) = (world.clone(), words.clone());
        let writer = thread::spawn(move || {
            let (shared, me) = (Broadcast::new(&theirs.header, Bytes::new(&theirs.cells), true), Me(1));
            for position in 0..4_u64 {
                let writer = shared.lock_writer(&me).unwrap();
                writer.reserve(position, 1);
                their_words[position as usize % 2].store(position as u32 + 1, Ordering::Relaxed);
                writer.publish(position + 1);
            }
        });
        let (shared, me) = (Broadcast::new(&world.header, Bytes::new(&world.cells), true), Me(2));
        let mut position = 0;
        for _ in 0..2 {
            let reader = shared.lock_reader(0, &me).unwrap();
            let waiting = reader.waiting().unwrap();
            if waiting == 0 {
                continue;
            }
            let copied = words[position as usize % 2].load(Ordering::Relaxed);
            if waiting <= 2 && reader.is_intact(position) {
                assert_eq!(copied, position as u32 + 1, "a byte of another round");
                position += 1;
                reader.consume(position);
            } else {
                let Received::Lost(lost) = reader.skip() else { panic!("a loss is a loss") };
                assert!(lost > 0);
                position += lost;
            }
            assert_eq!(reader.position(), position);
        }
        writer.join().unwrap();
    });
}
