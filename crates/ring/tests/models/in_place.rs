//! Bytes that are written and read in place.
#![allow(unsafe_code)]

use loom::sync::Arc;
use loom::thread;
use millstream_ring::Claim;

use crate::world::{Futex, Me, OCCASIONAL, World, check, read, read_now, try_read, try_write, until, write, write_now};

/// Room for one byte, claimed for `process`; `None` if there is none, or another process has claimed it.
fn try_reserve(world: &World, me: &Me, process: u32) -> Option<Claim> {
    let ring = world.ring();
    let writers = ring.lock_writers(me).unwrap();
    let room = if writers.is_claimed() { None } else { Some(writers.room(1).unwrap()) };
    room.filter(|room| !room.is_empty()).map(|room| writers.claim(room, 1, process))
}

/// Fills what was reserved in place, and wakes a reader.
fn commit(world: &World, me: &Me, claim: &Claim, byte: u8) {
    let ring = world.ring();
    for cell in claim.places(&ring).into_iter().flatten() {
        // SAFETY: loom stops the model if another thread uses the byte.
        world.cells[cell].with_mut(|cell| unsafe { *cell = byte });
    }
    ring.claims_of_writers().end(claim, 1, 0, me);
    if ring.readers_wait() {
        ring.bell().raise(me, &world.shadow).unwrap();
    }
}

/// The bytes that wait, claimed for `process`; `None` if there are none, or another process has claimed them.
fn try_borrow(world: &World, me: &Me, process: u32) -> Option<Claim> {
    let ring = world.ring();
    let readers = ring.lock_readers(me).unwrap();
    let waiting = if readers.is_claimed() { None } else { Some(readers.waiting(2).unwrap()) };
    waiting.filter(|waiting| !waiting.is_empty()).map(|waiting| readers.claim(waiting, 2, process))
}

/// Peeks at what was claimed in place, takes all of it, and wakes a writer.
fn consume(world: &World, me: &Me, claim: &Claim) -> Vec<u8> {
    let ring = world.ring();
    // SAFETY: loom stops the model if another thread writes the byte.
    let look = |cell: usize| world.cells[cell].with(|cell| unsafe { *cell });
    let bytes = claim.places(&ring).into_iter().flatten().map(look).collect();
    ring.claims_of_readers().end(claim, claim.len(), 0, me);
    if ring.writers_wait() {
        ring.bell().lower(me, &world.shadow).unwrap();
    }
    bytes
}

#[test]
fn bytes_filled_in_place_are_seen_in_place_around_the_end_of_the_ring() {
    check(3, || {
        let world = World::new();
        let theirs = world.clone();
        let writer = thread::spawn(move || {
            for byte in 1..=3 {
                let claim = until(|| try_reserve(&theirs, &Me(1), 1));
                commit(&theirs, &Me(1), &claim, byte);
            }
        });
        let mut got = Vec::new();
        while got.len() < 3 {
            let claim = until(|| try_borrow(&world, &Me(2), 2));
            got.extend(consume(&world, &Me(2), &claim));
        }
        writer.join().unwrap();
        assert_eq!(got, [1, 2, 3]);
    });
}

#[test]
fn commit_wakes_a_sleeping_reader() {
    check(3, || {
        let world = World::new();
        let theirs = world.clone();
        let writer = thread::spawn(move || {
            let claim = try_reserve(&theirs, &Me(1), 1).unwrap();
            commit(&theirs, &Me(1), &claim, 7);
        });
        let mut bytes = [0; 2];
        assert_eq!(read(&world, &Me(2), &mut bytes), 1);
        assert_eq!(bytes[0], 7);
        writer.join().unwrap();
    });
}

#[test]
fn consume_wakes_a_sleeping_writer() {
    check(3, || {
        let world = World::new();
        assert!(try_write(&world, &Me(1), &[1, 2]));
        let theirs = world.clone();
        let writer = thread::spawn(move || write(&theirs, &Me(1), &[3, 4]));
        let claim = try_borrow(&world, &Me(2), 2).unwrap();
        assert_eq!(consume(&world, &Me(2), &claim), [1, 2]);
        writer.join().unwrap();
        let claim = try_borrow(&world, &Me(2), 2).unwrap();
        assert_eq!(consume(&world, &Me(2), &claim), [3, 4]);
    });
}

/// Writes as a plain writer: not while a process fills the ring in place.
fn write_beside(world: &World, me: &Me, byte: u8) -> Option<()> {
    let ring = world.ring();
    let writers = ring.lock_writers(me).unwrap();
    (!writers.is_claimed() && write_now(&writers, &[byte]).unwrap() == 1).then_some(())
}

/// If `steady`, the plain writer is a thread that may own the lock, or owned it before.
fn plain_writer_goes_before_or_after(steady: bool) {
    check(3, move || {
        let world = World::new();
        let plain = Me(if steady { 1 } else { OCCASIONAL });
        if steady {
            // From here on the plain writer owns the lock of the writing side.
            assert!(try_write(&world, &plain, &[8]));
            assert_eq!(try_read(&world, &Me(3), &mut [0; 2]), 1);
        }
        let theirs = world.clone();
        let in_place = thread::spawn(move || {
            let me = Me(OCCASIONAL + 1);
            let claim = until(|| try_reserve(&theirs, &me, 2));
            commit(&theirs, &me, &claim, 5);
        });
        until(|| write_beside(&world, &plain, 6));
        in_place.join().unwrap();
        let mut bytes = [0; 2];
        assert_eq!(try_read(&world, &Me(3), &mut bytes), 2);
        assert!(bytes == [5, 6] || bytes == [6, 5], "{bytes:?}");
        // Whatever position the lock's owner has kept, the byte comes after both.
        assert!(write_beside(&world, &plain, 7).is_some());
        assert_eq!((try_read(&world, &Me(3), &mut bytes), bytes[0]), (1, 7));
    });
}

#[test]
fn plain_writer_goes_before_or_after_a_writer_in_place() {
    plain_writer_goes_before_or_after(false);
}

#[test]
fn owner_of_the_lock_goes_before_or_after_a_writer_in_place() {
    plain_writer_goes_before_or_after(true);
}

/// The thread `in_place` fills the ring in place, and then wakes a thread that waits for the end of its claim.
fn end_of_claim_wakes_waiter(in_place: u32) {
    check(3, move || {
        let world = World::new();
        let futex = Arc::new(Futex::new());
        let (theirs, their_futex) = (world.clone(), futex.clone());
        let filling = thread::spawn(move || {
            let (ring, me) = (theirs.ring(), Me(in_place));
            let claim = until(|| try_reserve(&theirs, &me, 1));
            if ring.claims_of_writers().end(&claim, 0, 0, &me) {
                their_futex.wake_all();
            }
        });
        let (ring, me) = (world.ring(), Me(OCCASIONAL + 1));
        while write_beside(&world, &me, 6).is_none() {
            let waited_for = ring.lock_writers(&me).unwrap().will_wait();
            if let Some(expected) = waited_for {
                futex.wait(ring.claims_of_writers().word(), expected);
            }
        }
        filling.join().unwrap();
    });
}

#[test]
fn end_of_an_owners_claim_wakes_waiter() {
    end_of_claim_wakes_waiter(1);
}

#[test]
fn end_of_any_other_claim_wakes_waiter() {
    end_of_claim_wakes_waiter(OCCASIONAL);
}

#[test]
fn plain_reader_and_peeking_reader_share_the_bytes() {
    check(3, || {
        let world = World::new();
        assert!(try_write(&world, &Me(1), &[1, 2]));
        let theirs = world.clone();
        let borrower = thread::spawn(move || {
            try_borrow(&theirs, &Me(2), 2).map_or(Vec::new(), |claim| consume(&theirs, &Me(2), &claim))
        });
        let mut byte = [0; 1];
        let count = {
            let (ring, me) = (world.ring(), Me(3));
            let readers = ring.lock_readers(&me).unwrap();
            if readers.is_claimed() { 0 } else { read_now(&readers, &mut byte).unwrap() }
        };
        let mut got = borrower.join().unwrap();
        got.extend_from_slice(&byte[..count]);
        got.sort_unstable();
        let (mut rest, left) = ([0; 2], 2 - got.len());
        assert_eq!(try_read(&world, &Me(3), &mut rest), left);
        got.extend_from_slice(&rest[..left]);
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn claim_of_dead_process_publishes_nothing() {
    check(3, || {
        let world = World::new();
        let theirs = world.clone();
        let dying = thread::spawn(move || {
            let claim = try_reserve(&theirs, &Me(1), 7).unwrap();
            // In place, and never committed.
            let cell = claim.places(&theirs.ring())[0].start;
            // SAFETY: loom stops the model if another thread uses the byte.
            theirs.cells[cell].with_mut(|cell| unsafe { *cell = 9 });
        });
        dying.join().unwrap();
        let theirs = world.clone();
        // Both find out that the process is dead.
        let take_over = |world: &World, me: &Me, byte| {
            until(|| {
                let ring = world.ring();
                if let Some(dead) = ring.claims_of_writers().standing() {
                    ring.lock_writers(me).unwrap().end_claim_of_dead(dead);
                }
                write_beside(world, me, byte)
            });
        };
        let other = thread::spawn(move || take_over(&theirs, &Me(2), 5));
        take_over(&world, &Me(3), 6);
        other.join().unwrap();
        let mut bytes = [0; 2];
        assert_eq!(try_read(&world, &Me(4), &mut bytes), 2);
        assert!(bytes == [5, 6] || bytes == [6, 5], "{bytes:?}");
    });
}
