//! Blocks of transformed bytes that were read lately, for all files of a mount together.
//!
//! The kernel asks for a file in pieces, ahead of the program and not always in order. A decoder gives them in order only. So
//! what a decoder passes stays here for a while, and a piece that is asked for late needs no second decoder.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a block: what the kernel asks for at once when it reads ahead.
pub(crate) const BLOCK: usize = 128 << 10;

/// A block of transformed bytes.
pub(crate) type Block = Arc<Vec<u8>>;

/// Memory of a reply that a thread keeps for its next one, at most. More is rare, and there are many threads.
const SPARE_MOST: usize = 256 << 10;

thread_local! {
    /// The allocator would take the memory of each reply from the kernel anew, and zero it.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Memory of at least `len` bytes, with anything in it.
pub(crate) fn spare(len: usize) -> Vec<u8> {
    let mut bytes = SPARE.take();
    if bytes.len() < len {
        bytes.resize(len, 0);
    }
    bytes
}

/// Bytes that were read: a part of a block, which is not copied, or others.
pub(crate) struct Piece {
    block: Block,
    range: Range<usize>,
}

impl Piece {
    pub(crate) fn of_block(block: Block, range: Range<usize>) -> Piece {
        Piece { block, range }
    }

    /// The first `len` bytes.
    pub(crate) fn of_start(bytes: Vec<u8>, len: usize) -> Piece {
        Piece { block: Arc::new(bytes), range: 0..len }
    }
}

/// The thread that has replied needs the memory again for its next reply, unless the cache has it.
impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(bytes) = Arc::get_mut(&mut self.block)
            && bytes.len() <= SPARE_MOST
        {
            SPARE.set(std::mem::take(bytes));
        }
    }
}

impl From<Vec<u8>> for Piece {
    fn from(bytes: Vec<u8>) -> Piece {
        Piece { range: 0..bytes.len(), block: Arc::new(bytes) }
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block[self.range.clone()]
    }
}

/// Of which content, and which block of it.
type Key = (u64, u64);

/// The cache.
#[derive(Debug)]
pub(crate) struct Blocks {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    blocks: HashMap<Key, (Block, u64)>,
    /// Keys in the order of their last use.
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    bytes: usize,
    contents: u64,
}

impl Blocks {
    /// A cache of at most so many bytes.
    pub(crate) fn of(most: usize) -> Blocks {
        Blocks { most, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a content that no other has or had.
    pub(crate) fn new_content(&self) -> u64 {
        let mut kept = self.kept();
        kept.contents += 1;
        kept.contents
    }

    pub(crate) fn get(&self, content: u64, block: u64) -> Option<Block> {
        let mut kept = self.kept();
        kept.uses += 1;
        let now = kept.uses;
        let (bytes, used) = kept.blocks.get_mut(&(content, block))?;
        let (bytes, before) = (Arc::clone(bytes), std::mem::replace(used, now));
        kept.by_use.remove(&before);
        kept.by_use.insert(now, (content, block));
        Some(bytes)
    }

    /// Takes a block out.
    pub(crate) fn take(&self, content: u64, block: u64) -> Option<Block> {
        let mut kept = self.kept();
        let (bytes, used) = kept.blocks.remove(&(content, block))?;
        kept.by_use.remove(&used);
        kept.bytes -= bytes.len();
        Some(bytes)
    }

    pub(crate) fn put(&self, content: u64, block: u64, bytes: Block) {
        let mut kept = self.kept();
        kept.uses += 1;
        let now = kept.uses;
        kept.bytes += bytes.len();
        if let Some((old, used)) = kept.blocks.insert((content, block), (bytes, now)) {
            kept.bytes -= old.len();
            kept.by_use.remove(&used);
        }
        kept.by_use.insert(now, (content, block));
        while kept.bytes > self.most
            && let Some((_, oldest)) = kept.by_use.pop_first()
        {
            if let Some((old, _)) = kept.blocks.remove(&oldest) {
                kept.bytes -= old.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_block_goes_first() {
        let blocks = Blocks::of(25);
        let content = blocks.new_content();
        for block in 0..2 {
            blocks.put(content, block, Arc::new(vec![block as u8; 10]));
        }
        assert!(blocks.get(content, 0).is_some());
        blocks.put(content, 2, Arc::new(vec![2; 10]));
        assert!(blocks.get(content, 1).is_none());
        assert_eq!(blocks.get(content, 0).unwrap()[..], [0; 10]);
        assert_eq!(blocks.get(content, 2).unwrap()[..], [2; 10]);
        assert_ne!(blocks.new_content(), content);
    }

    #[test]
    fn reply_leaves_its_memory_to_the_next_one() {
        let bytes = spare(1000);
        let address = bytes.as_ptr();
        drop(Piece::of_start(bytes, 10));
        let again = spare(500);
        assert_eq!((again.as_ptr(), again.len()), (address, 1000));
    }

    #[test]
    fn reply_from_the_cache_takes_no_memory_from_it() {
        let block: Block = Arc::new(vec![7; 10]);
        drop(Piece::of_block(Arc::clone(&block), 0..5));
        assert_eq!(block[..], [7; 10]);
    }

    #[test]
    fn replaced_block_is_counted_once() {
        let blocks = Blocks::of(25);
        for _ in 0..10 {
            blocks.put(1, 0, Arc::new(vec![7; 10]));
        }
        blocks.put(1, 1, Arc::new(vec![8; 10]));
        assert!(blocks.get(1, 0).is_some() && blocks.get(1, 1).is_some());
    }
}
