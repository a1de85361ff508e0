//! Files that are transformed by a mount, against the bare file system and against pipelines that do the same.
//!
//! ```text
//! sh -c 'gzip -dc text.gz | cat >/dev/null'     a pipeline of processes over the source
//! sh -c 'cat MNT/text >/dev/null'               one program over the mount, which the kernel has no pages of
//! ```
//!
//! What is timed is the whole command as a user waits for it. Sources are in the kernel's cache. Before each launch the kernel
//! is told to drop the pages of the mounted file, which it would read from its cache otherwise. In a rehearsal every
//! command prints what it has read, and all of a comparison have to print the same.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use millstream_sys::signals::{self, Held};
use millstream_sys::{clock, mapped_file};

use super::increment::add_one;
use super::increment::sum::Sum;
use crate::cell::Cell;
use crate::engine::{Comparison, Job, Launch};
use crate::programs::{Programs, installed};

mod place;

use place::{Commands, Place};

/// The name in options and results.
pub const NAME: &str = "file";

/// The transport of all cells that are measured through a mount of ours.
const OURS: &str = "millstream";

/// The kernel's own file system.
const BARE: &str = "bare";

/// libfuse's example of a file system that changes nothing.
const PASSTHROUGH_LL: &str = "passthrough_ll";

/// Stages of `increment` that are measured.
pub const INCREMENTS: [usize; 5] = [1, 2, 4, 8, 16];

/// Stages of the files that are opened.
pub const OPENED: [usize; 4] = [0, 1, 5, 25];

/// How often a file is opened for one sample.
const OPENS: u32 = 500;

/// The rows of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// A file without a view.
    Unbound,
    /// Every byte through the daemon, unchanged.
    Identity,
    /// One added to each byte, N times.
    Increment,
    /// A gzip file.
    Gunzip,
    /// A zstd file.
    Zstd,
    /// A new zstd file.
    ZstdWrite,
    /// Opening and closing.
    Open,
    /// Many small files.
    Tar,
}

impl Row {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Row; 8] =
        [Row::Unbound, Row::Identity, Row::Increment, Row::Gunzip, Row::Zstd, Row::ZstdWrite, Row::Open, Row::Tar];

    /// The name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Row::Unbound => "unbound",
            Row::Identity => "identity",
            Row::Increment => "increment",
            Row::Gunzip => "gunzip",
            Row::Zstd => "zstd",
            Row::ZstdWrite => "zstd-write",
            Row::Open => "open",
            Row::Tar => "tar",
        }
    }

    /// The program without which there is nothing to compare with.
    fn needs(self) -> Option<&'static str> {
        match self {
            Row::Unbound | Row::Identity | Row::Increment | Row::Open => None,
            Row::Gunzip => Some("gzip"),
            Row::Zstd | Row::ZstdWrite => Some("zstd"),
            Row::Tar => Some("tar"),
        }
    }
}

/// What to measure.
pub struct Plan {
    /// The one mounts, the other is a stage of the pipelines.
    pub programs: Programs,
    /// Which rows.
    pub rows: Vec<Row>,
    /// Bytes of the text that is read.
    pub size: usize,
    /// How many small files there are.
    pub files: usize,
}

/// What can be measured here, and what cannot.
pub struct Planned {
    /// The comparisons of all rows that can be measured.
    pub comparisons: Vec<Comparison>,
    /// A sentence for each that is left out.
    pub left_out: Vec<String>,
}

/// Makes the files and mounts them. From now on a signal that would end this process takes both away first. To be called before
/// other threads are started.
///
/// # Errors
/// A sentence: files cannot be made or mounted.
pub fn comparisons(plan: &Plan) -> Result<Planned, String> {
    if !Path::new("/dev/fuse").exists() {
        return Err("there is no /dev/fuse: nothing can be mounted".into());
    }
    let held = Arc::new(Held::hold());
    let place = Arc::new(Mutex::new(Place::new(plan.programs.millstream.clone(), Arc::clone(&held))?));
    remove_when_told(Arc::clone(&held), &place);
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    for &row in &plan.rows {
        match row.needs().filter(|program| installed(program).is_none()) {
            Some(program) => left_out.push(format!("left out: {}: {program} is not installed", row.name())),
            None => rows.push(row),
        }
    }
    let other = installed(PASSTHROUGH_LL);
    if other.is_none() && rows.iter().any(|row| matches!(row, Row::Identity | Row::Tar)) {
        left_out.push(format!("left out: {PASSTHROUGH_LL}, an example of libfuse: it is not installed"));
    }
    let setting = Setting { plan, place: &place, other };
    let mut comparisons = Vec::new();
    for row in rows {
        comparisons.extend(setting.comparisons(row)?);
    }
    Ok(Planned { comparisons, left_out })
}

fn locked(place: &Mutex<Place>) -> MutexGuard<'_, Place> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nothing stays mounted, whatever signal ends the measurement.
fn remove_when_told(held: Arc<Held>, place: &Arc<Mutex<Place>>) {
    let place = Arc::downgrade(place);
    thread::spawn(move || {
        loop {
            let signal = held.next().signal;
            if signals::ends_a_process(signal) {
                if let Some(place) = place.upgrade() {
                    locked(&place).remove();
                }
                signals::die_of(signal);
            } else if signals::OF_THE_TERMINAL.contains(&signal) {
                signals::raise_unblocked(signal);
            }
        }
    });
}

struct Setting<'a> {
    plan: &'a Plan,
    place: &'a Arc<Mutex<Place>>,
    /// Where [`PASSTHROUGH_LL`] is.
    other: Option<PathBuf>,
}

impl Setting<'_> {
    fn comparisons(&self, row: Row) -> Result<Vec<Comparison>, String> {
        match row {
            Row::Unbound => self.unchanged(row, None),
            Row::Identity => self.unchanged(row, Some("identity")),
            Row::Increment => INCREMENTS.iter().map(|&stages| self.increment(stages)).collect(),
            Row::Gunzip => self.unpacked(row, "gzip", "gz", "gunzip"),
            Row::Zstd => self.unpacked(row, "zstd", "zst", "unzstd"),
            Row::ZstdWrite => self.packed(),
            Row::Open => OPENED.iter().map(|&stages| self.opened(stages)).collect(),
            Row::Tar => self.tar(),
        }
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        locked(self.place)
    }

    /// A text as it is.
    fn unchanged(&self, row: Row, network: Option<&str>) -> Result<Vec<Comparison>, String> {
        let text = self.place().text(self.plan.size)?;
        let source = self.place().source("plain")?;
        let mount = self.place().mounted(&source, network)?;
        let mut sides = vec![Side::reads(BARE, text), Side::reads(OURS, mount.join("text"))];
        let mut baseline = BARE;
        if let Some(other) = self.other.as_deref().filter(|_| row == Row::Identity) {
            let point = self.place().passed_through(other, &source)?;
            sides.push(Side::reads(PASSTHROUGH_LL, point.join("text")));
            baseline = PASSTHROUGH_LL;
        }
        Ok(vec![self.comparison(row, None, baseline, sides)])
    }

    fn increment(&self, stages: usize) -> Result<Comparison, String> {
        let text = self.place().text(self.plan.size)?;
        let source = self.place().source("plain")?;
        let mount = self.place().mounted(&source, Some(&vec!["increment"; stages].join(" | ")))?;
        // The first stage reads the file itself.
        let adds = vec!["\"$PROGRAM\" add"; stages].join(" | ").replacen(" add", " add <\"$FILE\"", 1);
        let pipeline = |name, script: String| Side {
            environment: vec![("PROGRAM", self.plan.programs.bench.clone())],
            ..Side::new(name, script, text.clone())
        };
        let sides = vec![
            pipeline("pipe", format!("{adds} | cat")),
            // The pipeline without a program that reads it.
            pipeline("pipe-tight", adds.clone()),
            Side::reads(OURS, mount.join("text")),
        ];
        Ok(self.comparison(Row::Increment, Some(stages), "pipe", sides))
    }

    fn unpacked(&self, row: Row, program: &'static str, end: &str, network: &str) -> Result<Vec<Comparison>, String> {
        let packed = self.place().packed(self.plan.size, program, end)?;
        let source = self.place().source(end)?;
        let mount = self.place().mounted(&source, Some(network))?;
        let alone = format!("{program} -dc \"$FILE\"");
        let sides = vec![
            Side::new("pipe", format!("{alone} | cat"), packed.clone()),
            Side::new(program, alone, packed),
            Side::reads(OURS, mount.join("text")),
        ];
        // gzip(1) and zstd(1) are measured as they are used: the former mostly in pipelines.
        let baseline = if row == Row::Gunzip { "pipe" } else { program };
        Ok(vec![self.comparison(row, None, baseline, sides)])
    }

    fn packed(&self) -> Result<Vec<Comparison>, String> {
        let text = self.place().text(self.plan.size)?;
        let source = self.place().source("written")?;
        let mount = self.place().mounted(&source, Some("unzstd"))?;
        let side = |name, script: &str, output: PathBuf, written: PathBuf| Side {
            proof: Some("zstd -dc \"$WRITTEN\""),
            environment: vec![("OUTPUT", output), ("WRITTEN", written)],
            ..Side::new(name, script.into(), text.clone())
        };
        let (bare, ours) = (source.join("bare.zst"), source.join("text.zst"));
        let sides = vec![
            side("pipe", "cat \"$FILE\" | zstd -qf -o \"$OUTPUT\"", bare.clone(), bare),
            side(OURS, "cat \"$FILE\" >\"$OUTPUT\"", mount.join("text"), ours),
        ];
        Ok(vec![self.comparison(Row::ZstdWrite, None, "pipe", sides)])
    }

    /// A file is opened and closed: one without stages against the bare file system, others against one without.
    fn opened(&self, stages: usize) -> Result<Comparison, String> {
        let text = self.place().text(self.plan.size)?;
        let source = self.place().source("plain")?;
        let unbound = self.place().mounted(&source, None)?.join("text");
        let (baseline, other, own) = match stages {
            0 => (BARE, text, unbound),
            _ => {
                let network = vec!["identity"; stages].join(" | ");
                ("unbound", unbound, self.place().mounted(&source, Some(&network))?.join("text"))
            }
        };
        let job = |transport, path: PathBuf| {
            let place = Arc::clone(self.place);
            Job::new(self.cell(Row::Open, Some(stages), transport, "us"), move || {
                let _until_measured = &place;
                open_and_close(&path)
            })
        };
        Ok(Comparison { baseline: Some(baseline), rehearsals: 1, jobs: vec![job(baseline, other), job(OURS, own)] })
    }

    fn tar(&self) -> Result<Vec<Comparison>, String> {
        let directory = self.place().small_files(self.plan.files)?;
        let mount = self.place().mounted(&directory, Some("identity"))?;
        // To /dev/null tar(1) would write without reading the files.
        let side = |name, path| Side::new(name, "tar -c --sort=name -C \"$FILE\" . | cat".into(), path);
        let mut sides = vec![side(BARE, directory.clone()), side(OURS, mount)];
        let mut baseline = BARE;
        if let Some(other) = &self.other {
            sides.push(side(PASSTHROUGH_LL, self.place().passed_through(other, &directory)?));
            baseline = PASSTHROUGH_LL;
        }
        Ok(vec![self.comparison(Row::Tar, None, baseline, sides)])
    }

    fn cell(&self, row: Row, stages: Option<usize>, transport: &'static str, unit: &'static str) -> Cell {
        let mut params = BTreeMap::from([("workload", row.name().into())]);
        match row {
            Row::Open => {}
            Row::Tar => drop(params.insert("files", self.plan.files.into())),
            _ => drop(params.insert("size", self.plan.size.into())),
        }
        if let Some(stages) = stages {
            params.insert("stages", stages.into());
        }
        Cell::new(NAME, transport, "free", params, unit)
    }

    fn comparison(&self, row: Row, stages: Option<usize>, baseline: &'static str, sides: Vec<Side>) -> Comparison {
        let expected = Rc::new(RefCell::new(None));
        let job = |side: Side| {
            let (place, commands) = (Arc::clone(self.place), self.place().commands());
            let expected = Rc::clone(&expected);
            let mut is_proven = false;
            Job::new(self.cell(row, stages, side.transport, "ms"), move || {
                let _until_measured = &place;
                if !is_proven {
                    let found = side.digest(&commands)?;
                    if *expected.borrow_mut().get_or_insert(found) != found {
                        return Err("other bytes came out than from those measured beside it".into());
                    }
                    is_proven = true;
                }
                side.launch(&commands)
            })
        };
        Comparison { baseline: Some(baseline), rehearsals: 1, jobs: sides.into_iter().map(job).collect() }
    }
}

/// A command of a comparison.
struct Side {
    transport: &'static str,
    /// For the shell. What it prints is thrown away when it is timed.
    script: String,
    /// Prints what the script has written, if that prints nothing.
    proof: Option<&'static str>,
    /// `$FILE`; dropped from the kernel's cache if it is mounted.
    file: PathBuf,
    environment: Vec<(&'static str, PathBuf)>,
    is_mounted: bool,
}

impl Side {
    fn new(transport: &'static str, script: String, file: PathBuf) -> Side {
        Side { transport, script, proof: None, file, environment: Vec::new(), is_mounted: false }
    }

    /// One program that reads a file.
    fn reads(transport: &'static str, file: PathBuf) -> Side {
        Side { is_mounted: transport != BARE, ..Side::new(transport, "cat \"$FILE\"".into(), file) }
    }

    fn command(&self, commands: &Commands, script: &str) -> Command {
        let mut command = commands.command("sh");
        command.args(["-ec", script]).env("FILE", &self.file);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null());
        command
    }

    /// A sum of what it prints.
    fn digest(&self, commands: &Commands) -> Result<u64, String> {
        let script = match self.proof {
            Some(proof) => format!("{}\n{proof}", self.script),
            None => self.script.clone(),
        };
        let cannot = |error: io::Error| format!("cannot run '{script}': {error}");
        let mut command = self.command(commands, &script);
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(cannot)?;
        let (mut sum, mut buffer) = (Sum::default(), vec![0; 64 << 10]);
        if let Some(mut output) = child.stdout.take() {
            loop {
                match output.read(&mut buffer).map_err(cannot)? {
                    0 => break,
                    count => sum.add(&buffer[..count]),
                }
            }
        }
        let status = child.wait().map_err(cannot)?;
        if status.success() { Ok(sum.total()) } else { Err(format!("'{script}' failed: {status}")) }
    }

    /// Milliseconds from its start to its end.
    fn launch(&self, commands: &Commands) -> Result<Launch, String> {
        if self.is_mounted {
            let dropped = File::open(&self.file).and_then(|file| Ok(mapped_file::drop_cached(&file)?));
            dropped.map_err(|error| format!("cannot drop '{}' from the cache: {error}", self.file.display()))?;
        }
        let mut command = self.command(commands, &self.script);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let start = clock::raw_nanoseconds();
        let output = command.output().map_err(|error| format!("cannot run '{}': {error}", self.script))?;
        let nanoseconds = clock::raw_nanoseconds() - start;
        if !output.status.success() || !output.stderr.is_empty() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("'{}' failed ({}): {}", self.script, output.status, said.trim()));
        }
        Ok(Launch::of(nanoseconds as f64 / 1e6))
    }
}

/// Microseconds of opening a file and closing it.
fn open_and_close(path: &Path) -> Result<Launch, String> {
    let start = clock::raw_nanoseconds();
    for _ in 0..OPENS {
        File::open(path).map_err(|error| format!("cannot open '{}': {error}", path.display()))?;
    }
    let nanoseconds = clock::raw_nanoseconds() - start;
    Ok(Launch { operations: OPENS.into(), ..Launch::of(nanoseconds as f64 / 1e3 / f64::from(OPENS)) })
}

/// A stage of the pipelines: adds one to each byte of its input, with the loop of the transform.
///
/// # Errors
/// Those of reading and writing.
pub fn add(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return output.flush(),
            Ok(count) => {
                add_one(&mut buffer[..count]);
                output.write_all(&buffer[..count])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(scripts: [&str; 2]) -> Vec<Side> {
        let [first, second] = scripts.map(str::to_owned);
        vec![Side::new(BARE, first, "/dev/null".into()), Side::new(OURS, second, "/dev/null".into())]
    }

    fn outcomes(scripts: [&str; 2]) -> Vec<Result<Launch, String>> {
        let plan = Plan { programs: Programs::default(), rows: Vec::new(), size: 64, files: 1 };
        let place = Arc::new(Mutex::new(Place::for_tests()));
        let setting = Setting { plan: &plan, place: &place, other: None };
        let Comparison { jobs, .. } = setting.comparison(Row::Unbound, None, BARE, sides(scripts));
        jobs.into_iter().map(|mut job| (job.launch)()).collect()
    }

    #[test]
    fn command_that_prints_something_else_is_not_valid() {
        assert!(outcomes(["echo a", "printf 'a\\n'"]).iter().all(Result::is_ok));
        let outcomes = outcomes(["echo a", "echo b"]);
        assert!(outcomes[0].is_ok() && outcomes[1].as_ref().unwrap_err().contains("other bytes"));
    }

    #[test]
    fn command_that_fails_or_complains_is_not_valid() {
        for script in ["false", "echo >&2 it hurts"] {
            assert!(outcomes([":", script])[1].is_err(), "{script}");
        }
    }

    #[test]
    fn stage_adds_one_to_each_byte() {
        let mut output = Vec::new();
        add(&[0, 1, 255][..], &mut output).unwrap();
        assert_eq!(output, [1, 2, 0]);
    }
}
