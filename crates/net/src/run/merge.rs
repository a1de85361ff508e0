//! Several streams into one node, one after the other.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use super::abort::Abort;
use super::push::{Flow, Push};
use crate::chunk::Chunk;
use crate::error::NetworkError;

/// A node, for all nodes that feed it.
#[derive(Clone)]
pub(super) struct Merge {
    /// An input locks it in its turn; a check of demand tries to at any time.
    node: Arc<Mutex<Box<dyn Push>>>,
    turns: Arc<Turns>,
}

struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Of each input, in their order.
    has_ended: Vec<bool>,
    has_enough: bool,
    /// The network has failed: no further turn comes.
    is_aborted: bool,
}

impl State {
    /// The first input that has not ended.
    fn turn(&self) -> Option<usize> {
        self.has_ended.iter().position(|has_ended| !has_ended)
    }

    fn wants_none(&self) -> bool {
        self.has_enough || self.is_aborted
    }
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of this input. Returns whether it has come; if not, no more is wanted.
    fn comes(&self, number: usize) -> bool {
        let mut state = self.state();
        while state.turn() != Some(number) && !state.wants_none() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.wants_none()
    }

    fn has_enough(&self) {
        self.state().has_enough = true;
        self.changed.notify_all();
    }
}

impl Merge {
    pub(super) fn new(node: Box<dyn Push>, inputs: usize, abort: &Abort) -> Merge {
        let state = State { has_ended: vec![false; inputs], has_enough: false, is_aborted: false };
        let turns = Arc::new(Turns { state: Mutex::new(state), changed: Condvar::new() });
        let stopped = Arc::clone(&turns);
        abort.add(move || {
            stopped.state().is_aborted = true;
            stopped.changed.notify_all();
        });
        Merge { node: Arc::new(Mutex::new(node)), turns }
    }

    /// The node that its input of this number is pushed into.
    pub(super) fn input(&self, number: usize) -> MergeInput {
        MergeInput { merge: self.clone(), number }
    }

    fn node(&self) -> MutexGuard<'_, Box<dyn Push>> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One input. A command behind a later source may write before an earlier source has ended: it waits for its turn.
pub(super) struct MergeInput {
    merge: Merge,
    number: usize,
}

impl Push for MergeInput {
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, NetworkError> {
        let turns = &self.merge.turns;
        if turns.comes(self.number) && self.merge.node().push(chunk)? == Flow::More {
            return Ok(Flow::More);
        }
        turns.has_enough();
        Ok(Flow::Enough)
    }

    fn check_demand(&mut self) -> Result<Flow, NetworkError> {
        if self.merge.turns.state().wants_none() {
            return Ok(Flow::Enough);
        }
        let flow = match self.merge.node.try_lock() {
            Ok(mut node) => node.check_demand()?,
            Err(TryLockError::Poisoned(node)) => node.into_inner().check_demand()?,
            // Another thread pushes into the node now, and finds out by itself.
            Err(TryLockError::WouldBlock) => Flow::More,
        };
        if flow == Flow::Enough {
            self.merge.turns.has_enough();
        }
        Ok(flow)
    }

    fn finish(&mut self) -> Result<(), NetworkError> {
        let mut state = self.merge.turns.state();
        state.has_ended[self.number] = true;
        let is_last = state.turn().is_none() && !state.wants_none();
        drop(state);
        self.merge.turns.changed.notify_all();
        if is_last { self.merge.node().finish() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Keeps what it gets, and a bar at its end.
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Push for Kept {
        fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, NetworkError> {
            self.0.lock().unwrap().extend_from_slice(chunk.bytes());
            Ok(Flow::More)
        }

        fn check_demand(&mut self) -> Result<Flow, NetworkError> {
            Ok(Flow::More)
        }

        fn finish(&mut self) -> Result<(), NetworkError> {
            self.0.lock().unwrap().push(b'|');
            Ok(())
        }
    }

    #[test]
    fn inputs_come_in_their_order_whichever_is_pushed_first() {
        let kept = Arc::default();
        let merge = Merge::new(Box::new(Kept(Arc::clone(&kept))), 3, &Abort::default());
        thread::scope(|scope| {
            for number in [2, 1, 0] {
                let mut input = merge.input(number);
                scope.spawn(move || {
                    for _ in 0..3 {
                        assert_eq!(input.push(&mut Chunk::from(&[b'0' + number as u8][..])).unwrap(), Flow::More);
                    }
                    input.finish().unwrap();
                });
            }
        });
        assert_eq!(kept.lock().unwrap().as_slice(), b"000111222|");
    }

    #[test]
    fn failure_ends_waiting_for_a_turn() {
        let (kept, abort) = (Arc::default(), Abort::default());
        let merge = Merge::new(Box::new(Kept(Arc::clone(&kept))), 2, &abort);
        let mut input = merge.input(1);
        let waits = thread::spawn(move || input.push(&mut Chunk::from(&b"x"[..])).unwrap());
        abort.fail(NetworkError::Invalid("a reason".into()));
        assert_eq!(waits.join().unwrap(), Flow::Enough);
        assert!(kept.lock().unwrap().is_empty());
        assert_eq!(abort.outcome().unwrap_err().to_string(), "a reason");
    }
}
