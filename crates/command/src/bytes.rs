//! Numbers of bytes as people write them.

/// A number of bytes as people write it.
///
/// # Errors
/// A sentence: what a size looks like.
pub fn parse(text: &str) -> Result<u64, String> {
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

/// A number of bytes for people: with one decimal where the unit does not divide it.
pub fn show(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        None => format!("{bytes} B"),
        Some((unit, name)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
    }
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
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in
            ["", "K", "0", "-1", "1.5M", "12x", "1 K", "K1", "99999999999999999999", "18446744073709551615G", "1é"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn size_is_shown_in_the_largest_unit() {
        for (bytes, text) in [(7, "7 B"), (1 << 10, "1 KiB"), (1536, "1.5 KiB"), (3 << 30, "3 GiB"), (1 << 40, "1 TiB")]
        {
            assert_eq!(show(bytes), text);
        }
    }
}
