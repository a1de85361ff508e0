//! `millstream net`: networks of transforms.

mod count;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use millstream_net::{
    Network, NetworkError, Options as RunOptions, Plan, Target, Work, check, data, doc, explain, list, run,
};
use millstream_transforms::ALL;

use crate::bytes;
use crate::statistics::StatsFile;
use millstream_command::failure::{self, Failure};

/// Shown below the options.
pub(crate) const EXAMPLES: &str = "\
Examples:
  millstream net 'read a.gz | gunzip | grep ERROR | zstd -3 | write b.zst'
  tar c dir | millstream net 'sha256 dir.sum | zstd -9' >dir.tar.zst
  millstream net run split.toml --progress
  millstream net 'read reads.fq | parallel 4 records=fastq exec ./trim | write trimmed.fq'
  millstream net run align.toml --stats=json --stats-file align.json
  millstream net explain 'gunzip | upper | rot13 | gzip'
  millstream net doc zstd

Exit status: 0 done, or the reader of the output wants no more; 1 bad data, or a file that cannot be read or written;
  2 wrong use or a network that cannot work; 125 millstream itself failed. If a command fails, that of the first that did:
  its own, 128 + N if signal N killed it, 127 if it is not found, 126 if it cannot be run. Output files appear whole or not
  at all.";

/// Options of `millstream net`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Option<Command>,

    /// Stages with bars between them, from the standard input to the standard output unless it says 'read FILE' first and
    /// 'write FILE' last
    #[arg(value_name = "LINE", required = true)]
    line: Option<String>,

    #[command(flatten)]
    running: Running,
}

#[derive(Subcommand)]
enum Command {
    /// Run a network from a TOML file
    Run {
        /// The network
        #[arg(value_name = "FILE")]
        network: PathBuf,
        #[command(flatten)]
        running: Running,
    },
    /// Tell what is wrong with a network before a byte moves, or print it back
    Check {
        /// A line, or a file whose name ends in .toml
        #[arg(value_name = "NETWORK")]
        network: String,
        /// Print it as TOML
        #[arg(long)]
        toml: bool,
    },
    /// Run the tests in the file of a network
    Test {
        /// The network
        #[arg(value_name = "FILE")]
        network: PathBuf,
    },
    /// Tell which stages share a buffer, which run beside each other, and why
    Explain {
        /// A line, or a file whose name ends in .toml
        #[arg(value_name = "NETWORK")]
        network: String,
        #[command(flatten)]
        limits: Limits,
    },
    /// Print the network that undoes this one
    Inverse {
        /// A line, or a file whose name ends in .toml
        #[arg(value_name = "NETWORK")]
        network: String,
    },
    /// List all transforms
    List {
        /// As a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Tell what a transform does and how it is used
    Doc {
        /// Its name
        #[arg(value_name = "TRANSFORM")]
        transform: String,
    },
}

/// What a run may use.
#[derive(Args)]
struct Limits {
    /// Bytes of all buffers together, with K, M or G; formats have tables of their own beside them
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse, default_value = "64M")]
    memory: u64,

    /// Threads, at most [default: as many as there are CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// How a run is shown, and what it may use.
#[derive(Args)]
struct Running {
    #[command(flatten)]
    limits: Limits,

    /// Add to the files that are written, instead of replacing them
    #[arg(long)]
    append: bool,

    /// Afterwards show on stderr what each stage read, wrote and copied, and its time; of each command its status, time and bytes
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table")]
    stats: Option<StatsFormat>,

    /// Write the statistics to FILE instead of stderr, where commands write too
    #[arg(long, value_name = "FILE")]
    stats_file: Option<PathBuf>,

    /// Show on stderr, while it runs, how much has been read
    #[arg(long)]
    progress: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StatsFormat {
    Table,
    Json,
}

impl Limits {
    fn options(&self) -> RunOptions {
        let memory = usize::try_from(self.memory).unwrap_or(usize::MAX);
        // To count the CPUs takes three files to read.
        let threads = self.threads.map_or_else(|| RunOptions::default().threads, usize::from);
        RunOptions { memory, threads, timeout: None }
    }
}

/// Does it.
pub(crate) fn net(options: Options) -> Result<ExitCode, Failure> {
    match options.command {
        None => run_network(from_line(&options.line.unwrap_or_default())?, &options.running),
        Some(Command::Run { network, running }) => run_network(from_file(&network)?, &running),
        Some(Command::Check { network, toml }) => check_network(&from_either(&network)?, toml),
        Some(Command::Test { network }) => run_tests(&from_file(&network)?),
        Some(Command::Explain { network, limits }) => {
            let network = from_either(&network)?;
            let checked = check::check(&network, ALL).map_err(unfit)?;
            let plan = Plan::of(&checked, &limits.options()).map_err(unfit)?;
            failure::print(&explain(&checked, &plan))
        }
        Some(Command::Inverse { network }) => print_inverse(&from_either(&network)?),
        Some(Command::List { json }) => failure::print(&if json { list_as_json() } else { list(ALL) }),
        Some(Command::Doc { transform }) => print_doc(&transform),
    }
}

fn from_line(line: &str) -> Result<Network, Failure> {
    Network::from_line(line).map_err(|error| Failure::usage(format!("the network cannot be read: {error}")))
}

fn from_file(path: &Path) -> Result<Network, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("the network '{shown}' cannot be read: {error}")))?;
    Network::from_toml(&text).map_err(|error| Failure::usage(format!("the network '{shown}': {error}")))
}

fn from_either(text: &str) -> Result<Network, Failure> {
    let path = Path::new(text);
    if path.extension() == Some(OsStr::new("toml")) { from_file(path) } else { from_line(text) }
}

fn unfit(error: NetworkError) -> Failure {
    Failure::usage(error.to_string())
}

fn run_network(mut network: Network, running: &Running) -> Result<ExitCode, Failure> {
    if running.append {
        for node in &mut network.nodes {
            if let Work::Write(target @ Target::File(_)) = &mut node.work
                && let Target::File(path) = target.clone()
            {
                *target = Target::Append(path);
            }
        }
    }
    let format = running.stats.or(running.stats_file.is_some().then_some(StatsFormat::Table));
    let mut file = StatsFile::open(running.stats_file.as_deref())?;
    let total = network.nodes.iter().map(length).sum::<Option<u64>>();
    let mut meter = running.progress.then(|| count::Meter::new(total));
    let mut watch = |bytes| meter.iter_mut().for_each(|meter| meter.update(bytes));
    let outcome = run::run_as_process(&network, ALL, &running.limits.options(), &mut watch);
    drop(meter);
    let (outcome, failure) = match outcome {
        Ok(outcome) => (Some(outcome), None),
        Err((failure, outcome)) => (outcome, Some(failure)),
    };
    if let (Some(format), Some(outcome)) = (format, outcome) {
        let text = match format {
            StatsFormat::Table => count::table(&outcome),
            StatsFormat::Json => format!("{}\n", count::json(&outcome, failure.as_ref())),
        };
        // The bytes are where they should be: statistics that cannot be told do not change the outcome.
        if let Err(why) = file.write(&text) {
            failure::warn(why);
        }
    }
    match failure {
        None => Ok(ExitCode::SUCCESS),
        Some(unfit @ NetworkError::Invalid(_)) => Err(self::unfit(unfit)),
        Some(failed) => Err(match failed.exit_status() {
            Some(status) => Failure::command(failed.to_string(), status),
            None => Failure::data(failed.to_string()),
        }),
    }
}

/// Bytes that a node will read, if that is known; those that are no sources read none.
fn length(node: &millstream_net::Node) -> Option<u64> {
    match &node.work {
        Work::Read(Some(path)) => {
            std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|file| file.len())
        }
        Work::Read(None) => None,
        _ => Some(0),
    }
}

fn check_network(network: &Network, toml: bool) -> Result<ExitCode, Failure> {
    let checked = check::check(network, ALL).map_err(unfit)?;
    Plan::of(&checked, &RunOptions::default()).map_err(unfit)?;
    let text = if toml { network.to_toml() } else { network.to_string() };
    failure::print(&format!("{}\n", text.trim_end()))
}

fn run_tests(network: &Network) -> Result<ExitCode, Failure> {
    if network.tests.is_empty() {
        return Err(Failure::usage("the file of the network has no [[test]]"));
    }
    let mut text = String::new();
    let mut failed = 0;
    for case in &network.tests {
        let name = if case.name.is_empty() { "a test without a name" } else { &case.name };
        match run::test(network, ALL, case) {
            Ok(()) => text += &format!("ok      {name}\n"),
            Err(why) => {
                failed += 1;
                text += &format!("FAILED  {name}: {why}\n");
            }
        }
    }
    failure::print(&text)?;
    match failed {
        0 => Ok(ExitCode::SUCCESS),
        _ => Err(Failure::data(format!("{failed} of {} tests failed", network.tests.len()))),
    }
}

fn print_inverse(network: &Network) -> Result<ExitCode, Failure> {
    check::check(network, ALL).map_err(unfit)?;
    let inverse_of = |call: &millstream_net::Call| {
        let (_, stage) = check::build(call, ALL).map_err(|error| error.to_string())?;
        stage.inverse.ok_or_else(|| format!("nothing undoes '{}'", call.name))
    };
    let inverse = network.inverse(inverse_of).map_err(Failure::usage)?;
    failure::print(&format!("{inverse}\n"))
}

fn list_as_json() -> String {
    let entries = ALL.iter().map(|transform| {
        serde_json::json!({ "name": transform.name(), "usage": transform.usage(), "summary": transform.summary(),
                            "takes": data(transform.takes()), "gives": data(transform.gives()) })
    });
    format!("{}\n", serde_json::Value::Array(entries.collect()))
}

fn print_doc(name: &str) -> Result<ExitCode, Failure> {
    let page = doc(ALL, name).map_err(|error| Failure::usage(format!("{error}; see 'millstream net list'")))?;
    failure::print(&page)
}
