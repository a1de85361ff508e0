//! The two notations of a network: a line, and TOML. Both are read to the same graph and printed back from it.

mod line;
pub mod names;
mod table;
pub mod words;

use std::fmt;

use crate::graph::{Network, Target, Work};

/// Nodes of a network, at most: each is a call within the call of the one before it.
const NODES_MAX: usize = 1000;

/// Why a text is no network, as a sentence that says where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotationError {
    says: String,
    kind: NotationErrorKind,
}

/// In which notation such a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotationErrorKind {
    /// One line.
    Line,
    /// A file in TOML.
    Toml,
}

impl NotationError {
    pub(crate) fn line(says: String) -> NotationError {
        NotationError { says, kind: NotationErrorKind::Line }
    }

    pub(crate) fn toml(says: String) -> NotationError {
        NotationError { says, kind: NotationErrorKind::Toml }
    }

    /// In which notation the text is.
    pub fn kind(&self) -> NotationErrorKind {
        self.kind
    }
}

impl fmt::Display for NotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)
    }
}

impl std::error::Error for NotationError {}

impl Network {
    /// Reads a line such as `read a.gz | gunzip | grep ERROR | write b`. Without `read` it begins with the standard input,
    /// without `write` it ends in the standard output.
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

impl Work {
    /// As it stands in a line.
    pub fn to_line(&self) -> String {
        let path = |verb: &str, path: &std::path::Path| format!("{verb} {}", words::quoted(&path.to_string_lossy()));
        match self {
            Work::Read(Some(file)) => path("read", file),
            Work::Write(Target::File(file)) => path("write", file),
            Work::Write(Target::Append(file)) => path("append", file),
            Work::Read(None) => "read -".into(),
            Work::Write(Target::Stdout) => "write -".into(),
            Work::Inlet { name, .. } => format!("input {name}"),
            Work::Outlet { name, .. } => format!("output {name}"),
            Work::Transform(call) => {
                let words = std::iter::once(&call.name).chain(&call.arguments);
                words.map(|word| words::quoted(word)).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// What a line says at one place.
    pub(crate) fn from_words(mut words: Vec<String>) -> Result<Work, String> {
        if words.is_empty() {
            return Err("a transform is missing".into());
        }
        let (name, arguments) = (words.remove(0), words);
        let path = || match &arguments[..] {
            [path] => Ok(path.clone()),
            _ => Err(format!(
                "'{name}' takes one file, or - for the standard {}put",
                if name == "read" { "in" } else { "out" }
            )),
        };
        Ok(match name.as_str() {
            "read" => Work::Read(Some(path()?).filter(|path| path != "-").map(Into::into)),
            "write" => match path()? {
                path if path == "-" => Work::Write(Target::Stdout),
                path => Work::Write(Target::File(path.into())),
            },
            "append" => match path()? {
                path if path == "-" => Work::Write(Target::Stdout),
                path => Work::Write(Target::Append(path.into())),
            },
            _ => Work::Transform(crate::graph::Call { name, arguments }),
        })
    }
}
