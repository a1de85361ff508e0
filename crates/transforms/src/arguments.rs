//! Reading the words behind the name of a transform.

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
    // Rust reads '+5' as 5; for head and tail it means something else elsewhere.
    let number = text.parse().ok().filter(|number| *number >= least && *number <= most && !text.starts_with('+'));
    number.ok_or_else(|| format!("{what} is a number from {least} to {most}, not '{text}'"))
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
