//! A decoder that works ahead of a program that reads a file in order, in a thread of its own.
//!
//! Decoding and handing over then run side by side. The thread makes blocks into the cache, a few more than the program has asked
//! for, and ends when the program asks for no more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::shared::{Inner, Shared};
use super::window::{BLOCKS, Window};
use crate::blocks::BLOCK;
use crate::common::Common;
use crate::decoder::{Decoder, next_block};

/// Blocks that stay behind the last one that was asked for, for pieces that the kernel asks for late: it reads two windows ahead,
/// in any order. Then their memory is used again, and stays in the cache of a CPU: the kernel keeps what it has read.
const BEHIND: u64 = 40;

/// How long the thread waits for a program to go on.
const TIMEOUT: Duration = Duration::from_millis(200);

/// Has a decoder go on behind a block that a program has just got. Without a thread it stays where it is.
pub(super) fn start(shared: &Arc<Shared>, common: &Arc<Common>, inner: &mut Inner, decoder: Decoder, block: u64) {
    if inner.ahead.at_work.is_some() {
        return inner.keep(decoder);
    }
    inner.ahead.at_work = Some(Window { next: block + 1, reached: block, is_stopped: false, is_asleep: false });
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
                shared.changed.of_block(window.next).notify_all();
                window.next += 1;
                let behind = window.reached.min(window.next).checked_sub(BEHIND);
                used = behind.and_then(|behind| common.blocks.take(content, behind));
                bytes.len() < BLOCK
            }
            _ => true,
        };
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
            shared.changed.for_all();
            return;
        }
    }
}

/// Waits while enough is made. If no program goes on, the thread is stopped.
fn wait_for_program<'a>(shared: &'a Shared, mut inner: MutexGuard<'a, Inner>, content: u64) -> MutexGuard<'a, Inner> {
    let mut enough = BLOCKS;
    loop {
        let is_current = inner.content == content;
        let Some(window) = inner.ahead.at_work.as_mut().filter(|_| is_current) else { return inner };
        window.is_asleep = !window.is_stopped && window.next > window.reached + enough;
        if !window.is_asleep {
            return inner;
        }
        enough = BLOCKS / 2;
        let waited = shared.changed.asked.wait_timeout(inner, TIMEOUT).unwrap_or_else(PoisonError::into_inner);
        inner = waited.0;
        if waited.1.timed_out() && inner.content == content {
            inner.ahead.stop(&shared.changed);
        }
    }
}
