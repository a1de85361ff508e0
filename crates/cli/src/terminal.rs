//! What is for people looks better on a terminal; what is for programs is JSON.

use std::io::IsTerminal;

use crate::failure::Failure;

/// A table whose first line stands out, where colours are wanted: on a terminal, unless `NO_COLOR` is set
/// (<https://no-color.org>).
pub(crate) fn with_heading(table: &str) -> String {
    let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    match table.split_once('\n') {
        Some((heading, rest)) if is_wanted && std::io::stdout().is_terminal() => {
            format!("\x1b[1m{heading}\x1b[0m\n{rest}\n")
        }
        _ => format!("{table}\n"),
    }
}

/// For programs.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::own(error.to_string()))?;
    Ok(text + "\n")
}
