//! A file whose words have a known sum, and proof that the disk has no part in reading it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use millstream_sys::mapped_file::MappedFile;
use millstream_sys::{clock, own_pid};

use crate::pattern;

/// What the classic study reads again and again.
pub(super) const BYTES: usize = 8 << 20;

/// What is read at once where nothing is measured.
const STEP: usize = 64 << 10;

/// A file to read, in this process and in those that are forked from it.
pub struct CachedFile {
    /// A file that was made here has no name any more: nothing is left of it when the processes are gone, however they
    /// went.
    path: PathBuf,
    _file: File,
    len: usize,
    sum: u64,
}

impl CachedFile {
    /// Makes one of `len` bytes, at least 8, in the directory for temporary files. No other program can open it.
    ///
    /// # Errors
    /// Whatever making and writing it answers.
    pub fn make(len: usize) -> io::Result<CachedFile> {
        let name = format!("millstream-{}-{}", own_pid(), clock::raw_nanoseconds());
        let name = std::env::temp_dir().join(name);
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&name)?;
        fs::remove_file(&name)?;
        let mut sum = WordSum::default();
        let mut bytes = vec![0; STEP];
        for from in (0..len).step_by(STEP) {
            let bytes = &mut bytes[..STEP.min(len - from)];
            pattern::fill(from as u64, bytes);
            file.write_all(bytes)?;
            sum.add(bytes);
        }
        // While it is dirty, the kernel may write it out at any time, also while something is measured.
        file.sync_data()?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Ok(CachedFile { path, _file: file, len, sum: sum.0 })
    }

    /// Takes one that exists, and reads it once.
    ///
    /// # Errors
    /// Whatever opening and reading it answers; `InvalidInput` if it has no whole word.
    pub fn named(path: &Path) -> io::Result<CachedFile> {
        let mut file = File::open(path)?;
        let (mut len, mut sum, mut bytes) = (0, WordSum::default(), vec![0; STEP]);
        loop {
            let count = read_full(&mut file, &mut bytes)?;
            sum.add(&bytes[..count]);
            len += count;
            if count < STEP {
                break;
            }
        }
        match len {
            0..8 => Err(io::Error::new(io::ErrorKind::InvalidInput, "it holds less than 8 bytes")),
            _ => Ok(CachedFile { path: path.to_owned(), _file: file, len, sum: sum.0 }),
        }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none: never.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Under which this process and those forked from it can open it.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it for reading, from the start.
    pub(super) fn open(&self) -> Result<File, String> {
        File::open(&self.path).map_err(|error| format!("cannot open the file: {error}"))
    }

    /// Maps it.
    pub(super) fn map(&self, file: &File) -> Result<MappedFile, String> {
        MappedFile::of(file, self.len).map_err(|error| format!("cannot map the file: {error}"))
    }

    /// Compares the sum that was read with what it must be.
    pub(super) fn check(&self, sum: u64) -> Result<(), String> {
        match sum == self.sum {
            true => Ok(()),
            false => Err("the sum of the words is wrong: the file changed, or not all of it was read".into()),
        }
    }

    /// Reads it again where the kernel has reclaimed pages of it, and checks once more.
    pub(super) fn check_cached_again(&self) -> Result<(), String> {
        if self.check_cached().is_ok() {
            return Ok(());
        }
        let read = self.open().and_then(|mut file| {
            io::copy(&mut file, &mut io::sink()).map_err(|error| format!("cannot read the file: {error}"))
        });
        read.and_then(|_| self.check_cached())
    }

    /// Whether all of it is in the kernel's cache.
    pub(super) fn check_cached(&self) -> Result<(), String> {
        let mapped = self.map(&self.open()?)?;
        let (cached, all) =
            mapped.cached_pages().map_err(|error| format!("cannot ask what is cached of the file: {error}"))?;
        match cached == all {
            true => Ok(()),
            false => Err(format!("only {cached} of {all} pages of the file are in the kernel's cache")),
        }
    }
}

/// The sum of whole words, modulo 2^64.
#[derive(Default)]
pub(super) struct WordSum(pub(super) u64);

impl WordSum {
    /// Adds `bytes`; what is not a whole word at their end is not added, and nothing may follow it.
    #[inline]
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<8>();
        self.0 = words.iter().fold(self.0, |sum, &word| sum.wrapping_add(u64::from_ne_bytes(word)));
    }
}

/// Reads until `bytes` is full or the file ends, and returns how many.
#[inline]
pub(super) fn read_full(file: &mut File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Bytes that this process has had read from a disk; 0 where the kernel does not count.
pub(super) fn bytes_from_disk() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let count = io.lines().find_map(|line| line.strip_prefix("read_bytes:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_made_is_cached_whole_and_has_no_name() {
        let file = CachedFile::make(100_000).unwrap();
        file.check_cached().unwrap();
        let mut bytes = Vec::new();
        file.open().unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!((bytes.len(), pattern::first_difference(0, &bytes)), (100_000, None));
        assert!(fs::read_link(&file.path).unwrap().to_str().unwrap().ends_with("(deleted)"));
    }

    #[test]
    fn three_ways_to_the_same_sum() {
        let path = std::env::temp_dir().join(format!("millstream-sum-{}", std::process::id()));
        let mut bytes = vec![0; 200_003];
        pattern::fill(0, &mut bytes);
        fs::write(&path, &bytes).unwrap();
        let named = CachedFile::named(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let made = CachedFile::make(200_003).unwrap();
        let mapped = made.map(&made.open().unwrap()).unwrap().words().sum();
        assert_eq!((named.len(), named.sum), (made.len(), mapped));
        assert_eq!(made.sum, mapped);
        assert!(made.check(mapped).is_ok() && made.check(mapped + 1).is_err());
    }

    #[test]
    fn less_than_a_word_is_no_file() {
        assert_eq!(CachedFile::named(Path::new("/dev/null")).err().unwrap().kind(), io::ErrorKind::InvalidInput);
    }
}
