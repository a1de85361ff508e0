//! Parses the words behind the name of a transform.

/// No words are allowed.
pub(crate) fn none(arguments: &[String]) -> Result<(), String> {
    match arguments.first() {
        None => Ok(()),
        Some(word) => Err(format!("'{word}' means nothing here")),
    }
}

/// A number within bounds.
pub(crate) fn number<T: std::str::FromStr + PartialOrd + std::fmt::Display>(
    what: &str,
    text: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    // Rust parses '+5' as 5; to `head` and `tail` of other systems it means something else.
    let number = text.parse().ok().filter(|number| *number >= least && *number <= most && !text.starts_with('+'));
    number.ok_or_else(|| format!("{what} is a number from {least} to {most}, not '{text}'"))
}

/// A number of bytes within bounds, with K, M or G for powers of 1024.
pub(crate) fn size(what: &str, text: &str, least: u64, most: u64) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['K', 'k', 'M', 'm', 'G', 'g']) {
        Some(digits) => (digits, text.as_bytes()[digits.len()].to_ascii_uppercase()),
        None => (text, b' '),
    };
    let shift = match unit {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        _ => 0,
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let bytes = is_number.then(|| digits.parse::<u64>().ok()?.checked_mul(1 << shift)).flatten();
    let bytes = bytes.filter(|bytes| (least..=most).contains(bytes));
    bytes.ok_or_else(|| format!("{what} is a number of bytes from {least} to {most}, such as 64K or 10M, not '{text}'"))
}

/// The one word of a transform that needs one.
pub(crate) fn one<'a>(what: &str, arguments: &'a [String]) -> Result<&'a str, String> {
    match arguments {
        [word] => Ok(word),
        [] => Err(format!("{what} is missing")),
        [_, second, ..] => Err(format!("'{second}' means nothing here")),
    }
}

/// A level such as `-9`, or `usual` if none is given.
pub(crate) fn level(arguments: &[String], least: i32, most: i32, usual: i32) -> Result<i32, String> {
    match arguments {
        [] => Ok(usual),
        [word] => match word.strip_prefix('-') {
            Some(digits) => number("a level", digits, least, most),
            None => Err(format!("a level is written as -{usual}, not '{word}'")),
        },
        [_, second, ..] => Err(format!("'{second}' means nothing here")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_may_have_a_unit() {
        for (text, bytes) in [("1", 1), ("64K", 64 << 10), ("3m", 3 << 20), ("2G", 2 << 30)] {
            assert_eq!(size("SIZE", text, 1, 1 << 40), Ok(bytes));
        }
        for text in ["", "K", "0", "+1", "-1", "1T", "1.5M", "99999999999G", "1 K", "\u{b2}"] {
            assert!(size("SIZE", text, 1, 1 << 40).unwrap_err().ends_with(&format!("not '{text}'")), "{text}");
        }
    }
}
