//! Several threads over one file: each reads pieces of it where they stand, has the first stages work on them, and
//! hands them on when it is their turn.
//!
//! ```text
//! thread 1   read 0  upper 0  [ write 0 ]  read 2  upper 2  [ write 2 ]
//! thread 2   read 1  upper 1            [ write 1 ]  read 3  upper 3  [ write 3 ]
//! ```
//!
//! A piece stays with its thread, in the cache of its CPU, and nothing is handed from one thread to another but the
//! turn. What fails, fails in its turn: the outcome is that of one thread.
//!
//! A thread may lose its CPU to another program for milliseconds. It does not hold up the others meanwhile: a thread
//! that has waited for its turn for twice the time that a piece takes does the late piece itself, and then its own once
//! more. The late thread finds that its turn is over. What was done twice is counted once.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::fused::Chain;
use super::push::{Flow, Push};
use super::source::RegularFile;
use crate::chunk::Chunk;
use crate::error::NetworkError;

/// Has a thread for each of `chains`, this one included, bring the whole file through its stages and into `next`.
/// `watch` gets the number of bytes read, now and then.
pub(super) fn run(
    file: &RegularFile<'_>,
    mut chains: Vec<Chain>,
    next: &mut dyn Push,
    buffer_bytes: usize,
    watch: &mut dyn FnMut(u64),
) -> Result<(), NetworkError> {
    let workers = Workers {
        file,
        buffer_bytes,
        begun: AtomicU64::new(0),
        turn: AtomicU64::new(0),
        parked: AtomicU64::new(0),
        turn_changed: Condvar::new(),
        output: Mutex::new(Output { next: &mut *next, outcome: None, bytes: 0, taken_over: 0 }),
    };
    let Some((own, others)) = chains.split_first_mut() else { return Ok(()) };
    let shared = &workers;
    thread::scope(|scope| {
        for chain in others {
            // With fewer threads than planned the work is done all the same.
            let _ = thread::Builder::new().spawn_scoped(scope, move || shared.work(chain, &mut |_| {}));
        }
        shared.work(own, watch);
    });
    let Output { outcome, bytes, .. } = workers.output.into_inner().unwrap_or_else(PoisonError::into_inner);
    file.leave_at(bytes);
    watch(bytes);
    match outcome.unwrap_or(Ok(Flow::More))? {
        Flow::Enough => own.finish_early(bytes),
        Flow::More => {
            own.finish(bytes)?;
            next.finish()
        }
    }
}

struct Workers<'a> {
    file: &'a RegularFile<'a>,
    buffer_bytes: usize,
    /// Pieces that were begun.
    begun: AtomicU64,
    /// The piece that may be handed on.
    turn: AtomicU64,
    /// Threads that wait for their turn and do not spin any more.
    parked: AtomicU64,
    turn_changed: Condvar,
    output: Mutex<Output<'a>>,
}

/// Only the thread whose turn it is touches this.
struct Output<'a> {
    next: &'a mut dyn Push,
    /// Once nothing follows.
    outcome: Option<Result<Flow, NetworkError>>,
    /// Bytes that were handed on.
    bytes: u64,
    /// Each late piece below this one has been left to a second thread already.
    taken_over: u64,
}

/// How often a thread reads whose turn it is before it parks: some 50 microseconds, about what a wake-up would take.
const SPINS: u32 = 1000;

/// What a thread finds after it has waited for its turn.
enum Turn {
    /// It has come.
    Now,
    /// It is over: another thread has done the piece.
    Over,
    /// This piece, which comes before, is late.
    Late(u64),
}

impl<'a> Workers<'a> {
    /// Does one piece after the other, until nothing follows.
    fn work(&self, chain: &mut Chain, watch: &mut dyn FnMut(u64)) {
        let mut chunk = Chunk::of(self.buffer_bytes);
        let _guard = PanicGuard(self);
        loop {
            let own = self.begun.fetch_add(1, Relaxed);
            let mut piece = own;
            loop {
                let Some((turn, bytes)) = self.do_piece(piece, chain, &mut chunk) else { return };
                watch(bytes);
                match turn {
                    Turn::Late(late) => piece = late,
                    _ if piece == own => break,
                    _ => piece = own,
                }
            }
        }
    }

    /// Reads a piece, works on it, and hands it on if its turn comes. Returns how the turn went and how many bytes all
    /// threads have handed on, or `None` once nothing follows.
    fn do_piece(&self, piece: u64, chain: &mut Chain, chunk: &mut Chunk) -> Option<(Turn, u64)> {
        let start = Instant::now();
        let offset = piece * self.buffer_bytes as u64;
        let filled = self.file.fill(chunk, offset);
        let ready = filled.and_then(|()| chain.apply(offset, chunk.bytes_mut()));
        let (mut output, turn) = self.await_turn(piece, start.elapsed() * 2);
        if output.outcome.is_none() && matches!(turn, Turn::Now) {
            output.outcome = self.hand_on(&mut output, chain, ready, chunk);
            self.turn.fetch_max(piece + 1, SeqCst);
        }
        let (is_over, bytes) = (output.outcome.is_some(), output.bytes);
        drop(output);
        if self.parked.load(SeqCst) > 0 {
            self.wake();
        }
        (!is_over).then_some((turn, bytes))
    }

    /// Pushes a piece, and says how it ends if nothing follows.
    fn hand_on(
        &self,
        output: &mut Output<'a>,
        chain: &Chain,
        ready: Result<(), NetworkError>,
        chunk: &mut Chunk,
    ) -> Option<Result<Flow, NetworkError>> {
        if let Err(failure) = ready {
            return Some(Err(failure));
        }
        let (len, is_last) = (chunk.len(), chunk.len() < self.buffer_bytes);
        if len > 0 {
            output.bytes += len as u64;
            self.file.count(len);
            chain.count(len);
            match output.next.push(chunk) {
                Ok(Flow::More) => {}
                ended => return Some(ended),
            }
        }
        is_last.then_some(Ok(Flow::More))
    }

    /// Waits until all pieces before this one were handed on, or one of them was not within the timeout. A thread hands
    /// a piece on with the lock held, so none is being handed on when this returns. Each late piece is left to one
    /// thread only.
    fn await_turn(&self, piece: u64, timeout: Duration) -> (MutexGuard<'_, Output<'a>>, Turn) {
        for _ in 0..SPINS {
            if self.turn.load(SeqCst) >= piece {
                break;
            }
            std::hint::spin_loop();
        }
        let mut output = self.lock();
        let mut next = self.turn.load(SeqCst);
        while next < piece && output.outcome.is_none() {
            self.parked.fetch_add(1, SeqCst);
            let woken = self.turn_changed.wait_timeout(output, timeout).unwrap_or_else(PoisonError::into_inner);
            self.parked.fetch_sub(1, SeqCst);
            output = woken.0;
            let last = std::mem::replace(&mut next, self.turn.load(SeqCst));
            if next == last && woken.1.timed_out() && output.taken_over <= next {
                output.taken_over = next + 1;
                return (output, Turn::Late(next));
            }
        }
        (output, if next > piece { Turn::Over } else { Turn::Now })
    }

    fn lock(&self) -> MutexGuard<'_, Output<'a>> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock first, so that no thread is between its check of the turn and its sleep.
    fn wake(&self) {
        drop(self.lock());
        self.turn_changed.notify_all();
    }
}

/// Ends the wait of all other threads if this one panics.
struct PanicGuard<'a, 'b>(&'a Workers<'b>);

impl Drop for PanicGuard<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().outcome.get_or_insert(Ok(Flow::Enough));
            self.0.turn.fetch_max(u64::MAX, SeqCst);
            self.0.wake();
        }
    }
}
