//! Transforms that a program adds to a catalogue.

use std::fmt;

use crate::catalogue::{Catalogue, Transform, find};
use crate::notation::words;

/// Words that stand for something else in a network.
const RESERVED: [&str; 3] = ["read", "write", "append"];

/// A catalogue that grows: transforms that others have written, and those of the program itself.
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
    /// [`NameError`], if no network could name it: the name is empty, has to be quoted, means something else in a
    /// network, or is that of another transform.
    pub fn add(&mut self, transform: impl Transform + 'a) -> Result<(), NameError> {
        let name = transform.name();
        let is_word = !name.is_empty() && words::quoted(name) == name;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Entry;
    use crate::transform::Data;

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
}
