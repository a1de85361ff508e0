//! The format of the files: `key = value`, one on a line; `#` begins a comment.
//!
//! Our own forty lines and no crate: there are no quotes, sections or lists to get right. `ctl` has to change a line
//! and leave every other as it was written, comments too.

/// What follows a setting's name where the system's file limits it.
pub const LIMIT_SUFFIX: &str = ".limit";

/// One line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Line<'a> {
    /// Nothing, or a comment.
    Empty,
    /// `key = value`, without the space around them. Either may be anything that is not empty.
    Pair(&'a str, &'a str),
    /// Anything else.
    Unclear,
}

impl<'a> Line<'a> {
    /// What a line says.
    pub fn of(text: &'a str) -> Line<'a> {
        let said = text.split('#').next().unwrap_or("").trim();
        match said.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            _ if said.is_empty() => Line::Empty,
            Some((key, value)) if !key.is_empty() && !value.is_empty() => Line::Pair(key, value),
            _ => Line::Unclear,
        }
    }
}

/// The lines of a file with their numbers, from 1.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, Line<'_>)> {
    (1..).zip(text.lines().map(Line::of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_pair_or_nothing_or_unclear() {
        let text = "# for build machines\n\n capacity = 1M # enough\nwait=spin\nwait\n= 3\nwait =\r\na = b = c";
        let seen: Vec<_> = lines(text).map(|(_, line)| line).collect();
        assert_eq!(
            seen,
            [
                Line::Empty,
                Line::Empty,
                Line::Pair("capacity", "1M"),
                Line::Pair("wait", "spin"),
                Line::Unclear,
                Line::Unclear,
                Line::Unclear,
                Line::Pair("a", "b = c"),
            ]
        );
        assert_eq!(lines(text).last().map(|(number, _)| number), Some(8));
    }
}
