//! A decoder that works ahead of a program that reads a file in order, in a thread of its own.
//!
//! Decoding and handing over then run side by side. The thread makes blocks into the cache, a few more than the program has asked
//! for, and ends when the program asks for no more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::Duration;

use crate::blocks::{BLOCK, next_block};
use crate::common::Common;
use crate::decoder::Decoder;
use crate::reading::{Inner, Shared};

/// Blocks that are made before they are asked for, at most.
const BLOCKS: u64 = 4;

/// Blocks that stay behind the last one that was made, for pieces that the kernel asks for late. Then their memory is used again,
/// and stays in the cache of a CPU: the kernel keeps what it has read.
const BEHIND: u64 = 16;

/// A block that is so far ahead is waited for. For one further on another decoder may be sooner there.
const NEAR: u64 = 64;

/// How long the thread waits for a program to go on.
const TIMEOUT: Duration = Duration::from_millis(200);

/// What programs know of the thread.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// `None`: there is none.
    at_work: Option<Window>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    /// The block that is made next.
    next: u64,
    /// The last block that a program has asked for.
    reached: u64,
    is_stopped: bool,
}

impl Ahead {
    /// Whether a block that is not there will be, without its being asked for in any other way.
    pub(crate) fn will_make(&self, block: u64) -> bool {
        self.at_work.is_some_and(|window| !window.is_stopped && (window.next..=window.next + NEAR).contains(&block))
    }

    /// A program has asked for a block.
    pub(crate) fn reached(&mut self, block: u64, changed: &Condvar) {
        if let Some(window) = &mut self.at_work
            && (window.reached + 1..=window.next + NEAR).contains(&block)
        {
            window.reached = block;
            changed.notify_all();
        }
    }

    /// No program wants more.
    pub(crate) fn stop(&mut self, changed: &Condvar) {
        if let Some(window) = &mut self.at_work {
            window.is_stopped = true;
            changed.notify_all();
        }
    }
}

/// Has a decoder go on behind a block that a program has just got. Without a thread it stays where it is.
pub(crate) fn start(shared: &Arc<Shared>, common: &Arc<Common>, inner: &mut Inner, decoder: Decoder, block: u64) {
    if inner.ahead.at_work.is_some() {
        return inner.keep(decoder);
    }
    inner.ahead.at_work = Some(Window { next: block + 1, reached: block, is_stopped: false });
    let content = inner.content;
    let (shared, common) = (Arc::clone(shared), Arc::clone(common));
    let work = move || run(&shared, &common, decoder, content);
    if std::thread::Builder::new().name("ahead".into()).spawn(work).is_err() {
        inner.ahead.at_work = None;
    }
}

fn run(shared: &Shared, common: &Common, mut decoder: Decoder, content: u64) {
    let mut used = None;
    loop {
        // A program that waits for the block meets an error itself, and tells it. So it does a bug of a transform.
        let made = catch_unwind(AssertUnwindSafe(|| next_block(&mut decoder, used.take()))).ok().and_then(Result::ok);
        let mut inner = shared.inner();
        let made = made.filter(|bytes| inner.accepts(content, bytes.len() < BLOCK, decoder.position()));
        let is_last = match (&made, &mut inner.ahead.at_work) {
            (Some(bytes), Some(window)) => {
                common.blocks.put(content, window.next, Arc::clone(bytes));
                window.next += 1;
                used = window.next.checked_sub(BEHIND).and_then(|behind| common.blocks.take(content, behind));
                bytes.len() < BLOCK
            }
            _ => true,
        };
        shared.changed.notify_all();
        if !is_last {
            inner = wait_for_program(shared, inner, content);
        }
        let is_another = inner.content != content;
        if is_another || is_last || inner.ahead.at_work.is_none_or(|window| window.is_stopped) {
            if !is_another {
                inner.ahead.at_work = None;
                if made.is_some() {
                    inner.keep(decoder);
                }
            }
            shared.changed.notify_all();
            return;
        }
    }
}

/// Waits while enough is made. If no program goes on, the thread is stopped.
fn wait_for_program<'a>(shared: &'a Shared, mut inner: MutexGuard<'a, Inner>, content: u64) -> MutexGuard<'a, Inner> {
    let is_enough = |window: Window| !window.is_stopped && window.next > window.reached + BLOCKS;
    while inner.content == content && inner.ahead.at_work.is_some_and(is_enough) {
        let waited = shared.changed.wait_timeout(inner, TIMEOUT).unwrap_or_else(PoisonError::into_inner);
        inner = waited.0;
        if waited.1.timed_out() && inner.content == content {
            inner.ahead.stop(&shared.changed);
        }
    }
    inner
}
