//! Values of settings, as text and as numbers.

use std::fmt;

/// Which values a setting can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Bytes, rounded up to a power of two.
    PowerOfTwo {
        /// The smallest, a power of two.
        least: u64,
        /// The largest, a power of two.
        most: u64,
    },
    /// Bytes.
    Bytes {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// A number of things.
    Count {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// One of these words; its value is its place.
    Choice(&'static [&'static str]),
}

/// A text that is no value of a setting: what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueError {
    allowed: Kind,
    kind: ValueErrorKind,
}

/// What is wrong with such a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueErrorKind {
    /// It is neither a number with a known unit nor one of the words.
    Unreadable,
    /// It is too small or too large.
    OutOfRange,
}

impl ValueError {
    /// What is wrong.
    pub fn kind(&self) -> ValueErrorKind {
        self.kind
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = self.allowed;
        match allowed {
            Kind::PowerOfTwo { .. } | Kind::Bytes { .. } => {
                write!(f, "allowed is {allowed}, a number of bytes or one with K, M or G")
            }
            Kind::Count { .. } | Kind::Choice(_) => write!(f, "allowed is {allowed}"),
        }
    }
}

impl std::error::Error for ValueError {}

impl Kind {
    /// The value that `text` means.
    ///
    /// # Errors
    /// [`ValueError`]: it means none, or one that is too small or too large.
    pub fn parse(self, text: &str) -> Result<u64, ValueError> {
        // No overflow: at most `most`, a power of two.
        self.parse_exactly(text).map(|value| match self {
            Kind::PowerOfTwo { .. } => value.next_power_of_two(),
            _ => value,
        })
    }

    /// The same for a text that is the most that is allowed: rounded down.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_limit(self, text: &str) -> Result<u64, ValueError> {
        self.parse_exactly(text).map(|value| match self {
            Kind::PowerOfTwo { .. } => value.checked_ilog2().map_or(0, |log2| 1 << log2),
            _ => value,
        })
    }

    fn parse_exactly(self, text: &str) -> Result<u64, ValueError> {
        let value = match self {
            Kind::PowerOfTwo { .. } | Kind::Bytes { .. } => bytes(text),
            Kind::Count { .. } => text.parse().ok(),
            Kind::Choice(words) => words.iter().position(|word| *word == text).map(|place| place as u64),
        };
        let error = |kind| ValueError { allowed: self, kind };
        let value = value.ok_or(error(ValueErrorKind::Unreadable))?;
        let is_within = self.range().is_none_or(|(least, most)| (least..=most).contains(&value));
        if is_within { Ok(value) } else { Err(error(ValueErrorKind::OutOfRange)) }
    }

    /// A value as [`parse`](Self::parse) reads it.
    pub fn show(self, value: u64) -> String {
        let in_units = |log2: u32| value.is_multiple_of(1 << log2).then_some(value >> log2);
        match self {
            Kind::Choice(words) => words.get(value as usize).copied().unwrap_or("?").to_owned(),
            Kind::Count { .. } => value.to_string(),
            Kind::PowerOfTwo { .. } | Kind::Bytes { .. } if value == 0 => "0".to_owned(),
            Kind::PowerOfTwo { .. } | Kind::Bytes { .. } => match (in_units(30), in_units(20), in_units(10)) {
                (Some(number), _, _) => format!("{number}G"),
                (_, Some(number), _) => format!("{number}M"),
                (_, _, Some(number)) => format!("{number}K"),
                _ => value.to_string(),
            },
        }
    }

    /// The smallest and the largest value, where values have an order.
    pub fn range(self) -> Option<(u64, u64)> {
        match self {
            Kind::PowerOfTwo { least, most } | Kind::Bytes { least, most } | Kind::Count { least, most } => {
                Some((least, most))
            }
            Kind::Choice(_) => None,
        }
    }

    /// What values are counted in.
    pub fn unit(self) -> &'static str {
        match self {
            Kind::PowerOfTwo { .. } | Kind::Bytes { .. } => "bytes",
            Kind::Count { .. } => "count",
            Kind::Choice(_) => "word",
        }
    }
}

/// The values that are allowed, for people.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Choice(words) => f.write_str(&words.join(", ")),
            _ => {
                let (least, most) = self.range().unwrap_or((0, u64::MAX));
                write!(f, "{} to {}", self.show(least), self.show(most))
            }
        }
    }
}

fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let log2 = match text[digits.len()..].trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << log2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Kind = Kind::PowerOfTwo { least: 4096, most: 1 << 30 };

    #[test]
    fn sizes_have_units_and_are_rounded_up() {
        for (text, value) in
            [("4096", 4096), ("4K", 4096), ("5000", 8192), ("1 MiB", 1 << 20), ("1g", 1 << 30), ("65536b", 1 << 16)]
        {
            assert_eq!(SIZE.parse(text), Ok(value), "{text}");
        }
        for text in ["", "K", "-1", "1.5M", "12Q", "99999999999999999999", "18446744073709551615G"] {
            assert_eq!(SIZE.parse(text).unwrap_err().kind(), ValueErrorKind::Unreadable, "{text}");
        }
        for text in ["4095", "1025M"] {
            assert_eq!(SIZE.parse(text).unwrap_err().kind(), ValueErrorKind::OutOfRange, "{text}");
        }
        assert_eq!(Kind::Bytes { least: 0, most: 10_000 }.parse("5000"), Ok(5000));
        assert_eq!((SIZE.parse_limit("5000"), SIZE.parse_limit("8K")), (Ok(4096), Ok(8192)), "a limit is not exceeded");
    }

    #[test]
    fn error_names_what_is_allowed() {
        assert_eq!(
            SIZE.parse("x").unwrap_err().to_string(),
            "allowed is 4K to 1G, a number of bytes or one with K, M or G"
        );
        let choice = Kind::Choice(&["one", "two"]);
        assert_eq!((choice.parse("two"), choice.show(1)), (Ok(1), "two".to_owned()));
        assert_eq!(choice.parse("three").unwrap_err().to_string(), "allowed is one, two");
        assert_eq!(Kind::Count { least: 0, most: 7 }.parse("8").unwrap_err().to_string(), "allowed is 0 to 7");
    }

    #[test]
    fn what_is_shown_is_read_again() {
        for value in [4096, 1 << 19, 3 << 20, 1 << 30, 5000] {
            let kind = Kind::Bytes { least: 0, most: 1 << 40 };
            assert_eq!(kind.parse(&kind.show(value)), Ok(value));
        }
    }
}
