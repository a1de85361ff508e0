//! Idle mode: a reader that sleeps in the backing pipe, and a stream that goes there and back.

use std::collections::VecDeque;

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use millstream_ring::{Parking, Route, Shadow};

use crate::world::{Me, OCCASIONAL, World, check, read_now, write_now};

/// A readiness byte.
const MEANINGLESS: u8 = 0;

/// The kernel's pipe with its content, in which a reader can sleep.
struct Content {
    bytes: Mutex<VecDeque<u8>>,
    changed: Condvar,
}

impl Content {
    fn write(&self, byte: u8) {
        self.bytes.lock().unwrap().push_back(byte);
        self.changed.notify_all();
    }

    fn read_asleep(&self) -> u8 {
        let mut bytes = self.bytes.lock().unwrap();
        loop {
            match bytes.pop_front() {
                Some(byte) => return byte,
                None => bytes = self.changed.wait(bytes).unwrap(),
            }
        }
    }

    fn sleep_until_readable(&self) {
        let mut bytes = self.bytes.lock().unwrap();
        while bytes.is_empty() {
            bytes = self.changed.wait(bytes).unwrap();
        }
    }
}

impl Shadow for Content {
    fn narrow(&self) {}

    fn put(&self, bytes: u32) -> u32 {
        (0..bytes).for_each(|_| self.write(MEANINGLESS));
        bytes
    }

    fn take(&self, bytes: u32) -> u32 {
        let mut inside = self.bytes.lock().unwrap();
        let taken = inside.len().min(bytes as usize);
        inside.drain(..taken);
        taken as u32
    }

    fn bytes(&self) -> u32 {
        self.bytes.lock().unwrap().len() as u32
    }

    fn now(&self) -> u64 {
        0
    }
}

struct Quiet {
    world: Arc<World>,
    shadow: Content,
}

impl Quiet {
    fn new() -> Arc<Quiet> {
        let shadow = Content { bytes: Mutex::new(VecDeque::new()), changed: Condvar::new() };
        Arc::new(Quiet { world: World::of(4), shadow })
    }

    /// As `Writer::attempt`: back to the ring when no reader sleeps in the backing pipe and nothing is there.
    fn write(&self, me: &Me, byte: u8) {
        let ring = self.world.ring();
        let writers = ring.lock_writers(me).unwrap();
        if ring.route() == Route::Shadow && ring.waiter().is_none() && self.shadow.bytes() == 0 {
            let readers = ring.lock_readers(me).unwrap();
            if self.shadow.bytes() == 0 {
                writers.return_to_ring(&readers);
            }
        }
        if ring.route() == Route::Shadow {
            assert!(!writers.backing_pipe_is_drained() || self.shadow.bytes() == 0, "there may be no room");
            writers.will_put(1);
            self.shadow.write(byte);
            return writers.has_put(1, 1);
        }
        assert_eq!(write_now(&writers, &[byte]).unwrap(), 1);
        let calls = ring.readers_wait_roughly();
        if calls {
            ring.bell().raise_before_unlocking(&writers, me, &self.shadow).unwrap();
        }
        drop(writers);
        if !calls && ring.readers_wait() {
            ring.bell().raise(me, &self.shadow).unwrap();
        }
    }

    /// As `Reader::read_if_quiet` and then `Reader::read_asleep`, for a reader that finds nothing in the ring.
    fn read(&self, me: &Me, dozes: bool) -> u8 {
        let ring = self.world.ring();
        if ring.dozer_lies_down(me.owner()) {
            return self.read_asleep(me, dozes);
        }
        loop {
            let readers = ring.lock_readers(me).unwrap();
            let mut byte = [0];
            if read_now(&readers, &mut byte).unwrap() == 1 {
                return byte[0];
            }
            drop(readers);
            if self.lies_down(me) {
                return self.read_asleep(me, dozes);
            }
            self.sleep_beside(me);
        }
    }

    fn read_asleep(&self, me: &Me, dozes: bool) -> u8 {
        let byte = self.shadow.read_asleep();
        self.world.ring().waiter_woke(me.owner(), 1, dozes);
        byte
    }

    /// As `Reader::lies_down`.
    fn lies_down(&self, me: &Me) -> bool {
        let ring = self.world.ring();
        if ring.route() == Route::Shadow {
            return ring.lock_readers(me).unwrap().note_waiter(me.owner());
        }
        let Some((writers, readers)) = ring.try_lock_both(me) else { return false };
        if ring.route() != Route::Ring || ring.readable() != Ok(0) {
            return false;
        }
        ring.bell().silence(me, &self.shadow, Route::Shadow).unwrap();
        writers.note_quiet(&readers);
        readers.note_waiter(me.owner())
    }

    fn sleep_beside(&self, me: &Me) {
        let ring = self.world.ring();
        let route = ring.route();
        ring.bell().reader_will_sleep(me, &self.shadow).unwrap();
        if ring.readable() == Ok(0) && ring.route() == route {
            self.shadow.sleep_until_readable();
        }
        ring.bell().reader_woke();
        thread::yield_now();
    }
}

#[test]
fn reader_asleep_gets_the_stream_and_nothing_else() {
    check(2, || {
        let quiet = Quiet::new();
        let theirs = quiet.clone();
        let writer = thread::spawn(move || (1..=3).for_each(|byte| theirs.write(&Me(OCCASIONAL), byte)));
        let got = [(); 3].map(|()| quiet.read(&Me(OCCASIONAL + 1), false));
        writer.join().unwrap();
        assert_eq!(got, [1, 2, 3]);
    });
}

#[test]
fn dozing_reader_sleeps_without_a_lock_or_finds_the_stream_in_the_ring() {
    check(2, || {
        let quiet = Quiet::new();
        let theirs = quiet.clone();
        let writer = thread::spawn(move || (1..=3).for_each(|byte| theirs.write(&Me(OCCASIONAL), byte)));
        let got = [(); 3].map(|()| quiet.read(&Me(OCCASIONAL + 1), true));
        writer.join().unwrap();
        assert_eq!(got, [1, 2, 3]);
    });
}

#[test]
fn only_one_reader_takes_the_place_of_a_dozing_one() {
    check(2, || {
        let quiet = Quiet::new();
        let (dozer, other) = (Me(OCCASIONAL + 1), Me(OCCASIONAL + 2));
        assert!(quiet.lies_down(&dozer));
        quiet.write(&Me(OCCASIONAL), 1);
        assert_eq!(quiet.read_asleep(&dozer, true), 1);
        let (theirs, dozers) = (quiet.clone(), quiet.clone());
        let writer = thread::spawn(move || [2, 3].map(|byte| theirs.write(&Me(OCCASIONAL), byte)));
        let dozer = thread::spawn(move || {
            let lies_down = dozers.world.ring().dozer_lies_down(dozer.owner());
            lies_down.then(|| dozers.read_asleep(&dozer, false))
        });
        let got = quiet.lies_down(&other).then(|| quiet.read_asleep(&other, false));
        writer.join().unwrap();
        // The second goes to sleep when the first has woken up.
        assert!(matches!(
            (dozer.join().unwrap(), got),
            (None, None | Some(2 | 3)) | (Some(2), None | Some(3)) | (Some(3), None | Some(2))
        ));
    });
}

#[test]
fn dozing_reader_takes_nothing_while_another_holds_the_lock() {
    check(4, || {
        let quiet = Quiet::new();
        let dozer = Me(OCCASIONAL + 1);
        assert!(quiet.lies_down(&dozer));
        quiet.write(&Me(OCCASIONAL), 1);
        assert_eq!(quiet.read_asleep(&dozer, true), 1);
        [2, 3].map(|byte| quiet.shadow.write(byte));
        let theirs = quiet.clone();
        let dozer = thread::spawn(move || {
            // It may come twice.
            for _ in 0..2 {
                if theirs.world.ring().dozer_lies_down(dozer.owner()) {
                    theirs.read_asleep(&dozer, true);
                }
            }
        });
        // As `Reader::copy_to` to where `splice(2)` does not go.
        let (ring, me) = (quiet.world.ring(), Me(OCCASIONAL + 2));
        let readers = ring.lock_readers(&me).unwrap();
        if readers.waiter_while_locked().is_none() {
            let peeked = quiet.shadow.bytes();
            thread::yield_now();
            assert_eq!(quiet.shadow.take(peeked), peeked);
        }
        drop(readers);
        // A reader that goes to sleep afterwards must not sleep for ever.
        [4, 5].map(|byte| quiet.shadow.write(byte));
        dozer.join().unwrap();
    });
}

#[test]
fn two_writers_send_each_a_byte_to_one_reader_asleep() {
    check(1, || {
        let quiet = Quiet::new();
        let writers = [1, 2].map(|byte| {
            let theirs = quiet.clone();
            thread::spawn(move || theirs.write(&Me(OCCASIONAL + u32::from(byte)), byte))
        });
        let mut got = [(); 2].map(|()| quiet.read(&Me(OCCASIONAL), false));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn stream_does_not_return_to_the_ring_while_a_reader_sleeps() {
    check(3, || {
        let quiet = Quiet::new();
        let theirs = quiet.clone();
        // Another reader that sleeps beside the ring, for which the writer would put in a readiness byte.
        quiet.world.ring().bell().reader_will_sleep(&Me(OCCASIONAL + 9), &quiet.shadow).unwrap();
        let reader = thread::spawn(move || {
            let me = Me(OCCASIONAL + 1);
            theirs.lies_down(&me).then(|| theirs.read_asleep(&me, false))
        });
        quiet.write(&Me(OCCASIONAL), 7);
        if let Some(byte) = reader.join().unwrap() {
            assert_eq!(byte, 7);
        }
    });
}
