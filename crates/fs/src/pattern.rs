//! Patterns of file names, and the names under which what they match appears.

use std::fmt::Write;

use regex::bytes::Regex;

/// Which files a rule is for: `*.gz`, `logs/*.txt`, `**/notes/*`.
///
/// `*` stands for any characters of one name, `?` for one, `[a-z]` and `[!a-z]` for one of a set, and `**/` for any
/// directories. A pattern without a slash is for the files of every directory.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// `None`: any directory.
    directory: Option<Regex>,
    name: Shape,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Pattern, String> {
        let (directory, name) = match text.rsplit_once('/') {
            Some((directory, name)) => (Some(directory), name),
            None => (None, text),
        };
        if name.is_empty() {
            return Err(format!("the pattern '{text}' has no name of a file (use 'logs/*.gz', say)"));
        }
        let directory = directory.map(|directory| compiled(&in_regex(directory.trim_start_matches('/'), true)));
        Ok(Pattern { directory: directory.transpose()?, name: Shape::new(name)? })
    }

    /// Whether it looks at more than names.
    pub(crate) fn has_directory(&self) -> bool {
        self.directory.is_some()
    }

    /// Whether it is for the files of a directory, which is given relative to the root of the mount.
    pub(crate) fn is_for(&self, directory: &[u8]) -> bool {
        self.directory.as_ref().is_none_or(|pattern| pattern.is_match(directory))
    }

    /// The shape of the name.
    pub(crate) fn name(&self) -> &Shape {
        &self.name
    }
}

/// A pattern of one name.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    text: String,
    regex: Regex,
}

impl Shape {
    pub(crate) fn new(text: &str) -> Result<Shape, String> {
        if text.contains('/') {
            return Err(format!("the name '{text}' has a slash in it"));
        }
        Ok(Shape { text: text.into(), regex: compiled(&in_regex(text, false))? })
    }

    /// The same with an end behind it.
    pub(crate) fn with_end(&self, end: &str) -> Result<Shape, String> {
        Shape::new(&format!("{}{end}", self.text))
    }

    /// Whether only stars and characters that stand for themselves are in it, so that [`Shape::filled`] makes a name.
    pub(crate) fn can_be_filled(&self) -> bool {
        !self.text.contains(['?', '['])
    }

    pub(crate) fn stars(&self) -> usize {
        self.text.matches('*').count()
    }

    /// What the stars stand for in a name, if it has this shape.
    pub(crate) fn matched<'a>(&self, name: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        let captures = self.regex.captures(name)?;
        Some(captures.iter().skip(1).map(|part| part.map_or(&name[..0], |part| part.as_bytes())).collect())
    }

    /// The name in which the stars stand for these parts.
    pub(crate) fn filled(&self, parts: &[&[u8]]) -> Vec<u8> {
        let mut parts = parts.iter();
        let mut name = Vec::new();
        for byte in self.text.bytes() {
            match byte {
                b'*' => name.extend_from_slice(parts.next().copied().unwrap_or_default()),
                other => name.push(other),
            }
        }
        name
    }
}

fn compiled(regex: &str) -> Result<Regex, String> {
    Regex::new(regex).map_err(|_| "the pattern has a '[' without its ']'".into())
}

/// The pattern as a regular expression over bytes, with a group for each star.
fn in_regex(pattern: &str, is_directory: bool) -> String {
    let mut regex = String::from("(?s-u)^");
    let mut rest = pattern;
    while let Some(next) = rest.chars().next() {
        if is_directory && rest.starts_with("**") {
            regex.push_str("(?:.*)");
            rest = &rest[2..];
            continue;
        }
        if next == '['
            && let Some(end) = rest[1..].find(']').filter(|&end| end > 0)
        {
            let set = &rest[1..=end];
            let (not, set) = set.strip_prefix('!').map_or(("", set), |set| ("^", set));
            let _ = write!(regex, "[{not}{}]", set.replace('\\', "\\\\").replace('[', "\\[").replace('^', "\\^"));
            rest = &rest[end + 2..];
            continue;
        }
        match next {
            '*' => regex.push_str("([^/]*)"),
            '?' => regex.push_str("[^/]"),
            '[' => regex.push('['),
            other => {
                for byte in other.encode_utf8(&mut [0; 4]).bytes() {
                    let _ = write!(regex, "\\x{byte:02x}");
                }
            }
        }
        rest = &rest[next.len_utf8()..];
    }
    // A directory pattern such as '**' also stands for the root, and 'a/**' for 'a'.
    regex.replace("\\x2f(?:.*)", "(?:\\x2f.*)?").replace("(?:.*)\\x2f", "(?:.*\\x2f)?") + "$"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(pattern: &str, name: &str) -> Option<Vec<String>> {
        let pattern = Pattern::new(pattern).unwrap();
        let parts = pattern.name().matched(name.as_bytes())?;
        Some(parts.into_iter().map(|part| String::from_utf8(part.into()).unwrap()).collect())
    }

    #[test]
    fn stars_give_what_they_stand_for() {
        assert_eq!(parts("*.gz", "a.b.gz"), Some(vec!["a.b".into()]));
        assert_eq!(parts("*.gz", "a.gz.x"), None);
        assert_eq!(parts("*-*.c", "x-y-z.c"), Some(vec!["x-y".into(), "z".into()]));
        assert_eq!(parts("[!a-c]?.*", "dz.q"), Some(vec!["q".into()]));
        assert_eq!(parts("[!a-c]?.*", "az.q"), None);
        assert_eq!(parts("a.c", "abc"), None);
        assert_eq!(parts("ä*", "äö"), Some(vec!["ö".into()]));
    }

    #[test]
    fn names_are_filled_from_parts() {
        let (from, to) = (Shape::new("*.txt.gz").unwrap(), Shape::new("plain-*.txt").unwrap());
        let parts = from.matched(b"a.txt.gz").unwrap();
        assert_eq!(to.filled(&parts), b"plain-a.txt");
        assert_eq!(from.filled(&to.matched(b"plain-a.txt").unwrap()), b"a.txt.gz");
    }

    #[test]
    fn directories_are_compared_whole() {
        let is_for = |pattern: &str, directory: &str| Pattern::new(pattern).unwrap().is_for(directory.as_bytes());
        assert!(is_for("*.gz", "any/where"));
        assert!(is_for("logs/*.gz", "logs") && !is_for("logs/*.gz", "logs/old") && !is_for("logs/*.gz", ""));
        assert!(
            is_for("**/notes/*", "notes") && is_for("**/notes/*", "a/b/notes") && !is_for("**/notes/*", "a/xnotes")
        );
        assert!(is_for("a/**/*", "a") && is_for("a/**/*", "a/b/c") && !is_for("a/**/*", "ab"));
        assert!(is_for("/*", "") && !is_for("/*", "a"));
    }

    #[test]
    fn wrong_patterns_are_refused() {
        assert!(Pattern::new("logs/").unwrap_err().contains("no name of a file"));
        assert!(Pattern::new("[ab").unwrap_err().contains("']'"));
    }
}
