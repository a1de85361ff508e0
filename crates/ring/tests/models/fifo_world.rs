//! A FIFO and its ring in a world of two bytes: the kernel's pipe, its openers, and what the pipe's library does with
//! both (`crates/pipe/src/fifo`, under the same names). No sleep ends by itself, so a waiter that is not woken is a
//! deadlock.

use std::collections::VecDeque;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use millstream_ring::sync::{AtomicU32, Ordering, fence};
use millstream_ring::{Bytes, Geometry, Header, Lookout, ReadSide, Ring, Route, Shadow, Whose, WriteSide};

use crate::world::Me;

/// Milliseconds for which a reader counts as active.
const ATTENTION: u32 = 50;

pub(crate) struct Fifo {
    header: Header,
    cells: Vec<UnsafeCell<u8>>,
    pub(crate) kernel: Kernel,
    clock: AtomicU32,
}

// SAFETY: the cells are what the model is about: loom stops it if two threads use one at once.
#[allow(unsafe_code)]
unsafe impl Sync for Fifo {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Send for Fifo {}

/// What the kernel keeps: the FIFO, how many have it open and how many of these are participants, and the readiness
/// bytes.
pub(crate) struct Kernel {
    state: Mutex<State>,
    changed: Condvar,
    /// The words of the write monitor: the kernel writes them, and every participant may load them.
    tripped: AtomicU32,
    count: AtomicU32,
}

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    bell: u32,
    readers: u32,
    writers: u32,
    marked_readers: u32,
    marked_writers: u32,
    /// Whether the write monitor is set, so that the next write flags it.
    is_watched: bool,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Moved(usize),
    Nothing,
    Again,
    End,
}

enum Way {
    Ring,
    Fifo,
}

impl Kernel {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let outcome = change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
        outcome
    }

    fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock().unwrap())
    }

    /// Also what a program without millstream does.
    pub(crate) fn write(&self, bytes: &[u8]) {
        self.change(|state| {
            state.bytes.extend(bytes);
            if std::mem::take(&mut state.is_watched) {
                self.tripped.store(1, Ordering::Relaxed);
            }
        });
    }

    /// `Tripwire::set`.
    fn set_monitor(&self) -> Option<u32> {
        if self.look(|state| state.is_watched) {
            return Some(self.count.load(Ordering::Relaxed));
        }
        fence(Ordering::SeqCst);
        let mut count = self.count.load(Ordering::Relaxed);
        if self.tripped.load(Ordering::Relaxed) != 0 {
            self.tripped.store(0, Ordering::Relaxed);
            count += 1;
            self.count.store(count, Ordering::Relaxed);
        }
        self.change(|state| {
            state.is_watched = state.bytes.is_empty();
            if !state.is_watched {
                self.count.store(count + 1, Ordering::Relaxed);
            }
            state.is_watched.then_some(count)
        })
    }

    /// `Segment::is_tripwire_up`.
    fn is_monitor_set(&self, count: u32) -> bool {
        self.tripped.load(Ordering::Acquire) == 0 && self.count.load(Ordering::Acquire) == count
    }

    /// Reads at most `most` bytes; `None` if that would wait.
    pub(crate) fn read(&self, most: usize) -> Option<Vec<u8>> {
        self.change(|state| {
            let count = most.min(state.bytes.len());
            let taken: Vec<u8> = state.bytes.drain(..count).collect();
            (!taken.is_empty() || state.writers == 0).then_some(taken)
        })
    }

    fn waiting(&self) -> usize {
        self.look(|state| state.bytes.len())
    }

    pub(crate) fn close_writer(&self) {
        self.change(|state| state.writers -= 1);
    }

    /// As `poll` of the FIFO and of the pipe with the readiness bytes.
    fn sleep_until_readable_or_rung(&self) {
        let mut state = self.state.lock().unwrap();
        while state.bytes.is_empty() && state.writers > 0 && state.bell == 0 {
            state = self.changed.wait(state).unwrap();
        }
    }
}

impl Shadow for Kernel {
    fn narrow(&self) {}

    fn put(&self, bytes: u32) -> u32 {
        self.change(|state| state.bell += bytes);
        bytes
    }

    fn take(&self, bytes: u32) -> u32 {
        self.change(|state| {
            let taken = bytes.min(state.bell);
            state.bell -= taken;
            taken
        })
    }

    fn bytes(&self) -> u32 {
        self.look(|state| state.bell)
    }

    fn now(&self) -> u64 {
        0
    }
}

impl Fifo {
    /// With so many ends of ours, all of them participants, and a plain writer and reader beside them if `plain`.
    pub(crate) fn with(readers: u32, writers: u32, plain: bool) -> Arc<Fifo> {
        let others = u32::from(plain);
        let state = State {
            readers: readers + others,
            writers: writers + others,
            marked_readers: readers,
            marked_writers: writers,
            ..State::default()
        };
        let fifo = Fifo {
            header: Header::new(),
            cells: (0..4).map(|_| UnsafeCell::new(0)).collect(),
            kernel: Kernel {
                state: Mutex::new(state),
                changed: Condvar::new(),
                tripped: AtomicU32::new(0),
                count: AtomicU32::new(0),
            },
            clock: AtomicU32::new(1000),
        };
        fifo.ring().found_for_fifo(Whose::default(), Geometry::of(2).unwrap(), 1);
        fifo.ring().attend(1000);
        Arc::new(fifo)
    }

    pub(crate) fn ring(&self) -> Ring<'_> {
        Ring::new(&self.header, Bytes::new(&self.cells))
    }

    fn now(&self) -> u32 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Lets more time pass than a reader counts as active.
    pub(crate) fn let_time_pass(&self) {
        self.clock.fetch_add(2 * ATTENTION, Ordering::Relaxed);
    }

    fn has_bytes(&self) -> bool {
        self.ring().readable() != Ok(0)
    }

    /// `lookout::try_to_look_out`, of the one reader that monitors writes.
    pub(crate) fn look_out(&self) {
        let ring = self.ring();
        if let Some(lookout) = ring.monitor() {
            if self.kernel.is_monitor_set(lookout.count) {
                return;
            }
            ring.withdraw_monitor(lookout);
        }
        if let Some(count) = self.kernel.set_monitor() {
            assert!(ring.post_monitor(None, Lookout { page: 0, flags: 36, count_at: 12, count }));
        }
    }

    /// `lookout::is_looked_out_for`.
    fn is_looked_out_for(&self) -> bool {
        let ring = self.ring();
        let is_up = |lookout: &Lookout| self.kernel.is_monitor_set(lookout.count);
        ring.monitor().filter(is_up).is_some_and(|lookout| ring.monitor() == Some(lookout))
    }

    /// `routes::way`, which knows before each write whether foreign processes have written.
    fn way(&self, me: &Me, writers: &WriteSide<'_, Me>) -> Way {
        let ring = self.ring();
        let is_in_use = ring.is_attended(self.now(), ATTENTION) && !ring.is_kept_to_kernel();
        match ring.route() {
            Route::Ring if is_in_use && (self.is_looked_out_for() || self.kernel.waiting() == 0) => return Way::Ring,
            Route::Shadow if !is_in_use => return Way::Fifo,
            _ => {}
        }
        let readers = &ring.lock_readers(me).unwrap();
        let (strangers, is_empty) = (self.kernel.waiting(), ring.readable() == Ok(0));
        let is_expected = || !ring.is_kept_to_kernel() && self.kernel.look(|state| state.marked_readers > 0);
        match ring.route() {
            Route::Shadow if strangers > 0 => Way::Fifo,
            Route::Shadow => {
                readers.end_foreign_bytes();
                writers.set_route(readers, Route::Ring);
                Way::Ring
            }
            Route::Ring if is_in_use && strangers == 0 => Way::Ring,
            Route::Ring if is_empty => {
                self.leave_ring(me, readers, Route::Shadow);
                Way::Fifo
            }
            Route::Ring if strangers > 0 && (is_in_use || is_expected()) => {
                writers.admit_foreign_bytes(readers, strangers);
                Way::Ring
            }
            Route::Ring | Route::Moving => {
                self.give_back(me, writers, readers);
                Way::Fifo
            }
        }
    }

    fn leave_ring(&self, me: &Me, readers: &ReadSide<'_, Me>, route: Route) {
        readers.end_foreign_bytes();
        self.ring().bell().silence(me, &self.kernel, route).unwrap();
    }

    fn give_back(&self, me: &Me, writers: &WriteSide<'_, Me>, readers: &ReadSide<'_, Me>) {
        self.begin_to_give_back(me, readers);
        loop {
            let waiting = readers.waiting(usize::MAX).unwrap();
            if waiting.is_empty() {
                return writers.set_route(readers, Route::Shadow);
            }
            self.put_into_fifo(readers);
            readers.gave_back(waiting, waiting.len());
        }
    }

    fn begin_to_give_back(&self, me: &Me, readers: &ReadSide<'_, Me>) {
        if self.ring().route() == Route::Ring {
            self.leave_ring(me, readers, Route::Moving);
        }
        readers.finish_giving_back().unwrap();
    }

    fn put_into_fifo(&self, readers: &ReadSide<'_, Me>) {
        let mut piece = [0; 2];
        let waiting = readers.waiting(usize::MAX).unwrap();
        let len = readers.whole_writes(waiting);
        assert_eq!(readers.peek(waiting, 0, &mut piece[..len]), len);
        readers.will_give_back(waiting, len);
        self.kernel.write(&piece[..len]);
    }

    /// A process is killed after it has put a piece into the FIFO, and before it has stored that.
    pub(crate) fn die_giving_back(&self, me: &Me) {
        let ring = self.ring();
        let (writers, readers) = lock_both(&ring, me);
        self.begin_to_give_back(me, &readers);
        self.put_into_fifo(&readers);
        drop((readers, writers));
    }

    /// `writing::write`, of a byte for which there is room.
    pub(crate) fn write(&self, me: &Me, byte: u8) {
        let ring = self.ring();
        let writers = ring.lock_writers(me).unwrap();
        match self.way(me, &writers) {
            Way::Fifo => self.kernel.write(&[byte]),
            Way::Ring => {
                let room = writers.room(1).unwrap();
                assert_eq!(writers.write(room, [&[byte][..]].into_iter(), 0), 1);
                drop(writers);
                if ring.readers_wait() {
                    ring.bell().raise(me, &self.kernel).unwrap();
                }
            }
        }
    }

    /// `reading::attempt`, of one byte.
    pub(crate) fn try_read(&self, me: &Me, got: &mut Vec<u8>) -> Attempt {
        let ring = self.ring();
        ring.attend(self.now());
        let readers = ring.lock_readers(me).unwrap();
        let waiting = readers.waiting(1).unwrap();
        if ring.route() == Route::Moving {
            drop(readers);
            return self.attempt_moving(me, got);
        }
        if readers.before_foreign_bytes(waiting) == Some(0) {
            return match self.kernel.read(readers.foreign_bytes().min(1)) {
                Some(bytes) if !bytes.is_empty() => {
                    readers.took_foreign_bytes(bytes.len());
                    moved(got, &bytes)
                }
                _ => {
                    readers.end_foreign_bytes();
                    Attempt::Again
                }
            };
        }
        if waiting.is_empty() {
            return self.attempt_fifo(got);
        }
        let mut byte = [0];
        readers.read(waiting, [&mut byte[..]].into_iter(), 0);
        drop(readers);
        if ring.writers_wait() {
            ring.bell().lower(me, &self.kernel).unwrap();
        }
        moved(got, &byte)
    }

    /// The kernel first, the ring second.
    fn attempt_fifo(&self, got: &mut Vec<u8>) -> Attempt {
        let (most, is_end) = self.kernel.look(|state| (state.bytes.len(), state.writers == 0));
        if self.has_bytes() {
            return Attempt::Again;
        }
        match self.kernel.read(most.min(1)) {
            Some(bytes) if !bytes.is_empty() => moved(got, &bytes),
            _ if is_end => Attempt::End,
            _ => Attempt::Nothing,
        }
    }

    fn attempt_moving(&self, me: &Me, got: &mut Vec<u8>) -> Attempt {
        let ring = self.ring();
        let (writers, readers) = lock_both(&ring, me);
        if self.ring().route() != Route::Moving {
            return Attempt::Again;
        }
        readers.finish_giving_back().unwrap();
        let taken = self.kernel.read(1).unwrap_or_default();
        if self.ring().is_kept_to_kernel() {
            self.give_back(me, &writers, &readers);
        } else if taken.is_empty() {
            let is_empty = !self.has_bytes();
            writers.set_route(&readers, if is_empty { Route::Shadow } else { Route::Ring });
        }
        if taken.is_empty() { Attempt::Again } else { moved(got, &taken) }
    }

    /// `reading::read`: sleeps until there is a byte; false at the end of the stream.
    pub(crate) fn read(&self, me: &Me, got: &mut Vec<u8>) -> bool {
        loop {
            match self.try_read(me, got) {
                Attempt::Moved(_) => return true,
                Attempt::End => return false,
                Attempt::Again => loom::thread::yield_now(),
                Attempt::Nothing => {
                    let (bell, route) = (self.ring().bell(), self.ring().route());
                    bell.reader_will_sleep(me, &self.kernel).unwrap();
                    if !self.has_bytes() && self.ring().route() == route {
                        self.kernel.sleep_until_readable_or_rung();
                    }
                    bell.reader_woke();
                }
            }
        }
    }

    /// `routes::leave`, of a reader, which then closes.
    pub(crate) fn leave_reading(&self, me: &Me) {
        let ring = self.ring();
        let (writers, readers) = lock_both(&ring, me);
        // Under the locks: if two leave at once, the second finds that no reader is left.
        let is_last = self.kernel.change(|state| {
            state.marked_readers -= 1;
            state.marked_readers == 0
        });
        if is_last {
            self.ring().attend(self.now().wrapping_sub(2 * ATTENTION));
        }
        if is_last && self.has_bytes() {
            self.give_back(me, &writers, &readers);
        }
        drop((readers, writers));
        self.kernel.change(|state| state.readers -= 1);
    }

    /// `routes::leave`, of a writer, which then closes.
    pub(crate) fn leave_writing(&self, me: &Me) {
        let ring = self.ring();
        let (writers, readers) = lock_both(&ring, me);
        let (others, waiting) = self.kernel.change(|state| {
            state.marked_writers -= 1;
            (state.marked_readers > 0, state.bytes.len())
        });
        let is_in_order = self.ring().route() == Route::Ring && waiting == 0;
        if self.has_bytes() && (!others || is_in_order) {
            self.give_back(me, &writers, &readers);
        }
        drop((readers, writers));
        self.kernel.close_writer();
    }

    /// `routes::keep_to_kernel`: a process polls.
    pub(crate) fn keep_to_kernel(&self, me: &Me) {
        let ring = self.ring();
        let (writers, readers) = lock_both(&ring, me);
        writers.keep_to_kernel();
        if self.has_bytes() {
            self.give_back(me, &writers, &readers);
        } else if self.ring().route() == Route::Ring {
            self.leave_ring(me, &readers, Route::Shadow);
        }
    }
}

fn moved(got: &mut Vec<u8>, bytes: &[u8]) -> Attempt {
    got.extend_from_slice(bytes);
    Attempt::Moved(bytes.len())
}

fn lock_both<'a>(ring: &'a Ring<'a>, me: &'a Me) -> (WriteSide<'a, Me>, ReadSide<'a, Me>) {
    let writers = ring.lock_writers(me).unwrap();
    let readers = ring.lock_readers(me).unwrap();
    (writers, readers)
}
