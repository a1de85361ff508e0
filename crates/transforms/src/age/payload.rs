//! The chunks behind the header (STREAM, as in <https://eprint.iacr.org/2015/189>). Each is sealed with its number, and
//! the last one with a flag, so that a change, a move, an omission or a truncation is detected.

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Tag};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

/// Bytes of each chunk but the last.
pub(super) const CHUNK: usize = 64 << 10;

/// Bytes of the tag that follows each chunk.
pub(super) const TAG: usize = 16;

/// Bytes of the nonce before the first chunk.
pub(super) const NONCE: usize = 16;

/// The key of a file, which every recipient can unwrap from the header.
pub(super) type FileKey = Zeroizing<[u8; 16]>;

pub(super) fn derived(key: &[u8], salt: &[u8], what_for: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut derived = Zeroizing::new([0; 32]);
    Hkdf::<Sha256>::new(Some(salt), key).expand(what_for, &mut *derived).expect("32 bytes are not too many");
    derived
}

pub(super) struct Payload {
    cipher: ChaCha20Poly1305,
    /// Chunks before this one.
    count: u64,
}

impl Payload {
    pub(super) fn new(key: &FileKey, nonce: &[u8; NONCE]) -> Payload {
        let key = derived(&**key, nonce, b"payload");
        Payload { cipher: ChaCha20Poly1305::new((&*key).into()), count: 0 }
    }

    pub(super) fn is_first(&self) -> bool {
        self.count == 0
    }

    /// The nonce of the current chunk. Its number has eleven bytes, of which eight are more than enough.
    fn nonce(&self, is_last: bool) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[3..11].copy_from_slice(&self.count.to_be_bytes());
        nonce[11] = u8::from(is_last);
        nonce
    }

    /// Encrypts the next chunk and puts its tag behind it.
    pub(super) fn seal(&mut self, chunk: &mut Vec<u8>, is_last: bool) {
        let nonce = self.nonce(is_last).into();
        let tag = self.cipher.encrypt_inout_detached(&nonce, &[], chunk.as_mut_slice().into());
        chunk.extend_from_slice(&tag.expect("a chunk is not too long"));
        self.count += 1;
    }

    /// Decrypts the next chunk, with its tag, and removes the tag. Returns false, and leaves the chunk unchanged, if it
    /// is not authentic.
    pub(super) fn open(&mut self, chunk: &mut Vec<u8>, is_last: bool) -> bool {
        let nonce = self.nonce(is_last).into();
        let Some(len) = chunk.len().checked_sub(TAG) else { return false };
        let (text, tag) = chunk.split_at_mut(len);
        let tag: Tag = Tag::try_from(&*tag).expect("it has the length of a tag");
        let is_it = self.cipher.decrypt_inout_detached(&nonce, &[], text.into(), &tag).is_ok();
        if is_it {
            chunk.truncate(len);
            self.count += 1;
        }
        is_it
    }
}
