//! A stream whose every byte says where it belongs, and numbers that say nothing.
//!
//! A package of its own, because it is compiled as fast code: the tests that send and check gigabytes of it are not, which would take
//! minutes.
#![forbid(unsafe_code)]

use std::ops::Range;

/// The byte at a position of the stream that the tests send. Any run of a few bytes occurs nearly nowhere else, so what
/// is lost, doubled or moved is seen.
pub fn byte_at(position: u64) -> u8 {
    // Multiplicative hashing (Knuth, The Art of Computer Programming 3, 6.4): the upper bits depend on all of them.
    (position.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// A part of that stream.
pub fn bytes(range: Range<u64>) -> Vec<u8> {
    range.map(byte_at).collect()
}

/// Checks that `bytes` are what the stream has from `position` on.
///
/// # Panics
/// With the first position at which they are not.
#[track_caller]
pub fn check(position: u64, bytes: &[u8]) {
    let wrong = bytes.iter().enumerate().find(|&(index, &byte)| byte != byte_at(position + index as u64));
    if let Some((index, byte)) = wrong {
        let at = position + index as u64;
        panic!("byte {at} of the stream is {byte}, and not {}", byte_at(at));
    }
}

/// Which bytes there are, one after the other, and how often each before the next one.
pub fn runs(bytes: &[u8]) -> Vec<(u8, usize)> {
    bytes.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect()
}

/// A small generator of numbers (xorshift64, Marsaglia 2003): the same in every run.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The numbers of this seed: quite others for the next one (splitmix64, Steele and others 2014).
    pub fn from_seed(seed: u64) -> Random {
        let mut mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        // Anything but zero, which has no successor.
        Random((mixed ^ (mixed >> 27)) | 1)
    }

    /// A number in the range.
    pub fn within(&mut self, range: Range<usize>) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        range.start + (self.0 >> 16) as usize % range.len()
    }
}
