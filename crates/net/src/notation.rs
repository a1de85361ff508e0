//! The two notations of a network: a line, and TOML. Both are read to the same graph and printed back from it.

mod error;
mod line;
pub mod names;
mod table;
pub mod words;
mod work;

use std::fmt;

pub use error::{NotationError, NotationErrorKind};

use crate::graph::Network;

impl Network {
    /// Reads a line such as `read a.gz | gunzip | grep ERROR | write b`. Without `read` it begins with the standard
    /// input, without `write` it ends in the standard output.
    ///
    /// # Errors
    /// [`NotationError`].
    pub fn from_line(text: &str) -> Result<Network, NotationError> {
        line::parse(text)
    }

    /// Reads a TOML file; `docs/networks.md` has its keys.
    ///
    /// # Errors
    /// [`NotationError`].
    pub fn from_toml(text: &str) -> Result<Network, NotationError> {
        table::parse(text)
    }

    /// The same network as TOML, whatever it was read from.
    pub fn to_toml(&self) -> String {
        table::print(self)
    }
}

/// As a line where it is one and has no tests, as TOML otherwise.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_line() && self.tests.is_empty() {
            f.write_str(&line::print(self))
        } else {
            f.write_str(&self.to_toml())
        }
    }
}
