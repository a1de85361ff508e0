//! `millstream man` and `millstream completions`: manual pages, and completions for shells, of the table that `--help` is made of.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use millstream_command::failure::{self, Failure};

/// Shown below the options of `man`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  millstream man run | man -l -
  millstream man bench grep | man -l -
  millstream man --all /usr/local/share/man/man1

'make install' and the packages install all of them: 'man millstream-run'.
Exit status: 0; 1 if DIR cannot be written; 2 for wrong use.";

/// Shown below the options of `completions`.
pub(crate) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  . <(millstream completions bash)
  millstream completions fish >~/.config/fish/completions/millstream.fish

'make install' and the packages install those of bash, zsh and fish.
Exit status: 0; 2 for wrong use.";

/// Options of `millstream man`.
#[derive(Args)]
pub(crate) struct Options {
    /// Write the page of every command into DIR
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    all: Option<PathBuf>,

    /// The command whose page is printed [default: millstream itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

/// Options of `millstream completions`.
#[derive(Args)]
pub(crate) struct CompletionsOptions {
    /// For which shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints a page, or writes all.
pub(crate) fn man(options: &Options, table: Command) -> Result<ExitCode, Failure> {
    let mut table = table.disable_help_subcommand(true);
    table.build();
    if let Some(directory) = &options.all {
        write_all(&table, directory)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = &table;
    for name in &options.command {
        command = shown(command).find(|command| command.get_name() == name).ok_or_else(|| {
            let names: Vec<&str> = shown(command).map(Command::get_name).collect();
            Failure::usage(match names.is_empty() {
                true => format!("'{}' has no command '{name}'", command.get_name()),
                false => format!("there is no command '{name}': {}", names.join(", ")),
            })
        })?;
    }
    failure::print(&page(command))
}

/// Prints the completions.
pub(crate) fn completions(options: &CompletionsOptions, mut table: Command) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut table, "millstream", &mut script);
    failure::print(&String::from_utf8_lossy(&script))
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

fn write_all(command: &Command, directory: &Path) -> Result<(), Failure> {
    let file = directory.join(Man::new(command.clone()).get_filename());
    fs::write(&file, page(command))
        .map_err(|error| Failure::data(format!("cannot write '{}': {error}", file.display())))?;
    shown(command).try_for_each(|command| write_all(command, directory))
}

fn page(command: &Command) -> String {
    // A page without a date is the same whenever it is made; the version stands in its place.
    let man = Man::new(command.clone()).date(env!("CARGO_PKG_VERSION")).source("millstream").manual("User Commands");
    let mut text = Vec::new();
    let sections = [
        Man::render_title,
        Man::render_name_section,
        Man::render_synopsis_section,
        Man::render_description_section,
        Man::render_options_section,
    ];
    let mut render = |section: fn(&Man, &mut dyn std::io::Write) -> std::io::Result<()>| {
        section(&man, &mut text).unwrap_or_else(|error| unreachable!("memory is written to: {error}"));
    };
    sections.into_iter().for_each(&mut render);
    if shown(command).next().is_some() {
        render(Man::render_subcommands_section);
    }
    let text = String::from_utf8_lossy(&text).replace("\n.SH SUBCOMMANDS\n", "\n.SH COMMANDS\n");
    let after = command.get_after_help().map(|after| sections_of(&after.to_string())).unwrap_or_default();
    format!("{text}{after}{}", see_also(command))
}

/// What stands below the options in `--help`, with each `Heading:` at the start of a line as a section, and what is indented as it is.
fn sections_of(text: &str) -> String {
    let mut roff = Roff::new();
    let mut is_as_it_is = false;
    for line in text.lines() {
        let indented = line.starts_with("  ");
        if indented != is_as_it_is {
            roff.control(if indented { "EX" } else { "EE" }, []);
            is_as_it_is = indented;
        }
        match heading_of(line).filter(|_| !indented) {
            Some((heading, rest)) => {
                roff.control("SH", [heading.to_uppercase().as_str()]);
                if !rest.is_empty() {
                    roff.text([roman(rest)]);
                }
            }
            None if line.is_empty() => {
                roff.control("PP", []);
            }
            None => {
                roff.text([roman(line)]);
            }
        }
    }
    if is_as_it_is {
        roff.control("EE", []);
    }
    roff.to_roff()
}

fn heading_of(line: &str) -> Option<(&str, &str)> {
    let (heading, rest) = line.split_once(':')?;
    ["Example", "Examples", "Exit status", "Transports", "Ways", "Workloads"]
        .contains(&heading)
        .then_some((heading, rest.trim_start()))
}

fn see_also(command: &Command) -> String {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let Some((parent, _)) = name.rsplit_once('-') else {
        return Roff::new().control("SH", ["SEE ALSO"]).text([roman("pipe(7), fifo(7)")]).to_roff();
    };
    Roff::new().control("SH", ["SEE ALSO"]).text([roman(format!("{parent}(1)"))]).to_roff()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_begins_at_its_heading_and_examples_stay_as_they_are() {
        let text = sections_of("Examples:\n  a -b | c\n\nA sentence: it goes on.\nExit status: 0.");
        let lines: Vec<&str> = text.lines().collect();
        let after = [".PP", "A sentence: it goes on.", ".SH \"EXIT STATUS\"", "0."];
        assert_eq!(lines[..5], [".SH EXAMPLES", ".EX", "  a \\-b | c", ".EE", after[0]]);
        assert_eq!(lines[5..], after[1..]);
    }
}
