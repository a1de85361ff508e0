//! Lines that match a regular expression.

use millstream_net::{Data, Entry, Size, Stage};
use regex::bytes::{Regex, RegexBuilder};

use crate::lines::{Choice, Lines, MEMORY};

/// `grep`
pub(crate) static GREP: Entry = Entry {
    name: "grep",
    usage: "grep [-v] [-i] [-F] PATTERN",
    summary: "the lines in which a regular expression is found, or (-v) is not; -i: in either case, -F: the pattern as it is",
    takes: Data::Text,
    gives: Data::Text,
    build: |arguments| {
        let Some((pattern, options)) = arguments.split_last() else { return Err("PATTERN is missing".into()) };
        let (mut is_inverted, mut ignores_case, mut is_plain) = (false, false, false);
        for option in options {
            match option.as_str() {
                "-v" => is_inverted = true,
                "-i" => ignores_case = true,
                "-F" => is_plain = true,
                other => return Err(format!("'{other}' is no option of grep")),
            }
        }
        let pattern = if is_plain { regex::escape(pattern) } else { pattern.clone() };
        if ["\\A", "\\z", "(?-m", "(?i-m"].iter().any(|anchor| pattern.contains(anchor)) {
            return Err("the ends of lines are ^ and $; there is no end of a whole text here".into());
        }
        let regex = RegexBuilder::new(&pattern).case_insensitive(ignores_case).multi_line(true).build();
        let regex = regex.map_err(|error| {
            // The message of the library shows the place on several lines; the last line has the error.
            let drawn = error.to_string();
            let what = drawn.lines().last().unwrap_or_default();
            format!("'{pattern}' is no regular expression: {}", what.strip_prefix("error: ").unwrap_or(what))
        })?;
        let stage = match is_inverted {
            false => Stage::rewrite(Size::Unknown, Lines::new(Matching { regex })),
            true => Stage::rewrite(Size::Unknown, Lines::new(Others { regex })),
        };
        Ok(stage.keeping(MEMORY))
    },
};

/// The line with the match at a position.
fn line_around(lines: &[u8], start: usize) -> std::ops::Range<usize> {
    let first = memchr::memrchr(b'\n', &lines[..start]).map_or(0, |end| end + 1);
    let last = memchr::memchr(b'\n', &lines[start..]).map_or(lines.len(), |end| start + end + 1);
    first..last
}

/// The next line that matches. It searches many lines at once. A match across the end of a line does not count: then it
/// searches each of the lines of that match by itself, so that no byte is searched more than twice.
fn next_match(regex: &Regex, lines: &[u8], mut from: usize) -> Option<std::ops::Range<usize>> {
    while from < lines.len() {
        let found = regex.find_at(lines, from)?;
        if found.start() == lines.len() && lines.ends_with(b"\n") {
            // Behind the end of the last line there is no line.
            return None;
        }
        let first = line_around(lines, found.start());
        if found.end() <= first.start + text_of(&lines[first.clone()]).len() {
            return Some(first);
        }
        from = first.start;
        while from < found.end() {
            let line = line_around(lines, from);
            if regex.is_match(text_of(&lines[line.clone()])) {
                return Some(line);
            }
            from = line.end;
        }
    }
    None
}

/// A line without its end.
fn text_of(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

struct Matching {
    regex: Regex,
}

impl Choice for Matching {
    fn next(&mut self, lines: &[u8], from: usize) -> Option<std::ops::Range<usize>> {
        next_match(&self.regex, lines, from)
    }
}

struct Others {
    regex: Regex,
}

impl Choice for Others {
    fn next(&mut self, lines: &[u8], mut from: usize) -> Option<std::ops::Range<usize>> {
        while from < lines.len() {
            let end = next_match(&self.regex, lines, from);
            let others = from..end.as_ref().map_or(lines.len(), |line| line.start);
            if !others.is_empty() {
                return Some(others);
            }
            from = end.map_or(lines.len(), |line| line.end);
        }
        None
    }
}
