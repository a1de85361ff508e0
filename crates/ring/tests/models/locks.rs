//! Locks, owners that die with one, processes that poll from outside, and pages that are freed.

use loom::sync::{Arc, Mutex};
use loom::thread;
use millstream_ring::Shadow;

use crate::world::{Me, OCCASIONAL, World, check, try_read, try_write, write, write_now};

#[test]
fn lock_of_dead_owner_is_taken_over_and_nothing_unpublished_is_seen() {
    check(3, || {
        let world = World::new();
        let theirs = world.clone();
        let dying = thread::spawn(move || {
            // The byte is in place and not published: the owner dies, and its guard is never dropped.
            let (ring, me) = (theirs.ring(), Me(1));
            let writers = ring.lock_writers(&me).unwrap();
            let room = writers.room(1).unwrap();
            assert!(!room.is_empty());
            writers.abandon();
        });
        write(&world, &Me(2), &[9]);
        dying.join().unwrap();
        let mut bytes = [0; 2];
        assert_eq!(try_read(&world, &Me(3), &mut bytes), 1);
        assert_eq!(bytes[0], 9);
    });
}

#[test]
fn owned_lock_returns_to_another_thread() {
    check(3, || {
        let world = World::new();
        let steady = Me(1);
        // From here on this thread owns the lock of the writing side.
        assert!(try_write(&world, &steady, &[1]));
        let theirs = world.clone();
        let other = thread::spawn(move || {
            let (ring, me) = (theirs.ring(), Me(OCCASIONAL));
            write_now(&ring.lock_writers(&me).unwrap(), &[3]).unwrap()
        });
        let mine = write_now(&world.ring().lock_writers(&steady).unwrap(), &[2]).unwrap();
        // Two writers at once would write to one place. The model would stop at the race, and here a byte would be
        // lost.
        assert_eq!(mine + other.join().unwrap(), 1, "there is room for one more");
        let mut bytes = [0; 2];
        assert_eq!(try_read(&world, &Me(3), &mut bytes), 2);
        assert_eq!(bytes, [1, if mine == 1 { 2 } else { 3 }]);
    });
}

#[test]
fn owner_that_dies_inside_leaves_the_lock_to_the_others() {
    check(3, || {
        let world = World::new();
        assert!(try_write(&world, &Me(1), &[1]));
        let theirs = world.clone();
        let dying = thread::spawn(move || {
            let (ring, me) = (theirs.ring(), Me(1));
            ring.lock_writers(&me).unwrap().abandon();
        });
        assert!(try_write(&world, &Me(OCCASIONAL), &[2]));
        dying.join().unwrap();
        let mut bytes = [0; 2];
        assert_eq!(try_read(&world, &Me(3), &mut bytes), 2);
        assert_eq!(bytes, [1, 2]);
    });
}

#[test]
fn polling_process_finds_every_state_in_the_end() {
    check(2, || {
        let world = World::new();
        world.ring().bell().watch_for_bytes(&Me(2));
        let theirs = world.clone();
        let writer = thread::spawn(move || assert!(try_write(&theirs, &Me(1), &[1])));
        let (ring, me) = (world.ring(), Me(2));
        world.shadow.sleep_until_readable();
        let mut bytes = [0; 2];
        assert_eq!(try_read(&world, &me, &mut bytes), 1);
        ring.bell().lower(&me, &world.shadow).unwrap();
        writer.join().unwrap();
        assert_eq!(world.shadow.bytes(), 0, "empty again");
    });
}

#[test]
fn new_poller_finds_no_late_byte() {
    check(3, || {
        let world = World::of(4);
        let (ring, me) = (world.ring(), Me(2));
        ring.bell().reader_will_sleep(&Me(9), &world.shadow).unwrap();
        let theirs = world.clone();
        let writer = thread::spawn(move || assert!(try_write(&theirs, &Me(1), &[1])));
        ring.bell().watch_for_bytes(&me);
        drop(ring.lock_writers(&me).unwrap());
        ring.bell().raise(&me, &world.shadow).unwrap();
        ring.bell().lower(&me, &world.shadow).unwrap();
        let mut bytes = [0; 2];
        if try_read(&world, &me, &mut bytes) == 1 {
            ring.bell().lower(&me, &world.shadow).unwrap();
            assert_eq!(world.shadow.bytes(), 0, "empty");
        }
        writer.join().unwrap();
        assert_eq!(world.shadow.bytes() > 0, ring.readable().unwrap() > 0);
    });
}

/// The pages of the ring, and whether they exist.
struct Pages {
    exist: Mutex<bool>,
}

impl Pages {
    /// Called before a byte is touched: `known` is the epoch in which this process last had the pages made.
    fn touch(&self, known: &mut Option<u32>, epoch: u32) {
        if *known != Some(epoch) {
            *self.exist.lock().unwrap() = true;
            *known = Some(epoch);
        }
        assert!(*self.exist.lock().unwrap(), "a byte is touched whose page was freed");
    }
}

#[test]
fn freed_pages_are_never_touched() {
    check(3, || {
        let world = World::new();
        let pages = Arc::new(Pages { exist: Mutex::new(false) });
        let (theirs, their_pages) = (world.clone(), pages.clone());
        let writer = thread::spawn(move || {
            let mut known = None;
            for byte in 1..=2 {
                let (ring, me) = (theirs.ring(), Me(1));
                let writers = ring.lock_writers(&me).unwrap();
                let room = writers.room(1).unwrap();
                their_pages.touch(&mut known, room.touches(1).epoch);
                assert_eq!(writers.write(room, [&[byte][..]].into_iter(), 0), 1);
            }
        });
        let (mut known, mut got) = (None, Vec::new());
        while got.len() < 2 {
            let (ring, me) = (world.ring(), Me(2));
            if let Some((writers, readers)) = ring.try_lock_both(&me)
                && writers.disown_pages(&readers).unwrap()
            {
                *pages.exist.lock().unwrap() = false;
            }
            let readers = ring.lock_readers(&me).unwrap();
            let waiting = readers.waiting(1).unwrap();
            if !waiting.is_empty() {
                pages.touch(&mut known, waiting.touches(1).epoch);
                let mut byte = [0];
                readers.read(waiting, [&mut byte[..]].into_iter(), 0);
                got.push(byte[0]);
            }
            drop(readers);
            thread::yield_now();
        }
        writer.join().unwrap();
        assert_eq!(got, [1, 2]);
    });
}
