//! What is for people looks better on a terminal; what is for programs is JSON.

pub(crate) mod screen;

use std::io::IsTerminal;

use millstream_command::failure::Failure;

/// A table whose first line stands out, where colours are wanted: on a terminal, unless `NO_COLOR` is set
/// (<https://no-color.org>).
pub(crate) fn with_heading(table: &str) -> String {
    match table.split_once('\n') {
        Some((heading, rest)) if has_styles() => {
            format!("\x1b[1m{heading}\x1b[0m\n{rest}\n")
        }
        _ => format!("{table}\n"),
    }
}

/// Whether anything is to stand out.
pub(crate) fn has_styles() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && std::io::stdout().is_terminal()
}

/// For programs.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::own(error.to_string()))?;
    Ok(text + "\n")
}
