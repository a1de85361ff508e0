//! A stream through a temporary file without a name: it takes all bytes at once, and a thread of its own hands them on
//! as fast as they are wanted.
//!
//! For inputs of a command where the network could otherwise wait for itself in a circle. The file is as long as the
//! most bytes that were ever on their way. While there is memory for them, they stay there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use millstream_sys::whole_file;

use super::abort::Abort;
use super::push::{Flow, Push};
use crate::chunk::Chunk;
use crate::error::NetworkError;

/// Threads that hand on the bytes of files. The run waits for them when all sources have ended, not before: the command
/// that they feed may end only then.
#[derive(Clone, Default)]
pub(super) struct Spools(Arc<Mutex<Vec<JoinHandle<()>>>>);

impl Spools {
    /// Puts a file in front of a node. `name`: that of the node, for messages.
    pub(super) fn before(
        &self,
        node: Box<dyn Push>,
        name: &str,
        buffer_bytes: usize,
        abort: &Abort,
    ) -> Result<Spool, NetworkError> {
        let name = format!("the temporary file for '{name}'");
        let failure = |error| NetworkError::Sink { name: name.clone(), offset: 0, error };
        let file = whole_file::nameless_in(&std::env::temp_dir()).map_err(failure)?;
        let shared = Arc::new(Shared { file, name, state: Mutex::default(), changed: Condvar::new() });
        let (other, abort) = (Arc::clone(&shared), abort.clone());
        let thread = thread::Builder::new().spawn(move || {
            let _over = OverOnDrop(Arc::clone(&other), abort.clone());
            if let Err(failure) = other.hand_on(node, Chunk::of(buffer_bytes)) {
                abort.fail(failure);
            }
        });
        let thread = thread.map_err(|error| NetworkError::no_thread(&error))?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(Spool { shared, taken: 0 })
    }

    /// Waits for all of them.
    pub(super) fn join(&self) {
        let threads = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }
}

struct Shared {
    file: File,
    name: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Where the bytes of the file begin and end that were not handed on.
    start: u64,
    end: u64,
    ends: Option<End>,
    /// No more is wanted.
    is_over: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Finished,
    Aborted,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_on(&self, mut node: Box<dyn Push>, mut chunk: Chunk) -> Result<(), NetworkError> {
        let mut total = 0;
        loop {
            let mut state = self.state();
            while state.start == state.end && state.ends.is_none() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let (start, left) = (state.start, state.end - state.start);
            match state.ends {
                Some(End::Aborted) => return Ok(()),
                Some(End::Finished) if left == 0 => {
                    drop(state);
                    return node.finish();
                }
                _ => drop(state),
            }
            chunk.clear();
            let room = chunk.free();
            let count = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let read = self.file.read_exact_at(&mut room[..count], start);
            read.map_err(|error| NetworkError::Source { name: self.name.clone(), offset: total, error })?;
            chunk.grow(count);
            total += count as u64;
            self.state().start += count as u64;
            if node.push(&mut chunk)? == Flow::Enough {
                return Ok(());
            }
        }
    }
}

/// Says that no more is wanted when it is dropped: at the end of the thread, also by a panic.
struct OverOnDrop(Arc<Shared>, Abort);

impl Drop for OverOnDrop {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.1.notify_sources();
    }
}

/// Where bytes go in.
pub(super) struct Spool {
    shared: Arc<Shared>,
    /// Bytes that went in.
    taken: u64,
}

impl Spool {
    fn write(&self, state: &mut State, bytes: &[u8]) -> io::Result<()> {
        // All was read: the file begins anew, and is no longer than it has to be.
        if state.start == state.end && state.end > 0 {
            self.shared.file.set_len(0)?;
            (state.start, state.end) = (0, 0);
        }
        self.shared.file.write_all_at(bytes, state.end)?;
        state.end += bytes.len() as u64;
        Ok(())
    }
}

impl Push for Spool {
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, NetworkError> {
        let mut state = self.shared.state();
        if state.is_over {
            return Ok(Flow::Enough);
        }
        let written = self.write(&mut state, chunk.bytes());
        written.map_err(|error| NetworkError::Sink { name: self.shared.name.clone(), offset: self.taken, error })?;
        self.taken += chunk.len() as u64;
        self.shared.changed.notify_all();
        Ok(Flow::More)
    }

    fn check_demand(&mut self) -> Result<Flow, NetworkError> {
        Ok(if self.shared.state().is_over { Flow::Enough } else { Flow::More })
    }

    fn finish(&mut self) -> Result<(), NetworkError> {
        self.shared.state().ends = Some(End::Finished);
        self.shared.changed.notify_all();
        Ok(())
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.shared.state().ends.get_or_insert(End::Aborted);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Sends what it gets to the test, and waits until it may go on.
    struct Told {
        got: Sender<Vec<u8>>,
        may_go_on: Receiver<()>,
    }

    impl Push for Told {
        fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, NetworkError> {
            let _ = self.got.send(chunk.bytes().to_vec());
            Ok(if self.may_go_on.recv().is_ok() { Flow::More } else { Flow::Enough })
        }

        fn check_demand(&mut self) -> Result<Flow, NetworkError> {
            Ok(Flow::More)
        }

        fn finish(&mut self) -> Result<(), NetworkError> {
            let _ = self.got.send(Vec::new());
            Ok(())
        }
    }

    fn spool() -> (Spools, Spool, Receiver<Vec<u8>>, Sender<()>) {
        let ((got, gets), (let_go_on, may_go_on)) = (channel(), channel());
        let spools = Spools::default();
        let spool = spools.before(Box::new(Told { got, may_go_on }), "x", 4096, &Abort::default()).unwrap();
        (spools, spool, gets, let_go_on)
    }

    #[test]
    fn spool_takes_all_at_once_and_hands_it_on_in_order() {
        let (spools, mut spool, gets, go_on) = spool();
        for piece in 0..100_u8 {
            assert_eq!(spool.push(&mut Chunk::from(&[piece; 1000][..])).unwrap(), Flow::More);
        }
        spool.finish().unwrap();
        drop(spool);
        (0..100).for_each(|_| go_on.send(()).unwrap());
        let got: Vec<u8> = gets.iter().take_while(|bytes| !bytes.is_empty()).flatten().collect();
        assert_eq!(got, (0..100_u8).flat_map(|piece| [piece; 1000]).collect::<Vec<_>>());
        spools.join();
    }

    #[test]
    fn file_begins_anew_when_all_was_read() {
        let (spools, mut spool, gets, go_on) = spool();
        for piece in 0..100_u8 {
            spool.push(&mut Chunk::from(&[piece; 1000][..])).unwrap();
            assert_eq!(gets.recv().unwrap(), [piece; 1000]);
            go_on.send(()).unwrap();
            assert_eq!(spool.shared.file.metadata().unwrap().len(), 1000);
        }
        // After an abort the node is not finished.
        drop(spool);
        spools.join();
        assert!(gets.recv().is_err());
    }

    #[test]
    fn spool_has_enough_when_its_node_has() {
        let (spools, mut spool, _gets, go_on) = spool();
        drop(go_on);
        spool.push(&mut Chunk::from(&b"bytes"[..])).unwrap();
        spools.join();
        assert_eq!(
            (spool.check_demand().unwrap(), spool.push(&mut Chunk::from(&b"more"[..])).unwrap()),
            (Flow::Enough, Flow::Enough)
        );
    }
}
