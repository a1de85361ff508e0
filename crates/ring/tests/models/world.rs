//! A state space so small that the model checker can try the orders of events in it, up to a bound of preemptions.
#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use millstream_ring::sync::{AtomicU32, Ordering, fence};
use millstream_ring::{Bytes, Geometry, Header, Parked, Parking, ReadSide, Ring, RingError, Shadow, Whose, WriteSide};

/// A segment on the model's heap: a header and two banks of two bytes, or a few more.
pub(crate) struct World {
    pub(crate) header: Header,
    pub(crate) cells: Vec<UnsafeCell<u8>>,
    pub(crate) shadow: Pipe,
    /// A writer's own memory. No cells: a reader may copy from it after the writer has withdrawn it, and then must not
    /// commit.
    pub(crate) lent: [AtomicU32; 2],
}

// SAFETY: the cells are what the model is about: loom stops it if two threads use one at once.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    pub(crate) fn new() -> Arc<World> {
        World::of(2)
    }

    /// With four bytes the ring may also be neither empty nor full.
    pub(crate) fn of(bytes: usize) -> Arc<World> {
        let world = World {
            header: Header::new(),
            cells: (0..2 * bytes).map(|_| UnsafeCell::new(0)).collect(),
            shadow: Pipe { bytes: Mutex::new(0), changed: Condvar::new() },
            lent: [AtomicU32::new(0), AtomicU32::new(0)],
        };
        world.ring().found(Whose::default(), Geometry::of(bytes).unwrap());
        Arc::new(world)
    }

    pub(crate) fn ring(&self) -> Ring<'_> {
        Ring::new(&self.header, Bytes::new(&self.cells))
    }
}

/// The kernel's pipe of two pages, with its waiters.
pub(crate) struct Pipe {
    pub(crate) bytes: Mutex<u32>,
    changed: Condvar,
}

impl Pipe {
    pub(crate) fn sleep_until(&self, is_ready: impl Fn(u32) -> bool) {
        let mut bytes = self.bytes.lock().unwrap();
        while !is_ready(*bytes) {
            bytes = self.changed.wait(bytes).unwrap();
        }
    }

    pub(crate) fn sleep_until_readable(&self) {
        self.sleep_until(|bytes| bytes > 0);
    }

    pub(crate) fn sleep_until_writable(&self) {
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

/// Where threads sleep until a word changes, as in the kernel. `wait` checks the word once more under the lock of the
/// queue, so no wake-up comes between the check and the sleep.
pub(crate) struct Futex {
    queue: Mutex<()>,
    woken: Condvar,
}

impl Futex {
    pub(crate) fn new() -> Futex {
        Futex { queue: Mutex::new(()), woken: Condvar::new() }
    }

    pub(crate) fn wait(&self, word: &AtomicU32, expected: u32) {
        let queue = self.queue.lock().unwrap();
        if word.load(Ordering::Relaxed) == expected {
            drop(self.woken.wait(queue).unwrap());
        }
    }

    pub(crate) fn wake_all(&self) {
        let _queue = self.queue.lock().unwrap();
        self.woken.notify_all();
    }
}

/// Threads with this number or a greater one never make a lock their own.
pub(crate) const OCCASIONAL: u32 = 100;

/// A thread that checks a lock again and again instead of sleeping: waking it is the kernel's task.
pub(crate) struct Me(pub(crate) u32);

impl Parking for Me {
    type Announced = ();

    fn owner(&self) -> u32 {
        self.0
    }

    fn announce(&self, _: &AtomicU32) {}

    fn restore(&self, _: &AtomicU32, (): ()) {}

    fn park(&self, _: &AtomicU32, _: u32, owner: u32) -> Parked {
        assert_ne!(owner, 0, "nothing wakes a thread that sleeps at a free lock");
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

pub(crate) fn write_now(writers: &WriteSide<'_, Me>, bytes: &[u8]) -> Result<usize, RingError> {
    let room = writers.room(bytes.len())?;
    Ok(if room.len() < bytes.len() { 0 } else { writers.write(room, [bytes].into_iter(), 0) })
}

pub(crate) fn read_now(readers: &ReadSide<'_, Me>, bytes: &mut [u8]) -> Result<usize, RingError> {
    let waiting = readers.waiting(bytes.len())?;
    Ok(readers.read(waiting, [bytes].into_iter(), 0))
}

/// Writes as the pipe does, and wakes readers.
pub(crate) fn try_write(world: &World, me: &Me, bytes: &[u8]) -> bool {
    let ring = world.ring();
    let writers = ring.lock_writers(me).unwrap();
    let count = write_now(&writers, bytes).unwrap();
    let calls = count > 0 && ring.readers_wait_roughly();
    if calls {
        ring.bell().raise_before_unlocking(&writers, me, &world.shadow).unwrap();
    }
    drop(writers);
    if count > 0 && !calls && ring.readers_wait() {
        ring.bell().raise(me, &world.shadow).unwrap();
    }
    count > 0
}

pub(crate) fn try_read(world: &World, me: &Me, bytes: &mut [u8]) -> usize {
    let ring = world.ring();
    let count = read_now(&ring.lock_readers(me).unwrap(), bytes).unwrap();
    if count > 0 && ring.writers_wait() {
        ring.bell().lower(me, &world.shadow).unwrap();
    }
    count
}

/// Sleeps until all of `bytes` are written.
pub(crate) fn write(world: &World, me: &Me, bytes: &[u8]) {
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
pub(crate) fn read(world: &World, me: &Me, bytes: &mut [u8]) -> usize {
    let ring = world.ring();
    let mut was_woken_in_vain = false;
    loop {
        let count = try_read(world, me, bytes);
        if count > 0 {
            return count;
        }
        if was_woken_in_vain {
            ring.bell().expel(me, &world.shadow).unwrap();
        }
        ring.bell().reader_will_sleep(me, &world.shadow).unwrap();
        if ring.readable().unwrap() == 0 {
            world.shadow.sleep_until_readable();
            was_woken_in_vain = ring.readable().unwrap() == 0;
        }
        ring.bell().reader_woke();
    }
}

pub(crate) fn until<T>(attempt: impl Fn() -> Option<T>) -> T {
    loop {
        match attempt() {
            Some(found) => return found,
            None => thread::yield_now(),
        }
    }
}

pub(crate) fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}
