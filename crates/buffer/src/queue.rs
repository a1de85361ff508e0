//! What was read and is not written yet, and when each side may go on.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::spill::Slot;
use crate::stream::StreamError;

/// The largest block. It fits into the second cache of one CPU, with what the kernel moves beside it.
pub(crate) const BLOCK: usize = 256 << 10;
/// The smallest.
const PAGE: usize = 4 << 10;
/// So many blocks that were written are kept for what is read next, however long it takes.
const KEPT: usize = 8;

/// Memory, with what was read at its beginning.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    len: usize,
}

impl Block {
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Where the bytes of a part of the stream are.
#[derive(Clone)]
pub(crate) enum Place {
    Memory(Arc<Block>),
    /// In the spill, and so many.
    Spill(Slot, usize),
}

impl Place {
    fn len(&self) -> usize {
        match self {
            Place::Memory(block) => block.len,
            Place::Spill(_, len) => *len,
        }
    }
}

/// Where the next block is to go.
pub(crate) enum Room {
    Memory,
    Spill(Slot),
    /// Nowhere: no output is left.
    Over,
}

/// What has been counted so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Bytes that were read.
    pub read: u64,
    /// Bytes that every output has written.
    pub written: u64,
    /// Bytes that the kernel has passed on, without a copy here.
    pub spliced: u64,
    /// Bytes that went through the spill.
    pub spilled: u64,
    /// Bytes that wait.
    pub filled: u64,
    /// The most that waited.
    pub most_filled: u64,
    /// Bytes of memory that may be used.
    pub memory: u64,
    /// How long there was no room to read into: the outputs are slower.
    pub full_for: Duration,
    /// How long an output had nothing to write: the input is slower.
    pub empty_for: Duration,
    /// The file system of the spill is full.
    pub is_spill_full: bool,
}

/// Slots of the spill.
#[derive(Default)]
struct Slots {
    free: Vec<Slot>,
    /// How many there are, free ones and others.
    all: u64,
}

/// Where an output is.
#[derive(Clone, Copy, Default)]
struct Cursor {
    /// How many blocks it has written: the number of the next one.
    written: u64,
    /// It is writing that one.
    is_writing: bool,
}

impl Cursor {
    /// Blocks of which it knows how long they are.
    fn taken(self) -> u64 {
        self.written + u64::from(self.is_writing)
    }
}

struct State {
    waiting: VecDeque<Place>,
    /// The number of the first of them, counted from the beginning.
    first: u64,
    /// `None`: the output writes no more.
    outputs: Vec<Option<Cursor>>,
    /// Bytes of the blocks that wait in memory, filled or not.
    in_memory: usize,
    /// Blocks that were written, the one that was last at the end. New memory costs about as much as a copy into it.
    kept: Vec<Vec<u8>>,
    /// The fewest that have been kept since some were last given back: nothing has needed these.
    fewest_kept: usize,
    /// `None`: there is no spill.
    slots: Option<Slots>,
    /// The input has ended, or failed.
    is_at_end: bool,
    /// Enough has been there to start, and something still is.
    may_drain: bool,
    /// It has not been full, or little has waited since.
    may_fill: bool,
    counts: Counts,
    errors: Vec<StreamError>,
}

/// The queue. While its lock is held nothing is read or written.
pub(crate) struct Queue {
    state: Mutex<State>,
    /// An output may go on.
    bytes: Condvar,
    /// The input may.
    room: Condvar,
    /// No output is left.
    end: Condvar,
    block_size: usize,
    /// Bytes of blocks in memory, at most.
    limit: usize,
    /// Bytes that wait when outputs start.
    start: u64,
    /// Bytes that may still wait when reading goes on, after all was full.
    low: u64,
}

impl Queue {
    pub(crate) fn new(memory: usize, outputs: usize, [start, low]: [u8; 2], has_spill: bool) -> Queue {
        let block_size = (memory / 8).clamp(PAGE, BLOCK) / PAGE * PAGE;
        let percent = |percent: u8| (memory as u128 * u128::from(percent) / 100) as u64;
        let state = State {
            waiting: VecDeque::new(),
            first: 0,
            outputs: vec![Some(Cursor::default()); outputs],
            in_memory: 0,
            kept: Vec::new(),
            fewest_kept: 0,
            slots: has_spill.then(Slots::default),
            is_at_end: false,
            may_drain: start == 0,
            may_fill: true,
            counts: Counts { memory: memory as u64, ..Counts::default() },
            errors: Vec::new(),
        };
        Queue {
            state: Mutex::new(state),
            bytes: Condvar::new(),
            room: Condvar::new(),
            end: Condvar::new(),
            block_size,
            limit: memory.max(2 * block_size),
            start: percent(start),
            // What is spilled waits too: without a mark any room will do.
            low: if low >= 100 { u64::MAX } else { percent(low) },
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of a block, and of a slot of the spill.
    pub(crate) fn block_size(&self) -> usize {
        self.block_size
    }

    /// Memory for one block.
    pub(crate) fn empty_block(&self) -> Vec<u8> {
        let mut state = self.lock();
        let kept = state.kept.pop();
        state.fewest_kept = state.fewest_kept.min(state.kept.len());
        drop(state);
        kept.unwrap_or_else(|| vec![0; self.block_size])
    }

    /// Gives the kernel back what has not been needed since this was last called.
    pub(crate) fn give_idle_back(&self) {
        let mut state = self.lock();
        let idle = state.fewest_kept.saturating_sub(KEPT);
        let idle: Vec<_> = state.kept.drain(..idle).collect();
        state.fewest_kept = state.kept.len();
        drop(state);
        drop(idle);
    }

    /// That memory, not needed after all.
    pub(crate) fn put_back(&self, bytes: Vec<u8>) {
        self.lock().keep(bytes, self.block_size);
    }

    /// Waits until there is room for one block.
    pub(crate) fn wait_for_room(&self) -> Room {
        let mut state = self.lock();
        let mut begun = None;
        let room = loop {
            if state.is_over() {
                break Room::Over;
            }
            let room = state.room(self.limit, self.block_size);
            if room.is_none() {
                state.may_fill = false;
                // However much was to wait before they start, more cannot.
                self.let_drain(&mut state);
            } else if state.counts.filled <= self.low {
                state.may_fill = true;
            }
            match room {
                Some(room) if state.may_fill => break room,
                Some(Room::Spill(slot)) => state.give_back(slot),
                _ => {}
            }
            begun.get_or_insert_with(Instant::now);
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.counts.full_for += begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        room
    }

    /// Whether an output may soon have nothing to write.
    pub(crate) fn is_short(&self) -> bool {
        self.lock().waiting.len() < 2
    }

    /// Whether all that was read is written, by an output that is still there.
    pub(crate) fn may_pass_on(&self) -> bool {
        let state = self.lock();
        state.waiting.is_empty() && !state.is_over()
    }

    /// Adds what was read into the beginning of a block, at the end of the last one where that has room and no output has it.
    pub(crate) fn push(&self, bytes: Vec<u8>, len: usize) {
        let mut state = self.lock();
        let is_open = state.is_last_open();
        if let Some(Place::Memory(last)) = state.waiting.back_mut()
            && is_open
            && let Some(last) = Arc::get_mut(last)
            && last.len + len <= last.bytes.len()
        {
            last.bytes[last.len..last.len + len].copy_from_slice(&bytes[..len]);
            last.len += len;
            state.keep(bytes, self.block_size);
        } else {
            state.shrink_last();
            state.in_memory += bytes.len();
            state.waiting.push_back(Place::Memory(Arc::new(Block { bytes, len })));
        }
        self.has_read(&mut state, len);
    }

    /// The slot that was spilled last and how much is in it, if it has room for so much more and no output has taken it.
    pub(crate) fn last_spilled(&self, more: usize) -> Option<(Slot, usize)> {
        let state = self.lock();
        match state.waiting.back() {
            Some(&Place::Spill(slot, len)) if len + more <= self.block_size && state.is_last_open() => {
                Some((slot, len))
            }
            _ => None,
        }
    }

    /// So much more is in that slot. `false`: an output has taken it meanwhile, without that.
    pub(crate) fn add_to_spilled(&self, slot: Slot, more: usize) -> bool {
        let mut state = self.lock();
        let is_open = state.is_last_open();
        match state.waiting.back_mut() {
            Some(Place::Spill(last, len)) if is_open && *last == slot => *len += more,
            _ => return false,
        }
        state.counts.spilled += more as u64;
        self.has_read(&mut state, more);
        true
    }

    /// Adds what is in a slot of the spill.
    pub(crate) fn push_spilled(&self, slot: Slot, len: usize) {
        let mut state = self.lock();
        state.waiting.push_back(Place::Spill(slot, len));
        state.counts.spilled += len as u64;
        self.has_read(&mut state, len);
    }

    /// A slot in which nothing was put.
    pub(crate) fn give_back(&self, slot: Slot) {
        self.lock().give_back(slot);
    }

    /// The file system takes no more: from now on there are no slots but those that are used again.
    pub(crate) fn is_spill_full(&self) {
        self.lock().counts.is_spill_full = true;
    }

    fn has_read(&self, state: &mut State, len: usize) {
        let counts = &mut state.counts;
        counts.read += len as u64;
        counts.filled += len as u64;
        counts.most_filled = counts.most_filled.max(counts.filled);
        if counts.filled >= self.start {
            self.let_drain(state);
        }
        if state.may_drain {
            self.bytes.notify_all();
        }
    }

    fn let_drain(&self, state: &mut State) {
        if !state.may_drain {
            state.may_drain = true;
            self.bytes.notify_all();
        }
    }

    /// The kernel has passed on so many bytes. Nothing waits.
    pub(crate) fn has_spliced(&self, len: usize) {
        let counts = &mut self.lock().counts;
        for count in [&mut counts.read, &mut counts.written, &mut counts.spliced] {
            *count += len as u64;
        }
    }

    /// No more is read.
    pub(crate) fn has_ended(&self, error: Option<StreamError>) {
        let mut state = self.lock();
        state.is_at_end = true;
        state.errors.extend(error);
        self.let_drain(&mut state);
        self.bytes.notify_all();
    }

    /// Waits for what this output writes next. `None`: it has written everything.
    pub(crate) fn next(&self, output: usize) -> Option<Place> {
        let mut state = self.lock();
        let mut begun = None;
        let place = loop {
            let number = state.outputs[output]?.written;
            let place = state.waiting.get((number - state.first) as usize).cloned();
            match place {
                Some(_) if state.may_drain => {
                    state.outputs[output] = Some(Cursor { written: number, is_writing: true });
                    break place;
                }
                None if state.is_at_end => break None,
                _ => {}
            }
            begun.get_or_insert_with(Instant::now);
            state = self.bytes.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.counts.empty_for += begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        place
    }

    /// The output has everything.
    pub(crate) fn has_finished(&self, output: usize) {
        self.leave_out(&mut self.lock(), output);
    }

    /// The output has written what it had next. It does not hold it any more.
    pub(crate) fn has_written(&self, output: usize) {
        let mut state = self.lock();
        state.outputs[output] =
            state.outputs[output].map(|cursor| Cursor { written: cursor.taken(), is_writing: false });
        self.let_go(&mut state);
    }

    /// The output writes no more.
    pub(crate) fn has_failed(&self, output: usize, error: StreamError) {
        let mut state = self.lock();
        state.errors.push(error);
        self.leave_out(&mut state, output);
    }

    fn leave_out(&self, state: &mut State, output: usize) {
        state.outputs[output] = None;
        self.let_go(state);
        if state.is_over() {
            self.room.notify_all();
            self.end.notify_all();
        }
    }

    /// Forgets what every output has written.
    fn let_go(&self, state: &mut State) {
        let needed = state.outputs.iter().flatten().map(|cursor| cursor.written).min().unwrap_or(u64::MAX);
        let mut has_room = false;
        while state.first < needed
            && let Some(place) = state.waiting.pop_front()
        {
            state.first += 1;
            state.counts.filled -= place.len() as u64;
            state.counts.written += if needed < u64::MAX { place.len() as u64 } else { 0 };
            match place {
                Place::Memory(block) => {
                    state.in_memory -= block.bytes.len();
                    if let Ok(block) = Arc::try_unwrap(block) {
                        state.keep(block.bytes, self.block_size);
                    }
                }
                Place::Spill(slot, _) => state.give_back(slot),
            }
            has_room = true;
        }
        if state.waiting.is_empty() && self.start > 0 && !state.is_at_end {
            state.may_drain = false;
        }
        if has_room {
            self.room.notify_all();
        }
    }

    /// Waits so long at most; whether no output is left.
    pub(crate) fn wait_for_end(&self, pause: Duration) -> bool {
        let state = self.lock();
        let waited = self.end.wait_timeout_while(state, pause, |state| !state.is_over());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts
    }

    pub(crate) fn take_errors(&self) -> Vec<StreamError> {
        std::mem::take(&mut self.lock().errors)
    }
}

impl State {
    fn is_over(&self) -> bool {
        self.outputs.iter().all(Option::is_none)
    }

    fn room(&mut self, limit: usize, block_size: usize) -> Option<Room> {
        if self.in_memory + block_size <= limit {
            return Some(Room::Memory);
        }
        // A block that could not be spilled is one too many.
        if self.in_memory > limit {
            return None;
        }
        let slots = self.slots.as_mut()?;
        let slot = slots.free.pop();
        if slot.is_none() && !self.counts.is_spill_full {
            slots.all += 1;
            return Some(Room::Spill(Slot(slots.all - 1)));
        }
        slot.map(Room::Spill)
    }

    fn give_back(&mut self, slot: Slot) {
        if let Some(slots) = &mut self.slots {
            slots.free.push(slot);
        }
    }

    fn keep(&mut self, bytes: Vec<u8>, block_size: usize) {
        if bytes.len() == block_size {
            self.kept.push(bytes);
        }
    }

    /// Whether more can be put behind what was read last: an output that has taken it would not come back to it.
    fn is_last_open(&self) -> bool {
        let end = self.first + self.waiting.len() as u64;
        self.outputs.iter().flatten().all(|cursor| cursor.taken() < end)
    }

    /// The last block gets no more. Where less than half of it is filled it takes no more memory than that: an output that is slow would
    /// have a block for each read of one that is fast.
    fn shrink_last(&mut self) {
        if let Some(Place::Memory(last)) = self.waiting.back_mut()
            && last.len < last.bytes.len() / 2
        {
            let filled = last.filled().to_vec();
            self.in_memory -= last.bytes.len() - filled.len();
            *last = Arc::new(Block { len: filled.len(), bytes: filled });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: usize = 8 * PAGE;

    fn read_into(queue: &Queue, len: usize) {
        assert!(matches!(queue.wait_for_room(), Room::Memory));
        queue.push(queue.empty_block(), len);
    }

    fn write_one(queue: &Queue, output: usize) -> usize {
        let len = queue.next(output).expect("something waits").len();
        queue.has_written(output);
        len
    }

    #[test]
    fn small_reads_share_a_block_until_an_output_has_it() {
        let queue = Queue::new(MEMORY, 1, [0, 100], false);
        read_into(&queue, 10);
        read_into(&queue, 20);
        let taken = queue.next(0).unwrap();
        assert_eq!(taken.len(), 30);
        // Though the output holds it no longer.
        drop(taken);
        read_into(&queue, 30);
        queue.has_written(0);
        assert_eq!(write_one(&queue, 0), 30);
        let counts = queue.counts();
        assert_eq!((counts.read, counts.written, counts.filled, counts.most_filled), (60, 60, 0, 60));
    }

    #[test]
    fn memory_that_was_not_needed_for_a_while_is_given_back() {
        let queue = Queue::new(64 * BLOCK, 1, [0, 100], false);
        let kept = || queue.lock().kept.len();
        (0..60).for_each(|_| read_into(&queue, queue.block_size()));
        (0..60).for_each(|_| assert_eq!(write_one(&queue, 0), queue.block_size()));
        queue.give_idle_back();
        assert_eq!(kept(), 60);
        // Twenty of them are needed again.
        (0..20).for_each(|_| read_into(&queue, queue.block_size()));
        (0..20).for_each(|_| assert_eq!(write_one(&queue, 0), queue.block_size()));
        queue.give_idle_back();
        assert_eq!(kept(), 20 + KEPT);
        queue.give_idle_back();
        assert_eq!(kept(), KEPT);
    }

    #[test]
    fn block_stays_until_the_slowest_output_has_written_it() {
        let queue = Queue::new(MEMORY, 2, [0, 100], false);
        read_into(&queue, PAGE);
        read_into(&queue, PAGE);
        assert_eq!((write_one(&queue, 0), write_one(&queue, 0)), (PAGE, PAGE));
        assert_eq!(queue.counts().written, 0);
        write_one(&queue, 1);
        assert_eq!(queue.counts().written, PAGE as u64);
        queue.has_failed(1, failure());
        assert_eq!((queue.counts().filled, queue.take_errors().len()), (0, 1));
    }

    #[test]
    fn small_reads_take_little_memory_though_one_output_takes_each_at_once() {
        let queue = Queue::new(MEMORY, 2, [0, 100], false);
        for _ in 0..1000 {
            read_into(&queue, 20);
            assert_eq!(write_one(&queue, 0), 20);
        }
        assert!(queue.lock().in_memory < 7 * PAGE);
        (0..1000).for_each(|_| assert_eq!(write_one(&queue, 1), 20));
        let in_memory = queue.lock().in_memory;
        assert_eq!((in_memory, queue.counts().filled), (0, 0));
    }

    #[test]
    fn spilled_bytes_share_a_slot_until_an_output_has_it() {
        let queue = Queue::new(MEMORY, 1, [0, 100], true);
        (0..8).for_each(|_| read_into(&queue, PAGE));
        let Room::Spill(slot) = queue.wait_for_room() else { panic!("there is no memory left") };
        assert_eq!(queue.last_spilled(100), None);
        queue.push_spilled(slot, 100);
        assert_eq!((queue.last_spilled(100), queue.last_spilled(PAGE)), (Some((slot, 100)), None));
        assert!(queue.add_to_spilled(slot, 50));
        (0..8).for_each(|_| assert_eq!(write_one(&queue, 0), PAGE));
        let Some(Place::Spill(taken, 150)) = queue.next(0) else { panic!("the slot is next") };
        assert!(taken == slot && !queue.add_to_spilled(slot, 1) && queue.last_spilled(1).is_none());
        queue.has_written(0);
        assert_eq!((queue.counts().spilled, queue.counts().filled), (150, 0));
    }

    #[test]
    fn block_that_cannot_be_spilled_has_the_input_wait() {
        let queue = Queue::new(MEMORY, 1, [0, 100], true);
        (0..8).for_each(|_| read_into(&queue, PAGE));
        assert!(matches!(queue.wait_for_room(), Room::Spill(_)));
        queue.give_back(Slot(0));
        queue.is_spill_full();
        queue.push(queue.empty_block(), PAGE);
        let mut state = queue.lock();
        assert!(state.room(queue.limit, queue.block_size).is_none());
        drop(state);
        (0..2).for_each(|_| assert!(write_one(&queue, 0) > 0));
        assert!(matches!(queue.wait_for_room(), Room::Memory));
    }

    #[test]
    fn block_that_one_output_has_written_is_not_added_to() {
        let queue = Queue::new(MEMORY, 2, [0, 100], false);
        read_into(&queue, 10);
        assert_eq!(write_one(&queue, 0), 10);
        read_into(&queue, 20);
        assert_eq!((write_one(&queue, 0), write_one(&queue, 1), write_one(&queue, 1)), (20, 10, 20));
    }

    fn failure() -> StreamError {
        StreamError { name: "x".into(), is_input: false, error: std::io::ErrorKind::BrokenPipe.into() }
    }

    #[test]
    fn outputs_start_when_enough_waits_and_again_after_it_was_empty() {
        let queue = Queue::new(MEMORY, 1, [50, 100], false);
        for _ in 0..2 {
            for _ in 0..3 {
                read_into(&queue, PAGE);
                assert!(!queue.lock().may_drain);
            }
            read_into(&queue, PAGE);
            assert!(queue.lock().may_drain);
            (0..4).for_each(|_| assert_eq!(write_one(&queue, 0), PAGE));
            assert!(!queue.lock().may_drain);
        }
        queue.has_ended(None);
        assert!(queue.next(0).is_none() && !queue.wait_for_end(Duration::ZERO));
        queue.has_finished(0);
        assert!(queue.wait_for_end(Duration::ZERO));
    }

    #[test]
    fn once_full_reading_waits_until_little_is_left() {
        let queue = Queue::new(MEMORY, 1, [0, 25], false);
        (0..8).for_each(|_| read_into(&queue, PAGE));
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| read_into(&queue, PAGE));
            while queue.lock().may_fill {
                std::thread::yield_now();
            }
            for _ in 0..6 {
                assert!(!reading.is_finished() && queue.counts().read == 8 * PAGE as u64);
                write_one(&queue, 0);
            }
            reading.join().unwrap();
        });
        assert!(queue.lock().may_fill && queue.counts().full_for > Duration::ZERO);
    }

    #[test]
    fn slots_are_used_again_once_their_bytes_are_written() {
        let queue = Queue::new(MEMORY, 1, [0, 100], true);
        (0..8).for_each(|_| read_into(&queue, PAGE));
        let spill = |expected| match queue.wait_for_room() {
            Room::Spill(slot) => {
                assert_eq!(slot, Slot(expected));
                queue.push_spilled(slot, 100);
            }
            _ => panic!("there is no memory left"),
        };
        spill(0);
        spill(1);
        (0..9).for_each(|_| assert!(write_one(&queue, 0) > 0));
        (0..8).for_each(|_| read_into(&queue, PAGE));
        spill(0);
        spill(2);
        queue.is_spill_full();
        write_one(&queue, 0);
        spill(1);
    }

    #[test]
    fn without_outputs_it_is_over() {
        let queue = Queue::new(MEMORY, 1, [0, 100], false);
        (0..8).for_each(|_| read_into(&queue, PAGE));
        queue.has_failed(0, failure());
        assert!(matches!(queue.wait_for_room(), Room::Over) && queue.wait_for_end(Duration::ZERO));
        assert_eq!(queue.counts().written, 0);
    }
}
