//! The transforms that a network can name.

use std::fmt;

use crate::transform::{Data, Stage};

/// A transform by its name: what a word in a network stands for. Each use of the word builds a [`Stage`] of it.
///
/// A program has transforms of its own by implementing this trait and adding them to a [`Registry`](crate::Registry). A
/// line and a TOML file then find them, and so do [`check`](crate::check), [`explain`](fn@crate::explain),
/// [`list`](crate::list) and [`doc`](crate::doc).
pub trait Transform: Send + Sync {
    /// The word that stands for it.
    fn name(&self) -> &str;

    /// The word with its arguments, as a person would look them up.
    fn usage(&self) -> &str {
        self.name()
    }

    /// What it does, in a line.
    fn summary(&self) -> &str;

    /// What it has to be given.
    fn takes(&self) -> Data {
        Data::Any
    }

    /// What comes out.
    fn gives(&self) -> Data {
        Data::Any
    }

    /// Makes one that works with these arguments. May be called several times for one network, and has no effect
    /// outside of what it returns.
    ///
    /// # Errors
    /// What is wrong with the arguments, in a few words.
    fn build(&self, arguments: &[String]) -> Result<Stage, String>;
}

impl fmt::Debug for dyn Transform + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transform({})", self.name())
    }
}

/// A transform that is all constants, for tables of them.
#[derive(Debug)]
pub struct Entry {
    /// As [`Transform::name`].
    pub name: &'static str,
    /// As [`Transform::usage`].
    pub usage: &'static str,
    /// As [`Transform::summary`].
    pub summary: &'static str,
    /// As [`Transform::takes`].
    pub takes: Data,
    /// As [`Transform::gives`].
    pub gives: Data,
    /// As [`Transform::build`].
    pub build: fn(&[String]) -> Result<Stage, String>,
}

impl Transform for Entry {
    fn name(&self) -> &str {
        self.name
    }

    fn usage(&self) -> &str {
        self.usage
    }

    fn summary(&self) -> &str {
        self.summary
    }

    fn takes(&self) -> Data {
        self.takes
    }

    fn gives(&self) -> Data {
        self.gives
    }

    fn build(&self, arguments: &[String]) -> Result<Stage, String> {
        (self.build)(arguments)
    }
}

/// All that a network can use.
pub type Catalogue<'a> = &'a [&'a dyn Transform];

/// The transform of this name.
pub fn find<'a>(catalogue: Catalogue<'a>, name: &str) -> Option<&'a dyn Transform> {
    catalogue.iter().find(|transform| transform.name() == name).copied()
}

/// The name that was probably meant: no more than two letters differ.
pub(crate) fn nearest<'a>(catalogue: Catalogue<'a>, name: &str) -> Option<&'a str> {
    let distances = catalogue.iter().map(|known| (distance(known.name(), name), known.name()));
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
    use super::*;

    #[test]
    fn letters_are_counted() {
        for (from, to, count) in
            [("", "", 0), ("gzip", "gzip", 0), ("gzip", "gunzip", 2), ("zstd", "ztsd", 2), ("a", "", 1)]
        {
            assert_eq!((distance(from, to), distance(to, from)), (count, count), "{from} {to}");
        }
    }
}
