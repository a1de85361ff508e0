//! Several threads over one file: each reads pieces of it where they stand, has the first stages work on them, and hands
//! them on when it is their turn.
//!
//! ```text
//! thread 1   read 0  upper 0  [ write 0 ]  read 2  upper 2  [ write 2 ]
//! thread 2   read 1  upper 1            [ write 1 ]  read 3  upper 3  [ write 3 ]
//! ```
//!
//! A piece stays with its thread, in the cache of its CPU, and nothing is handed from one thread to another but the turn.
//! What fails, fails in its turn: the outcome is that of one thread.
//!
//! A thread that has lost its CPU to another program does not hold up the others for the milliseconds until it has it
//! again: who has waited in vain for twice the time that a piece takes does the missing piece itself, and then its own once
//! more. The late one finds that its turn is over. What was done twice is counted once.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::fused::Group;
use super::push::{Flow, Push};
use super::source::Regular;
use crate::chunk::Chunk;
use crate::error::NetworkError;

/// Has a thread for each of `groups`, this one included, bring the whole file through its stages and into `next`.
/// `watch` gets the number of bytes read, now and then.
pub(super) fn run(
    file: &Regular<'_>,
    mut groups: Vec<Group>,
    next: &mut dyn Push,
    buffer_bytes: usize,
    watch: &mut dyn FnMut(u64),
) -> Result<(), NetworkError> {
    let team = Team {
        file,
        buffer_bytes,
        pieces: AtomicU64::new(0),
        turn: AtomicU64::new(0),
        asleep: AtomicU64::new(0),
        sleepers: Condvar::new(),
        below: Mutex::new(Below { next: &mut *next, outcome: None, bytes: 0, rescued: 0 }),
    };
    let Some((own, others)) = groups.split_first_mut() else { return Ok(()) };
    let shared = &team;
    thread::scope(|scope| {
        for group in others {
            // With fewer threads than planned the work is done all the same.
            let _ = thread::Builder::new().spawn_scoped(scope, move || shared.work(group, &mut |_| {}));
        }
        shared.work(own, watch);
    });
    let Below { outcome, bytes, .. } = team.below.into_inner().unwrap_or_else(PoisonError::into_inner);
    file.leave_at(bytes);
    watch(bytes);
    match outcome.unwrap_or(Ok(Flow::More))? {
        Flow::Enough => own.broken_off(bytes),
        Flow::More => {
            own.finish(bytes)?;
            next.finish()
        }
    }
}

struct Team<'a> {
    file: &'a Regular<'a>,
    buffer_bytes: usize,
    /// Pieces that were begun.
    pieces: AtomicU64,
    /// The piece that may be handed on.
    turn: AtomicU64,
    /// Threads that wait for their turn and do not look any more.
    asleep: AtomicU64,
    sleepers: Condvar,
    below: Mutex<Below<'a>>,
}

/// What only the thread whose turn it is touches.
struct Below<'a> {
    next: &'a mut dyn Push,
    /// Once nothing follows.
    outcome: Option<Result<Flow, NetworkError>>,
    /// That were handed on.
    bytes: u64,
    /// Up to this piece, those that were missing for too long are being done by another thread.
    rescued: u64,
}

/// How often a thread looks whether it is its turn before it sleeps: some 50 microseconds, about what waking it would take.
const LOOKS: u32 = 1000;

/// What a thread finds that waited for its turn.
enum Turn {
    /// It has come.
    Now,
    /// It is over: another thread has done the piece.
    Over,
    /// This piece, which comes before, is missing for too long.
    Late(u64),
}

impl<'a> Team<'a> {
    fn work(&self, group: &mut Group, watch: &mut dyn FnMut(u64)) {
        let mut chunk = Chunk::of(self.buffer_bytes);
        let _abandoned = Abandoned(self);
        loop {
            let own = self.pieces.fetch_add(1, Relaxed);
            let mut piece = own;
            loop {
                let start = Instant::now();
                let offset = piece * self.buffer_bytes as u64;
                let filled = self.file.fill(&mut chunk, offset);
                let ready = filled.and_then(|()| group.apply(offset, chunk.bytes_mut()));
                let (mut below, turn) = self.await_turn(piece, start.elapsed() * 2);
                if below.outcome.is_none() && matches!(turn, Turn::Now) {
                    below.outcome = self.hand_on(&mut below, group, ready, &mut chunk);
                    self.turn.fetch_max(piece + 1, SeqCst);
                }
                let (is_over, bytes) = (below.outcome.is_some(), below.bytes);
                drop(below);
                if self.asleep.load(SeqCst) > 0 {
                    self.wake();
                }
                if is_over {
                    return;
                }
                watch(bytes);
                match turn {
                    Turn::Late(missing) => piece = missing,
                    _ if piece == own => break,
                    _ => piece = own,
                }
            }
        }
    }

    /// Pushes a piece, and says how it ends if nothing follows.
    fn hand_on(
        &self,
        below: &mut Below<'a>,
        group: &Group,
        ready: Result<(), NetworkError>,
        chunk: &mut Chunk,
    ) -> Option<Result<Flow, NetworkError>> {
        if let Err(failure) = ready {
            return Some(Err(failure));
        }
        let (len, is_last) = (chunk.len(), chunk.len() < self.buffer_bytes);
        if len > 0 {
            below.bytes += len as u64;
            self.file.count(len);
            group.count(len);
            match below.next.push(chunk) {
                Ok(Flow::More) => {}
                ended => return Some(ended),
            }
        }
        is_last.then_some(Ok(Flow::More))
    }

    /// Waits until all pieces before this one were handed on, or one of them was not within so long a time. Nobody is handing
    /// one on then, because that is done with the lock, and only one thread is told of each.
    fn await_turn(&self, piece: u64, patience: Duration) -> (MutexGuard<'_, Below<'a>>, Turn) {
        for _ in 0..LOOKS {
            if self.turn.load(SeqCst) >= piece {
                break;
            }
            std::hint::spin_loop();
        }
        let mut below = self.lock();
        let mut next = self.turn.load(SeqCst);
        while next < piece && below.outcome.is_none() {
            self.asleep.fetch_add(1, SeqCst);
            let woken = self.sleepers.wait_timeout(below, patience).unwrap_or_else(PoisonError::into_inner);
            self.asleep.fetch_sub(1, SeqCst);
            below = woken.0;
            let last = std::mem::replace(&mut next, self.turn.load(SeqCst));
            if next == last && woken.1.timed_out() && below.rescued <= next {
                below.rescued = next + 1;
                return (below, Turn::Late(next));
            }
        }
        (below, if next > piece { Turn::Over } else { Turn::Now })
    }

    fn lock(&self) -> MutexGuard<'_, Below<'a>> {
        self.below.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// With the lock, so that nobody is between looking and sleeping.
    fn wake(&self) {
        drop(self.lock());
        self.sleepers.notify_all();
    }
}

/// Lets nobody wait for the turn of a thread that panics.
struct Abandoned<'a, 'b>(&'a Team<'b>);

impl Drop for Abandoned<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().outcome.get_or_insert(Ok(Flow::Enough));
            self.0.turn.fetch_max(u64::MAX, SeqCst);
            self.0.wake();
        }
    }
}
