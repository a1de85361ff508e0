//! Moves the bytes.
//!
//! Each node pushes what it has into the next: a chunk goes from the source to the sinks before the next one is read,
//! so back-pressure is a function that has not returned yet. A node that gets `Flow::Enough` pushes no more. It gets it
//! only after everything below was finished.
//!
//! In reading order: `push` says how a node hands bytes to the next, `abort` and `wake` how one that fails or ends
//! early reaches the others, `count` what each has done. The nodes are `fused` and `worker_group`, `rewriter`, `split`,
//! `merge`, `relay`, `spool` and `external`, between `source` and `sink`. `build` puts them together as planned, `lane`
//! moves bytes from a source through them, and `pour` from a caller.

mod abort;
mod build;
mod count;
mod environment;
mod external;
mod fifo;
mod fused;
mod lane;
mod merge;
mod names;
mod pour;
mod push;
mod relay;
mod rewriter;
mod sink;
mod source;
mod split;
mod spool;
mod standard;
mod unfinished;
mod wake;
mod worker_group;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::catalogue::Catalogue;
use crate::check::{Checked, check};
use crate::error::NetworkError;
use crate::files::check_standard;
use crate::graph::{Case, Network, Work};
use crate::plan::{Options, Placement, Plan};

use abort::Abort;
use build::Builder;
use count::Counter;
use environment::Environment;
use lane::Lane;
use source::Source;
use spool::Spools;
use unfinished::UnfinishedFiles;
use wake::WakePipe;

pub use crate::transform::OUTPUT_MIN;
pub use count::StageCount;
pub use pour::Pour;

/// What a run did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// In the order of the nodes.
    pub stages: Vec<StageCount>,
    /// From the first byte to the last.
    pub wall: Duration,
}

/// Runs a network from its files to its files.
///
/// # Errors
/// [`NetworkError`]. UnfinishedFiles that were to be written are as they were.
pub fn run(network: &Network, catalogue: Catalogue<'_>, options: &Options) -> Result<Outcome, NetworkError> {
    run_with(network, catalogue, options, &Environment::default(), &mut |_| {})
}

/// The same for a process that does nothing else, and says after each chunk how many bytes have been read. Only the
/// main thread may call it, once, and nothing but the network may use the standard input and output, then and
/// afterwards: under `millstream run` their bytes go through shared memory, on the strength of that.
///
/// # Errors
/// As [`run`]; and what every stage did until then, if the network had begun.
pub fn run_as_process(
    network: &Network,
    catalogue: Catalogue<'_>,
    options: &Options,
    watch: &mut dyn FnMut(u64),
) -> Result<Outcome, (NetworkError, Option<Outcome>)> {
    counted(network, catalogue, options, &Environment { has_process: true, ..Environment::default() }, watch)
}

/// Runs a line over bytes in memory.
///
/// # Errors
/// As [`run`]; and if it has more than one source and one sink.
pub fn in_memory(
    network: &Network,
    catalogue: Catalogue<'_>,
    input: &[u8],
    options: &Options,
) -> Result<Vec<u8>, NetworkError> {
    let names = |is_wanted: fn(&Work) -> bool| network.nodes.iter().filter(move |node| is_wanted(&node.work));
    let sources: Vec<_> = names(|work| matches!(work, Work::Read(_))).collect();
    let sinks: Vec<_> = names(|work| matches!(work, Work::Write(_))).collect();
    let ([source], [sink]) = (&sources[..], &sinks[..]) else {
        return Err(NetworkError::Invalid("only a network with one source and one sink runs in memory".into()));
    };
    let output: Arc<Mutex<Vec<u8>>> = Arc::default();
    let environment = Environment {
        inputs: vec![(source.name.clone(), input.into())],
        outputs: vec![(sink.name.clone(), output.clone())],
        ..Environment::default()
    };
    run_with(network, catalogue, options, &environment, &mut |_| {})?;
    Ok(taken(&output))
}

/// Runs a test of a network: in memory, with the inputs that the test names and none where it names none.
///
/// # Errors
/// What came out that should not have, or [`NetworkError`] as a sentence.
pub fn test(network: &Network, catalogue: Catalogue<'_>, case: &Case) -> Result<(), String> {
    let mut environment = Environment { is_test: true, ..Environment::default() };
    let mut outputs: Vec<(String, Arc<Mutex<Vec<u8>>>)> = Vec::new();
    for node in &network.nodes {
        let name = node.name.clone();
        match node.work {
            Work::Read(_) => {
                let input = case.inputs.iter().find(|(of, _)| *of == name);
                environment.inputs.push((name, input.map(|(_, bytes)| bytes.clone()).unwrap_or_default()));
            }
            Work::Write(_) => outputs.push((name, Arc::default())),
            Work::Transform(_) | Work::Inlet { .. } | Work::Outlet { .. } => {}
        }
    }
    environment.outputs = outputs.iter().map(|(name, output)| (name.clone(), output.clone() as _)).collect();
    run_with(network, catalogue, &Options::default(), &environment, &mut |_| {})
        .map_err(|failure| failure.to_string())?;
    for (name, expected) in &case.outputs {
        let found = outputs.iter().find(|(of, _)| of == name).map(|(_, output)| taken(output)).unwrap_or_default();
        check_output(name, &found, expected)?;
    }
    Ok(())
}

fn check_output(name: &str, found: &[u8], expected: &[u8]) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    let same = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
    Err(format!(
        "{name}: {} bytes, not {}; the first difference is at byte {same}: {:?}, not {:?}",
        found.len(),
        expected.len(),
        excerpt(found, same),
        excerpt(expected, same)
    ))
}

fn excerpt(bytes: &[u8], from: usize) -> String {
    String::from_utf8_lossy(&bytes[from..bytes.len().min(from + 20)]).into_owned()
}

fn taken(output: &Mutex<Vec<u8>>) -> Vec<u8> {
    std::mem::take(&mut output.lock().unwrap_or_else(PoisonError::into_inner))
}

fn run_with(
    network: &Network,
    catalogue: Catalogue<'_>,
    options: &Options,
    environment: &Environment,
    watch: &mut dyn FnMut(u64),
) -> Result<Outcome, NetworkError> {
    counted(network, catalogue, options, environment, watch).map_err(|(failure, _)| failure)
}

/// The same, with what every stage did up to a failure of a network that had begun.
fn counted(
    network: &Network,
    catalogue: Catalogue<'_>,
    options: &Options,
    environment: &Environment,
    watch: &mut dyn FnMut(u64),
) -> Result<Outcome, (NetworkError, Option<Outcome>)> {
    let unfit = |failure| (failure, None);
    let mut checked = check(network, catalogue).map_err(unfit)?;
    checked.limit(options.timeout);
    let plan = Plan::of(&checked, options).map_err(unfit)?;
    if environment.inputs.is_empty() && environment.outputs.is_empty() {
        check_standard(network).map_err(unfit)?;
    }
    let counters: Vec<Arc<Counter>> = network.nodes.iter().map(|_| Arc::default()).collect();
    let start = Instant::now();
    let run = Run { network, catalogue, environment, plan: &plan, counters: &counters };
    let moved = run.all(&mut checked, watch);
    let wall = start.elapsed();
    let stages = counters.iter().enumerate().map(|(place, counter)| {
        let is_command = plan.placements[place] == Placement::External;
        counter.of(network, place, is_command)
    });
    let stages = stages.collect();
    let outcome = Outcome { stages, wall };
    match moved {
        Ok(()) => Ok(outcome),
        Err(failure) => Err((failure, Some(outcome))),
    }
}

/// What a run is made of.
struct Run<'a> {
    network: &'a Network,
    catalogue: Catalogue<'a>,
    environment: &'a Environment,
    plan: &'a Plan,
    counters: &'a [Arc<Counter>],
}

impl<'a> Run<'a> {
    fn all(&self, checked: &mut Checked<'_>, watch: &mut dyn FnMut(u64)) -> Result<(), NetworkError> {
        let Run { network, environment, plan, counters, .. } = self;
        // The thread that reads must not take the locks of the pipe's library then, as it does to feed a command or a
        // FIFO.
        let may_promise_input =
            environment.has_process && !plan.placements.contains(&Placement::External) && !fifo::are_in(network);
        // Every file is opened before the first byte moves.
        let mut sources = Vec::new();
        for &place in &checked.sources {
            sources
                .push((place, Source::open(&network.nodes[place], environment, may_promise_input, &counters[place])?));
        }
        // A source may block for ever while every thread below it has ended.
        let must_be_woken = plan.threads > 1 && sources.iter().any(|(_, source)| source.is_slow());
        let (mut wake_pipes, notifier) = match must_be_woken {
            true => {
                wake::wake_pipes(sources.len()).map(|(pipes, notifier)| (pipes, Some(notifier))).map_err(no_pipe)?
            }
            false => (Vec::new(), None),
        };
        let (files, abort, spools) = (UnfinishedFiles::default(), Abort::new(notifier), Spools::default());
        let lanes = self.lanes(sources, &mut wake_pipes, &files, &abort, &spools, checked);
        let moved = lanes.and_then(|lanes| match checked.is_concurrent {
            true => lane::at_the_same_time(lanes, plan.buffer_bytes, &abort, watch),
            false => lane::one_after_the_other(lanes, plan.buffer_bytes, &abort, watch),
        });
        // What was started has ended then.
        spools.join();
        moved.map_err(|failure| abort.first(failure))?;
        abort.outcome()?;
        files.keep()
    }

    fn lanes(
        &self,
        sources: Vec<(usize, Source)>,
        wake_pipes: &mut Vec<WakePipe>,
        files: &UnfinishedFiles,
        abort: &Abort,
        spools: &Spools,
        checked: &mut Checked<'_>,
    ) -> Result<Vec<Lane>, NetworkError> {
        let Run { catalogue, environment, plan, counters, .. } = *self;
        let (shared, inputs) = (Vec::new(), Vec::new());
        let mut builder = Builder { plan, catalogue, counters, environment, files, abort, spools, shared, inputs };
        let mut lanes = Vec::new();
        for (place, source) in sources {
            let is_shareable = source.regular().is_some();
            // Told before what was built is dropped: it may wait for what was not.
            let first = builder.first(place, is_shareable, checked).map_err(|failure| abort.fail(failure))?;
            lanes.push(Lane { source, first, wake_pipe: wake_pipes.pop() });
        }
        drop(builder);
        files.make_missing().map_err(|failure| abort.fail(failure))?;
        Ok(lanes)
    }
}

fn no_pipe(error: std::io::Error) -> NetworkError {
    NetworkError::Invalid(format!("cannot make a pipe between two threads: {error}; allow one thread only"))
}
