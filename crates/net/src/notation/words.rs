//! Words as in a shell: quotes, backslashes, and bars between stages. Nothing is expanded.

use std::str::Chars;

/// The words of each stage of a line.
///
/// # Errors
/// What is open at the end of the line, in a few words.
pub fn stages(line: &str) -> Result<Vec<Vec<String>>, String> {
    let (mut stages, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => read_single_quoted(&mut letters, word.get_or_insert_default())?,
            '"' => read_double_quoted(&mut letters, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().push(letters.next().ok_or("nothing follows the last \\")?),
            '|' => {
                words.extend(word.take());
                stages.push(std::mem::take(&mut words));
            }
            blank if blank.is_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word.take());
    stages.push(words);
    Ok(stages)
}

/// Adds what stands in front of the next `'`, as it is.
fn read_single_quoted(letters: &mut Chars<'_>, text: &mut String) -> Result<(), String> {
    loop {
        match letters.next().ok_or("a ' is not closed")? {
            '\'' => return Ok(()),
            other => text.push(other),
        }
    }
}

/// Adds what stands in front of the next `"`, in which a backslash stands before a `"` or a backslash that is meant.
fn read_double_quoted(letters: &mut Chars<'_>, text: &mut String) -> Result<(), String> {
    loop {
        match letters.next().ok_or("a \" is not closed")? {
            '"' => return Ok(()),
            '\\' => match letters.next().ok_or("a \" is not closed")? {
                escaped @ ('"' | '\\') => text.push(escaped),
                other => text.extend(['\\', other]),
            },
            other => text.push(other),
        }
    }
}

/// A word as it has to be written to be read as this one.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| !letter.is_whitespace() && !matches!(letter, '\'' | '"' | '\\' | '|');
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into()
    } else if !word.contains('\'') {
        format!("'{word}'")
    } else {
        format!("\"{}\"", word.replace('\\', r"\\").replace('"', r#"\""#))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let words = |line: &str| stages(line).unwrap();
        assert_eq!(words("a  b\t'c d' | e"), [vec!["a", "b", "c d"], vec!["e"]]);
        assert_eq!(words(r#"a"b c"'d'\|e"#), [["ab cd|e"]]);
        assert_eq!(words(r#""\"\\\n""#), [[r#""\\n"#]]);
        assert_eq!(words("a '' |"), [vec!["a", ""], vec![]]);
        assert_eq!(words(""), [[""; 0]]);
    }

    #[test]
    fn what_is_open_at_the_end_is_named() {
        assert_eq!(stages("a 'b"), Err("a ' is not closed".into()));
        assert_eq!(stages("a \"b\\\""), Err("a \" is not closed".into()));
        assert_eq!(stages("a \\"), Err("nothing follows the last \\".into()));
    }

    #[test]
    fn a_quoted_word_is_read_as_it_was() {
        for word in ["", "a", "a b", "it's", "a|b", "\\", "\"", "'\"\\| \n", "ü x"] {
            assert_eq!(stages(&quoted(word)).unwrap(), [[word]], "{word}");
        }
    }
}
