//! How the memory of a network is shared out.

use std::ops::RangeInclusive;

use crate::check::Checked;
use crate::error::NetworkError;
use crate::transform::{Kind, OUTPUT_MIN, Stage};

/// Bytes of a buffer, unless memory is short: what comes from the source, what a rewriting stage writes and the tables
/// of that stage fit into a second-level cache of 1 MiB together. With half of it gunzip takes 5 % more than in one
/// call, instead of 2: its window is kept apart whenever a buffer is full.
const BUFFER: usize = 256 << 10;

/// The smallest buffer.
const BUFFER_MIN: usize = OUTPUT_MIN;

pub(super) struct Memory {
    /// Bytes of each buffer.
    pub(super) buffer_bytes: usize,
    pub(super) buffers: usize,
    /// For each node, bytes that it may keep beside the buffers.
    pub(super) kept_bytes: Vec<usize>,
}

impl Memory {
    /// Shares out `bytes` to so many buffers, to those of buffered stages, and to what stages keep.
    ///
    /// # Errors
    /// [`NetworkError::Invalid`] if there is not enough for the smallest buffers.
    pub(super) fn of(checked: &Checked<'_>, buffers: usize, bytes: usize) -> Result<Memory, NetworkError> {
        let stages = || checked.stages.iter().map(|stage| stage.as_ref().map(|(_, stage)| stage));
        // What a stage asks to buffer is rounded up to whole buffers, at least one.
        let buffered: Vec<usize> = stages().flatten().filter_map(buffered_bytes).collect();
        let buffers = buffers + buffered.len();
        let keeps: Vec<_> = stages().map(|stage| stage.map_or(0..=0, |stage| stage.keeps.clone())).collect();
        let needed = keeps.iter().map(|keeps| *keeps.start()).fold(0, usize::saturating_add);
        let for_buffers = bytes.saturating_sub(needed);
        let left = for_buffers.saturating_sub(buffered.iter().copied().fold(0, usize::saturating_add));
        let buffer_bytes = (left / buffers / BUFFER_MIN * BUFFER_MIN).min(BUFFER);
        if buffer_bytes < BUFFER_MIN {
            let kept = if needed > 0 { format!(", and {needed} bytes that its stages keep") } else { String::new() };
            return Err(NetworkError::Invalid(format!(
                "the network needs {buffers} buffers of at least {BUFFER_MIN} bytes{}{kept}; \
                 give it more memory than {bytes} bytes",
                if buffered.is_empty() { "" } else { " and what is to be kept" },
            )));
        }
        let further = buffered.iter().map(|bytes| bytes.div_ceil(buffer_bytes) - 1).sum::<usize>();
        let buffers = buffers + further;
        let kept_bytes = shared_out(&keeps, for_buffers.saturating_sub(buffers * buffer_bytes));
        Ok(Memory { buffer_bytes, buffers, kept_bytes })
    }
}

/// Bytes that a stage only stores and passes on.
fn buffered_bytes(stage: &Stage) -> Option<usize> {
    match stage.kind {
        Kind::Buffer(bytes) => Some(bytes).filter(|&bytes| bytes > 0),
        Kind::InPlace(..) | Kind::Rewrite(_) | Kind::Exported(_) => None,
    }
}

/// For each node the bytes that it needs, and an equal part of what is left, as far as it wants it.
fn shared_out(keeps: &[RangeInclusive<usize>], left: usize) -> Vec<usize> {
    let more_is_wanted = keeps.iter().filter(|keeps| keeps.end() > keeps.start()).count();
    let share = left / more_is_wanted.max(1);
    keeps.iter().map(|keeps| keeps.start() + share.min(keeps.end().saturating_sub(*keeps.start()))).collect()
}
