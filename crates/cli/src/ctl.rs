//! `millstream ctl`: what is in force, where it comes from, and changing it.

mod edit;
mod list;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use millstream_pipe::live;
use millstream_pipe::settings::{self, LIMIT_SUFFIX, Name, Report, Source, TABLE};

use edit::Edit;
pub(crate) use edit::UNFINISHED;
use millstream_command::failure::{self, Failure};

/// Shown below the options.
pub(crate) const EXAMPLES: &str = "\
Examples:
  millstream ctl                             every setting, its value and its source
  millstream ctl capacity                    one of them, at length
  millstream ctl capacity=1M wait=block      written to the user's file
  millstream ctl --unset wait
  sudo millstream ctl --system capacity_max.limit=4M
  MILLSTREAM_CAPACITY=64K millstream ctl --json
  millstream ctl --pipe 1234:5 capacity=1M   a live pipe, by process and descriptor

A value comes from the default, the system's file, the user's file or the environment; the later
of these counts, and what a program says for itself counts more. A program reads the settings
when it makes its first pipe.

Exit status: 0; 1 if something in the files or the environment cannot be used (stderr says what,
  and where); 2 for wrong use; 125 if a file cannot be written or a pipe not be changed.";

/// Something is said that is not used.
const COMPLAINTS: u8 = 1;

/// Options of `millstream ctl`.
#[derive(Args)]
pub(crate) struct Options {
    /// Settings to show, or to set; NAME.limit=VALUE, in the system's file, is the most that any user can have
    #[arg(value_name = "NAME[=VALUE]")]
    words: Vec<String>,

    /// Change the user's file, $XDG_CONFIG_HOME/millstream/millstream.conf; unless said otherwise
    #[arg(long, conflicts_with = "system")]
    user: bool,

    /// Change the system's file, /etc/millstream.conf
    #[arg(long)]
    system: bool,

    /// Take the settings out of the file
    #[arg(long, requires = "words")]
    unset: bool,

    /// Change a pipe that lives: descriptor FD of process PID is one of its ends
    #[arg(long, value_name = "PID:FD", value_parser = parse_end, requires = "words")]
    #[arg(conflicts_with_all = ["user", "system", "unset", "json"])]
    pipe: Option<(u32, u32)>,

    /// As JSON
    #[arg(long)]
    json: bool,
}

fn parse_end(text: &str) -> Result<(u32, u32), String> {
    let numbers = text.split_once(':').and_then(|(pid, fd)| Some((pid.parse().ok()?, fd.parse().ok()?)));
    numbers.ok_or_else(|| "an end is written PROCESS:DESCRIPTOR, such as 1234:5".into())
}

/// One argument.
enum Word<'a> {
    Show(&'a str),
    Set(&'a str, &'a str),
}

impl<'a> Word<'a> {
    fn of(text: &'a str) -> Word<'a> {
        match text.split_once('=') {
            None => Word::Show(text.trim()),
            Some((key, value)) => Word::Set(key.trim(), value.trim()),
        }
    }

    fn key(&self) -> &'a str {
        match self {
            Word::Show(key) | Word::Set(key, _) => key,
        }
    }
}

/// Shows or changes.
pub(crate) fn ctl(options: &Options) -> Result<ExitCode, Failure> {
    let words: Vec<_> = options.words.iter().map(|word| Word::of(word)).collect();
    if let Some((process, descriptor)) = options.pipe {
        return change_pipe(process, descriptor, &words);
    }
    let names = words.iter().map(|word| name_of(word.key()).map(|(name, _)| name)).collect::<Result<Vec<_>, _>>()?;
    let edits = edits(&words, options)?;
    if edits.is_empty() {
        if options.user || options.system {
            return Err(Failure::usage("--user and --system say which file is changed; say what: NAME=VALUE"));
        }
        return show(&names, options.json);
    }
    let file = file(options)?;
    edit::apply(&file, &edits).map_err(Failure::own)?;
    let report = settings::report();
    warn_of_what_counts_more(&report, &names, &file);
    let (text, _) = list::render(&report, &names, options.json)?;
    failure::print(&text)
}

fn show(names: &[Name], json: bool) -> Result<ExitCode, Failure> {
    let report = settings::report();
    let (text, complaints) = list::render(&report, names, json)?;
    let printed = failure::print(&text)?;
    complaints.iter().for_each(failure::warn);
    Ok(if complaints.is_empty() { printed } else { ExitCode::from(COMPLAINTS) })
}

/// The setting, and whether its limit is meant.
fn name_of(key: &str) -> Result<(Name, bool), Failure> {
    let (name, is_limit) = key.strip_suffix(LIMIT_SUFFIX).map_or((key, false), |name| (name, true));
    let names = || TABLE.iter().map(|setting| setting.name).collect::<Vec<_>>().join(", ");
    let found = Name::of(name).map(|name| (name, is_limit));
    found.ok_or_else(|| Failure::usage(format!("there is no setting '{name}'; there are {}", names())))
}

/// What is to be changed in the file, checked; nothing if settings are only to be shown.
fn edits<'a>(words: &[Word<'a>], options: &Options) -> Result<Vec<Edit<'a>>, Failure> {
    let is_change = |word: &Word<'_>| options.unset || matches!(word, Word::Set(..));
    if !words.iter().any(is_change) {
        return Ok(Vec::new());
    }
    words.iter().map(|word| edit_of(word, options)).collect()
}

fn edit_of<'a>(word: &Word<'a>, options: &Options) -> Result<Edit<'a>, Failure> {
    let (name, is_limit) = name_of(word.key())?;
    let (setting, key) = (name.setting(), word.key());
    if is_limit && !options.system {
        let system = settings::system_file();
        return Err(Failure::usage(format!("{key} belongs into {}; add --system", system.display())));
    }
    match *word {
        Word::Show(key) if options.unset => Ok(Edit::Unset(key)),
        Word::Set(key, _) if options.unset => Err(Failure::usage(format!("--unset takes no value: {key}"))),
        Word::Show(key) => Err(Failure::usage(format!("to what {key} is to be set is missing: {key}=VALUE"))),
        Word::Set(key, _) if is_limit && setting.kind.range().is_none() => {
            Err(Failure::usage(format!("{} is a word, so {key} means nothing", setting.name)))
        }
        Word::Set(key, value) => match setting.kind.parse(value) {
            Ok(_) => Ok(Edit::Set(key, value)),
            Err(unfit) => Err(Failure::usage(format!("'{value}' is no value for {key}: {unfit}"))),
        },
    }
}

fn file(options: &Options) -> Result<PathBuf, Failure> {
    if options.system {
        return Ok(settings::system_file());
    }
    settings::user_file().ok_or_else(|| {
        Failure::own("neither XDG_CONFIG_HOME nor HOME is set, so the user has no file; --system changes the system's")
    })
}

/// Says why a value that the user has just set is not in force.
fn warn_of_what_counts_more(report: &Report, names: &[Name], file: &std::path::Path) {
    for &name in names {
        let entry = report.entry(name);
        let counts_more = match &entry.source {
            Source::File { path, .. } => path != file,
            Source::Environment(_) => true,
            _ => false,
        };
        if counts_more {
            failure::warn(format!("for {}, {} counts more than {}", name.setting().name, entry.source, file.display()));
        }
        let own = report.errors.iter().filter(|complaint| complaint.source == entry.source);
        own.for_each(failure::warn);
    }
}

fn change_pipe(process: u32, descriptor: u32, words: &[Word<'_>]) -> Result<ExitCode, Failure> {
    let capacity = Name::Capacity.setting();
    let [Word::Set(key, value)] = words else {
        return Err(Failure::usage("of a pipe that lives one thing can be set: --pipe PID:FD capacity=SIZE"));
    };
    if *key != capacity.name {
        return Err(Failure::usage(format!("of a pipe that lives only capacity can be set, not {key}")));
    }
    let unfit = |unfit| Failure::usage(format!("'{value}' is no value for {key}: {unfit}"));
    let bytes = usize::try_from(capacity.kind.parse(value).map_err(unfit)?).unwrap_or(usize::MAX);
    let end = format!("descriptor {descriptor} of process {process}");
    let outcome = live::set_capacity(process, descriptor, bytes);
    let granted = outcome.map_err(|error| match (error.kind(), error.raw_os_error()) {
        (ErrorKind::NotFound, _) => Failure::usage(format!("there is no {end}; 'millstream ps' lists ends")),
        (ErrorKind::ResourceBusy, _) => {
            Failure::own(format!("the pipe at {end} holds more than {value} now; let its reader go on, and try again"))
        }
        // `EPERM` by the number: the same kind also stands for `EACCES`.
        (_, Some(1)) => Failure::own(format!(
            "the pipe at {end} cannot be made so large: it was made with addresses for less (setting capacity_max), or \
             /proc/sys/fs/pipe-max-size does not allow it"
        )),
        (ErrorKind::PermissionDenied, _) => Failure::own(format!("{end} belongs to another user")),
        _ => Failure::own(format!("{end}: {error}")),
    })?;
    failure::print(&format!("capacity = {}\n", capacity.kind.show(granted as u64)))
}
