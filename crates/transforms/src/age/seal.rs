//! Encryption.

use millstream_net::{Next, Rewrite, Step, TransformError};

use super::header;
use super::keys::Keys;
use super::payload::{CHUNK, FileKey, NONCE, Payload, TAG};
use super::random::random;
use crate::pending::Pending;

pub(super) struct Encrypt {
    keys: Keys,
    work: u8,
    /// `None` before the first step: only a network that runs draws random numbers and computes keys from passphrases.
    payload: Option<Payload>,
    chunk: Vec<u8>,
    pending: Pending,
    has_ended: bool,
}

impl Encrypt {
    pub(super) fn new(keys: Keys, work: u8) -> Encrypt {
        let chunk = Vec::with_capacity(CHUNK + TAG);
        Encrypt { keys, work, payload: None, chunk, pending: Pending::default(), has_ended: false }
    }

    fn begin(&mut self) -> Result<Payload, TransformError> {
        let (key, nonce): (FileKey, _) = (random()?, random::<NONCE>()?);
        let start = self.pending.end();
        start.extend(header::write(&key, &self.keys, self.work)?);
        start.extend_from_slice(&*nonce);
        Ok(Payload::new(&key, &nonce))
    }

    fn seal(&mut self, is_last: bool) {
        let payload = self.payload.as_mut().expect("it has begun");
        payload.seal(&mut self.chunk, is_last);
        std::mem::swap(self.pending.end(), &mut self.chunk);
        self.has_ended = is_last;
    }
}

impl Rewrite for Encrypt {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        if self.payload.is_none() {
            self.payload = Some(self.begin()?);
        }
        let (mut consumed, mut produced) = (0, 0);
        loop {
            produced += self.pending.take(&mut output[produced..]);
            let rest = &input[consumed..];
            if !self.pending.is_empty() || (rest.is_empty() && !ends) {
                return Ok(Step { consumed, produced, next: Next::More });
            }
            if self.has_ended {
                return Ok(Step { consumed, produced, next: Next::Done });
            }
            // A full chunk is not the last one if another byte comes.
            if rest.is_empty() || self.chunk.len() == CHUNK {
                self.seal(rest.is_empty());
                continue;
            }
            let count = rest.len().min(CHUNK - self.chunk.len());
            self.chunk.extend_from_slice(&rest[..count]);
            consumed += count;
        }
    }

    /// Each byte is copied into the chunk and out of it.
    fn copied(&self, step: &Step) -> usize {
        step.consumed + step.produced
    }
}
