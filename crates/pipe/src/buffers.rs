//! The buffers of one call: what is left of them, and as many as the kernel takes at once.

use std::io::{IoSlice, IoSliceMut};

use millstream_ring::PIPE_BUF;
use millstream_sys::transfer;

/// What one call of the kernel takes of what is left of `buffers` after `done` bytes of `total`. `gathered` is filled
/// where they have to be put together.
pub(crate) fn gathered_for_one_call<'b>(
    buffers: &'b [IoSlice<'_>],
    done: usize,
    total: usize,
    gathered: &'b mut Vec<u8>,
) -> Vec<IoSlice<'b>> {
    let mut left: Vec<&[u8]> = unwritten(buffers, done).collect();
    if total <= PIPE_BUF && left.len() > transfer::BUFFERS_MAX {
        // Too many for one call, which alone is atomic.
        *gathered = left.concat();
        left = vec![gathered];
    }
    left.truncate(transfer::BUFFERS_MAX);
    left.into_iter().map(IoSlice::new).collect()
}

/// What is left of `buffers` after `done` bytes.
pub(crate) fn unwritten<'b>(buffers: &'b [IoSlice<'_>], done: usize) -> impl Iterator<Item = &'b [u8]> {
    let left = buffers.iter().scan(done, |done, buffer| {
        let skipped = (*done).min(buffer.len());
        *done -= skipped;
        Some(&buffer[skipped..])
    });
    left.filter(|buffer| !buffer.is_empty())
}

/// As many buffers as the kernel takes at once, without those that are empty.
pub(crate) fn filled_by_one_call<'b>(buffers: &'b mut [IoSliceMut<'_>]) -> Vec<IoSliceMut<'b>> {
    first_bytes(buffers, usize::MAX)
}

/// The first `most` bytes that `buffers` hold, as many of them as the kernel takes at once.
pub(crate) fn first_bytes<'b>(buffers: &'b mut [IoSliceMut<'_>], mut most: usize) -> Vec<IoSliceMut<'b>> {
    let filled = buffers.iter_mut().filter(|buffer| !buffer.is_empty()).take(transfer::BUFFERS_MAX);
    let pieces = filled.map_while(|buffer| {
        let len = buffer.len().min(most);
        most -= len;
        (len > 0).then(|| IoSliceMut::new(&mut buffer[..len]))
    });
    pieces.collect()
}
