//! Names of inputs and outputs in the words of a command: `{NAME}` stands for a path, `{{NAME}}` for the text `{NAME}`.
//!
//! Braces around anything else are text, as in `awk '{ print $1 }'` and `xargs -I {}`.

/// A piece of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Piece<'a> {
    /// As it stands there.
    Text(&'a str),
    /// The path of this input or output.
    Name(&'a str),
}

/// Whether this can be the name of an input or output.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-'))
}

/// A word taken apart.
pub fn pieces(word: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut rest) = (Vec::new(), word);
    while let Some(open) = rest.find('{') {
        let (before, behind) = rest.split_at(open);
        let is_escaped = behind.starts_with("{{");
        let (inside, closing) = if is_escaped { (&behind[2..], "}}") } else { (&behind[1..], "}") };
        let name = inside.split_once(closing).map(|(name, _)| name).filter(|name| is_name(name));
        // One brace more or less is text, and what follows is looked at again.
        let (piece, used) = match name {
            Some(name) if is_escaped => (Piece::Text(&behind[1..name.len() + 3]), name.len() + 4),
            Some(name) => (Piece::Name(name), name.len() + 2),
            None => (Piece::Text("{"), 1),
        };
        pieces.extend((!before.is_empty()).then_some(Piece::Text(before)));
        pieces.push(piece);
        rest = &behind[used..];
    }
    pieces.extend((!rest.is_empty()).then_some(Piece::Text(rest)));
    pieces
}

/// The word with each name replaced by what `path` gives for it; one that it does not know stays as it is.
pub fn replaced(word: &str, path: impl Fn(&str) -> Option<String>) -> String {
    let piece = |piece: Piece<'_>| match piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Name(name) => path(name).unwrap_or_else(|| format!("{{{name}}}")),
    };
    pieces(word).into_iter().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_in_braces_is_replaced_and_other_braces_are_text() {
        let path = |name: &str| (name != "unknown").then(|| format!("/{name}"));
        for (word, expected) in [
            ("", ""),
            ("{a}", "/a"),
            ("--in={a-1},{_b}", "--in=/a-1,/_b"),
            ("{{a}}", "{a}"),
            ("x{{a}}{a}y", "x{a}/ay"),
            ("{unknown}", "{unknown}"),
            ("{}", "{}"),
            ("{ print $1 }", "{ print $1 }"),
            ("{print}{", "/print{"),
            ("{1}{a b}{\u{e4}}", "{1}{a b}{\u{e4}}"),
            ("{{{a}}}", "{{a}}"),
            ("{{a}", "{/a"),
            ("{a", "{a"),
        ] {
            assert_eq!(replaced(word, path), expected, "{word}");
        }
    }
}
