//! Bytes in a ring, and readers and writers that sleep for them.

use loom::thread;
use millstream_ring::{Route, Shadow};

use crate::world::{Me, OCCASIONAL, World, check, read, try_read, try_write, write};

#[test]
fn bytes_arrive_once_and_in_order_around_the_end_of_the_ring() {
    check(3, || {
        let world = World::new();
        let theirs = world.clone();
        let writer = thread::spawn(move || {
            for byte in 1..=3 {
                while !try_write(&theirs, &Me(1), &[byte]) {
                    thread::yield_now();
                }
            }
        });
        let mut got = Vec::new();
        while got.len() < 3 {
            let mut bytes = [0; 2];
            let count = try_read(&world, &Me(2), &mut bytes);
            got.extend_from_slice(&bytes[..count]);
            if count == 0 {
                thread::yield_now();
            }
        }
        writer.join().unwrap();
        assert_eq!(got, [1, 2, 3]);
    });
}

#[test]
fn write_wakes_a_sleeping_reader() {
    check(3, || {
        let world = World::new();
        let theirs = world.clone();
        let writer = thread::spawn(move || write(&theirs, &Me(1), &[7]));
        let mut bytes = [0; 2];
        assert_eq!(read(&world, &Me(2), &mut bytes), 1);
        assert_eq!(bytes[0], 7);
        writer.join().unwrap();
    });
}

#[test]
fn each_byte_wakes_a_reader_that_sleeps_again() {
    check(2, || {
        let world = World::of(4);
        let theirs = world.clone();
        let writer = thread::spawn(move || (1..=2).for_each(|byte| assert!(try_write(&theirs, &Me(1), &[byte]))));
        let (mut bytes, mut got) = ([0; 1], Vec::new());
        while got.len() < 2 {
            assert_eq!(read(&world, &Me(2), &mut bytes), 1);
            got.push(bytes[0]);
        }
        writer.join().unwrap();
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn two_writes_wake_two_sleeping_readers() {
    check(1, || {
        let world = World::of(4);
        let readers = [2, 3].map(|id| {
            let world = world.clone();
            thread::spawn(move || assert_eq!(read(&world, &Me(id), &mut [0; 1]), 1))
        });
        (1..=2).for_each(|byte| assert!(try_write(&world, &Me(1), &[byte])));
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn read_wakes_a_sleeping_writer() {
    check(3, || {
        let world = World::new();
        assert!(try_write(&world, &Me(1), &[1, 2]));
        let theirs = world.clone();
        let writer = thread::spawn(move || write(&theirs, &Me(1), &[3, 4]));
        let (mut bytes, mut got) = ([0; 1], Vec::new());
        while got.len() < 4 {
            let count = read(&world, &Me(2), &mut bytes);
            got.extend_from_slice(&bytes[..count]);
        }
        writer.join().unwrap();
        assert_eq!(got, [1, 2, 3, 4]);
    });
}

#[test]
fn both_sides_may_sleep_in_turn() {
    check(2, || {
        let world = World::new();
        let theirs = world.clone();
        let writer = thread::spawn(move || (1..=3).for_each(|byte| write(&theirs, &Me(1), &[byte, byte])));
        let (mut bytes, mut got) = ([0; 2], Vec::new());
        while got.len() < 6 {
            let count = read(&world, &Me(2), &mut bytes);
            got.extend_from_slice(&bytes[..count]);
        }
        writer.join().unwrap();
        assert_eq!(got, [1, 1, 2, 2, 3, 3]);
    });
}

#[test]
fn two_sleeping_readers_share_what_one_write_brings() {
    check(2, || {
        let world = World::new();
        let readers: Vec<_> = [2, 3]
            .into_iter()
            .map(|id| {
                let world = world.clone();
                thread::spawn(move || {
                    let mut bytes = [0; 1];
                    assert_eq!(read(&world, &Me(id), &mut bytes), 1);
                    bytes[0]
                })
            })
            .collect();
        write(&world, &Me(1), &[5, 6]);
        let mut got: Vec<u8> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        got.sort_unstable();
        assert_eq!(got, [5, 6]);
    });
}

#[test]
fn two_sleeping_writers_wake_and_their_writes_stay_whole() {
    check(1, || {
        let world = World::new();
        let writers: Vec<_> = [1, 2]
            .into_iter()
            .map(|id| {
                let world = world.clone();
                thread::spawn(move || write(&world, &Me(u32::from(id)), &[id, id]))
            })
            .collect();
        let (mut bytes, mut got) = ([0; 2], Vec::new());
        while got.len() < 4 {
            let count = read(&world, &Me(3), &mut bytes);
            got.extend_from_slice(&bytes[..count]);
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert!(got == [1, 1, 2, 2] || got == [2, 2, 1, 1], "{got:?}");
    });
}

/// Copies at most one byte that waits in one ring to the other, as the pipe does.
fn try_relay(from: &World, to: &World, me: &Me) -> usize {
    let (from, to) = (from.ring(), to.ring());
    let writers = to.lock_writers(me).unwrap();
    let readers = from.lock_readers(me).unwrap();
    let (waiting, room) = (readers.waiting(1).unwrap(), writers.room(1).unwrap());
    let count = readers.copy_into(waiting, &writers, room, 1);
    if count > 0 {
        writers.commit(room, count, 0);
        readers.consume_first(waiting, count, 0);
    }
    drop(readers);
    drop(writers);
    count
}

#[test]
fn bytes_go_from_ring_to_ring_with_one_copy() {
    check(3, || {
        let (first, second) = (World::new(), World::new());
        assert!(try_write(&first, &Me(OCCASIONAL), &[1, 2]));
        let (from, to) = (first.clone(), second.clone());
        let relay = thread::spawn(move || {
            // Neither has to wait: there are two bytes, and room for two.
            assert_eq!((try_relay(&from, &to, &Me(2)), try_relay(&from, &to, &Me(2))), (1, 1));
        });
        // Into the place of a byte that was copied on.
        while !try_write(&first, &Me(1), &[3]) {
            thread::yield_now();
        }
        let mut got = Vec::new();
        while got.len() < 2 {
            let mut bytes = [0; 2];
            let count = try_read(&second, &Me(3), &mut bytes);
            got.extend_from_slice(&bytes[..count]);
            if count == 0 {
                thread::yield_now();
            }
        }
        relay.join().unwrap();
        assert_eq!(try_relay(&first, &second, &Me(2)), 1);
        let mut byte = [0];
        assert_eq!(try_read(&second, &Me(3), &mut byte), 1);
        got.extend(byte);
        assert_eq!(got, [1, 2, 3]);
    });
}

#[test]
fn readiness_byte_does_not_get_into_a_flushed_stream() {
    check(3, || {
        let world = World::of(4);
        // A reader that sleeps, and does nothing more here.
        world.ring().bell().reader_will_sleep(&Me(9), &world.shadow).unwrap();
        let theirs = world.clone();
        let writer = thread::spawn(move || assert!(try_write(&theirs, &Me(1), &[1])));
        let (ring, me) = (world.ring(), Me(2));
        let writers = ring.lock_writers(&me).unwrap();
        let readers = ring.lock_readers(&me).unwrap();
        ring.bell().silence(&me, &world.shadow, Route::Moving).unwrap();
        assert_eq!(world.shadow.bytes(), 0, "now the stream comes");
        writers.set_route(&readers, Route::Shadow);
        drop(readers);
        drop(writers);
        writer.join().unwrap();
        assert_eq!(world.shadow.bytes(), 0, "nothing but the stream");
    });
}

/// The writer of a long write is woken when the whole ring is free, and not for the first byte.
#[test]
fn deferring_writer_is_woken_at_the_low_water_mark() {
    check(3, || {
        let world = World::new();
        assert!(try_write(&world, &Me(1), &[1, 2]));
        let theirs = world.clone();
        let writer = thread::spawn(move || {
            let ring = theirs.ring();
            while !try_write(&theirs, &Me(1), &[3, 4]) {
                ring.bell().writer_will_defer(&Me(1), &theirs.shadow).unwrap();
                if !ring.has_refill() {
                    theirs.shadow.sleep_until_writable();
                }
                ring.bell().writer_deferred();
            }
        });
        // The reader reads no more, so that no sleep of the reader wakes the writer.
        for expected in [1, 2] {
            let mut byte = [0; 1];
            assert_eq!(try_read(&world, &Me(2), &mut byte), 1);
            assert_eq!(byte, [expected]);
        }
        writer.join().unwrap();
        let mut bytes = [0; 2];
        assert_eq!((try_read(&world, &Me(2), &mut bytes), bytes), (2, [3, 4]));
    });
}

/// A second writer, for which less room is enough, is woken for that beside one that defers.
#[test]
fn deferring_writer_does_not_keep_another_asleep() {
    check(2, || {
        let world = World::of(4);
        assert!(try_write(&world, &Me(1), &[1, 2, 3, 4]));
        world.ring().bell().writer_will_defer(&Me(3), &world.shadow).unwrap();
        let theirs = world.clone();
        let writer = thread::spawn(move || write(&theirs, &Me(1), &[5, 6]));
        let mut bytes = [0; 2];
        assert_eq!(read(&world, &Me(2), &mut bytes), 2);
        writer.join().unwrap();
        assert_eq!(bytes, [1, 2]);
    });
}
