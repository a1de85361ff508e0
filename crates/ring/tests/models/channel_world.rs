//! Two processes with the ends of a channel, and the kernel's pipe behind it. The ends do what
//! `crates/preload/src/joined` does, with the same code of the channel.
#![allow(unsafe_code)]

use core::cell::Cell;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::collections::VecDeque;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::{Condvar, Mutex};
use loom::thread;
use millstream_ring::channel::{BackingPipe, Channel, Detached, Moved, OwnSleep, Put, Side, Span, TOKEN, Woken};
use millstream_ring::sync::channel::{AtomicU32, before_step, step};

/// An end that has not come to an end of its attempts by then waits for ever.
const ATTEMPTS: u32 = 100;

/// The memory of the channel, and the kernel.
pub(crate) struct Joint {
    pub(crate) channel: Channel,
    cells: Vec<UnsafeCell<u8>>,
    pipe: Mutex<Content>,
    changed: Condvar,
    futexes: Mutex<()>,
    woken: Condvar,
}

// SAFETY: the cells are what the model is about: loom stops it if two threads use one at once.
unsafe impl Sync for Joint {}
// SAFETY: as above.
unsafe impl Send for Joint {}

/// The backing pipe.
struct Content {
    bytes: VecDeque<u8>,
    has_writer: bool,
    has_reader: bool,
}

/// One end, in its process.
pub(crate) struct End {
    joint: Arc<Joint>,
    side: Side,
    own: OwnSleep,
    is_attached: AtomicBool,
    are_signals_held: AtomicBool,
    is_signal_pending: AtomicBool,
}

struct Killed;

std::thread_local! {
    /// A process was killed or interrupted in one of the orders that this thread has tried.
    static HAS_HAPPENED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `models` of a process that is killed or interrupted before its step 0, 1 and so on, until it has no more steps.
pub(crate) fn at_every_step(models: impl Fn(u32)) {
    let mut step = 0;
    while step == 0 || HAS_HAPPENED.get() {
        HAS_HAPPENED.set(false);
        models(step);
        step += 1;
    }
}

/// Both ends, of which the ring holds `capacity` bytes; not attached.
pub(crate) fn ends(capacity: usize) -> (Arc<End>, Arc<End>) {
    let joint = Arc::new(Joint {
        channel: Channel::default(),
        cells: (0..capacity).map(|_| UnsafeCell::new(0)).collect(),
        pipe: Mutex::new(Content { bytes: VecDeque::new(), has_writer: true, has_reader: true }),
        changed: Condvar::new(),
        futexes: Mutex::new(()),
        woken: Condvar::new(),
    });
    (End::new(&joint, Side::Writer), End::new(&joint, Side::Reader))
}

/// The same, attached.
pub(crate) fn attached(capacity: usize) -> (Arc<End>, Arc<End>) {
    let (writer, reader) = ends(capacity);
    reader.channel().reader_waits();
    assert!(writer.agrees());
    assert!(reader.has_agreed());
    (writer, reader)
}

impl End {
    fn new(joint: &Arc<Joint>, side: Side) -> Arc<End> {
        Arc::new(End {
            joint: joint.clone(),
            side,
            own: OwnSleep::new(),
            is_attached: AtomicBool::new(false),
            are_signals_held: AtomicBool::new(false),
            is_signal_pending: AtomicBool::new(false),
        })
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.joint.channel
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.is_attached.load(Relaxed)
    }

    /// `meets_reader` of `meet.rs`.
    pub(crate) fn agrees(&self) -> bool {
        let agrees = self.channel().agree(self, || self.joint.cells.len());
        self.is_attached.store(agrees, Relaxed);
        agrees
    }

    /// The end of `meet_writer`.
    pub(crate) fn has_agreed(&self) -> bool {
        let agreed = self.channel().has_agreed();
        self.is_attached.store(agreed, Relaxed);
        agreed
    }

    /// `write(2)` of one byte. `false`: there is no reader.
    pub(crate) fn write(self: &Arc<End>, byte: u8) -> bool {
        loop {
            if !self.is_attached() {
                return self.write_to_kernel(byte);
            }
            if self.channel().reader_is_gone() {
                self.try_detach();
            }
            match self.channel().put(1, |spans| self.fill(spans, byte)) {
                Moved::Bytes(_) => {
                    self.wake_reader();
                    return true;
                }
                Moved::Nothing => {
                    self.wake_reader();
                    if let Some(value) = self.channel().writer_will_sleep(1) {
                        self.sleep_for_room(value);
                    }
                }
                Moved::Frozen => self.follow(),
                Moved::Absent => unreachable!(),
            }
        }
    }

    /// `read(2)` of one byte. `None`: the end of the stream.
    pub(crate) fn read(self: &Arc<End>) -> Option<u8> {
        if self.is_attached()
            && let Some(byte) = self.take_woken()
        {
            return Some(byte);
        }
        loop {
            if !self.is_attached() {
                return self.read_from_kernel();
            }
            let mut byte = 0;
            match self.channel().get(1, |spans| self.empty(spans, &mut byte)) {
                Moved::Bytes(_) => {
                    if self.channel().takes_writers_wait() {
                        self.wake_all(self.channel().room_word());
                    }
                    return Some(byte);
                }
                Moved::Nothing if !self.own.begin() => self.try_detach(),
                Moved::Nothing => {
                    let result = self.sleep();
                    self.own.end();
                    if let Some(result) = result {
                        return result;
                    }
                }
                Moved::Frozen => self.follow(),
                Moved::Absent => unreachable!(),
            }
        }
    }

    /// `poll(2)` of the reader, as in `polled.rs`. It leaves a token to the next read, and returns at any change.
    pub(crate) fn poll(self: &Arc<End>) {
        let channel = self.channel();
        if !self.is_attached() || channel.has_bytes() != Some(false) {
            return;
        }
        if !self.own.begin() {
            return self.try_detach();
        }
        let was_woken = channel.begin_sleep();
        let is_empty = !channel.has_bytes_before_sleep();
        let sleeps = is_empty && !was_woken;
        if sleeps {
            self.wait_for_kernel();
        }
        channel.end_sleep();
        self.own.end();
        if is_empty && was_woken {
            self.try_detach();
        }
    }

    /// `take_token` of `stream.rs`, after a poll. `None`: look at the ring.
    fn take_woken(&self) -> Option<u8> {
        if !self.channel().is_woken() || !self.own.begin() {
            return None;
        }
        step();
        let took = self.joint.pipe.lock().unwrap().bytes.pop_front();
        let woken = self.channel().wakes_up(took.into_iter().count(), &self.own);
        self.own.end();
        took.filter(|_| woken == Woken::ByStream)
    }

    fn wait_for_kernel(&self) {
        step();
        let mut pipe = self.joint.pipe.lock().unwrap();
        while pipe.bytes.is_empty() && pipe.has_writer {
            pipe = self.joint.changed.wait(pipe).unwrap();
        }
    }

    /// `sleep_for_bytes` of `stream.rs`. `None`: look at the ring again.
    fn sleep(&self) -> Option<Option<u8>> {
        let channel = self.channel();
        channel.begin_sleep();
        if channel.has_bytes_before_sleep() {
            channel.end_sleep();
            return None;
        }
        let took = self.read_from_kernel();
        match channel.wakes_up(took.into_iter().count(), &self.own) {
            Woken::ByToken => {
                assert_eq!(took, Some(TOKEN), "a byte of the stream was taken for a token");
                None
            }
            Woken::ByStream => Some(took),
            Woken::ByEndWithBytes => None,
            Woken::ByNothing => Some(None),
        }
    }

    fn wake_reader(self: &Arc<End>) {
        if self.channel().reader_sleeps() {
            self.with_signals_held(|| {
                if self.is_attached() {
                    self.channel().wake_reader(&**self);
                }
            });
        }
    }

    /// The kernel compares the word once more before the thread sleeps.
    fn sleep_for_room(&self, value: u32) {
        step();
        let queue = self.joint.futexes.lock().unwrap();
        if self.channel().room_word().peek() == value {
            drop(self.joint.woken.wait(queue).unwrap());
        }
    }

    /// A call that only the kernel can serve.
    pub(crate) fn detach(self: &Arc<End>) {
        for _ in 0..ATTEMPTS {
            self.try_detach();
            if !self.is_attached() {
                return;
            }
            thread::yield_now();
        }
        panic!("it waits for ever to detach");
    }

    fn follow(self: &Arc<End>) {
        self.detach();
    }

    fn try_detach(self: &Arc<End>) {
        self.with_signals_held(|| {
            if self.is_attached() && self.channel().detach(self.side, &**self, &self.own) == Detached::Done {
                self.is_attached.store(false, Relaxed);
            }
        });
    }

    fn with_signals_held(self: &Arc<End>, change: impl FnOnce()) {
        let before = self.are_signals_held.swap(true, Relaxed);
        change();
        self.are_signals_held.store(before, Relaxed);
        if !before && self.is_signal_pending.swap(false, Relaxed) {
            self.detach();
        }
    }

    /// Before its step `count` a signal comes, whose handler makes a call that only the kernel can serve.
    pub(crate) fn detaches_in_handler_at(self: &Arc<End>, count: u32) {
        let end = self.clone();
        before_step(count, move || {
            HAS_HAPPENED.set(true);
            if end.are_signals_held.load(Relaxed) {
                end.is_signal_pending.store(true, Relaxed);
            } else {
                end.detach();
            }
        });
    }

    /// What a process does until it ends, or is killed before its step `count`. Then the kernel closes its end.
    pub(crate) fn lives(self: &Arc<End>, count: Option<u32>, life: impl FnOnce(&Arc<End>)) {
        if let Some(count) = count {
            before_step(count, || {
                HAS_HAPPENED.set(true);
                resume_unwind(Box::new(Killed))
            });
        }
        if let Err(fault) = catch_unwind(AssertUnwindSafe(|| life(self)))
            && !fault.is::<Killed>()
        {
            resume_unwind(fault);
        }
        before_step(u32::MAX, || ());
        self.close();
    }

    fn close(&self) {
        if self.side == Side::Reader {
            self.channel().note_reader_gone();
            self.wake_all(self.channel().room_word());
        }
        let mut pipe = self.joint.pipe.lock().unwrap();
        match self.side {
            Side::Writer => pipe.has_writer = false,
            Side::Reader => pipe.has_reader = false,
        }
        drop(pipe);
        self.joint.changed.notify_all();
    }

    pub(crate) fn write_to_kernel(&self, byte: u8) -> bool {
        step();
        let mut pipe = self.joint.pipe.lock().unwrap();
        if pipe.has_reader {
            pipe.bytes.push_back(byte);
            self.joint.changed.notify_all();
        }
        pipe.has_reader
    }

    /// Sleeps until there is something, or no writer.
    pub(crate) fn read_from_kernel(&self) -> Option<u8> {
        step();
        let mut pipe = self.joint.pipe.lock().unwrap();
        while pipe.bytes.is_empty() && pipe.has_writer {
            pipe = self.joint.changed.wait(pipe).unwrap();
        }
        pipe.bytes.pop_front()
    }

    fn fill(&self, [first, rest]: [Span; 2], byte: u8) -> bool {
        assert_eq!((first.len, rest.len), (1, 0));
        // SAFETY: loom sees to it that no other thread uses it.
        self.joint.cells[first.at].with_mut(|cell| unsafe { *cell = byte });
        true
    }

    fn empty(&self, [first, rest]: [Span; 2], byte: &mut u8) -> bool {
        assert_eq!((first.len, rest.len), (1, 0));
        *byte = self.byte_at(first.at);
        true
    }

    fn byte_at(&self, at: usize) -> u8 {
        // SAFETY: as above.
        self.joint.cells[at].with(|cell| unsafe { *cell })
    }
}

impl BackingPipe for End {
    const PAUSES: u32 = 1;

    fn bytes(&self) -> usize {
        step();
        self.joint.pipe.lock().unwrap().bytes.len()
    }

    fn peer_is_gone(&self) -> bool {
        step();
        let pipe = self.joint.pipe.lock().unwrap();
        !if self.side == Side::Reader { pipe.has_writer } else { pipe.has_reader }
    }

    fn has_no_reader(&self) -> bool {
        step();
        !self.joint.pipe.lock().unwrap().has_reader
    }

    fn put_token(&self) {
        self.write_to_kernel(TOKEN);
    }

    fn take_token(&self) -> Option<bool> {
        step();
        let byte = self.joint.pipe.lock().unwrap().bytes.pop_front();
        assert!(byte.is_none_or(|byte| byte == TOKEN), "a byte of the stream was thrown away");
        Some(byte.is_some())
    }

    fn with_write_end(&self, mut put: impl FnMut(i32)) {
        put(0);
    }

    /// One byte at a time, so that it can be killed in between.
    fn put(&self, _: i32, _: &Channel, [first, rest]: [Span; 2]) -> Put {
        let at = if first.len > 0 { first.at } else { rest.at };
        if self.write_to_kernel(self.byte_at(at)) { Put::Bytes(1) } else { Put::NoReader }
    }

    fn pause_at(&self, _: &AtomicU32, _: u32) {
        thread::yield_now();
    }

    fn pause(&self) {
        thread::yield_now();
    }

    fn pause_for_bytes(&self) {
        thread::yield_now();
    }

    fn wake_all(&self, _: &AtomicU32) {
        step();
        let _queue = self.joint.futexes.lock().unwrap();
        self.joint.woken.notify_all();
    }
}
