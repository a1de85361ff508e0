//! Buffers that start on a page, so that every transport copies from and to the same place in one.

const PAGE_BYTES: usize = 4096;

/// Zeroed bytes.
pub(crate) struct PageAligned {
    storage: Vec<u8>,
    start: usize,
    len: usize,
}

impl PageAligned {
    /// `len` of them, each page of which has been touched.
    pub(crate) fn new(len: usize) -> PageAligned {
        // Written, not only reserved: memory that was never written is one page of zeros, over and over.
        let mut storage = Vec::with_capacity(len + PAGE_BYTES);
        storage.resize(len + PAGE_BYTES, 1);
        storage.fill(0);
        let start = storage.as_ptr().align_offset(PAGE_BYTES);
        PageAligned { storage, start, len }
    }
}

impl std::ops::Deref for PageAligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.len]
    }
}

impl std::ops::DerefMut for PageAligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_starts_on_a_page_and_has_its_length() {
        for len in [0, 1, 512, 4096, 100_000] {
            let buffer = PageAligned::new(len);
            assert_eq!((buffer.len(), buffer.as_ptr().addr() % PAGE_BYTES), (len, 0));
        }
    }
}
