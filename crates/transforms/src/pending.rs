//! A queue of output bytes for which there was no room yet.

/// A queue of bytes. It keeps its memory, so a running stream does not allocate.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    bytes: Vec<u8>,
    taken: usize,
}

impl Pending {
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// Where further bytes are added.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        if self.is_empty() {
            self.bytes.clear();
            self.taken = 0;
        }
        &mut self.bytes
    }

    /// Moves as many bytes to `output` as fit. Returns how many.
    pub(crate) fn take(&mut self, output: &mut [u8]) -> usize {
        let left = &self.bytes[self.taken..];
        let count = left.len().min(output.len());
        output[..count].copy_from_slice(&left[..count]);
        self.taken += count;
        count
    }
}

/// For a library that writes where it is told to.
impl std::io::Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.end().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// For a library that reads from where it is told to.
impl std::io::Read for Pending {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        Ok(self.take(buffer))
    }
}
