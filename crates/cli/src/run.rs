//! `millstream run`: the command with our library in its environment.
//!
//! Without `--stats`, `--progress` and `--explain` the process becomes the command (`exec`): same process number, same
//! parent, nothing of ours left. With them it stays as the command's parent and hands everything on ([`supervise`]).

mod elastic;
mod explain;
mod library;
mod lines;
mod meter;
mod report;
mod supervise;

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;

use millstream_run::{Obstacle, Plan, gets_library, ring};
use millstream_sys::Errno;
use millstream_sys::executable::{self, Kind};
use millstream_sys::process::{self, Program};
use millstream_sys::settings::{self, LedgerAddress, Ring, Settings};

use crate::args::RunOptions;
use crate::failure::Failure;

/// The run as the options describe it.
pub(crate) fn run(options: RunOptions) -> Result<ExitCode, Failure> {
    let ring = match options.joins_after() {
        // Memory of a pipe holds less, and keeps it.
        _ if options.buffer.is_some() => Err("buffer"),
        None => Err("asked"),
        Some(after) => ring::of_this_run(after).map_err(why_not),
    };
    let plan = match (options.pipe_size, options.buffer) {
        (_, Some(bytes)) => elastic::plan(bytes)?,
        (Some(bytes), None) => Plan::fixed(bytes),
        (None, None) => Plan::for_this_machine(),
    };
    let wants_stats = options.stats.is_some() || options.stats_file.is_some();
    let output = wants_stats.then(|| report::Output::open(options.stats, options.stats_file.as_deref())).transpose()?;
    let wanted = supervise::Wanted { output, progress: options.progress, explain: options.explain };
    // A run inside one that flushes lines does so too.
    let flushes_lines = options.unbuffered || outer(|outer| outer.flushes_lines).unwrap_or(false);
    let command = Command { words: command_words(options)?, plan, flushes_lines, ring };
    plan.enlarge_standing_pipes();
    match wanted.needs_supervisor() {
        false => Err(command.exec()),
        true => supervise::run(&command, wanted),
    }
}

/// What is to be run, and how its pipes are to be.
struct Command {
    words: Vec<OsString>,
    plan: Plan,
    /// Its programs write each line at once.
    flushes_lines: bool,
    /// Its pipes may go through shared memory, or why not.
    ring: Result<Ring, &'static str>,
}

impl Command {
    fn exec(&self) -> Failure {
        // Inside a run that counts, this one counts for it, and what is attached has its token.
        let program = outer(|outer| self.program(outer.ledger)).unwrap_or_else(|| self.program(None));
        match program {
            Ok(program) => self.explain(program.exec()),
            Err(failure) => failure,
        }
    }

    /// The command with the library in its environment, or without where that is no use or harmful: see
    /// [`Kind`] and the library's own `exec`, which decides likewise for every further program.
    fn program(&self, ledger: Option<LedgerAddress<'_>>) -> Result<Program, Failure> {
        let settings = Settings { flushes_lines: self.flushes_lines, ..self.plan.settings(ledger, self.ring.ok()) };
        let mut environment = process::environment();
        let (settings, preload) = match gets_library(self.kind(), &settings) {
            true => (Some(settings.to_string().into()), Some(library::preload_value()?)),
            false => (None, library::preloads_of_others()),
        };
        set(&mut environment, settings::VARIABLE, settings);
        set(&mut environment, library::LD_PRELOAD, preload);
        if self.flushes_lines {
            lines::flush_in(&mut environment);
        }
        Program::new(self.words.clone(), environment).map_err(|errno| self.explain(errno))
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
    fn explain(&self, errno: Errno) -> Failure {
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
fn outer<T>(of: impl FnOnce(&Settings<'_>) -> T) -> Option<T> {
    let value = CString::new(std::env::var_os(settings::VARIABLE)?.into_vec()).ok()?;
    Settings::parse(&value).as_ref().map(of)
}

/// Replaces, appends or removes an entry; the others stay as and where they are.
fn set(environment: &mut Vec<CString>, name: &str, value: Option<OsString>) {
    let is_it = |entry: &CString| {
        entry.as_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
    };
    let value = value.map(|value| [name.as_bytes(), b"=", value.as_bytes()].concat());
    match (value.and_then(|entry| CString::new(entry).ok()), environment.iter_mut().find(|entry| is_it(entry))) {
        (Some(entry), Some(place)) => *place = entry,
        (Some(entry), None) => environment.push(entry),
        (None, _) => environment.retain(|entry| !is_it(entry)),
    }
}

fn why_not(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Processor => "processor",
        Obstacle::Seccomp => "seccomp",
        Obstacle::Kernel => "kernel",
    }
}

fn no_random(errno: Errno) -> Failure {
    Failure::own(format!("the kernel gives no random numbers: {errno}"))
}

/// The command as given, or the shell with the script.
fn command_words(options: RunOptions) -> Result<Vec<OsString>, Failure> {
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
