//! The command of a run: its words, its environment, and why it did not start.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use millstream_command::failure::Failure;
use millstream_run::{Plan, gets_library};
use millstream_sys::Errno;
use millstream_sys::executable::{self, Kind};
use millstream_sys::process::{self, Program};
use millstream_sys::settings::{self, LedgerAddress, Ring, Settings};

use super::options::Options;
use super::{environment, library, lines};

/// What is to be run, and how its pipes are to be.
pub(super) struct Command {
    pub(super) words: Vec<OsString>,
    pub(super) plan: Plan,
    /// Its programs write each line at once.
    pub(super) flushes_lines: bool,
    /// Its pipes may go through shared memory, or why not.
    pub(super) ring: Result<Ring, &'static str>,
}

impl Command {
    pub(super) fn exec(&self) -> Failure {
        // Inside a run that counts, this one counts for it, and what is attached has its token.
        let program = outer(|outer| self.program(outer.ledger)).unwrap_or_else(|| self.program(None));
        match program {
            Ok(program) => self.explain(program.exec()),
            Err(failure) => failure,
        }
    }

    /// The command with the library in its environment, or without where that is no use or harmful: see
    /// [`Kind`] and the library's own `exec`, which decides likewise for every further program.
    pub(super) fn program(&self, ledger: Option<LedgerAddress<'_>>) -> Result<Program, Failure> {
        let settings = Settings { flushes_lines: self.flushes_lines, ..self.plan.settings(ledger, self.ring.ok()) };
        let mut variables = process::environment();
        let (settings, preload) = match gets_library(self.kind(), &settings) {
            true => (Some(settings.to_string().into()), Some(library::preload_value()?)),
            false => (None, library::preloads_of_others()),
        };
        environment::set(&mut variables, settings::VARIABLE, settings);
        environment::set(&mut variables, library::LD_PRELOAD, preload);
        if self.flushes_lines {
            lines::flush_in(&mut variables);
        }
        Program::new(self.words.clone(), variables).map_err(|errno| self.explain(errno))
    }

    fn kind(&self) -> Kind {
        let Ok(name) = CString::new(self.words[0].as_bytes()) else { return Kind::Other };
        if name.as_bytes().contains(&b'/') {
            return executable::look_at_path(&name);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        CString::new(path.as_bytes()).map_or(Kind::Other, |path| executable::look_in_path(&path, &name))
    }

    /// Why the command did not start, with the status that a shell gives.
    pub(super) fn explain(&self, errno: Errno) -> Failure {
        let name = self.words[0].display();
        let has_slash = self.words[0].as_encoded_bytes().contains(&b'/');
        match errno {
            Errno::NOENT if has_slash && Path::new(&self.words[0]).exists() => Failure::cannot_run(format!(
                "cannot run '{name}': the interpreter or loader that it names does not exist"
            )),
            Errno::NOENT if has_slash => Failure::not_found(format!("cannot run '{name}': there is no such file")),
            Errno::NOENT => Failure::not_found(format!("cannot run '{name}': no directory in PATH has it")),
            Errno::NOTDIR => Failure::not_found(format!("cannot run '{name}': a part of its path is not a directory")),
            Errno::ACCESS if Path::new(&self.words[0]).is_dir() => {
                Failure::cannot_run(format!("cannot run '{name}': it is a directory"))
            }
            Errno::ACCESS => Failure::cannot_run(format!("cannot run '{name}': permission denied; is it executable?")),
            errno => Failure::cannot_run(format!("cannot run '{name}': {errno}")),
        }
    }
}

/// What a run around this one has told its programs.
pub(super) fn outer<T>(of: impl FnOnce(&Settings<'_>) -> T) -> Option<T> {
    let value = CString::new(std::env::var_os(settings::VARIABLE)?.into_vec()).ok()?;
    Settings::parse(&value).as_ref().map(of)
}

/// The command as given, or the shell with the script.
pub(super) fn words(options: Options) -> Result<Vec<OsString>, Failure> {
    let Some(script) = options.script else {
        return match options.command.first() {
            Some(name) if !name.is_empty() => Ok(options.command),
            Some(_) => Err(Failure::not_found("cannot run '': the name of the command is empty")),
            None => Err(Failure::usage(
                "no command: give one after 'run --', or a script with -c; see 'millstream run --help'",
            )),
        };
    };
    let shell = options.shell.or_else(|| std::env::var_os("SHELL").filter(|shell| !shell.is_empty()));
    let mut words = vec![shell.unwrap_or_else(|| "/bin/sh".into()), "-c".into(), script];
    words.extend(options.command);
    Ok(words)
}
