//! Numbers of bytes in options, and what each may be.

use millstream_command::bytes::parse;

use crate::method::bandwidth::TRANSFER_MAX;
use crate::method::{bw_file_rd, cache_to_cache, increment, lat_mem_rd, memcpy};

/// What one call moves.
pub(super) fn parse_transfer(text: &str) -> Result<usize, String> {
    match usize::try_from(parse(text)?) {
        Ok(bytes) if bytes <= TRANSFER_MAX => Ok(bytes),
        _ => Err("a transfer is at most 16M".into()),
    }
}

/// What is read of a file at once.
pub(super) fn parse_read(text: &str) -> Result<usize, String> {
    words_up_to(bw_file_rd::TRANSFER_MAX, text).ok_or_else(|| "a read is a multiple of 8 bytes, at most 16M".into())
}

/// What one CPU writes and another reads.
pub(super) fn parse_lines(text: &str) -> Result<usize, String> {
    words_up_to(cache_to_cache::SIZE_MAX, text).ok_or_else(|| "a size is a multiple of 8 bytes, at most 64M".into())
}

/// How far apart loads are.
pub(super) fn parse_stride(text: &str) -> Result<usize, String> {
    words_up_to(1 << 20, text).ok_or_else(|| "a stride is a multiple of 8 bytes, at most 1M".into())
}

/// How much memory loads go through.
pub(super) fn parse_chain_size(text: &str) -> Result<usize, String> {
    match usize::try_from(parse(text)?) {
        Ok(bytes) if (lat_mem_rd::SIZE_MIN..=lat_mem_rd::SIZE_MAX).contains(&bytes) => Ok(bytes),
        _ => Err("a size is 512 to 4G".into()),
    }
}

/// A file to work on.
pub(super) fn parse_file_size(text: &str) -> Result<usize, String> {
    match usize::try_from(parse(text)?) {
        Ok(bytes) if (64..=increment::SIZE_MAX).contains(&bytes) => Ok(bytes),
        _ => Err("a size is 64 to 4G".into()),
    }
}

/// The text of the corpus: from where on pipelines have something to do, to what a disk should be asked for.
pub(super) fn parse_text_size(text: &str) -> Result<u64, String> {
    match parse(text)? {
        bytes if (1 << 18..=1 << 32).contains(&bytes) => Ok(bytes),
        _ => Err("from 256K to 4G".into()),
    }
}

/// What is copied at once.
pub(super) fn parse_copy(text: &str) -> Result<usize, String> {
    match usize::try_from(parse(text)?) {
        Ok(bytes) if bytes <= memcpy::SIZE_MAX => Ok(bytes),
        _ => Err("a copy is at most 2G".into()),
    }
}

fn words_up_to(most: usize, text: &str) -> Option<usize> {
    let bytes = usize::try_from(parse(text).ok()?).ok()?;
    (bytes <= most && bytes.is_multiple_of(8)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_is_one_byte_to_16_mebibytes() {
        assert_eq!(parse_transfer("1"), Ok(1));
        assert_eq!(parse_transfer("16M"), Ok(16 << 20));
        for text in ["0", "16385k", "17M", "4G", "x"] {
            assert!(parse_transfer(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_of_memory_have_their_bounds() {
        assert_eq!((parse_read("8"), parse_lines("64M"), parse_stride("8k")), (Ok(8), Ok(64 << 20), Ok(8192)));
        assert_eq!((parse_chain_size("512"), parse_copy("1")), (Ok(512), Ok(1)));
        for text in ["0", "12", "17M", "x"] {
            assert!(parse_read(text).is_err() && parse_stride(text).is_err(), "{text}");
        }
        assert!(parse_lines("65M").is_err() && parse_chain_size("511").is_err() && parse_chain_size("5G").is_err());
        assert!(parse_copy("3G").is_err());
    }

    #[test]
    fn text_of_the_corpus_has_its_bounds() {
        assert_eq!((parse_text_size("256K"), parse_text_size("4G")), (Ok(1 << 18), Ok(1 << 32)));
        assert!(parse_text_size("255K").is_err() && parse_text_size("5G").is_err());
    }
}
