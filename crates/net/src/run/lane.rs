//! A source with everything that it feeds, and how the bytes of all sources are moved.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::abort::Abort;
use super::build::First;
use super::push::Flow;
use super::source::{Found, Source};
use super::wake::WakePipe;
use super::worker_group;
use crate::chunk::Chunk;
use crate::error::NetworkError;

/// A source with what it feeds.
pub(super) struct Lane {
    pub(super) source: Source,
    pub(super) first: First,
    pub(super) wake_pipe: Option<WakePipe>,
}

/// Each source runs to its end before the next begins.
pub(super) fn one_after_the_other(
    mut lanes: Vec<Lane>,
    buffer_bytes: usize,
    abort: &Abort,
    watch: &mut dyn FnMut(u64),
) -> Result<(), NetworkError> {
    let (mut chunk, mut read) = (Chunk::of(buffer_bytes), 0);
    for lane in &mut lanes {
        let before = read;
        let driven = lane.drive(&mut chunk, buffer_bytes, abort, &mut |bytes| {
            read = before + bytes;
            watch(read);
        });
        // Before the lanes are dropped: this stops what has not ended, which must not seem to have failed by itself.
        driven.map_err(|failure| abort.fail(failure))?;
    }
    Ok(())
}

/// How often the number of bytes that other threads have read is reported.
const REPORTED: Duration = Duration::from_millis(50);

/// Each source in a thread of its own.
pub(super) fn at_the_same_time(
    lanes: Vec<Lane>,
    buffer_bytes: usize,
    abort: &Abort,
    watch: &mut dyn FnMut(u64),
) -> Result<(), NetworkError> {
    let lanes: Vec<(Mutex<Option<Lane>>, AtomicU64)> =
        lanes.into_iter().map(|lane| (Mutex::new(Some(lane)), AtomicU64::new(0))).collect();
    let all_read = || lanes.iter().map(|(_, read)| read.load(Relaxed)).sum();
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        for (lane, read) in &lanes {
            let done = done.clone();
            let thread = thread::Builder::new().spawn_scoped(scope, move || {
                // The last thread that ends closes the channel.
                let _done = done;
                let Some(mut lane) = lane.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
                let driven = lane.drive(&mut Chunk::of(buffer_bytes), buffer_bytes, abort, &mut |bytes| {
                    read.store(bytes, Relaxed);
                });
                // Before the lane is dropped: this stops what has not ended, which must not seem to have failed by
                // itself.
                if let Err(failure) = driven {
                    abort.fail(failure);
                }
            });
            if let Err(error) = thread {
                abort.fail(NetworkError::no_thread(&error));
            }
        }
        drop(done);
        let mut reported = 0;
        while is_done.recv_timeout(REPORTED) == Err(RecvTimeoutError::Timeout) {
            let bytes = all_read();
            if std::mem::replace(&mut reported, bytes) != bytes {
                watch(bytes);
            }
        }
    });
    watch(all_read());
    abort.outcome()
}

impl Lane {
    /// Brings all of the source into what it feeds. `watch` gets the number of bytes read.
    fn drive(
        &mut self,
        chunk: &mut Chunk,
        buffer_bytes: usize,
        abort: &Abort,
        watch: &mut dyn FnMut(u64),
    ) -> Result<(), NetworkError> {
        let Lane { source, first: (chains, first), wake_pipe } = self;
        if let (false, Some(file)) = (chains.is_empty(), source.regular()) {
            return worker_group::run(&file, std::mem::take(chains), &mut **first, buffer_bytes, watch);
        }
        let (mut flow, mut read) = (Flow::More, 0);
        while flow == Flow::More {
            if abort.is_set() {
                return abort.outcome();
            }
            flow = match source.fill(chunk, wake_pipe.as_mut())? {
                Found::Bytes => {
                    read += chunk.len() as u64;
                    let flow = first.push(chunk)?;
                    watch(read);
                    flow
                }
                Found::Notified => first.check_demand()?,
                Found::End => break,
            };
        }
        if flow == Flow::More { first.finish() } else { Ok(()) }
    }
}
