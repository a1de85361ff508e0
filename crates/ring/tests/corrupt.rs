//! Rings with any header at all. Every call on them ends, with a number or an error, and touches nothing but the banks
//! and the caller's buffers.
//!
//! `fuzz/` does the same with headers from a fuzzer; this runs with every `make test`, on any compiler.
#![cfg(not(loom))]
#![allow(unsafe_code)]

#[path = "../../../fuzz/abuse.rs"]
mod abuse;

/// Headers to try; fewer where a sanitizer makes each of them ten times as slow.
const CASES: usize = if cfg!(debug_assertions) { 10_000 } else { 100_000 };

/// A small generator of numbers (xorshift64, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number, more often one near which something changes than any other.
    fn word(&mut self) -> u64 {
        let bits = self.next();
        let edge = 1_u64 << (bits % 64);
        match (bits >> 8) % 8 {
            0 => 0,
            1 => edge,
            2 => edge.wrapping_neg(),
            3 => edge - 1,
            4 => (bits >> 16) % 20_000,
            5 => u64::MAX - (bits >> 16) % 20_000,
            6 => (((bits >> 20) % 2) << 8) | ((bits >> 24) % 36),
            _ => self.next(),
        }
    }
}

#[test]
fn corrupt_header_does_not_lead_out_of_the_ring_or_into_an_endless_loop() {
    let seed = std::env::var("MILLSTREAM_SEED").map_or(0x5EED, |seed| seed.parse().expect("a number"));
    let mut random = Random(seed | 1);
    let mut answers = [0; 2];
    for case in 0..CASES {
        let mut data = Vec::with_capacity(1100);
        (0..16).for_each(|_| data.extend(random.next().to_le_bytes()));
        // All words of the header, or some of them.
        for _ in 0..size_of::<millstream_ring::Header>() / 8 {
            let is_changed = random.next().is_multiple_of([1, 4, 30][case % 3]);
            data.extend(if is_changed { random.word().to_le_bytes() } else { [0; 8] });
        }
        let (good, bad) = abuse::abuse(&data);
        answers = [answers[0] + good, answers[1] + bad];
    }
    assert!(answers.iter().all(|&count| count > CASES / 10), "all answers are alike: {answers:?}");
}
