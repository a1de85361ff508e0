//! Every order of events that the memory model allows, for small worlds: a ring of two bytes, two or three threads.
//!
//! Only under the model checker: `make check-models`. A lost wake-up shows as a deadlock, a byte that is written and read
//! at once as a race, a lost or doubled byte as a failed assertion.
#![cfg(loom)]
#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use millstream_ring::sync::{AtomicU32, Ordering, fence};
use millstream_ring::{
    Broken, Bytes, Claim, Geometry, Header, Parked, Parking, ReadSide, Ring, Shadow, Standing, Terms, Whose, WriteSide,
};

/// A segment on the model's heap: a header and two banks of two bytes.
struct World {
    header: Header,
    cells: Vec<UnsafeCell<u8>>,
    shadow: Pipe,
    /// A writer's own memory. No cells: a reader may copy from it when it is no longer lent, and then must not commit.
    lent: [AtomicU32; 2],
}

// SAFETY: the cells are what the model is about: loom stops it if two threads use one at once.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<World> {
        let world = World {
            header: Header::new(),
            cells: (0..4).map(|_| UnsafeCell::new(0)).collect(),
            shadow: Pipe { bytes: Mutex::new(0), changed: Condvar::new() },
            lent: [AtomicU32::new(0), AtomicU32::new(0)],
        };
        world.ring().found(Whose::default(), Geometry::of(2).unwrap());
        Arc::new(world)
    }

    fn ring(&self) -> Ring<'_> {
        Ring::new(&self.header, Bytes::new(&self.cells))
    }
}

/// The kernel's pipe of two pages, with its sleepers.
struct Pipe {
    bytes: Mutex<u32>,
    changed: Condvar,
}

impl Pipe {
    fn sleep_until(&self, is_ready: impl Fn(u32) -> bool) {
        let mut bytes = self.bytes.lock().unwrap();
        while !is_ready(*bytes) {
            bytes = self.changed.wait(bytes).unwrap();
        }
    }

    fn sleep_until_readable(&self) {
        self.sleep_until(|bytes| bytes > 0);
    }

    fn sleep_until_writable(&self) {
        self.sleep_until(|bytes| bytes <= 4096);
    }
}

impl Shadow for Pipe {
    fn narrow(&self) {}

    fn put(&self, bytes: u32) -> u32 {
        *self.bytes.lock().unwrap() += bytes;
        self.changed.notify_all();
        bytes
    }

    fn take(&self, bytes: u32) -> u32 {
        let mut inside = self.bytes.lock().unwrap();
        let taken = bytes.min(*inside);
        *inside -= taken;
        self.changed.notify_all();
        taken
    }

    fn bytes(&self) -> u32 {
        *self.bytes.lock().unwrap()
    }

    fn now(&self) -> u64 {
        0
    }
}

/// Threads of this number and above never make a lock their own.
const OCCASIONAL: u32 = 100;

/// A thread that looks at a lock again and again instead of sleeping: whether it is woken is the kernel's affair.
struct Me(u32);

impl Parking for Me {
    type Announced = ();

    fn owner(&self) -> u32 {
        self.0
    }

    fn announce(&self, _: &AtomicU32) {}

    fn restore(&self, _: &AtomicU32, (): ()) {}

    fn park(&self, _: &AtomicU32, _: u32, owner: u32) -> Parked {
        assert_ne!(owner, 0, "who sleeps at a free lock is not woken");
        thread::yield_now();
        Parked::LookAgain
    }

    fn unpark_one(&self, _: &AtomicU32) {}

    fn can_be_fenced(&self) -> bool {
        true
    }

    fn prepare_to_own(&self) {}

    fn wants_for_itself(&self) -> bool {
        self.0 < OCCASIONAL
    }

    fn fence_everywhere(&self) {
        fence(Ordering::SeqCst);
    }
}

fn write_now(writers: &WriteSide<'_, Me>, bytes: &[u8]) -> Result<usize, Broken> {
    let room = writers.room(bytes.len())?;
    Ok(if room.len() < bytes.len() { 0 } else { writers.write(room, [bytes].into_iter(), 0) })
}

fn read_now(readers: &ReadSide<'_, Me>, bytes: &mut [u8]) -> Result<usize, Broken> {
    let waiting = readers.waiting(bytes.len())?;
    Ok(readers.read(waiting, [bytes].into_iter(), 0))
}

/// Writes as the pipe does: what wakes readers included.
fn try_write(world: &World, me: &Me, bytes: &[u8]) -> bool {
    let ring = world.ring();
    let count = write_now(&ring.lock_writers(me).unwrap(), bytes).unwrap();
    if count > 0 && ring.readers_wait() {
        ring.bell().raise(me, &world.shadow).unwrap();
    }
    count > 0
}

fn try_read(world: &World, me: &Me, bytes: &mut [u8]) -> usize {
    let ring = world.ring();
    let count = read_now(&ring.lock_readers(me).unwrap(), bytes).unwrap();
    if count > 0 && ring.writers_wait() {
        ring.bell().lower(me, &world.shadow).unwrap();
    }
    count
}

/// Sleeps until all of `bytes` are written.
fn write(world: &World, me: &Me, bytes: &[u8]) {
    while !try_write(world, me, bytes) {
        let ring = world.ring();
        ring.bell().writer_will_sleep(me, &world.shadow).unwrap();
        if ring.capacity().unwrap() - ring.readable().unwrap() < bytes.len() {
            world.shadow.sleep_until_writable();
        }
        ring.bell().writer_woke();
    }
}

/// Sleeps until there is something to read.
fn read(world: &World, me: &Me, bytes: &mut [u8]) -> usize {
    loop {
        let count = try_read(world, me, bytes);
        if count > 0 {
            return count;
        }
        let ring = world.ring();
        ring.bell().reader_will_sleep(me, &world.shadow).unwrap();
        if ring.readable().unwrap() == 0 {
            world.shadow.sleep_until_readable();
        }
        ring.bell().reader_woke();
    }
}

/// Room for one byte, claimed by who is called `process`; `None` if there is none, or somebody else has claimed it.
fn try_reserve(world: &World, me: &Me, process: u32) -> Option<Claim> {
    let ring = world.ring();
    let writers = ring.lock_writers(me).unwrap();
    let room = if writers.is_claimed() { None } else { Some(writers.room(1).unwrap()) };
    room.filter(|room| !room.is_empty()).map(|room| writers.claim(room, 1, process))
}

/// Fills what was reserved in place, and wakes a reader.
fn commit(world: &World, me: &Me, claim: &Claim, byte: u8) {
    let ring = world.ring();
    for cell in claim.places(ring).into_iter().flatten() {
        // SAFETY: loom stops the model if another thread uses the byte.
        world.cells[cell].with_mut(|cell| unsafe { *cell = byte });
    }
    ring.claims_of_writers().end(claim, 1, 0);
    if ring.readers_wait() {
        ring.bell().raise(me, &world.shadow).unwrap();
    }
}

/// The bytes that wait, claimed; `None` if there are none, or somebody else has claimed them.
fn try_borrow(world: &World, me: &Me, process: u32) -> Option<Claim> {
    let ring = world.ring();
    let readers = ring.lock_readers(me).unwrap();
    let waiting = if readers.is_claimed() { None } else { Some(readers.waiting(2).unwrap()) };
    waiting.filter(|waiting| !waiting.is_empty()).map(|waiting| readers.claim(waiting, 2, process))
}

/// Looks at what was borrowed in place, takes all of it, and wakes a writer.
fn consume(world: &World, me: &Me, claim: &Claim) -> Vec<u8> {
    let ring = world.ring();
    // SAFETY: loom stops the model if another thread writes the byte.
    let look = |cell: usize| world.cells[cell].with(|cell| unsafe { *cell });
    let bytes = claim.places(ring).into_iter().flatten().map(look).collect();
    ring.claims_of_readers().end(claim, claim.len(), 0);
    if ring.writers_wait() {
        ring.bell().lower(me, &world.shadow).unwrap();
    }
    bytes
}

fn until<T>(attempt: impl Fn() -> Option<T>) -> T {
    loop {
        match attempt() {
            Some(found) => return found,
            None => thread::yield_now(),
        }
    }
}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

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
fn a_sleeping_reader_is_woken() {
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
fn a_sleeping_writer_is_woken() {
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
fn two_sleeping_writers_are_both_woken_and_their_writes_stay_whole() {
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

#[test]
fn a_lock_whose_owner_died_is_taken_over_and_nothing_half_done_is_seen() {
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
fn a_lock_that_is_its_users_own_is_given_back_to_who_else_comes() {
    check(3, || {
        let world = World::new();
        let steady = Me(1);
        // From here on the writing side is this thread's own.
        assert!(try_write(&world, &steady, &[1]));
        let theirs = world.clone();
        let other = thread::spawn(move || {
            let (ring, me) = (theirs.ring(), Me(OCCASIONAL));
            write_now(&ring.lock_writers(&me).unwrap(), &[3]).unwrap()
        });
        let mine = write_now(&world.ring().lock_writers(&steady).unwrap(), &[2]).unwrap();
        // Two at once would write to one place; the model would stop at the race, and here a byte would be lost.
        assert_eq!(mine + other.join().unwrap(), 1, "there is room for one more");
        let mut bytes = [0; 2];
        assert_eq!(try_read(&world, &Me(3), &mut bytes), 2);
        assert_eq!(bytes, [1, if mine == 1 { 2 } else { 3 }]);
    });
}

#[test]
fn an_owner_that_dies_inside_leaves_the_lock_to_the_others() {
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
fn one_who_watches_from_outside_is_told_of_every_state_in_the_end() {
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

/// The pages of the ring, and what one process believes of them.
struct Pages {
    exist: Mutex<bool>,
}

impl Pages {
    /// As a process does before it touches a byte: `known` is the epoch in which it last had them made.
    fn touch(&self, known: &mut Option<u32>, epoch: u32) {
        if *known != Some(epoch) {
            *self.exist.lock().unwrap() = true;
            *known = Some(epoch);
        }
        assert!(*self.exist.lock().unwrap(), "a byte is touched whose page was given back");
    }
}

#[test]
fn nobody_touches_pages_that_were_given_back() {
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

/// Copies what waits in one ring, up to a byte, to the other, as the pipe does.
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
            // There is no need to wait: two bytes, and room for two.
            assert_eq!((try_relay(&from, &to, &Me(2)), try_relay(&from, &to, &Me(2))), (1, 1));
        });
        // Into the place of a byte that has been copied on.
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

/// The bytes that were not taken, and the writer uses its memory for something else.
fn withdraw(world: &World, number: u32, bytes: [u8; 2]) -> Vec<u8> {
    let taken = world.ring().withdraw(number, 2).unwrap();
    world.lent.iter().for_each(|place| place.store(99, Ordering::Relaxed));
    bytes[taken..].to_vec()
}

/// Takes at most `wanted` of what is offered, if it is next. With no lock held.
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
fn an_offer_that_is_withdrawn_while_it_is_taken_is_counted_to_the_byte() {
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
fn an_old_view_of_an_offer_takes_nothing_of_the_next() {
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
fn who_sleeps_over_an_offer_and_who_sleeps_before_it_are_woken() {
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
fn what_is_written_behind_a_dead_ones_offer_comes_after_what_was_taken_of_it() {
    check(3, || {
        let world = World::new();
        // Its writer is dead, and one that waits behind it finds out.
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
fn an_offer_that_is_given_back_is_gone_on_with_where_it_was_left() {
    check(3, || {
        let world = World::new();
        let number = offer(&world, &Me(1), [1, 2]);
        let theirs = world.clone();
        let changing = thread::spawn(move || {
            // Somebody changes how the pipe works, and has to have both locks for it.
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

#[test]
fn what_is_filled_in_place_is_seen_in_place_around_the_end_of_the_ring() {
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
fn a_sleeping_reader_is_woken_by_what_is_committed() {
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
fn a_sleeping_writer_is_woken_by_what_is_consumed() {
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

/// As a plain write: not while somebody fills the ring in place.
fn write_beside(world: &World, me: &Me, byte: u8) -> Option<()> {
    let ring = world.ring();
    let writers = ring.lock_writers(me).unwrap();
    (!writers.is_claimed() && write_now(&writers, &[byte]).unwrap() == 1).then_some(())
}

/// `steady` is one whose own the lock may become, or was before.
fn a_plain_writer_goes_before_or_after(steady: bool) {
    check(3, move || {
        let world = World::new();
        let plain = Me(if steady { 1 } else { OCCASIONAL });
        if steady {
            // From here on the writing side is its own.
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
        // Wherever the lock's owner believes to be, it is after both.
        assert!(write_beside(&world, &plain, 7).is_some());
        assert_eq!((try_read(&world, &Me(3), &mut bytes), bytes[0]), (1, 7));
    });
}

#[test]
fn a_plain_writer_goes_before_or_after_one_who_fills_in_place() {
    a_plain_writer_goes_before_or_after(false);
}

#[test]
fn a_writer_whose_own_the_lock_is_goes_before_or_after_one_who_fills_in_place() {
    a_plain_writer_goes_before_or_after(true);
}

#[test]
fn a_plain_reader_and_one_who_borrows_share_the_bytes() {
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
fn the_claim_of_one_who_died_is_worth_nothing() {
    check(3, || {
        let world = World::new();
        let theirs = world.clone();
        let dying = thread::spawn(move || {
            let claim = try_reserve(&theirs, &Me(1), 7).unwrap();
            // In place, and never committed.
            let cell = claim.places(theirs.ring())[0].start;
            // SAFETY: loom stops the model if another thread uses the byte.
            theirs.cells[cell].with_mut(|cell| unsafe { *cell = 9 });
        });
        dying.join().unwrap();
        let theirs = world.clone();
        // Both find out that it is dead.
        let take_over = |world: &World, me: &Me, byte| {
            until(|| {
                let ring = world.ring();
                if ring.claims_of_writers().process() == Some(7) {
                    ring.lock_writers(me).unwrap().end_claim_of_dead(7);
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
