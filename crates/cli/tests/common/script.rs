//! Scripts of the corpus: files with a first line that names their interpreter and comments that say what to expect.
//!
//! ```text
//! #!/bin/bash
//! # What the script exercises.
//! # needs: jq gzip            programs that must be installed
//! # status: 3                 how it must end without millstream; 0 if it does not say
//! # normalise stderr: s/x/y/  applied (sed -E) to what both runs wrote, where runs without millstream differ as well;
//! #                           also stdout, or the name of a file that it leaves
//! # random kills              it ends, and leaves no process, also when any of its processes is killed at any time
//! ```
//!
//! What bash reports of a job that a signal ended is normalised in all of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::common::{self, Scratch};
use super::watched::{self, Ended, Tree};

/// Where programs are looked for: what the distribution has, and nothing that the user has put before it.
const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The job's process number, and the line at which bash happened to notice: another one in each run.
const JOB_REPORT: &str =
    "s/(line [0-9]+:)? *[0-9]+ +(Done|Killed|Broken|Terminated|Aborted|Segmentation|Hangup|Interrupt|User)/ N \\2/";

pub(crate) struct Script {
    pub(crate) name: String,
    path: PathBuf,
    interpreter: Vec<String>,
    status: i32,
    normalised: Vec<(String, String)>,
    pub(crate) takes_random_kills: bool,
}

/// How a script is started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Bare,
    Run,
    RunWithStatistics,
    /// No pipe is attached.
    RunWithoutRing,
    /// Every pipe that can be attached is, at its first byte.
    RunOverRing,
    /// The same, and [`OVER_RING_STATISTICS`] says so.
    RunOverRingWithStatistics,
}

/// Where, in the scratch directory.
pub(crate) const OVER_RING_STATISTICS: &str = "over-ring.json";

/// Everything that a script left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left {
    ended: Ended,
    files: BTreeMap<PathBuf, String>,
}

/// All scripts of a directory beside this crate's tests, in order; `MILLSTREAM_SCRIPT` picks those with a name that has it.
pub(crate) fn all(directory: &str) -> Vec<Script> {
    let wanted = std::env::var("MILLSTREAM_SCRIPT").unwrap_or_default();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(directory);
    let entries = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let mut scripts: Vec<Script> = entries.map(Script::read).collect();
    scripts.retain(|script| script.name.contains(&wanted));
    scripts.sort_by(|a, b| a.name.cmp(&b.name));
    scripts
}

impl Script {
    fn read(path: PathBuf) -> Script {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let first = text.lines().next().and_then(|line| line.strip_prefix("#!"));
        let interpreter = first.unwrap_or_else(|| panic!("{} names no interpreter", path.display()));
        let comments: Vec<&str> =
            text.lines().skip(1).map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
        for program in said(&comments, "needs:").flat_map(str::split_whitespace) {
            let is_there = SEARCH.split(':').any(|place| Path::new(place).join(program).exists());
            assert!(is_there, "{}: {program} is not installed: 'scripts/setup test' sees to it", path.display());
        }
        let normalised = said(&comments, "normalise ").map(|what| {
            let (name, how) =
                what.split_once(": ").unwrap_or_else(|| panic!("{}: normalise WHAT: HOW", path.display()));
            (name.to_owned(), how.to_owned())
        });
        assert!(comments.first().is_some_and(|comment| comment.len() > 20), "{}: what is it?", path.display());
        Script {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            interpreter: interpreter.split_whitespace().map(str::to_owned).collect(),
            status: said(&comments, "status:").next().map_or(0, |status| status.parse().unwrap()),
            normalised: normalised.collect(),
            takes_random_kills: comments.contains(&"random kills"),
            path,
        }
    }

    /// Runs it in a new directory, whose name is the same every time, and returns what it left there.
    pub(crate) fn left(
        &self,
        way: Way,
        scratch: &Scratch,
        variables: &[(&str, String)],
        meanwhile: impl FnMut(&Tree),
    ) -> Result<Left, String> {
        let directory = scratch.path("work");
        if directory.exists() {
            fs::remove_dir_all(&directory).unwrap();
        }
        fs::create_dir(&directory).unwrap();
        let mut command = self.command(way, &directory);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let ended = watched::watch(command, &directory, meanwhile).map_err(|error| format!("{way:?}: {error}"))?;
        let mut left = Left { ended, files: BTreeMap::new() };
        collect_files(&directory, &directory, &mut left.files);
        left.normalise("stderr", JOB_REPORT);
        for (what, how) in &self.normalised {
            left.normalise(what, how);
        }
        Ok(left)
    }

    fn command(&self, way: Way, directory: &Path) -> Command {
        let prefix: &[&str] = match way {
            Way::Bare => &[],
            Way::Run => &["run", "--"],
            Way::RunWithStatistics => &["run", "--stats", "--stats-file", "/dev/null", "--"],
            Way::RunWithoutRing => &["run", "--no-ring", "--"],
            Way::RunOverRing => &["run", "--ring-after", "1", "--"],
            Way::RunOverRingWithStatistics => {
                &["run", "--ring-after", "1", "--stats=json", "--stats-file", "../over-ring.json", "--"]
            }
        };
        let mut words: Vec<&str> = if prefix.is_empty() { Vec::new() } else { vec![common::program()] };
        words.extend(prefix);
        words.extend(self.interpreter.iter().map(String::as_str));
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(&self.path).env_clear();
        command.env("PATH", SEARCH).env("HOME", directory).env("LC_ALL", "C.UTF-8").env("TZ", "UTC0");
        command.env("USER", "root").env("SHELL", "/bin/sh").env("MILLSTREAM", common::program());
        command
    }

    /// Whether a run without millstream did what the script is for. What is broken in itself proves nothing.
    pub(crate) fn check_bare(&self, left: &Left) -> Result<(), String> {
        let stderr = String::from_utf8_lossy(&left.ended.stderr);
        if left.ended.code != Some(self.status) {
            return Err(format!(
                "without millstream it ended with {:?}: {stderr}",
                (left.ended.code, left.ended.signal)
            ));
        }
        if stderr.contains("command not found") || stderr.contains(": not found") {
            return Err(format!("without millstream: {stderr}"));
        }
        match left.ended.stdout.is_empty() {
            true => Err("it prints nothing".to_owned()),
            false => Ok(()),
        }
    }
}

/// What follows `word` in the comments that begin with it.
fn said<'a>(comments: &[&'a str], word: &str) -> impl Iterator<Item = &'a str> {
    comments.iter().filter_map(move |comment| comment.strip_prefix(word)).map(str::trim)
}

impl Left {
    fn normalise(&mut self, what: &str, how: &str) {
        match what {
            "stdout" => self.ended.stdout = sed(how, &self.ended.stdout),
            "stderr" => self.ended.stderr = sed(how, &self.ended.stderr),
            name => {
                let content =
                    self.files.get_mut(Path::new(name)).unwrap_or_else(|| panic!("no file '{name}' was left"));
                *content = String::from_utf8_lossy(&sed(how, content.as_bytes())).into_owned();
            }
        }
    }

    /// The first thing in which this is not as `other`, which is what it ought to be.
    pub(crate) fn difference(&self, other: &Left) -> Option<String> {
        let (was, should) = (&self.ended, &other.ended);
        let status = ((was.code, was.signal), (should.code, should.signal));
        let mut found = String::new();
        if status.0 != status.1 {
            found += &format!("\n  status {:?}, should be {:?}", status.0, status.1);
        }
        for (name, was, should) in [("stdout", &was.stdout, &should.stdout), ("stderr", &was.stderr, &should.stderr)] {
            if was != should {
                found += &format!("\n  {name} {}", first_difference(was, should));
            }
        }
        for name in self.files.keys().chain(other.files.keys().filter(|name| !self.files.contains_key(*name))) {
            match (self.files.get(name), other.files.get(name)) {
                (Some(was), Some(should)) if was == should => {}
                (Some(was), Some(should)) => {
                    let difference = first_difference(was.as_bytes(), should.as_bytes());
                    found += &format!("\n  file {}: {difference}", name.display());
                }
                (None, _) => found += &format!("\n  file {} is missing", name.display()),
                (_, None) => found += &format!("\n  file {} should not be there", name.display()),
            }
        }
        (!found.is_empty()).then_some(found)
    }
}

fn first_difference(was: &[u8], should: &[u8]) -> String {
    let at = was.iter().zip(should).take_while(|(a, b)| a == b).count();
    let excerpt = |bytes: &[u8]| {
        let from = at.saturating_sub(40);
        String::from_utf8_lossy(&bytes[from..bytes.len().min(at + 200)]).escape_debug().to_string()
    };
    format!(
        "of {} bytes, should be {}, differs at {at}:\n    {}\n    should be\n    {}",
        was.len(),
        should.len(),
        excerpt(was),
        excerpt(should)
    )
}

fn sed(how: &str, input: &[u8]) -> Vec<u8> {
    let mut command = Command::new("sed");
    command.args(["-E", how]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert!(output.status.success(), "sed -E '{how}'");
    output.stdout
}

/// Names, kinds, modes and contents of what is in a directory and below.
fn collect_files(root: &Path, directory: &Path, files: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let kind = metadata.file_type();
        let content = match () {
            () if kind.is_file() => format!("file {}", fs::read(&path).unwrap().escape_ascii()),
            () if kind.is_dir() => "directory".to_owned(),
            () if kind.is_symlink() => format!("link to {}", fs::read_link(&path).unwrap().display()),
            () if kind.is_fifo() => "FIFO".to_owned(),
            () => "of another kind".to_owned(),
        };
        let mode = metadata.permissions().mode() & 0o7777;
        files.insert(path.strip_prefix(root).unwrap().to_owned(), format!("{mode:o} {content}"));
        if kind.is_dir() {
            collect_files(root, &path, files);
        }
    }
}
