//! From one thread to another. Buffers go over, not bytes; while all are on the way, the thread that pushes waits. A
//! few even out what two threads differ by, and many are what the transform `buffer` asks for.

use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::{self, JoinHandle};

use super::abort::Abort;
use super::push::{Flow, Push};
use crate::chunk::Chunk;
use crate::error::NetworkError;

pub(super) struct Relay {
    /// `None` once the other thread wants no more, or knows that nothing follows.
    other: Option<OtherThread>,
}

struct OtherThread {
    orders: SyncSender<Order>,
    /// Buffers that came back.
    free: Receiver<Chunk>,
    thread: JoinHandle<Result<(), NetworkError>>,
}

enum Order {
    Push(Chunk),
    /// A thread further down has ended: check whether more is wanted.
    CheckDemand,
    /// If the orders end without it, the network was aborted, and nothing may be finished.
    Finish,
}

impl Relay {
    pub(super) fn new(
        node: Box<dyn Push>,
        buffers: usize,
        buffer_bytes: usize,
        abort: &Abort,
    ) -> Result<Relay, NetworkError> {
        let (orders, received) = sync_channel(buffers);
        let (back, free) = channel();
        for _ in 0..buffers {
            // The receiver is in this function.
            let _ = back.send(Chunk::of(buffer_bytes));
        }
        let abort = abort.clone();
        let thread = thread::Builder::new().spawn(move || {
            // Dropped last: a source that is woken finds that no thread takes orders here any more.
            let notifies = NotifyOnDrop(abort);
            work(node, received, back).map_err(|failure| notifies.0.fail(failure))
        });
        let thread = thread.map_err(|error| NetworkError::no_thread(&error))?;
        Ok(Relay { other: Some(OtherThread { orders, free, thread }) })
    }

    /// What became of the other thread, which has stopped or is about to.
    fn outcome(&mut self) -> Result<(), NetworkError> {
        let Some(OtherThread { orders, free, thread }) = self.other.take() else { return Ok(()) };
        drop((orders, free));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Push for Relay {
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, NetworkError> {
        let Some(other) = &self.other else { return Ok(Flow::Enough) };
        let exchanged = other.free.recv().ok().and_then(|mut free| {
            std::mem::swap(chunk, &mut free);
            other.orders.send(Order::Push(free)).ok()
        });
        match exchanged {
            Some(()) => Ok(Flow::More),
            None => self.outcome().map(|()| Flow::Enough),
        }
    }

    fn check_demand(&mut self) -> Result<Flow, NetworkError> {
        let Some(other) = &self.other else { return Ok(Flow::Enough) };
        match other.orders.try_send(Order::CheckDemand) {
            // While orders wait, the other thread works on them, and finds out by itself.
            Ok(()) | Err(TrySendError::Full(_)) => Ok(Flow::More),
            Err(TrySendError::Disconnected(_)) => self.outcome().map(|()| Flow::Enough),
        }
    }

    fn finish(&mut self) -> Result<(), NetworkError> {
        if let Some(other) = &self.other {
            // If the other thread takes no orders any more, it wants no more or has failed: the outcome says which.
            let _ = other.orders.send(Order::Finish);
        }
        self.outcome()
    }
}

/// Leaves no thread behind: the other one ends when its orders do, and drops the temporary files that it holds.
impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.outcome();
    }
}

/// Wakes the sources when it is dropped: at the end of the thread, also by a panic.
struct NotifyOnDrop(Abort);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_sources();
    }
}

fn work(mut node: Box<dyn Push>, orders: Receiver<Order>, back: Sender<Chunk>) -> Result<(), NetworkError> {
    while let Ok(order) = orders.recv() {
        match order {
            Order::Push(mut chunk) => {
                if node.push(&mut chunk)? == Flow::Enough {
                    return Ok(());
                }
                // After an abort no thread waits for buffers.
                let _ = back.send(chunk);
            }
            Order::CheckDemand => {
                if node.check_demand()? == Flow::Enough {
                    return Ok(());
                }
            }
            Order::Finish => return node.finish(),
        }
    }
    Ok(())
}
