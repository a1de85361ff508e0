//! Bytes on their way through a network.

/// A buffer and how much of it is filled. Who is handed one may change the bytes, and may keep the buffer if it leaves
/// another of the same size in its place.
#[derive(Debug)]
pub(crate) struct Chunk {
    buffer: Box<[u8]>,
    len: usize,
}

impl Chunk {
    pub(crate) fn of(capacity: usize) -> Chunk {
        Chunk { buffer: vec![0; capacity].into_boxed_slice(), len: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn free(&mut self) -> &mut [u8] {
        &mut self.buffer[self.len..]
    }

    /// That many bytes of what was free are filled now.
    pub(crate) fn grow(&mut self, bytes: usize) {
        assert!(bytes <= self.buffer.len() - self.len, "a transform claims more than it had room for");
        self.len += bytes;
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn copy_from(&mut self, other: &Chunk) {
        self.buffer[..other.len].copy_from_slice(other.bytes());
        self.len = other.len;
    }
}
