//! Bytes that were taken out of the pipe before the program asked for them, in memory of this process.

use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// As large as the kernel's pipe at first, and as the buffers of most programs.
const BYTES: usize = 64 << 10;

/// A caller that asks for more than this much at once gets this much.
const MOST_BYTES: usize = 1 << 20;

/// Filled by the caller that has the reader for itself, emptied by any thread. Bytes never move, only where they
/// begin. Zero is empty.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// A reader that never reads ahead allocates nothing.
    buffer: Vec<u8>,
    /// Where what is left begins and ends, in one word.
    range: AtomicU64,
}

fn word(range: &Range<usize>) -> u64 {
    (range.start as u64) << 32 | range.end as u64
}

fn range(word: u64) -> Range<usize> {
    (word >> 32) as usize..word as u32 as usize
}

impl Ahead {
    #[inline]
    fn left(&self) -> Range<usize> {
        range(self.range.load(Relaxed))
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.left().len()
    }

    /// What is left.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.left()]
    }

    /// Moves what is left to `buffers`, as much as they hold; `None` if nothing is.
    #[inline]
    pub(crate) fn take(&self, buffers: &mut [IoSliceMut<'_>]) -> Option<usize> {
        if self.len() == 0 { None } else { self.take_some(buffers) }
    }

    #[cold]
    fn take_some(&self, buffers: &mut [IoSliceMut<'_>]) -> Option<usize> {
        let mut left = self.left();
        while !left.is_empty() {
            let mut source = &self.buffer[left.clone()];
            for buffer in &mut *buffers {
                let len = buffer.len().min(source.len());
                buffer[..len].copy_from_slice(&source[..len]);
                source = &source[len..];
            }
            let rest = left.end - source.len()..left.end;
            // Copied first: another thread may have been faster.
            match self.range.compare_exchange(word(&left), word(&rest), Relaxed, Relaxed) {
                Ok(_) => return Some(rest.start - left.start),
                Err(now) => left = range(now),
            }
        }
        None
    }

    /// The first `count` of what is left are done with.
    pub(crate) fn consume(&mut self, count: usize) {
        let left = self.left();
        *self.range.get_mut() = word(&(left.start + count.min(left.len())..left.end));
    }

    /// Takes the memory out, to be filled. Only when nothing is left.
    pub(crate) fn lend_memory(&mut self, bytes: Option<usize>) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(bytes.unwrap_or(BYTES).min(MOST_BYTES), 0);
        buffer
    }

    /// Puts it back with `count` bytes in it.
    pub(crate) fn take_memory_back(&mut self, buffer: Vec<u8>, count: usize) {
        self.buffer = buffer;
        *self.range.get_mut() = word(&(0..count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(bytes: &[u8]) -> Ahead {
        let mut ahead = Ahead::default();
        let mut memory = ahead.lend_memory(None);
        memory[..bytes.len()].copy_from_slice(bytes);
        ahead.take_memory_back(memory, bytes.len());
        ahead
    }

    #[test]
    fn what_was_read_ahead_comes_out_in_order_and_once() {
        let mut ahead = filled(b"0123456789");
        let (mut first, mut second) = ([0; 2], [0; 3]);
        let buffers = &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(ahead.take(buffers), Some(5));
        assert_eq!((&first, &second), (b"01", b"234"));
        ahead.consume(2);
        assert_eq!((ahead.bytes(), ahead.len()), (&b"789"[..], 3));
        ahead.consume(4);
        assert_eq!(ahead.take(&mut [IoSliceMut::new(&mut [0; 1])]), None);
    }

    #[test]
    fn threads_share_what_was_read_ahead() {
        let bytes: Vec<u8> = (0..=255).cycle().take(BYTES).collect();
        let ahead = filled(&bytes);
        let read_all = || {
            let (mut sum, mut buffer) = (0_u64, [0; 7]);
            while let Some(count) = ahead.take(&mut [IoSliceMut::new(&mut buffer)]) {
                sum += buffer[..count].iter().map(|&byte| u64::from(byte)).sum::<u64>();
            }
            sum
        };
        let sum: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(read_all)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(sum, bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>());
    }
}
