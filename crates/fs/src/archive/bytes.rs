//! Bytes of an archive, the numbers that are written in them, and what may be wrong with them.

use rustix::io::Errno;

/// Headers, and what follows them, fill blocks of this size.
pub(super) const BLOCK: u64 = 512;

/// Reads a piece of the archive to the start of a buffer; less only at the end.
pub(super) type ReadAt<'a> = dyn FnMut(u64, &mut [u8]) -> Result<usize, Errno> + 'a;

/// What keeps an archive from being read.
#[derive(Debug)]
pub(super) enum TarError {
    /// The bytes cannot be had. Their reader has told why.
    Source(Errno),
    /// They are no archive, or a damaged one.
    Format { offset: u64, what: String },
}

impl From<Errno> for TarError {
    fn from(error: Errno) -> TarError {
        TarError::Source(error)
    }
}

impl TarError {
    pub(super) fn at(offset: u64, what: impl Into<String>) -> TarError {
        TarError::Format { offset, what: what.into() }
    }
}

pub(super) type Result<T, E = TarError> = std::result::Result<T, E>;

/// Bytes of a file, and where they are in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) source: u64,
}

pub(super) fn truncated(offset: u64) -> TarError {
    TarError::at(offset, "the archive ends too early: the file is truncated")
}

pub(super) fn exactly(source: &mut ReadAt<'_>, offset: u64, size: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; size as usize];
    let count = source(offset, &mut bytes)?;
    if count < bytes.len() { Err(truncated(offset + count as u64)) } else { Ok(bytes) }
}

/// A number in octal digits; or, as GNU writes those that are too large, in the last bytes of the field.
pub(super) fn number(field: &[u8]) -> Option<i64> {
    if let Some(&first) = field.first().filter(|&&first| first & 0x80 != 0) {
        let (sign, first) = if first & 0x40 != 0 { (-1, first) } else { (0, first & 0x7f) };
        let mut number = i128::from(sign) << 8 | i128::from(first);
        for &byte in &field[1..] {
            number = number << 8 | i128::from(byte);
        }
        return i64::try_from(number).ok();
    }
    let mut digits = field.iter().skip_while(|&&byte| byte == b' ').take_while(|&&byte| byte != 0 && byte != b' ');
    digits.try_fold(0_i64, |number, &digit| match digit {
        b'0'..=b'7' => number.checked_mul(8)?.checked_add(i64::from(digit - b'0')),
        _ => None,
    })
}

/// A number in decimal digits.
pub(super) fn parsed<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
