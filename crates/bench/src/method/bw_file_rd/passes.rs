//! One sample: a few passes over the file, each of which adds up its words.

use crate::engine::Launch;
use crate::method::cached_file::{CachedFile, bytes_from_disk};
use crate::method::slices::{median_ns, rate, timed};

/// What a sample lasts, by the estimate: a dozen passes or so.
const TIMED_NS: u64 = 10_000_000;

/// Bounds on the passes of a sample.
const TIMED_PASSES: std::ops::RangeInclusive<u64> = 3..=1_000;

/// Passes in a row with something read from a disk, at most.
const ATTEMPTS: usize = 5;

/// MB/s of `pass`, which returns the sum of all words of `file`, at the median of a few passes; those of a first one as
/// warm-up.
pub(in crate::method) fn over(
    file: &CachedFile,
    mut pass: impl FnMut() -> Result<u64, String>,
) -> Result<Launch, String> {
    let mut time = || {
        let (sum, nanoseconds) = timed(&mut pass);
        file.check(sum?).map(|()| nanoseconds)
    };
    let first_ns = time()?;
    file.check_cached()?;
    let passes = (TIMED_NS / first_ns.max(1)).clamp(*TIMED_PASSES.start(), *TIMED_PASSES.end());
    let slices = (0..passes).map(|_| without_disk(&mut time)).collect::<Result<Vec<u64>, String>>()?;
    file.check_cached()?;
    let [warm, sample] = [&[first_ns][..], &slices].map(|slices| rate(file.len(), median_ns(slices, 1)));
    Ok(Launch { warmup: vec![warm], ..Launch::of(sample) })
}

/// A pass during which nothing is read from a disk. What is read now and then is the program itself, whose pages the
/// kernel may have dropped; a file that does not stay in memory is read again each time.
fn without_disk(mut pass: impl FnMut() -> Result<u64, String>) -> Result<u64, String> {
    let mut read = 0;
    for _ in 0..ATTEMPTS {
        let before = bytes_from_disk();
        let nanoseconds = pass()?;
        read = bytes_from_disk() - before;
        if read == 0 {
            return Ok(nanoseconds);
        }
    }
    Err(format!("{read} bytes came from the disk, not from the kernel's cache, and so {ATTEMPTS} times"))
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
