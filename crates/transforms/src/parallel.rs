//! Several copies of a command beside each other, each over a block of whole records, with the results in order.
//!
//! ```text
//!              ┌▶ block 4 ▶ command ▶ result 4 ┐
//!   feed: cut ─┼▶ block 5 ▶ command ▶ result 5 ┼─▶ drain: 4, then 5, then 6
//!              └▶ block 6 ▶ command ▶ result 6 ┘
//! ```
//!
//! Each block gets a process of its own. There are at most as many blocks as copies; a block counts from its beginning
//! until the last byte of its result has been drained. A result that waits for its turn takes at most the size of a
//! block; its command then waits for room in its pipe.

mod records;

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use millstream_net::{Control, Data, Drain, Ending, Ends, Entry, Export, Feed, Stage, Started, TransformError};

use crate::arguments;
use crate::exec::{Exec, exit_status, in_words};
use crate::kept::Kept;
use records::Records;

/// `parallel`
pub(crate) static PARALLEL: Entry = Entry {
    name: "parallel",
    usage: "parallel N [records=lines|nul|fastq|SIZE] [block=SIZE] exec COMMAND [ARGUMENT...]",
    summary: "what N copies of a command write beside each other, in order: each gets a block of whole records",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let parallel = parse(arguments)?;
        let keeps = parallel.keeps();
        Ok(Stage::exported(parallel).keeping(keeps..=keeps))
    },
};

/// The most copies.
const COPIES_MAX: usize = 1024;

/// Bytes of a block. Starting a process takes one percent of the time to process so many bytes at 100 MB a second.
const BLOCK: usize = 1 << 20;

/// The most bytes that are drained from a command at once.
const PIECE: usize = 64 << 10;

struct Parallel {
    exec: Exec,
    copies: usize,
    records: Records,
    block: usize,
}

fn parse(arguments: &[String]) -> Result<Parallel, String> {
    let exec = arguments.iter().position(|word| word == "exec").ok_or("'exec COMMAND' is missing")?;
    let (options, words) = (&arguments[..exec], &arguments[exec + 1..]);
    if words.first().is_none_or(String::is_empty) {
        return Err("COMMAND is missing".into());
    }
    let (mut copies, mut records, mut block) = (None, None, None);
    let twice = |word: &str| Err(format!("'{word}' is said twice"));
    for word in options {
        match word.split_once('=') {
            Some(("records", value)) => {
                if records.replace(Records::parse(value)?).is_some() {
                    return twice("records=");
                }
            }
            Some(("block", value)) => {
                let size = arguments::size("block=", value, 4 << 10, 1 << 30)?;
                if block.replace(usize::try_from(size).map_err(|error| error.to_string())?).is_some() {
                    return twice("block=");
                }
            }
            _ if word.contains('=') || copies.is_some() => return Err(format!("'{word}' means nothing here")),
            _ => copies = Some(arguments::number("N", word, 1, COPIES_MAX)?),
        }
    }
    let copies = copies.ok_or("N, how many copies run, is missing")?;
    let (records, block) = (records.unwrap_or(Records::Ended(b'\n')), block.unwrap_or(BLOCK));
    if let Records::Sized(size) = records
        && size > block
    {
        return Err(format!("a record of {size} bytes does not fit into a block of {block}; say block={size} or more"));
    }
    Ok(Parallel { exec: Exec::new(words.to_vec(), told), copies, records, block })
}

/// For an error whose byte is the first of the block.
fn told(status: ExitStatus, words: &str) -> TransformError {
    let says = in_words(status, words).replacen("the command", "the command for the block that begins there", 1);
    TransformError::new(says).with_exit_status(exit_status(status))
}

impl Parallel {
    /// Bytes in memory: a block and its result for each copy, a block that waits for a copy, and one that is not
    /// complete.
    fn keeps(&self) -> usize {
        // Added to these are the bytes that are drained at once, and the slack of a queue.
        let copy = 2 * self.block + PIECE.min(self.block) + crate::kept::SLACK;
        self.copies.saturating_mul(copy).saturating_add(2 * self.block)
    }
}

impl Export for Parallel {
    fn start(self: Box<Self>, _ends: &Ends) -> Result<Started, TransformError> {
        let Parallel { exec, copies, records, block } = *self;
        let start = Instant::now();
        let shared = Arc::new(Shared { exec, copies, block, start, state: Mutex::default(), changed: Condvar::new() });
        let feed = Cutter { records, pending: Vec::with_capacity(block), cut: 0, shared: Arc::clone(&shared) };
        let drain = Results { shared: Arc::clone(&shared) };
        Ok(Started { feeds: vec![Box::new(feed)], drains: vec![Box::new(drain)], control: shared })
    }

    fn limit(&mut self, timeout: Duration) {
        self.exec.limit(timeout);
    }
}

struct Shared {
    exec: Exec,
    copies: usize,
    block: usize,
    start: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Blocks that were begun and whose results have not been drained, in order.
    slots: VecDeque<Slot>,
    /// The number of the first of them.
    first: u64,
    /// No further block will begin.
    has_ended: bool,
    /// The network wants no more results, or a block has failed.
    is_stopped: bool,
    /// The first failure.
    fault: Option<TransformError>,
    /// How the command of the failed block ended.
    failed: Option<Ending>,
    /// Processes that were started.
    processes: u64,
    /// How long everything took, once all threads have ended.
    wall: Option<Duration>,
}

/// A block.
struct Slot {
    /// The part of its result that has not been drained.
    result: Kept,
    /// The result is complete.
    is_done: bool,
    /// The control of its command, once that was started.
    control: Option<Arc<dyn Control>>,
    thread: Option<JoinHandle<()>>,
}

impl State {
    /// The slot of a block; `None` if its result was drained or dropped.
    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.slots.get_mut(place)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a block, which begins at `offset` of the stream, to a copy as soon as one is free. Returns whether more
    /// blocks are wanted.
    fn begin(self: &Arc<Shared>, block: Vec<u8>, offset: u64) -> Result<bool, TransformError> {
        let mut state = self.state();
        while state.slots.len() >= self.copies && !state.is_stopped {
            state = self.wait(state);
        }
        if state.is_stopped {
            return Ok(false);
        }
        let number = state.first + state.slots.len() as u64;
        // Starts the thread with the lock held, so that the thread finds its slot.
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().spawn(move || shared.work(number, &block, offset));
        let thread = thread.map_err(|error| TransformError::new(format!("cannot start a thread: {error}")))?;
        state.slots.push_back(Slot { result: Kept::default(), is_done: false, control: None, thread: Some(thread) });
        Ok(true)
    }

    /// The work of the thread of one block.
    fn work(&self, number: u64, block: &[u8], offset: u64) {
        let outcome = self.run(number, block);
        let mut state = self.state();
        if let Some(slot) = state.slot(number) {
            slot.is_done = true;
            let ending = slot.control.take().and_then(|control| control.ending());
            if let (Err(fault), false) = (outcome, state.is_stopped) {
                state.fault = Some(fault.at(offset));
                state.failed = ending;
                self.stop_all(state);
            }
        }
        self.changed.notify_all();
    }

    fn run(&self, number: u64, block: &[u8]) -> Result<(), TransformError> {
        let Started { mut feeds, mut drains, control } = Box::new(self.exec.clone()).start(&Ends::plain())?;
        let (Some(mut feed), Some(mut drain)) = (feeds.pop(), drains.pop()) else {
            unreachable!("a command has an input and an output")
        };
        let mut state = self.state();
        state.processes += 1;
        if let Some(slot) = state.slot(number) {
            slot.control = Some(Arc::clone(&control));
        }
        if state.is_stopped {
            control.stop();
        }
        drop(state);
        thread::scope(|scope| {
            let feeder = thread::Builder::new().spawn_scoped(scope, move || feed_all(&mut *feed, block));
            match feeder {
                Ok(feeder) => {
                    let drained = self.drain(number, &mut *drain);
                    if drained.is_err() {
                        control.stop();
                    }
                    let fed = feeder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    drained.and(fed)
                }
                Err(error) => {
                    control.stop();
                    Err(TransformError::new(format!("cannot start a thread: {error}")))
                }
            }
        })
    }

    /// Stores the result of a block until it is drained in its turn.
    fn drain(&self, number: u64, drain: &mut dyn Drain) -> Result<(), TransformError> {
        let mut piece = vec![0; PIECE.min(self.block)];
        loop {
            let count = drain.drain(&mut piece)?;
            let mut state = self.state();
            if count == 0 {
                return Ok(());
            }
            loop {
                let is_stopped = state.is_stopped;
                let Some(slot) = state.slot(number).filter(|_| !is_stopped) else { return Ok(()) };
                if slot.result.len() + count <= self.block {
                    slot.result.push(&piece[..count]);
                    break;
                }
                state = self.wait(state);
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Stops every command, and wakes every thread.
    fn stop_all(&self, mut state: MutexGuard<'_, State>) {
        if state.wall.is_some() {
            return;
        }
        state.is_stopped = true;
        let controls: Vec<_> = state.slots.iter().filter_map(|slot| slot.control.clone()).collect();
        drop(state);
        controls.iter().for_each(|control| control.stop());
        self.changed.notify_all();
    }

    /// Joins all threads.
    fn end(&self) {
        loop {
            let mut state = self.state();
            let Some(thread) = state.slots.iter_mut().find_map(|slot| slot.thread.take()) else {
                let wall = self.start.elapsed();
                state.wall.get_or_insert(wall);
                return;
            };
            drop(state);
            join(thread);
        }
    }
}

fn join(thread: JoinHandle<()>) {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// A command need not read all of its block, as in a shell.
fn feed_all(feed: &mut dyn Feed, mut bytes: &[u8]) -> Result<(), TransformError> {
    while !bytes.is_empty() {
        match feed.feed(bytes)? {
            0 => return Ok(()),
            count => bytes = &bytes[count..],
        }
    }
    feed.end()
}

impl Control for Shared {
    fn stop(&self) {
        self.stop_all(self.state());
    }

    fn ending(&self) -> Option<Ending> {
        let state = self.state();
        let State { failed, processes, wall, .. } = *state;
        if let Some(failed) = failed {
            let wall = wall.unwrap_or_else(|| self.start.elapsed());
            return Some(Ending { processes, wall, ..failed });
        }
        let is_well = wall.is_some() && !state.is_stopped;
        match (is_well, state.fault.is_some() && processes == 0) {
            (true, _) => Some(Ending { status: Some(0), signal: None, is_stopped: false, wall: wall?, processes }),
            (false, true) => None,
            (false, false) => {
                let wall = wall.or_else(|| state.is_stopped.then(|| self.start.elapsed()))?;
                Some(Ending { status: None, signal: None, is_stopped: true, wall, processes })
            }
        }
    }
}

/// Cuts the stream.
struct Cutter {
    records: Records,
    /// Bytes that are no whole block yet. They begin with a record.
    pending: Vec<u8>,
    /// Bytes before these.
    cut: u64,
    shared: Arc<Shared>,
}

impl Cutter {
    /// Gives the whole records of `pending` to a copy. Returns whether more are wanted.
    fn cut(&mut self, ends: bool) -> Result<bool, TransformError> {
        let block = self.shared.block;
        let whole = self.records.whole(&self.pending, ends);
        let whole = whole.map_err(|fault| fault.counted_from(self.cut))?;
        if whole == 0 {
            let what = format!("a record is longer than {block} bytes; say block= and more than its size");
            return Err(TransformError::new(what).at(self.cut));
        }
        let mut rest = Vec::with_capacity(block);
        rest.extend_from_slice(&self.pending[whole..]);
        let mut full = std::mem::replace(&mut self.pending, rest);
        full.truncate(whole);
        let offset = self.cut;
        self.cut += whole as u64;
        self.shared.begin(full, offset)
    }
}

impl Feed for Cutter {
    fn feed(&mut self, bytes: &[u8]) -> Result<usize, TransformError> {
        if self.shared.state().is_stopped {
            return Ok(0);
        }
        let count = bytes.len().min(self.shared.block - self.pending.len());
        self.pending.extend_from_slice(&bytes[..count]);
        let is_full = self.pending.len() == self.shared.block;
        Ok(if is_full && !self.cut(false)? { 0 } else { count })
    }

    fn end(&mut self) -> Result<(), TransformError> {
        if !self.pending.is_empty() {
            self.cut(true)?;
        }
        self.shared.state().has_ended = true;
        self.shared.changed.notify_all();
        Ok(())
    }
}

/// Puts the results in order.
struct Results {
    shared: Arc<Shared>,
}

impl Results {
    fn take(&self, output: &mut [u8]) -> Result<usize, TransformError> {
        let mut state = self.shared.state();
        loop {
            if state.is_stopped {
                return Err(state.fault.clone().unwrap_or_else(|| TransformError::new("the commands were stopped")));
            }
            let has_ended = state.has_ended;
            match state.slots.front_mut() {
                Some(slot) if slot.result.len() > 0 => {
                    let count = slot.result.take(output);
                    self.shared.changed.notify_all();
                    return Ok(count);
                }
                Some(slot) if slot.is_done => {
                    if let Some(thread) = slot.thread.take() {
                        join(thread);
                    }
                    state.slots.pop_front();
                    state.first += 1;
                    self.shared.changed.notify_all();
                }
                None if has_ended => return Ok(0),
                _ => state = self.shared.wait(state),
            }
        }
    }
}

impl Drain for Results {
    fn drain(&mut self, output: &mut [u8]) -> Result<usize, TransformError> {
        let taken = self.take(output);
        if !matches!(taken, Ok(count) if count > 0) {
            self.shared.end();
        }
        taken
    }

    fn has_enough(&mut self) {
        self.shared.stop();
        self.shared.end();
    }
}

/// Dropping it leaves neither processes nor threads behind.
impl Drop for Results {
    fn drop(&mut self) {
        let state = self.shared.state();
        let is_over = state.has_ended && state.slots.is_empty();
        match is_over {
            true => drop(state),
            false => self.shared.stop_all(state),
        }
        self.shared.end();
    }
}
