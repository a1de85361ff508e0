//! One sample: a few passes over the file, each of which adds up its words.

use millstream_sys::clock;

use crate::engine::Launch;
use crate::method::cached_file::{CachedFile, bytes_from_disk};

/// What a sample lasts, by the estimate: long against an interrupt.
const TIMED_NS: u64 = 8_000_000;

/// Bounds on the passes of a sample.
const TIMED_PASSES: std::ops::RangeInclusive<u64> = 3..=10_000;

/// MB/s of `pass`, which returns the sum of all words of `file`; those of a first pass as warm-up.
pub(in crate::method) fn over(
    file: &CachedFile,
    mut pass: impl FnMut() -> Result<u64, String>,
) -> Result<Launch, String> {
    let mut time = |passes: u64| {
        let mut sums = 0_u64;
        let start = clock::raw_nanoseconds();
        for _ in 0..passes {
            sums = sums.wrapping_add(pass()?);
        }
        let nanoseconds = clock::raw_nanoseconds() - start;
        file.check(passes, sums).map(|()| nanoseconds.max(1))
    };
    let first_ns = time(1)?;
    file.check_cached()?;
    let from_disk = bytes_from_disk();
    let passes = (TIMED_NS / first_ns).clamp(*TIMED_PASSES.start(), *TIMED_PASSES.end());
    let nanoseconds = time(passes)?;
    match bytes_from_disk() - from_disk {
        0 => {}
        bytes => return Err(format!("{bytes} bytes came from the disk, not from the kernel's cache")),
    }
    let rate = |passes: u64, nanoseconds: u64| (passes * file.len() as u64) as f64 * 1e3 / nanoseconds as f64;
    Ok(Launch { warmup: vec![rate(1, first_ns)], ..Launch::of(rate(passes, nanoseconds)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_leaves_something_out_is_found() {
        let file = CachedFile::make(4096).unwrap();
        assert!(over(&file, || Ok(1)).unwrap_err().starts_with("the sum of the words is wrong"));
        assert_eq!(over(&file, || Err("no".into())).unwrap_err(), "no");
    }
}
