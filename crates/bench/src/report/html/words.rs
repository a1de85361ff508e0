//! How numbers, sizes and parameters are written.

use serde_json::Value;

use crate::cell::{Cell, MEGABYTES_PER_SECOND, Name};

/// Three digits that count, or as many as stand before the point, in groups of three.
pub(super) fn number(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        _ if !value.is_finite() => "-".into(),
        0.0 => "0".into(),
        1e15.. => format!("{value:.2e}"),
        99.95.. => grouped(value),
        9.995.. => format!("{value:.1}"),
        0.9995.. => format!("{value:.2}"),
        1e-6.. => format!("{value:.*}", (2 - magnitude.log10().floor() as i32).clamp(0, 8) as usize),
        _ => format!("{value:.2e}"),
    }
}

/// A round number beside a scale, without zeros that say nothing.
pub(super) fn tick(value: f64) -> String {
    let text = number(value);
    match text.contains('.') && !text.contains('e') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A whole number in groups of three, which a line break does not part.
pub(super) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("\u{2212}{text}") } else { text }
}

/// A ratio, with two digits behind the point while they tell something.
pub(super) fn times(ratio: f64) -> String {
    match ratio {
        _ if !ratio.is_finite() => "-".into(),
        100.0.. => format!("{}\u{d7}", grouped(ratio)),
        10.0.. => format!("{ratio:.1}\u{d7}"),
        _ => format!("{ratio:.2}\u{d7}"),
    }
}

/// A share in percent.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// A number of bytes as it is given to options: `512`, `64k`, `1m`.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0 => "0".into(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{}g", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// A number of bytes for the machine's card: `32 KiB`, `23.6 GiB`.
pub(super) fn memory(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let step = if bytes == 0 { 0 } else { (bytes.ilog2() / 10) as usize };
    let value = bytes as f64 / (1_u64 << (10 * step)) as f64;
    let digits = usize::from(value.fract() != 0.0);
    format!("{value:.digits$} {}", units[step])
}

/// `1 cell`, `2 cells`.
pub(super) fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number as f64))
}

/// The value of a parameter.
pub(super) fn value(name: &str, value: &Value) -> String {
    match value {
        Value::Number(number) => match number.as_u64() {
            Some(bytes) if is_in_bytes(name) => size(bytes),
            Some(number) => grouped(number as f64),
            None => number.to_string(),
        },
        Value::String(word) => word.clone(),
        other => other.to_string(),
    }
}

/// Whether a parameter of that name counts bytes.
pub(super) fn is_in_bytes(name: &str) -> bool {
    matches!(name, "transfer" | "size" | "stride" | "pages" | "read" | "write")
}

/// `transfer 64k, asleep`, of the parameters that are named.
pub(super) fn params(cell: &Cell, names: &[&str]) -> String {
    let parts = cell.params.iter().filter(|(name, _)| names.contains(&&***name));
    let spelled = |(name, value): (&Name, &Value)| match (&**name, value) {
        // Words that say by themselves what they are about.
        ("workload" | "waiting", Value::String(word)) => word.clone(),
        (name, value) => format!("{name} {}", self::value(name, value)),
    };
    parts.map(spelled).collect::<Vec<_>>().join(", ")
}

/// Where both ends ran.
pub(super) fn placement(name: &str) -> &str {
    match name {
        "1cpu" => "one CPU",
        "2cpu" => "two CPUs",
        "free" => "not pinned",
        other => other,
    }
}

/// The unit that a group of figures is shown in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unit {
    /// As it is printed.
    pub(super) name: String,
    /// What a figure of the cell is multiplied by.
    pub(super) factor: f64,
}

impl Unit {
    /// The one in which the largest of the figures of `cells` is easy to read. All cells have the unit of the first.
    pub(super) fn of(cells: &[&Cell]) -> Unit {
        let name = cells.first().map_or("", |cell| &*cell.unit);
        let largest = cells.iter().filter_map(|cell| cell.median).fold(0.0, f64::max);
        let (name, factor) = match name {
            MEGABYTES_PER_SECOND if largest >= 1000.0 => ("GB/s", 1e-3),
            "ns" if largest >= 1e5 => ("us", 1e-3),
            "us" if largest >= 1e5 => ("ms", 1e-3),
            "ms" if largest >= 1e5 => ("s", 1e-3),
            other => (other, 1.0),
        };
        // A proper sign where people read: the JSON keeps to ASCII.
        Unit { name: if name == "us" { "\u{b5}s".into() } else { name.to_owned() }, factor }
    }

    /// A figure with its unit.
    pub(super) fn figure(&self, value: f64) -> String {
        format!("{}\u{a0}{}", number(value * self.factor), self.name)
    }
}

/// How long something took.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        60.0.. => format!("{} min {:.0} s", grouped((seconds / 60.0).floor()), (seconds % 60.0).floor()),
        _ => format!("{} s", number(seconds)),
    }
}

/// Arguments as a shell takes them.
pub(super) fn command_line(arguments: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=+:@%".contains(c);
    let quoted = arguments.iter().map(|argument| match argument {
        plain if !plain.is_empty() && plain.chars().all(is_plain) => plain.clone(),
        other => format!("'{}'", other.replace('\'', "'\\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        for (value, text) in [
            (0.0, "0"),
            (0.012_345, "0.0123"),
            (0.9996, "1.00"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (99.96, "100"),
            (12_345.6, "12\u{202f}346"),
            (-5.0, "-5.00"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn sizes_are_written_as_people_write_them() {
        assert_eq!([512, 65_536, 1 << 20, 1 << 30, 0].map(size), ["512", "64k", "1m", "1g", "0"]);
        assert_eq!((memory(32 << 10), memory(25_288_854_528)), ("32 KiB".into(), "23.6 GiB".into()));
        assert_eq!(memory(u64::MAX), "16 EiB");
    }

    #[test]
    fn a_command_line_can_be_pasted() {
        let arguments = ["millstream", "--pattern", "it's", ""].map(str::to_owned);
        assert_eq!(command_line(&arguments), "millstream --pattern 'it'\\''s' ''");
    }
}
