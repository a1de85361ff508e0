//! The transforms that a network can name.

use std::fmt;

use crate::transform::{Data, Stage};

/// A transform by its name: what a word in a network stands for. Each use of the word builds a [`Stage`] of it.
///
/// A program has transforms of its own by implementing this trait and adding them to a [`Registry`]. A line and a TOML file then
/// find them, and so do [`check`](crate::check), [`explain`](fn@crate::explain), [`list`](crate::list) and [`doc`](crate::doc).
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

    /// Makes one that works with these arguments. May be called several times for one network, and has no effect outside of
    /// what it returns.
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

/// Words that stand for something else in a network.
const RESERVED: [&str; 3] = ["read", "write", "append"];

/// A catalogue that grows: transforms that come from elsewhere, and those of the program itself.
///
/// ```
/// use millstream_net::{TransformError, InPlace, Network, Options, Registry, Stage, State, Transform, run};
///
/// /// `mask LETTER`: digits replaced by a letter.
/// struct Mask {
///     usual: u8,
/// }
///
/// impl Transform for Mask {
///     fn name(&self) -> &str {
///         "mask"
///     }
///     fn usage(&self) -> &str {
///         "mask [LETTER]"
///     }
///     fn summary(&self) -> &str {
///         "each digit replaced by a letter"
///     }
///     fn build(&self, arguments: &[String]) -> Result<Stage, String> {
///         let letter = match arguments {
///             [] => self.usual,
///             [word] if word.len() == 1 => word.as_bytes()[0],
///             _ => return Err("LETTER is one letter".into()),
///         };
///         Ok(Stage::in_place(State::Stateless, Masking(letter)))
///     }
/// }
///
/// struct Masking(u8);
/// impl InPlace for Masking {
///     fn apply(&mut self, _offset: u64, bytes: &mut [u8]) -> Result<(), TransformError> {
///         bytes.iter_mut().filter(|byte| byte.is_ascii_digit()).for_each(|byte| *byte = self.0);
///         Ok(())
///     }
/// }
///
/// // `Registry::of(millstream_transforms::ALL)` begins with those that come with millstream.
/// let mut registry = Registry::new();
/// registry.add(Mask { usual: b'#' })?;
///
/// let network = Network::from_line("mask | mask x")?;
/// let output = run::in_memory(&network, &registry.catalogue(), b"call 555-0199", &Options::default())?;
/// assert_eq!(output, b"call ###-####");
///
/// // What is wrong with a use of it is said as for any other.
/// let network = Network::from_line("mask too much")?;
/// let error = run::in_memory(&network, &registry.catalogue(), b"", &Options::default()).unwrap_err();
/// assert_eq!(error.to_string(), "mask: LETTER is one letter; it is used as: mask [LETTER]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Registry<'a> {
    given: Vec<&'a dyn Transform>,
    own: Vec<Box<dyn Transform + 'a>>,
}

impl<'a> Registry<'a> {
    /// One without transforms.
    pub fn new() -> Registry<'a> {
        Registry::default()
    }

    /// One that begins with these.
    pub fn of(catalogue: Catalogue<'a>) -> Registry<'a> {
        Registry { given: catalogue.to_vec(), own: Vec::new() }
    }

    /// Adds one.
    ///
    /// # Errors
    /// [`NameError`], if no network could name it: the name is empty, has to be quoted, means something else in a network, or is
    /// that of another transform.
    pub fn add(&mut self, transform: impl Transform + 'a) -> Result<(), NameError> {
        let name = transform.name();
        let is_word = !name.is_empty() && crate::words::quoted(name) == name;
        let (kind, what) = match name {
            _ if !is_word => (NameErrorKind::NotAWord, "is no word that can stand in a line without quotes"),
            _ if RESERVED.contains(&name) => (NameErrorKind::Reserved, "means something else in a network"),
            _ if find(&self.catalogue(), name).is_some() => (NameErrorKind::Taken, "is the name of another transform"),
            _ => {
                self.own.push(Box::new(transform));
                return Ok(());
            }
        };
        Err(NameError { says: format!("a transform cannot be called '{name}': it {what}"), kind })
    }

    /// All of them, in the order in which they were added.
    pub fn catalogue(&self) -> Vec<&dyn Transform> {
        let given = self.given.iter().map(|given| *given as &dyn Transform);
        given.chain(self.own.iter().map(|own| &**own as &dyn Transform)).collect()
    }
}

impl fmt::Debug for Registry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.catalogue()).finish()
    }
}

/// Why a transform cannot be added, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    says: String,
    kind: NameErrorKind,
}

/// What is wrong with such a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NameErrorKind {
    /// It would have to be quoted in a line.
    NotAWord,
    /// It means something else in a network.
    Reserved,
    /// Another transform has it.
    Taken,
}

impl NameError {
    /// What is wrong.
    pub fn kind(&self) -> NameErrorKind {
        self.kind
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)
    }
}

impl std::error::Error for NameError {}

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

    fn named(name: &'static str) -> Entry {
        let build = |_: &[String]| Err(String::new());
        Entry { name, usage: name, summary: "", takes: Data::Any, gives: Data::Any, build }
    }

    #[test]
    fn a_name_is_a_word_that_stands_for_nothing_else() {
        let given = named("given");
        let given: [&dyn Transform; 1] = [&given];
        let mut registry = Registry::of(&given);
        registry.add(named("own")).unwrap();
        let mut error = |name| registry.add(named(name)).unwrap_err().to_string();
        for name in ["", "two words", "a|b", "it's", "back\\slash"] {
            assert!(error(name).contains(&format!("'{name}': it is no word")), "{}", error(name));
        }
        for name in RESERVED {
            assert!(error(name).ends_with("it means something else in a network"), "{}", error(name));
        }
        for name in ["given", "own"] {
            assert!(error(name).ends_with("it is the name of another transform"), "{}", error(name));
        }
        let mut kind = |name| registry.add(named(name)).unwrap_err().kind();
        assert_eq!(
            [kind("two words"), kind("read"), kind("own")],
            [NameErrorKind::NotAWord, NameErrorKind::Reserved, NameErrorKind::Taken]
        );
        assert_eq!(format!("{registry:?}"), "[Transform(given), Transform(own)]");
    }

    #[test]
    fn letters_are_counted() {
        for (from, to, count) in
            [("", "", 0), ("gzip", "gzip", 0), ("gzip", "gunzip", 2), ("zstd", "ztsd", 2), ("a", "", 1)]
        {
            assert_eq!((distance(from, to), distance(to, from)), (count, count), "{from} {to}");
        }
    }
}
