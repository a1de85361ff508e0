//! Bytes on their way through a network.

/// The kernel copies to the beginning of a page a tenth faster than to other places.
const PAGE: usize = 4096;

/// A buffer and how much of it is filled. A node that is handed one may change the bytes, and may keep the buffer if it
/// leaves another of the same size in its place.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// A page more than can be filled.
    storage: Box<[u8]>,
    start: usize,
    len: usize,
}

impl Chunk {
    pub(crate) fn of(capacity: usize) -> Chunk {
        let storage = vec![0; capacity + PAGE].into_boxed_slice();
        let start = storage.as_ptr().align_offset(PAGE).min(PAGE);
        Chunk { storage, start, len: 0 }
    }

    fn buffer(&mut self) -> &mut [u8] {
        let end = self.start + self.storage.len() - PAGE;
        &mut self.storage[self.start..end]
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.buffer()[..len]
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn free(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.buffer()[len..]
    }

    /// That many bytes of what was free are filled now.
    pub(crate) fn grow(&mut self, bytes: usize) {
        assert!(bytes <= self.storage.len() - PAGE - self.len, "a transform claims more than it had room for");
        self.len += bytes;
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn copy_from(&mut self, other: &Chunk) {
        self.len = other.len;
        self.bytes_mut().copy_from_slice(other.bytes());
    }
}

impl From<&[u8]> for Chunk {
    fn from(bytes: &[u8]) -> Chunk {
        let mut chunk = Chunk::of(bytes.len());
        chunk.grow(bytes.len());
        chunk.bytes_mut().copy_from_slice(bytes);
        chunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_begins_on_a_page_and_holds_what_it_was_made_for() {
        for capacity in [4096, 128 << 10] {
            let mut chunk = Chunk::of(capacity);
            assert_eq!((chunk.free().as_ptr().addr() % PAGE, chunk.free().len()), (0, capacity));
            chunk.free()[..3].copy_from_slice(b"abc");
            chunk.grow(3);
            assert_eq!(chunk.free().len(), capacity - 3);
            assert_eq!(chunk.bytes(), b"abc");
            let mut copy = Chunk::of(capacity);
            copy.copy_from(&chunk);
            assert_eq!(copy.bytes_mut(), b"abc");
            chunk.grow(capacity - 3);
            chunk.clear();
            assert_eq!((chunk.len(), chunk.free().len()), (0, capacity));
        }
    }
}
