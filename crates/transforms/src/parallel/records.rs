//! Where a stream of records may be cut.

use millstream_net::TransformError;

use crate::arguments;

/// The kind of records in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Records {
    /// Each ends with this byte; the last of the stream may lack it.
    Ended(u8),
    /// Four lines each: `@` and a name, bases, `+`, and as many qualities.
    Fastq,
    /// Each has this many bytes.
    Sized(usize),
}

impl Records {
    /// Parses the value of `records=`.
    pub(super) fn parse(text: &str) -> Result<Records, String> {
        Ok(match text {
            "lines" => Records::Ended(b'\n'),
            "nul" => Records::Ended(0),
            "fastq" => Records::Fastq,
            _ if text.starts_with(|first: char| first.is_ascii_digit()) => {
                let bytes = arguments::size("the size of a record", text, 1, 1 << 30)?;
                Records::Sized(usize::try_from(bytes).map_err(|error| error.to_string())?)
            }
            _ => return Err(format!("records= is lines, nul, fastq or a number of bytes, not '{text}'")),
        })
    }

    /// How many of `bytes`, which begin with a record, are whole records; 0 if the first one is not complete. `ends`:
    /// no bytes follow.
    ///
    /// # Errors
    /// The bytes are not records of this kind.
    pub(super) fn whole(self, bytes: &[u8], ends: bool) -> Result<usize, TransformError> {
        match self {
            Records::Ended(_) if ends => Ok(bytes.len()),
            Records::Ended(byte) => Ok(memchr::memrchr(byte, bytes).map_or(0, |last| last + 1)),
            Records::Fastq => whole_fastq(bytes, ends),
            Records::Sized(size) => {
                let whole = bytes.len() / size * size;
                if ends && whole < bytes.len() {
                    let left = bytes.len() - whole;
                    return Err(TransformError::new(format!("the stream ends {left} bytes into a record of {size}"))
                        .after(whole));
                }
                Ok(whole)
            }
        }
    }
}

/// Lines of a record.
const FASTQ_LINES: usize = 4;

fn whole_fastq(bytes: &[u8], ends: bool) -> Result<usize, TransformError> {
    let (mut whole, mut line, mut start) = (0, 0, 0);
    while start < bytes.len() {
        let end = match memchr::memchr(b'\n', &bytes[start..]) {
            Some(end) => start + end + 1,
            None if ends => bytes.len(),
            None => break,
        };
        let (expected, is_wrong) = match line {
            0 => ("a name, which begins with '@'", bytes[start] != b'@'),
            2 => ("a line that begins with '+'", bytes[start] != b'+'),
            _ => ("", false),
        };
        if is_wrong {
            return Err(
                TransformError::new(format!("no FASTQ record of four lines: here should be {expected}")).after(start)
            );
        }
        (line, start) = ((line + 1) % FASTQ_LINES, end);
        if line == 0 {
            whole = end;
        }
    }
    if ends && whole < bytes.len() {
        return Err(TransformError::new("the stream ends within a FASTQ record").after(whole));
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_records_are_read() {
        for (text, records) in [
            ("lines", Records::Ended(b'\n')),
            ("nul", Records::Ended(0)),
            ("fastq", Records::Fastq),
            ("100", Records::Sized(100)),
            ("4K", Records::Sized(4096)),
        ] {
            assert_eq!(Records::parse(text), Ok(records));
        }
        for text in ["", "line", "0", "-1", "4X", "fasta"] {
            assert!(Records::parse(text).unwrap_err().ends_with(&format!("not '{text}'")), "{text}");
        }
    }

    #[test]
    fn stream_is_cut_behind_the_last_whole_record() {
        let read = "@a\nAC\n+\n@!\n";
        let two = [read, read].concat();
        for (records, bytes, whole, at_end) in [
            (Records::Ended(b'\n'), "a\nb\nc", 4, 5),
            (Records::Ended(b'\n'), "abc", 0, 3),
            (Records::Ended(0), "a\nb\0c", 4, 5),
            (Records::Sized(2), "abcd", 4, 4),
            (Records::Fastq, two.as_str(), 22, 22),
            // Qualities may begin as a name does, and the last end may be missing.
            (Records::Fastq, &two[..21], 11, 21),
            (Records::Fastq, "", 0, 0),
        ] {
            assert_eq!(records.whole(bytes.as_bytes(), false), Ok(whole), "{bytes:?}");
            assert_eq!(records.whole(bytes.as_bytes(), true), Ok(at_end), "{bytes:?}");
        }
        assert_eq!(Records::Sized(3).whole(b"abcd", false), Ok(3));
        assert_eq!(Records::Fastq.whole(b"@a\nAC\n+\n", false), Ok(0));
    }

    #[test]
    fn bytes_that_are_no_such_records_are_refused_where_they_begin() {
        let wrong = |records: Records, bytes: &str, ends| records.whole(bytes.as_bytes(), ends).unwrap_err();
        let fault = |what: &str, at| TransformError::new(what).after(at);
        let name = "no FASTQ record of four lines: here should be a name, which begins with '@'";
        let plus = "no FASTQ record of four lines: here should be a line that begins with '+'";
        assert_eq!(wrong(Records::Fastq, ">a\nAC\n", false), fault(name, 0));
        assert_eq!(wrong(Records::Fastq, "@a\nAC\nGT\n+\n", false), fault(plus, 6));
        assert_eq!(wrong(Records::Fastq, "@a\nAC\n+\n!!\n\n", false), fault(name, 11));
        assert_eq!(
            wrong(Records::Fastq, "@a\nAC\n+\n!!\n@b\nA", true),
            fault("the stream ends within a FASTQ record", 11)
        );
        assert_eq!(wrong(Records::Sized(3), "abcd", true), fault("the stream ends 1 bytes into a record of 3", 3));
    }
}
