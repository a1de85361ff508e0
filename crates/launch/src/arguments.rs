//! The arguments of the usual `millstream run`.
//!
//! The one table of options is that of the whole program. This knows a few of them, and only in the form in which most people
//! write them; everything else, mistakes too, is for the whole program.

use crate::start::Text;

/// A run without anything that needs the whole program.
pub(crate) struct Request {
    /// Bytes of pipes may go through shared memory.
    pub(crate) joins: bool,
    pub(crate) shell: Option<Text>,
    pub(crate) script: Option<Text>,
    /// The command and its arguments; those of the script if there is one.
    pub(crate) words: &'static [Text],
}

/// `None`: not the usual.
pub(crate) fn understand(arguments: &'static [Text]) -> Option<Request> {
    let (_own_name, rest) = arguments.split_first()?;
    let (subcommand, mut rest) = rest.split_first()?;
    if subcommand.bytes() != b"run" {
        return None;
    }
    let mut ring = None;
    let (mut shell, mut script) = (None, None);
    while let Some((&first, others)) = rest.split_first() {
        match first.bytes() {
            b"--ring" => once(&mut ring, true)?,
            b"--no-ring" => once(&mut ring, false)?,
            b"-c" => once(&mut script, value(others)?)?,
            b"--shell" => once(&mut shell, value(others)?)?,
            b"--" => {
                rest = others;
                break;
            }
            [b'-', ..] => return None,
            _ => break,
        }
        rest = if matches!(first.bytes(), b"--ring" | b"--no-ring") { others } else { others.get(1..)? };
    }
    let is_complete = match script {
        Some(_) => true,
        None => shell.is_none() && !rest.first()?.bytes().is_empty(),
    };
    is_complete.then_some(Request { joins: ring.unwrap_or(true), shell, script, words: rest })
}

/// Given twice is a mistake.
fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

/// What follows an option; one that looks like an option may be a mistake.
fn value(rest: &'static [Text]) -> Option<Text> {
    rest.first().copied().filter(|value| !matches!(value.bytes(), [] | [b'-', ..]))
}
