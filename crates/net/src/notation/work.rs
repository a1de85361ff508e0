//! What a node does, in the words of a line.

use std::path::Path;

use super::words;
use crate::graph::{Call, Target, Work};

impl Work {
    /// As it stands in a line.
    pub fn to_line(&self) -> String {
        let path = |verb: &str, path: &Path| format!("{verb} {}", words::quoted(&path.to_string_lossy()));
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
    pub(super) fn from_words(mut words: Vec<String>) -> Result<Work, String> {
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
            _ => Work::Transform(Call { name, arguments }),
        })
    }
}
