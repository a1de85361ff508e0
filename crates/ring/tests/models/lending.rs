//! A ring that moves to a bank which was filled beside it, while somebody reads.
#![allow(unsafe_code)]

use loom::thread;
use millstream_ring::{Lent, Spare};

use crate::world::{Me, OCCASIONAL, World, check, read, try_read, try_write, until};

/// The bank beside the ring, filled.
fn fill(world: &World, me: &Me, bytes: &[u8]) -> Option<Spare> {
    let ring = world.ring();
    let spare = ring.lock_writers(me).unwrap().take_spare(bytes.len(), 1).unwrap()?;
    for (cell, &byte) in spare.place(&ring).zip(bytes) {
        // SAFETY: loom stops the model if another thread uses the byte.
        world.cells[cell].with_mut(|cell| unsafe { *cell = byte });
    }
    Some(spare)
}

/// Lends it, if nothing waits, and wakes a reader.
fn try_lend(world: &World, me: &Me, spare: &Spare) -> Option<()> {
    let ring = world.ring();
    let lent = ring.lock_writers(me).unwrap().lend(spare, spare.len(), 0).unwrap();
    assert_ne!(lent, Lent::Lost);
    if lent == Lent::NotNow {
        return None;
    }
    if ring.readers_wait() {
        ring.bell().raise(me, &world.shadow).unwrap();
    }
    Some(())
}

/// Looks again and again until something can be read.
fn next(world: &World, me: &Me) -> Vec<u8> {
    until(|| {
        let mut bytes = [0; 2];
        let count = try_read(world, me, &mut bytes);
        (count > 0).then(|| bytes[..count].to_vec())
    })
}

fn two_buffers_are_read_in_order(writer: u32, reader: u32) {
    check(3, move || {
        let world = World::new();
        let theirs = world.clone();
        let writing = thread::spawn(move || {
            let me = Me(writer);
            for bytes in [[1, 2], [3, 4]] {
                let spare = fill(&theirs, &me, &bytes).unwrap();
                until(|| try_lend(&theirs, &me, &spare));
            }
        });
        let mut got = Vec::new();
        while got.len() < 4 {
            got.extend(next(&world, &Me(reader)));
        }
        writing.join().unwrap();
        assert_eq!(got, [1, 2, 3, 4]);
    });
}

#[test]
fn what_is_lent_twice_is_read_in_order() {
    two_buffers_are_read_in_order(1, 2);
}

#[test]
fn what_is_lent_twice_is_read_in_order_by_one_who_comes_now_and_then() {
    two_buffers_are_read_in_order(OCCASIONAL, OCCASIONAL + 1);
}

#[test]
fn a_sleeping_reader_is_woken_by_what_is_lent() {
    check(3, || {
        let world = World::new();
        let theirs = world.clone();
        let writer = thread::spawn(move || {
            let spare = fill(&theirs, &Me(1), &[7]).unwrap();
            try_lend(&theirs, &Me(1), &spare).unwrap();
        });
        let mut bytes = [0; 2];
        assert_eq!(read(&world, &Me(2), &mut bytes), 1);
        assert_eq!(bytes[0], 7);
        writer.join().unwrap();
    });
}

#[test]
fn what_waits_keeps_the_ring_where_it_is_until_it_is_read() {
    check(3, || {
        let world = World::new();
        // Seen by the reader, who need not look at the position again for the second byte.
        assert!(try_write(&world, &Me(1), &[5, 6]));
        assert_eq!(try_read(&world, &Me(2), &mut [0; 1]), 1);
        let theirs = world.clone();
        let writer = thread::spawn(move || {
            let spare = fill(&theirs, &Me(1), &[7, 8]).unwrap();
            until(|| try_lend(&theirs, &Me(1), &spare));
        });
        let mut got = Vec::new();
        while got.len() < 3 {
            got.extend(next(&world, &Me(2)));
        }
        writer.join().unwrap();
        assert_eq!(got, [6, 7, 8]);
    });
}
