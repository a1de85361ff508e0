//! Numbers of bytes as people write them.

use millstream_bench::method::bandwidth::TRANSFER_MAX;
use millstream_bench::method::{bw_file_rd, cache_to_cache, increment, lat_mem_rd, memcpy};

/// The size of a pipe.
pub(crate) fn parse_pipe_size(text: &str) -> Result<u64, String> {
    match parse(text)? {
        bytes if bytes <= 1 << 31 => Ok(bytes),
        _ => Err("the kernel's limit for a pipe is 2G".into()),
    }
}

/// What each pipe of a run takes up.
pub(crate) fn parse_buffer(text: &str) -> Result<u64, String> {
    match parse(text)? {
        bytes if bytes >= 64 << 10 => Ok(bytes),
        _ => Err("a pipe holds 64K anyway: ask for that or more".into()),
    }
}

/// What one call of the benchmark moves.
pub(crate) fn parse_transfer(text: &str) -> Result<usize, String> {
    match usize::try_from(parse(text)?) {
        Ok(bytes) if bytes <= TRANSFER_MAX => Ok(bytes),
        _ => Err("a transfer is at most 16M".into()),
    }
}

/// What is read of a file at once.
pub(crate) fn parse_read(text: &str) -> Result<usize, String> {
    words_up_to(bw_file_rd::TRANSFER_MAX, text).ok_or_else(|| "a read is a multiple of 8 bytes, at most 16M".into())
}

/// What one CPU writes and another reads.
pub(crate) fn parse_lines(text: &str) -> Result<usize, String> {
    words_up_to(cache_to_cache::SIZE_MAX, text).ok_or_else(|| "a size is a multiple of 8 bytes, at most 64M".into())
}

/// How far apart loads are.
pub(crate) fn parse_stride(text: &str) -> Result<usize, String> {
    words_up_to(1 << 20, text).ok_or_else(|| "a stride is a multiple of 8 bytes, at most 1M".into())
}

/// How much memory loads go through.
pub(crate) fn parse_chain_size(text: &str) -> Result<usize, String> {
    match usize::try_from(parse(text)?) {
        Ok(bytes) if (lat_mem_rd::SIZE_MIN..=lat_mem_rd::SIZE_MAX).contains(&bytes) => Ok(bytes),
        _ => Err("a size is 512 to 4G".into()),
    }
}

/// A file to work on.
pub(crate) fn parse_file_size(text: &str) -> Result<usize, String> {
    match usize::try_from(parse(text)?) {
        Ok(bytes) if (64..=increment::SIZE_MAX).contains(&bytes) => Ok(bytes),
        _ => Err("a size is 64 to 4G".into()),
    }
}

/// What is copied at once.
pub(crate) fn parse_copy(text: &str) -> Result<usize, String> {
    match usize::try_from(parse(text)?) {
        Ok(bytes) if bytes <= memcpy::SIZE_MAX => Ok(bytes),
        _ => Err("a copy is at most 2G".into()),
    }
}

/// A number of bytes for people: with one decimal where the unit does not divide it.
pub(crate) fn show(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        None => format!("{bytes} B"),
        Some((unit, name)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
    }
}

fn words_up_to(most: usize, text: &str) -> Option<usize> {
    let bytes = usize::try_from(parse(text).ok()?).ok()?;
    (bytes <= most && bytes.is_multiple_of(8)).then_some(bytes)
}

/// A number of bytes as people write it.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => 0,
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).filter(|&bytes| bytes > 0);
    bytes.ok_or_else(|| "a size is a number of bytes, or a number with K, M or G, such as 256K".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64K", 65_536),
            ("64k", 65_536),
            ("1M", 1 << 20),
            ("1MiB", 1 << 20),
            ("2G", 1 << 31),
            ("7b", 7),
        ] {
            assert_eq!(parse_pipe_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_transfer_is_one_byte_to_16_mebibytes() {
        assert_eq!(parse_transfer("1"), Ok(1));
        assert_eq!(parse_transfer("16M"), Ok(16 << 20));
        for text in ["0", "16385k", "17M", "4G", "x"] {
            assert!(parse_transfer(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_memory_is_measured_in_has_its_bounds() {
        assert_eq!((parse_read("8"), parse_lines("64M"), parse_stride("8k")), (Ok(8), Ok(64 << 20), Ok(8192)));
        assert_eq!((parse_chain_size("512"), parse_copy("1")), (Ok(512), Ok(1)));
        for text in ["0", "12", "17M", "x"] {
            assert!(parse_read(text).is_err() && parse_stride(text).is_err(), "{text}");
        }
        assert!(parse_lines("65M").is_err() && parse_chain_size("511").is_err() && parse_chain_size("5G").is_err());
        assert!(parse_copy("3G").is_err());
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "K",
            "0",
            "-1",
            "1.5M",
            "12x",
            "1 K",
            "K1",
            "3G",
            "99999999999999999999",
            "18446744073709551615G",
            "1é",
        ] {
            assert!(parse_pipe_size(text).is_err(), "{text}");
        }
    }
}
