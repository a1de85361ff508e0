//! The transforms that a network can name.

use crate::transform::{Data, Stage};

/// One transform, by name. A program has a table of them.
#[derive(Debug)]
pub struct Entry {
    /// The word that stands for it.
    pub name: &'static str,
    /// The word with its arguments, as a person would look them up.
    pub usage: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// What it has to be given.
    pub takes: Data,
    /// What comes out.
    pub gives: Data,
    /// Makes one that works with these arguments, or says in a few words what is wrong with them. May be called several
    /// times for one network, and has no effect outside of what it returns.
    pub build: fn(&[String]) -> Result<Stage, String>,
}

/// All that a network can use.
pub type Catalogue<'a> = &'a [&'a Entry];

/// The transform of this name.
pub fn find<'a>(catalogue: Catalogue<'a>, name: &str) -> Option<&'a Entry> {
    catalogue.iter().find(|entry| entry.name == name).copied()
}

/// The name that was probably meant: no more than two letters differ.
pub(crate) fn nearest<'a>(catalogue: Catalogue<'a>, name: &str) -> Option<&'a str> {
    let distances = catalogue.iter().map(|entry| (distance(entry.name, name), entry.name));
    distances.filter(|&(distance, _)| distance <= 2).min().map(|(_, name)| name)
}

/// Letters to insert, remove or replace (Levenshtein 1966), row by row.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (above, letter) in from.chars().enumerate() {
        let (mut diagonal, mut left) = (row[0], above + 1);
        row[0] = left;
        for (column, &other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            left = replaced.min(left + 1).min(diagonal + 1);
            row[column + 1] = left;
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn letters_are_counted() {
        for (from, to, count) in
            [("", "", 0), ("gzip", "gzip", 0), ("gzip", "gunzip", 2), ("zstd", "ztsd", 2), ("a", "", 1)]
        {
            assert_eq!((distance(from, to), distance(to, from)), (count, count), "{from} {to}");
        }
    }
}
