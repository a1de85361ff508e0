//! Blocks of transformed bytes that were read lately, for all files of a mount together.
//!
//! The kernel asks for a file in pieces, ahead of the program and not always in order. A decoder gives them in order only. So
//! what a decoder passes stays here for a while, and a piece that is asked for late needs no second decoder.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a block: what the kernel asks for at once when it reads ahead.
pub(crate) const BLOCK: usize = 128 << 10;

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
    blocks: HashMap<Key, (Arc<[u8]>, u64)>,
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

    pub(crate) fn get(&self, content: u64, block: u64) -> Option<Arc<[u8]>> {
        let mut kept = self.kept();
        kept.uses += 1;
        let now = kept.uses;
        let (bytes, used) = kept.blocks.get_mut(&(content, block))?;
        let (bytes, before) = (Arc::clone(bytes), std::mem::replace(used, now));
        kept.by_use.remove(&before);
        kept.by_use.insert(now, (content, block));
        Some(bytes)
    }

    pub(crate) fn put(&self, content: u64, block: u64, bytes: Arc<[u8]>) {
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
            blocks.put(content, block, Arc::from([block as u8; 10]));
        }
        assert!(blocks.get(content, 0).is_some());
        blocks.put(content, 2, Arc::from([2; 10]));
        assert!(blocks.get(content, 1).is_none());
        assert_eq!(blocks.get(content, 0).unwrap()[..], [0; 10]);
        assert_eq!(blocks.get(content, 2).unwrap()[..], [2; 10]);
        assert_ne!(blocks.new_content(), content);
    }

    #[test]
    fn replaced_block_is_counted_once() {
        let blocks = Blocks::of(25);
        for _ in 0..10 {
            blocks.put(1, 0, Arc::from([7; 10]));
        }
        blocks.put(1, 1, Arc::from([8; 10]));
        assert!(blocks.get(1, 0).is_some() && blocks.get(1, 1).is_some());
    }
}
