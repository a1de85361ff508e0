//! How a program fails: one sentence on stderr and an exit status that a shell would give.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};

/// The data are not what they should be, or a file of the user's cannot be read or written.
const DATA: u8 = 1;
/// The program was used wrongly.
const USAGE: u8 = 2;
/// What was measured cannot be trusted, or cannot be compared.
const INVALID: u8 = 3;
/// The program itself could not do its work; what `env`, `nice` and `timeout` use too.
const OWN: u8 = 125;
/// The command was found and could not be run.
const CANNOT_RUN: u8 = 126;
/// The command was not found.
const NOT_FOUND: u8 = 127;

/// Why there is no result.
#[derive(Debug)]
pub struct Failure {
    sentence: String,
    status: u8,
}

impl Failure {
    /// Exit status 1.
    pub fn data(sentence: impl Into<String>) -> Failure {
        Failure { sentence: sentence.into(), status: DATA }
    }

    /// Exit status 2.
    pub fn usage(sentence: impl Into<String>) -> Failure {
        Failure { sentence: sentence.into(), status: USAGE }
    }

    /// Exit status 2, for what an argument parser says.
    pub fn wrong_use(error: &clap::Error) -> Failure {
        Failure::usage(one_sentence(error))
    }

    /// Exit status 3.
    pub fn invalid(sentence: impl Into<String>) -> Failure {
        Failure { sentence: sentence.into(), status: INVALID }
    }

    /// The same with exit status 3.
    pub fn into_invalid(self) -> Failure {
        Failure::invalid(self.sentence)
    }

    /// Exit status 125.
    pub fn own(sentence: impl Into<String>) -> Failure {
        Failure { sentence: sentence.into(), status: OWN }
    }

    /// Exit status 126.
    pub fn cannot_run(sentence: impl Into<String>) -> Failure {
        Failure { sentence: sentence.into(), status: CANNOT_RUN }
    }

    /// Exit status 127.
    pub fn not_found(sentence: impl Into<String>) -> Failure {
        Failure { sentence: sentence.into(), status: NOT_FOUND }
    }

    /// The exit status of a command that has failed.
    pub fn command(sentence: impl Into<String>, status: u8) -> Failure {
        Failure { sentence: sentence.into(), status }
    }

    /// Prints the sentence and gives the status.
    pub fn report(self) -> ExitCode {
        warn(&self.sentence);
        ExitCode::from(self.status)
    }
}

/// From here on a panic, in whichever thread, is told as what it is, in one sentence with exit status 125. `prepare` sees to
/// it that the sentence stays where people can read it.
pub fn report_bugs(prepare: fn()) {
    std::panic::set_hook(Box::new(move |panic| {
        prepare();
        let place = panic.to_string().replace(":\n", ": ").replace('\n', " ");
        warn(format!("this is a bug of millstream; please report it with what you did: {place}"));
        std::process::exit(OWN.into());
    }));
}

/// Says something on stderr that does not end the program.
pub fn warn(sentence: impl Display) {
    // No way is left to report a failure of this.
    let _ = writeln!(std::io::stderr(), "millstream: {sentence}");
}

/// Prints to stdout. A reader that went away early is no error.
///
/// # Errors
/// The text cannot be written, for any other reason.
pub fn print(text: &str) -> Result<ExitCode, Failure> {
    print_or_stop(text).map(|_| ExitCode::SUCCESS)
}

/// The same; returns whether stdout still has a reader.
///
/// # Errors
/// As for [`print()`].
pub fn print_or_stop(text: &str) -> Result<bool, Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::own(format!("cannot write to the standard output: {error}"))),
    }
}

/// clap's message without its headings, usage and tips, which are a page; this is a line.
fn one_sentence(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "what to do is missing; see 'millstream --help'".into();
    }
    let text = error.render().to_string();
    let first_paragraph: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let message = first_paragraph.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let suggestion = match error.get(ContextKind::SuggestedArg).or_else(|| error.get(ContextKind::SuggestedSubcommand))
    {
        Some(suggested) => format!(" (did you mean '{suggested}'?)"),
        None => String::new(),
    };
    format!("{message}{suggestion}; see 'millstream --help'")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// Set in the process that is to panic.
    const PANICS: &str = "MILLSTREAM_TEST_PANICS";

    #[test]
    fn a_bug_is_told_in_a_sentence_with_exit_status_125() {
        if std::env::var_os(PANICS).is_some() {
            super::report_bugs(|| {});
            let thread = std::thread::spawn(|| panic!("one line\nand another"));
            let _ = thread.join();
            return;
        }
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "failure::tests::a_bug_is_told_in_a_sentence_with_exit_status_125", "--nocapture"]);
        let output = again.env(PANICS, "1").output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        let sentence = stderr.lines().last().unwrap();
        assert!(sentence.starts_with("millstream: this is a bug of millstream; please report it"), "{stderr}");
        assert!(sentence.ends_with(": one line and another"), "{stderr}");
    }
}
