//! `millstream buffer`: takes up what comes faster than it goes.

mod line;

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use millstream_buffer::{Options as Buffering, Outcome, Stream, StreamError};
use millstream_sys::{inherited, signals};

use crate::bytes;
use crate::statistics::StatsFormat;
use line::Line;
use millstream_command::failure::{self, Failure};

/// Shown below the options.
pub(crate) const EXAMPLES: &str = "\
Examples:
  tar c /home | millstream buffer 1G | ssh backup 'cat >home.tar'
  millstream buffer -i disk.img -o /mnt/a/disk.img -o /mnt/b/disk.img
  zfs send tank@now | millstream buffer 4G --start 80% | ssh host zfs receive tank
  pg_dump db | millstream buffer --rate 20M --name db | aws s3 cp - s3://bucket/db
  dd if=/dev/st0 bs=64k | millstream buffer 256M --spill /var/tmp/spill --low 20% >tape.img

A signal USR1 has it show a line at once.
Exit status: 0; 1 a stream cannot be read or written, after all the rest was; 2 wrong use. If nothing reads its one output any
  longer it dies of SIGPIPE, as cat does.";

/// How often the line is drawn on a terminal, and added elsewhere.
const REDRAWN: Duration = Duration::from_millis(250);
const ADDED: Duration = Duration::from_secs(1);

/// Options of `millstream buffer`.
#[derive(Args)]
pub(crate) struct Options {
    /// Memory, at most, with K, M or G: taken as the buffer fills, and given back
    #[arg(value_name = "SIZE", value_parser = parse_memory, default_value = "256M")]
    memory: usize,

    /// Read FILE instead of the standard input
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,

    /// Write FILE instead of the standard output, - for that; again for several, which all get everything, as fast as the
    /// slowest takes it
    #[arg(short, long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,

    /// Begin to write when so much of SIZE is full, and again each time after it was empty
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "0")]
    start: u8,

    /// Once all is full, read on when no more than so much of SIZE is left
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "100")]
    low: u8,

    /// Write no more than so many bytes a second
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    rate: Option<u64>,

    /// When memory is full, put what comes into a new file, which has no name as soon as it is open
    #[arg(long, value_name = "FILE")]
    spill: Option<PathBuf>,

    /// So many bytes are expected, for a percentage and the time left [default: the size of the input, if it is a file]
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    size: Option<u64>,

    /// A name to begin each line with
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Show lines though stderr is no terminal, one a second
    #[arg(long, conflicts_with = "quiet")]
    progress: bool,

    /// Show none though it is one
    #[arg(short, long)]
    quiet: bool,

    /// Afterwards show on stderr what was counted: which side was the slower one, how full it was
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table")]
    stats: Option<StatsFormat>,
}

fn parse_memory(text: &str) -> Result<usize, String> {
    match usize::try_from(bytes::parse(text)?) {
        Ok(bytes) if (8 << 10..=1 << 46).contains(&bytes) => Ok(bytes),
        _ => Err("a buffer has 8K or more".into()),
    }
}

fn parse_percent(text: &str) -> Result<u8, String> {
    match text.strip_suffix('%').unwrap_or(text).parse() {
        Ok(percent @ 0..=100) => Ok(percent),
        _ => Err("a percentage is 0 to 100".into()),
    }
}

/// Does it.
pub(crate) fn buffer(options: Options) -> Result<ExitCode, Failure> {
    let asked = signals::Requests::hold(signals::USER_1);
    let input = match &options.input {
        Some(path) => opened(path, File::open(path))?,
        None => standard(io::stdin().as_fd(), "the standard input")?,
    };
    let spill = options.spill.as_deref().map(new_spill).transpose()?;
    let outputs = outputs(&options.outputs, &input)?;
    let is_terminal = io::stderr().is_terminal();
    let is_shown = options.progress || is_terminal && !options.quiet;
    let line = Line::new(options.name.clone(), options.size.or_else(|| length(&input.file)), is_terminal);
    let shown = line.clone();
    asked.each(move || shown.show_at_once());
    let buffering = Buffering {
        memory: options.memory,
        start_percent: options.start,
        low_percent: options.low,
        rate: options.rate,
        spill,
    };
    let is_only_output = outputs.len() == 1;
    let pause = if is_terminal { REDRAWN } else { ADDED };
    let outcome = millstream_buffer::run(input, outputs, buffering, pause, |counts| line.update(counts, is_shown));
    let outcome = outcome.map_err(|error| Failure::own(format!("cannot start: {error}")))?;
    line.end();
    match options.stats {
        Some(StatsFormat::Table) => tell(&line::table(&outcome)),
        Some(StatsFormat::Json) => tell(&line::json(&outcome)),
        None => {}
    }
    ended(outcome, is_only_output)
}

fn tell(text: &str) {
    // The bytes are where they should be; there is nowhere to tell that this text is not.
    let _ = io::stderr().write_all(text.as_bytes());
}

fn ended(outcome: Outcome, is_only_output: bool) -> Result<ExitCode, Failure> {
    if outcome.counts.is_spill_full {
        failure::warn("the file system of the spill was full, so the input had to wait");
    }
    let has_no_reader = |error: &StreamError| !error.is_input && error.kind() == ErrorKind::BrokenPipe;
    if is_only_output && outcome.errors.iter().any(has_no_reader) && !inherited::sigpipe_was_ignored() {
        signals::die_of(signals::PIPE);
    }
    let mut errors = outcome.errors.iter();
    let last = errors.next_back();
    errors.for_each(failure::warn);
    last.map_or(Ok(ExitCode::SUCCESS), |error| Err(Failure::data(error.to_string())))
}

/// Bytes that are left in a file.
fn length(file: &File) -> Option<u64> {
    let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let position = io::Seek::stream_position(&mut &*file).ok()?;
    Some(metadata.len().saturating_sub(position))
}

/// Opens all of them, and only then empties those that are files: a mistake in one name costs nothing.
fn outputs(paths: &[PathBuf], input: &Stream) -> Result<Vec<Stream>, Failure> {
    let standard_output = || standard(io::stdout().as_fd(), "the standard output");
    let open = |path: &PathBuf| File::options().write(true).create(true).truncate(false).open(path);
    let mut outputs = match paths {
        [] => vec![(standard_output()?, false)],
        paths => Vec::with_capacity(paths.len()),
    };
    for path in paths {
        outputs.push(match path.as_os_str() == "-" {
            true => (standard_output()?, false),
            false => (opened(path, open(path))?, true),
        });
    }
    if let Some((output, _)) = outputs.iter().find(|(output, _)| is_same_file(&output.file, &input.file)) {
        return Err(Failure::data(format!("{} is the input, which it would overwrite", output.name)));
    }
    for (output, _) in outputs.iter().filter(|(output, is_ours)| *is_ours && length(&output.file).is_some()) {
        output.file.set_len(0).map_err(|error| Failure::data(format!("cannot empty {}: {error}", output.name)))?;
    }
    Ok(outputs.into_iter().map(|(output, _)| output).collect())
}

fn is_same_file(one: &File, other: &File) -> bool {
    let identity =
        |file: &File| file.metadata().ok().filter(|file| file.is_file()).map(|file| (file.dev(), file.ino()));
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

fn opened(path: &Path, file: io::Result<File>) -> Result<Stream, Failure> {
    let name = format!("'{}'", path.display());
    let file = file.map_err(|error| Failure::data(format!("cannot open {name}: {error}")))?;
    Ok(Stream { file, name })
}

fn standard(fd: std::os::fd::BorrowedFd<'_>, name: &str) -> Result<Stream, Failure> {
    use std::os::fd::AsRawFd;
    let is_closed = inherited::closed_standard_descriptors().any(|closed| closed == fd.as_raw_fd());
    let copy = if is_closed { Err(io::Error::other("it is closed")) } else { fd.try_clone_to_owned() };
    let copy = copy.map_err(|error| Failure::data(format!("cannot use {name}: {error}")))?;
    Ok(Stream { file: File::from(copy), name: name.into() })
}

fn new_spill(path: &Path) -> Result<File, Failure> {
    millstream_buffer::spill_file(path).map_err(|error| {
        let why = match error.kind() {
            ErrorKind::AlreadyExists => "there is a file of that name, which will not be overwritten".into(),
            _ => error.to_string(),
        };
        Failure::data(format!("cannot make the spill '{}': {why}", path.display()))
    })
}
