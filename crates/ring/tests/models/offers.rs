//! Single-copy transfer: bytes that are offered, taken, withdrawn, returned, and left by dead writers.
#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use millstream_ring::sync::Ordering;
use millstream_ring::{Standing, Terms};

use crate::world::{Me, World, check, try_read, try_write, until};

/// Writes `bytes` to the writer's own memory and offers it. Returns the number of the offer.
fn offer(world: &World, me: &Me, bytes: [u8; 2]) -> u32 {
    let ring = world.ring();
    let writers = ring.lock_writers(me).unwrap();
    let number = writers.next_serial().unwrap();
    world.lent.iter().zip(bytes).for_each(|(place, byte)| place.store(byte.into(), Ordering::Relaxed));
    assert!(writers.offer(number, Terms { process: 1, start: 2, voucher: 3, address: 4, len: 2 }));
    drop(writers);
    if ring.readers_wait() {
        ring.bell().raise(me, &world.shadow).unwrap();
    }
    number
}

/// Withdraws the offer, and returns the bytes that were not taken. The writer then uses its memory for something else.
fn withdraw(world: &World, number: u32, bytes: [u8; 2]) -> Vec<u8> {
    let taken = world.ring().withdraw(number, 2).unwrap();
    world.lent.iter().for_each(|place| place.store(99, Ordering::Relaxed));
    bytes[taken..].to_vec()
}

/// Takes at most `wanted` bytes of the offer, if it is the next part of the stream. With no lock held.
fn try_take(world: &World, me: &Me, wanted: usize) -> Vec<u8> {
    let ring = world.ring();
    let Some(offer) = ring.next_offer().unwrap() else { return Vec::new() };
    assert_eq!(offer.terms(), Terms { process: 1, start: 2, voucher: 3, address: 4, len: 2 });
    let count = wanted.min(offer.rest());
    let lent = &world.lent[offer.taken()..][..count];
    let copied = lent.iter().map(|place| place.load(Ordering::Relaxed) as u8).collect();
    if !ring.take(&offer, count) {
        return Vec::new();
    }
    if count == offer.rest() && ring.writers_wait() {
        ring.bell().lower(me, &world.shadow).unwrap();
    }
    copied
}

/// Reads as the pipe does: first from the ring.
fn try_read_anything(world: &World, me: &Me, wanted: usize) -> Vec<u8> {
    let mut bytes = [0; 2];
    match try_read(world, me, &mut bytes[..wanted]) {
        0 => try_take(world, me, wanted),
        count => bytes[..count].to_vec(),
    }
}

fn read_all(world: &World, me: &Me, wanted: usize, total: usize) -> Vec<u8> {
    let mut got = Vec::new();
    while got.len() < total {
        let bytes = try_read_anything(world, me, wanted);
        if bytes.is_empty() {
            thread::yield_now();
        }
        got.extend(bytes);
    }
    got
}

fn write_in_turn(world: &World, me: &Me, bytes: &[u8]) {
    for &byte in bytes {
        while !try_write(world, me, &[byte]) {
            thread::yield_now();
        }
    }
}

#[test]
fn withdrawal_during_a_take_counts_every_byte() {
    check(3, || {
        let world = World::new();
        let theirs = world.clone();
        let writer = thread::spawn(move || {
            let me = Me(1);
            write_in_turn(&theirs, &me, &[1]);
            let number = offer(&theirs, &me, [2, 3]);
            let rest = withdraw(&theirs, number, [2, 3]);
            write_in_turn(&theirs, &me, &rest);
        });
        assert_eq!(read_all(&world, &Me(2), 1, 3), [1, 2, 3]);
        writer.join().unwrap();
    });
}

#[test]
fn old_view_of_an_offer_takes_nothing_of_the_next() {
    check(3, || {
        let world = World::new();
        let theirs = world.clone();
        let writer = thread::spawn(move || {
            let me = Me(1);
            let number = offer(&theirs, &me, [1, 2]);
            let rest = withdraw(&theirs, number, [1, 2]);
            write_in_turn(&theirs, &me, &rest);
            let number = offer(&theirs, &me, [3, 4]);
            while theirs.ring().standing(number) != Standing::Over {
                thread::yield_now();
            }
            assert!(withdraw(&theirs, number, [3, 4]).is_empty());
        });
        assert_eq!(read_all(&world, &Me(2), 2, 4), [1, 2, 3, 4]);
        writer.join().unwrap();
    });
}

#[test]
fn two_readers_of_one_offer_get_each_byte_once() {
    check(3, || {
        let world = World::new();
        let number = offer(&world, &Me(1), [1, 2]);
        let readers: Vec<_> = [2, 3]
            .into_iter()
            .map(|id| {
                let world = world.clone();
                thread::spawn(move || read_all(&world, &Me(id), 1, 1)[0])
            })
            .collect();
        let mut got: Vec<u8> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
        assert!(withdraw(&world, number, [1, 2]).is_empty());
    });
}

#[test]
fn offer_wakes_sleeping_reader_and_its_end_wakes_the_writer() {
    check(2, || {
        let world = World::new();
        let theirs = world.clone();
        let writer = thread::spawn(move || {
            let (me, ring) = (Me(1), theirs.ring());
            let number = offer(&theirs, &me, [1, 2]);
            while ring.standing(number) != Standing::Over {
                ring.bell().writer_will_sleep(&me, &theirs.shadow).unwrap();
                if ring.standing(number) != Standing::Over {
                    theirs.shadow.sleep_until_writable();
                }
                ring.bell().writer_woke();
            }
            assert!(withdraw(&theirs, number, [1, 2]).is_empty());
        });
        let (me, ring) = (Me(2), world.ring());
        let mut got = Vec::new();
        while got.len() < 2 {
            got.extend(try_read_anything(&world, &me, 2));
            if got.is_empty() {
                ring.bell().reader_will_sleep(&me, &world.shadow).unwrap();
                if ring.readable().unwrap() == 0 && !ring.is_offered() {
                    world.shadow.sleep_until_readable();
                }
                ring.bell().reader_woke();
            }
        }
        assert_eq!(got, [1, 2]);
        writer.join().unwrap();
    });
}

#[test]
fn bytes_behind_a_dead_writers_offer_come_after_what_was_taken_of_it() {
    check(3, || {
        let world = World::new();
        // Its writer is dead, and a writer that waits behind it finds that out.
        offer(&world, &Me(1), [1, 2]);
        let theirs = world.clone();
        let writer = thread::spawn(move || {
            let (me, ring) = (Me(3), theirs.ring());
            while let Some(offer) = ring.offer().unwrap() {
                ring.drop_offer(&offer);
            }
            write_in_turn(&theirs, &me, &[9]);
        });
        let mut got = Vec::new();
        while got.last() != Some(&9) {
            got.extend(read_all(&world, &Me(2), 1, 1));
        }
        writer.join().unwrap();
        assert!([&[9][..], &[1, 9], &[1, 2, 9]].contains(&&got[..]), "{got:?}");
    });
}

#[test]
fn returned_offer_goes_on_where_readers_left_it() {
    check(3, || {
        let world = World::new();
        let number = offer(&world, &Me(1), [1, 2]);
        let theirs = world.clone();
        let changing = thread::spawn(move || {
            // A process changes how the pipe works, for which it needs both locks.
            let (me, ring) = (Me(3), theirs.ring());
            let writers = ring.lock_writers(&me).unwrap();
            let readers = ring.lock_readers(&me).unwrap();
            writers.return_offers(&readers).unwrap();
            assert!(!ring.is_offered());
        });
        let mut got = try_take(&world, &Me(2), 1);
        got.extend(try_take(&world, &Me(2), 1));
        changing.join().unwrap();
        assert_eq!(world.ring().standing(number), Standing::Over);
        let rest = withdraw(&world, number, [1, 2]);
        write_in_turn(&world, &Me(1), &rest);
        got.extend(read_all(&world, &Me(2), 1, rest.len()));
        assert_eq!(got, [1, 2]);
    });
}

/// Memory in which loom finds every unordered access.
struct Memory(UnsafeCell<u8>);

// SAFETY: loom stops the model if two threads use it at once.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

/// A reader copies all that is offered. The writer fills its memory again as soon as `is_over` says so.
fn fully_taken_offer_returns_to_writer(is_over: fn(&World, u32) -> bool) {
    check(3, move || {
        let (world, memory) = (World::new(), Arc::new(Memory(UnsafeCell::new(0))));
        let (theirs, their_memory) = (world.clone(), memory.clone());
        let writer = thread::spawn(move || {
            // SAFETY: see `Memory`.
            their_memory.0.with_mut(|byte| unsafe { *byte = 7 });
            let number = offer(&theirs, &Me(1), [7, 7]);
            while !is_over(&theirs, number) {
                thread::yield_now();
            }
            // SAFETY: see `Memory`.
            their_memory.0.with_mut(|byte| unsafe { *byte = 9 });
        });
        let ring = world.ring();
        let offer = until(|| ring.next_offer().unwrap());
        // SAFETY: see `Memory`.
        assert_eq!(memory.0.with(|byte| unsafe { *byte }), 7);
        assert!(ring.take(&offer, 2));
        writer.join().unwrap();
    });
}

#[test]
fn offer_that_no_longer_stands_returns_to_writer() {
    fully_taken_offer_returns_to_writer(|world, number| world.ring().standing(number) == Standing::Over);
}

#[test]
fn fully_taken_offer_returns_to_writer_when_withdrawn() {
    fully_taken_offer_returns_to_writer(|world, number| {
        // Without an order; only what follows makes one.
        !world.ring().is_offered() && world.ring().withdraw(number, 2) == Ok(2)
    });
}
