//! The sources of settings: files, environment, and their order.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::file::{LIMIT_SUFFIX, Line, lines};
use super::table::{Name, TABLE};

/// Bytes of a file that are read. A full one, with a comment for every line, has a fiftieth of it.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// No source says anything.
    Default,
    /// A line of a file.
    File {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
    /// A variable.
    Environment(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::File { path, line } => write!(f, "{}:{line}", path.display()),
            Source::Environment(variable) => f.write_str(variable),
        }
    }
}

/// The most that a setting can have on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The most.
    pub value: u64,
    /// The source of the limit.
    pub source: Source,
}

/// A setting as it is in force.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Which.
    pub name: Name,
    /// The value that counts: bytes, a count, or the place in the list of choices.
    pub value: u64,
    /// The source of the value. If it asked for more than the limit, the value is the limit all the same.
    pub source: Source,
    /// The limit, if there is one.
    pub limit: Option<Limit>,
}

impl Entry {
    /// The value as text.
    pub fn shown(&self) -> String {
        self.name.setting().kind.show(self.value)
    }
}

/// Something that a source says and that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// Which source.
    pub source: Source,
    /// What is wrong with it, and what is allowed.
    pub says: String,
    kind: SettingErrorKind,
}

/// What a [`SettingError`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SettingErrorKind {
    /// The file cannot be read.
    Unreadable,
    /// The line is no `NAME = VALUE`.
    Syntax,
    /// No setting has this name.
    UnknownName,
    /// The text is no value, or no limit, of the setting.
    Value,
    /// The setting cannot be limited, or not in this file.
    Limit,
    /// The value is more than the system's file, or the kernel, permits; what is permitted counts.
    AboveLimit,
}

impl SettingError {
    /// What it is about.
    pub fn kind(&self) -> SettingErrorKind {
        self.kind
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.says)
    }
}

impl std::error::Error for SettingError {}

/// What is in force, and what is wrong with the sources.
#[derive(Clone, Debug)]
pub struct Report {
    /// Every setting, in the order of [`TABLE`].
    pub entries: Vec<Entry>,
    /// What is not used, in the order in which it was found.
    pub errors: Vec<SettingError>,
}

impl Report {
    /// What is in force of one setting.
    pub fn entry(&self, name: Name) -> &Entry {
        &self.entries[name as usize]
    }
}

/// Reads every source now. What a process goes by was read when it made its first pipe.
pub fn report() -> Report {
    Sources::of_this_process().report()
}

/// The file for all users of this machine.
pub fn system_file() -> PathBuf {
    PathBuf::from("/etc/millstream.conf")
}

/// The file of the user, as the XDG Base Directory Specification places it. The specification says that a relative
/// path is to be ignored. `None` if neither `XDG_CONFIG_HOME` nor `HOME` is set.
pub fn user_file() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(directory.join("millstream/millstream.conf"))
}

/// Where to look.
pub(super) struct Sources {
    system: Option<PathBuf>,
    user: Option<PathBuf>,
    variable: fn(&str) -> Option<OsString>,
    /// What the kernel lets this user give a pipe.
    permitted: fn() -> u64,
}

impl Sources {
    pub(super) fn of_this_process() -> Sources {
        // A library reads no files that its program does not know of.
        let reads_files = cfg!(feature = "settings-files");
        let system = reads_files.then(system_file);
        if millstream_sys::process::has_more_rights_than_its_user() {
            return Sources { system, user: None, variable: |_| None, permitted };
        }
        let user = reads_files.then(user_file).flatten();
        Sources { system, user, variable: |name| std::env::var_os(name), permitted }
    }

    pub(super) fn report(&self) -> Report {
        let entries =
            Name::ALL.map(|name| Entry { name, value: name.setting().default, source: Source::Default, limit: None });
        let mut reading = Reading { entries, errors: Vec::new() };
        for (path, is_system) in [(&self.system, true), (&self.user, false)] {
            if let Some(path) = path {
                reading.file(path, is_system);
            }
        }
        for name in Name::ALL {
            let variable = name.variable();
            if let Some(text) = (self.variable)(&variable).filter(|text| !text.is_empty()) {
                reading.value(name, &text.to_string_lossy(), Source::Environment(variable));
            }
        }
        reading.apply_limits();
        reading.apply_permission(self.permitted);
        Report { entries: reading.entries.into(), errors: reading.errors }
    }
}

struct Reading {
    entries: [Entry; TABLE.len()],
    errors: Vec<SettingError>,
}

impl Reading {
    fn file(&mut self, path: &Path, is_system: bool) {
        let text = match read_small(path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return,
            Err(error) => {
                let source = Source::File { path: path.to_owned(), line: 0 };
                let says = format!("cannot be read, so nothing in it counts: {error}");
                return self.complain(source, SettingErrorKind::Unreadable, says);
            }
        };
        for (line, said) in lines(&text) {
            let source = Source::File { path: path.to_owned(), line };
            match said {
                Line::Empty => {}
                Line::Unclear => {
                    let says = "not understood; a line is 'NAME = VALUE'".into();
                    self.complain(source, SettingErrorKind::Syntax, says);
                }
                Line::Pair(key, value) => self.pair(key, value, source, is_system),
            }
        }
    }

    fn pair(&mut self, key: &str, value: &str, source: Source, is_system: bool) {
        let (key, is_limit) = key.strip_suffix(LIMIT_SUFFIX).map_or((key, false), |name| (name, true));
        match Name::of(key) {
            None => {
                let names: Vec<_> = TABLE.iter().map(|setting| setting.name).collect();
                let says = format!("there is no setting '{key}'; there are {}", names.join(", "));
                self.complain(source, SettingErrorKind::UnknownName, says);
            }
            Some(_) if is_limit && !is_system => {
                let says = format!("only {} can limit a setting", system_file().display());
                self.complain(source, SettingErrorKind::Limit, says);
            }
            Some(name) if is_limit => self.limit(name, value, source),
            Some(name) => self.value(name, value, source),
        }
    }

    fn value(&mut self, name: Name, text: &str, source: Source) {
        match name.setting().kind.parse(text) {
            Ok(value) => {
                let entry = &mut self.entries[name as usize];
                (entry.value, entry.source) = (value, source);
            }
            Err(error) => {
                let says = format!("'{text}' is no value for {}: {error}", name.setting().name);
                self.complain(source, SettingErrorKind::Value, says);
            }
        }
    }

    fn limit(&mut self, name: Name, text: &str, source: Source) {
        let kind = name.setting().kind;
        match kind.range().map(|_| kind.parse_limit(text)) {
            None => {
                let says = format!("{} is a word, which has no limit", name.setting().name);
                self.complain(source, SettingErrorKind::Limit, says);
            }
            Some(Ok(value)) => self.entries[name as usize].limit = Some(Limit { value, source }),
            Some(Err(error)) => {
                let says = format!("'{text}' is no limit for {}: {error}", name.setting().name);
                self.complain(source, SettingErrorKind::Value, says);
            }
        }
    }

    fn apply_limits(&mut self) {
        // What no pipe can be enlarged to, none has from the beginning.
        let of_all = self.entries[Name::CapacityMax as usize].limit.clone();
        let of_new = &mut self.entries[Name::Capacity as usize].limit;
        if of_all.as_ref().is_some_and(|all| of_new.as_ref().is_none_or(|new| all.value < new.value)) {
            *of_new = of_all;
        }
        for at in 0..self.entries.len() {
            let entry = &mut self.entries[at];
            let Some(limit) = entry.limit.as_ref().filter(|limit| limit.value < entry.value) else { continue };
            let show = |value| entry.name.setting().kind.show(value);
            let says = format!(
                "{} = {} is above the limit of {} in {}, which counts instead",
                entry.name.setting().name,
                show(entry.value),
                show(limit.value),
                limit.source
            );
            entry.value = limit.value;
            let source = entry.source.clone();
            // A default is no mistake of a source.
            if source != Source::Default {
                self.complain(source, SettingErrorKind::AboveLimit, says);
            }
        }
    }

    /// A pipe of the default size needs no permission.
    fn apply_permission(&mut self, permitted: fn() -> u64) {
        let (kind, entry) = (Name::Capacity.setting().kind, &mut self.entries[Name::Capacity as usize]);
        let unasked = Name::Capacity.setting().default;
        if entry.value <= unasked {
            return;
        }
        let permitted = permitted().checked_ilog2().map_or(0, |log2| 1 << log2).max(unasked);
        if entry.value > permitted {
            let says = format!(
                "capacity = {} is more than the kernel lets this user have in a pipe (/proc/sys/fs/pipe-max-size); {} \
                 counts instead",
                kind.show(entry.value),
                kind.show(permitted)
            );
            entry.value = permitted;
            let source = entry.source.clone();
            self.complain(source, SettingErrorKind::AboveLimit, says);
        }
    }

    fn complain(&mut self, source: Source, kind: SettingErrorKind, says: String) {
        self.errors.push(SettingError { source, says, kind });
    }
}

/// Bytes that the kernel lets this user give a pipe.
fn permitted() -> u64 {
    if millstream_sys::cpu::may_exceed_pipe_max_size() { u64::MAX } else { pipe_max_size() as u64 }
}

/// Bytes that an unprivileged user may give a pipe.
pub(crate) fn pipe_max_size() -> usize {
    let setting = fs::read_to_string("/proc/sys/fs/pipe-max-size").ok();
    setting.and_then(|text| text.trim().parse().ok()).unwrap_or(1 << 20)
}

fn read_small(path: &Path) -> io::Result<String> {
    // Opening anything else could wait for ever.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of one test, gone after it.
    struct Files(PathBuf);

    impl Files {
        fn new(test: &str) -> Files {
            let path = std::env::temp_dir().join(format!("millstream-sources-{}-{test}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Files(path)
        }

        fn report(&self, system: &str, user: &str, variable: fn(&str) -> Option<OsString>) -> Report {
            fs::write(self.system(), system).unwrap();
            fs::write(self.user(), user).unwrap();
            Sources { system: Some(self.system()), user: Some(self.user()), variable, permitted: || 32 << 20 }.report()
        }

        fn system(&self) -> PathBuf {
            self.0.join("system")
        }

        fn user(&self) -> PathBuf {
            self.0.join("user")
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn nothing(_: &str) -> Option<OsString> {
        None
    }

    fn shown(report: &Report, name: Name) -> (String, String) {
        let source = report.entry(name).source.to_string();
        (report.entry(name).shown(), source.rsplit('/').next().unwrap().to_owned())
    }

    fn complaints(report: &Report) -> Vec<String> {
        report.errors.iter().map(|complaint| complaint.to_string().rsplit('/').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn each_source_goes_before_those_below_it() {
        let files = Files::new("order");
        let system = "capacity = 64K\ncapacity_max = 2M\nwait = block\n";
        let user = "\ncapacity = 128K\nwait = spin\n";
        let variable = |name: &str| (name == "MILLSTREAM_CAPACITY").then(|| "256K".into());
        let report = files.report(system, user, variable);
        assert_eq!(report.errors, []);
        assert_eq!(shown(&report, Name::Capacity), ("256K".into(), "MILLSTREAM_CAPACITY".into()));
        assert_eq!(shown(&report, Name::Wait), ("spin".into(), "user:3".into()));
        assert_eq!(shown(&report, Name::CapacityMax), ("2M".into(), "system:2".into()));
        assert_eq!(shown(&report, Name::PipesMax), ("1048576".into(), "default".into()));
    }

    #[test]
    fn what_cannot_be_used_leaves_what_was_said_below() {
        let files = Files::new("bad");
        let report = files.report(
            "capacity = 64K\nwhat is this\n",
            "capacity = lots\ncolour = red\nwait = Spin\ncapacity.limit = 4K\n",
            |name| (name == "MILLSTREAM_PIPES_MAX").then(|| "-1".into()),
        );
        assert_eq!(shown(&report, Name::Capacity), ("64K".into(), "system:1".into()));
        assert_eq!(shown(&report, Name::Wait).1, "default");
        let expected = [
            "system:2: not understood; a line is 'NAME = VALUE'",
            "user:1: 'lots' is no value for capacity: allowed is 4K to 1G, a number of bytes or one with K, M or G",
            "user:2: there is no setting 'colour'; there are ",
            "user:3: 'Spin' is no value for wait: allowed is adaptive, spin, block",
            "millstream.conf can limit a setting",
            "MILLSTREAM_PIPES_MAX: '-1' is no value for pipes_max: allowed is 0 to 1048576",
        ];
        let found = complaints(&report);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        use SettingErrorKind::{Limit, Syntax, UnknownName, Value};
        let kinds: Vec<_> = report.errors.iter().map(SettingError::kind).collect();
        assert_eq!(kinds, [Syntax, Value, UnknownName, Value, Limit, Value]);
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn settings_stay_within_the_limit_of_the_system() {
        let files = Files::new("limit");
        let variable = |name: &str| (name == "MILLSTREAM_CAPACITY").then(|| "8M".into());
        let system = "capacity.limit = 1M\npipes_max.limit = 10\nwait.limit = spin\n";
        let report = files.report(system, "capacity = 4M\n", variable);
        let capacity = report.entry(Name::Capacity);
        assert_eq!((capacity.value, capacity.limit.as_ref().map(|limit| limit.value)), (1 << 20, Some(1 << 20)));
        assert_eq!(report.entry(Name::PipesMax).value, 10, "a default, too");
        let found = complaints(&report);
        assert_eq!(found[0], "system:3: wait is a word, which has no limit");
        assert_eq!(found.len(), 2, "{found:?}");
        let report = files.report("capacity_max.limit = 100K\ncapacity.limit = 128K\n", "", nothing);
        assert_eq!([Name::Capacity, Name::CapacityMax].map(|name| report.entry(name).value), [64 << 10; 2]);
        assert_eq!(report.errors, []);
    }

    #[test]
    fn a_value_above_the_limit_is_complained_of_where_it_stands() {
        let files = Files::new("above");
        let variable = |name: &str| (name == "MILLSTREAM_CAPACITY").then(|| "8M".into());
        let report = files.report("capacity.limit = 1M\n", "capacity = 4M\n", variable);
        let said = report.errors[0].to_string();
        assert!(said.starts_with("MILLSTREAM_CAPACITY: capacity = 8M is above the limit of 1M in "), "{said}");
    }

    #[test]
    fn a_capacity_that_the_kernel_does_not_permit_is_made_smaller() {
        let files = Files::new("kernel");
        fs::write(files.user(), "capacity = 4M\n").unwrap();
        let capacity = |permitted| {
            let sources =
                Sources { system: Some(files.system()), user: Some(files.user()), variable: nothing, permitted };
            let report = sources.report();
            (report.entry(Name::Capacity).value, report.errors.len())
        };
        assert_eq!(capacity(|| 4 << 20), (4 << 20, 0));
        assert_eq!(capacity(|| 3 << 20), (2 << 20, 1));
        assert_eq!(capacity(|| 4096), (512 << 10, 1), "what needs no permission");
    }

    #[test]
    fn files_that_are_none_are_named_and_files_that_are_missing_are_not() {
        let files = Files::new("none");
        fs::create_dir(files.user()).unwrap();
        let sources = Sources { system: Some(files.system()), user: Some(files.user()), variable: nothing, permitted };
        assert_eq!(
            complaints(&sources.report()),
            ["user:0: cannot be read, so nothing in it counts: it is not a file"]
        );
        fs::write(files.system(), vec![b'#'; FILE_BYTES_MAX as usize + 1]).unwrap();
        let sources = Sources { system: Some(files.system()), user: None, variable: nothing, permitted };
        assert_eq!(
            complaints(&sources.report()),
            ["system:0: cannot be read, so nothing in it counts: it is larger than 65536 bytes"]
        );
    }

    #[test]
    fn any_bytes_are_a_file() {
        let files = Files::new("bytes");
        fs::write(files.system(), b"\xff\xfe\0capacity = 4K\ncapacity = 8K\n").unwrap();
        let report = Sources { system: Some(files.system()), user: None, variable: nothing, permitted }.report();
        assert_eq!(shown(&report, Name::Capacity), ("8K".into(), "system:2".into()));
        assert_eq!(report.errors.len(), 1);
    }
}
