//! Moves the bytes.
//!
//! Each node pushes what it has into the next: a chunk goes from the source to the sinks before the next one is read, so
//! back-pressure is a function that has not returned yet. Who has been told `Flow::Enough` pushes no more, and has been
//! told only after everything below was finished.

mod abort;
mod bell;
mod build;
mod count;
mod elsewhere;
mod fused;
mod join;
mod pipes;
mod pour;
mod relay;
mod rewriter;
mod sink;
mod source;
mod split;
mod spool;
mod team;

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use millstream_sys::inherited;

use crate::catalogue::Catalogue;
use crate::check::{Checked, check};
use crate::chunk::Chunk;
use crate::error::NetworkError;
use crate::files::check_standard;
use crate::graph::{Case, Network, Target, Work};
use crate::plan::{BUFFER_MIN, Options, Place, Plan};

use abort::Abort;
use bell::Bell;
use build::{Builder, First};
use count::Counter;
pub use count::StageCount;
pub use pour::Pour;
use sink::Files;
use source::{Found, Source};
use spool::Spools;

/// Room that a rewriting transform always finds at the start of its output.
pub const OUTPUT_MIN: usize = BUFFER_MIN;

/// Whether more is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    More,
    Enough,
}

/// A node and all below it.
trait Push: Send {
    /// Takes the bytes of a chunk, which it may change.
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, NetworkError>;

    /// Nothing has come, but a thread has ended: whether more is wanted.
    fn look(&mut self) -> Result<Flow, NetworkError>;

    /// Nothing follows. Not called after [`Flow::Enough`].
    fn finish(&mut self) -> Result<(), NetworkError>;
}

/// What a run did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// In the order of the nodes.
    pub stages: Vec<StageCount>,
    /// From the first byte to the last.
    pub wall: Duration,
}

/// What a network reads and writes in place of the files that it names.
#[derive(Default)]
struct Ends {
    inputs: Vec<(String, Vec<u8>)>,
    outputs: Vec<(String, Arc<Mutex<dyn Write + Send>>)>,
    /// Files that transforms write beside the stream are left out too.
    is_test: bool,
    /// The standard streams are nobody else's in this process.
    has_process: bool,
}

/// Runs a network from its files to its files.
///
/// # Errors
/// [`NetworkError`]. Files that were to be written are as they were.
pub fn run(network: &Network, catalogue: Catalogue<'_>, options: &Options) -> Result<Outcome, NetworkError> {
    run_with(network, catalogue, options, &Ends::default(), &mut |_| {})
}

/// The same for a process that does nothing else, and says after each chunk how many bytes have been read. Only the main thread
/// may call it, once, and nothing but the network may use the standard input and output, then and afterwards: under
/// `millstream run` their bytes go through shared memory, on the strength of that.
///
/// # Errors
/// As [`run`]; and what every stage did until then, if the network had begun.
pub fn run_as_process(
    network: &Network,
    catalogue: Catalogue<'_>,
    options: &Options,
    watch: &mut dyn FnMut(u64),
) -> Result<Outcome, (NetworkError, Option<Outcome>)> {
    counted(network, catalogue, options, &Ends { has_process: true, ..Ends::default() }, watch)
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
    let ends = Ends {
        inputs: vec![(source.name.clone(), input.into())],
        outputs: vec![(sink.name.clone(), output.clone())],
        ..Ends::default()
    };
    run_with(network, catalogue, options, &ends, &mut |_| {})?;
    Ok(taken(&output))
}

/// Runs a test of a network: in memory, with the inputs that the test names and none where it names none.
///
/// # Errors
/// What came out that should not have, or [`NetworkError`] as a sentence.
pub fn test(network: &Network, catalogue: Catalogue<'_>, case: &Case) -> Result<(), String> {
    let mut ends = Ends { is_test: true, ..Ends::default() };
    let mut outputs: Vec<(String, Arc<Mutex<Vec<u8>>>)> = Vec::new();
    for node in &network.nodes {
        let name = node.name.clone();
        match node.work {
            Work::Read(_) => {
                let input = case.inputs.iter().find(|(of, _)| *of == name);
                ends.inputs.push((name, input.map(|(_, bytes)| bytes.clone()).unwrap_or_default()));
            }
            Work::Write(_) => outputs.push((name, Arc::default())),
            Work::Transform(_) | Work::Inlet { .. } | Work::Outlet { .. } => {}
        }
    }
    ends.outputs = outputs.iter().map(|(name, output)| (name.clone(), output.clone() as _)).collect();
    run_with(network, catalogue, &Options::default(), &ends, &mut |_| {}).map_err(|failure| failure.to_string())?;
    for (name, expected) in &case.outputs {
        let found = outputs.iter().find(|(of, _)| of == name).map(|(_, output)| taken(output)).unwrap_or_default();
        if found != *expected {
            let same = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
            return Err(format!(
                "{name}: {} bytes, not {}; the first difference is at byte {same}: {:?}, not {:?}",
                found.len(),
                expected.len(),
                excerpt(&found, same),
                excerpt(expected, same)
            ));
        }
    }
    Ok(())
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
    ends: &Ends,
    watch: &mut dyn FnMut(u64),
) -> Result<Outcome, NetworkError> {
    counted(network, catalogue, options, ends, watch).map_err(|(failure, _)| failure)
}

/// The same, with what every stage did up to a failure of a network that had begun.
fn counted(
    network: &Network,
    catalogue: Catalogue<'_>,
    options: &Options,
    ends: &Ends,
    watch: &mut dyn FnMut(u64),
) -> Result<Outcome, (NetworkError, Option<Outcome>)> {
    let unfit = |failure| (failure, None);
    let mut checked = check(network, catalogue).map_err(unfit)?;
    checked.limit(options.timeout);
    let plan = Plan::of(&checked, options).map_err(unfit)?;
    if ends.inputs.is_empty() && ends.outputs.is_empty() {
        check_standard(network).map_err(unfit)?;
    }
    let counters: Vec<Arc<Counter>> = network.nodes.iter().map(|_| Arc::default()).collect();
    let start = Instant::now();
    let run = Run { network, catalogue, ends, plan: &plan, counters: &counters };
    let moved = run.all(&mut checked, watch);
    let wall = start.elapsed();
    let stages = counters.iter().enumerate().map(|(place, counter)| {
        let is_command = plan.places[place] == Place::Elsewhere;
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
    ends: &'a Ends,
    plan: &'a Plan,
    counters: &'a [Arc<Counter>],
}

/// A source with what it feeds.
struct Lane {
    source: Source,
    first: First,
    bell: Option<Bell>,
}

impl<'a> Run<'a> {
    fn all(&self, checked: &mut Checked<'_>, watch: &mut dyn FnMut(u64)) -> Result<(), NetworkError> {
        let Run { network, ends, plan, counters, .. } = self;
        // The thread that reads must not take the locks of the pipe's library then, as it does to feed a command or a FIFO.
        let may_promise_input = ends.has_process && !plan.places.contains(&Place::Elsewhere) && !pipes::are_in(network);
        // Every file is opened before the first byte moves.
        let mut sources = Vec::new();
        for &place in &checked.sources {
            sources.push((place, Source::open(&network.nodes[place], ends, may_promise_input, &counters[place])?));
        }
        // Between a source that may sleep for ever and threads that may want no more.
        let is_bell_needed = plan.threads > 1 && sources.iter().any(|(_, source)| source.is_slow());
        let (mut bells, rope) = match is_bell_needed {
            true => bell::bells(sources.len()).map(|(bells, rope)| (bells, Some(rope))).map_err(no_bell)?,
            false => (Vec::new(), None),
        };
        let (files, abort, spools) = (Files::default(), Abort::new(rope), Spools::default());
        let lanes = self.lanes(sources, &mut bells, &files, &abort, &spools, checked);
        let moved = lanes.and_then(|lanes| match checked.is_concurrent {
            true => at_the_same_time(lanes, plan.buffer_bytes, &abort, watch),
            false => one_after_the_other(lanes, plan.buffer_bytes, &abort, watch),
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
        bells: &mut Vec<Bell>,
        files: &Files,
        abort: &Abort,
        spools: &Spools,
        checked: &mut Checked<'_>,
    ) -> Result<Vec<Lane>, NetworkError> {
        let Run { catalogue, ends, plan, counters, .. } = *self;
        let (shared, inputs) = (Vec::new(), Vec::new());
        let mut builder = Builder { plan, catalogue, counters, ends, files, abort, spools, shared, inputs };
        let mut lanes = Vec::new();
        for (place, source) in sources {
            let is_shareable = source.regular().is_some();
            // Told before what was built is dropped: it may wait for what was not.
            let first = builder.first(place, is_shareable, checked).map_err(|failure| abort.fail(failure))?;
            lanes.push(Lane { source, first, bell: bells.pop() });
        }
        drop(builder);
        files.make_missing().map_err(|failure| abort.fail(failure))?;
        Ok(lanes)
    }
}

/// Each source runs to its end before the next begins.
fn one_after_the_other(
    mut lanes: Vec<Lane>,
    buffer_bytes: usize,
    abort: &Abort,
    watch: &mut dyn FnMut(u64),
) -> Result<(), NetworkError> {
    let (mut chunk, mut read) = (Chunk::of(buffer_bytes), 0);
    for lane in &mut lanes {
        let before = read;
        let driven = lane.drive(&mut chunk, buffer_bytes, abort, &mut |bytes| {
            read = before + bytes;
            watch(read);
        });
        // Before what has not ended is stopped, which must not seem to have failed by itself.
        driven.map_err(|failure| abort.fail(failure))?;
    }
    Ok(())
}

/// How often bytes are told of that other threads have read.
const WATCHED: Duration = Duration::from_millis(50);

/// Each source in a thread of its own.
fn at_the_same_time(
    lanes: Vec<Lane>,
    buffer_bytes: usize,
    abort: &Abort,
    watch: &mut dyn FnMut(u64),
) -> Result<(), NetworkError> {
    let lanes: Vec<(Mutex<Option<Lane>>, AtomicU64)> =
        lanes.into_iter().map(|lane| (Mutex::new(Some(lane)), AtomicU64::new(0))).collect();
    let all_read = || lanes.iter().map(|(_, read)| read.load(Relaxed)).sum();
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        for (lane, read) in &lanes {
            let done = done.clone();
            let thread = thread::Builder::new().spawn_scoped(scope, move || {
                // Hangs up when this thread is at its end.
                let _done = done;
                let Some(mut lane) = lane.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
                let driven = lane.drive(&mut Chunk::of(buffer_bytes), buffer_bytes, abort, &mut |bytes| {
                    read.store(bytes, Relaxed);
                });
                // Before what has not ended is stopped, which must not seem to have failed by itself.
                if let Err(failure) = driven {
                    abort.fail(failure);
                }
            });
            if let Err(error) = thread {
                abort.fail(NetworkError::Invalid(format!("cannot start a thread: {error}; allow fewer")));
            }
        }
        drop(done);
        let mut told = 0;
        while is_done.recv_timeout(WATCHED) == Err(RecvTimeoutError::Timeout) {
            let bytes = all_read();
            if std::mem::replace(&mut told, bytes) != bytes {
                watch(bytes);
            }
        }
    });
    watch(all_read());
    abort.outcome()
}

impl Lane {
    /// Brings all of the source into what it feeds. `watch` gets the number of bytes read.
    fn drive(
        &mut self,
        chunk: &mut Chunk,
        buffer_bytes: usize,
        abort: &Abort,
        watch: &mut dyn FnMut(u64),
    ) -> Result<(), NetworkError> {
        let Lane { source, first: (groups, first), bell } = self;
        if let (false, Some(file)) = (groups.is_empty(), source.regular()) {
            return team::run(&file, std::mem::take(groups), &mut **first, buffer_bytes, watch);
        }
        let (mut flow, mut read) = (Flow::More, 0);
        while flow == Flow::More {
            if abort.is_set() {
                return abort.outcome();
            }
            flow = match source.fill(chunk, bell.as_mut())? {
                Found::Bytes => {
                    read += chunk.len() as u64;
                    let flow = first.push(chunk)?;
                    watch(read);
                    flow
                }
                Found::Bell => first.look()?,
                Found::End => break,
            };
        }
        if flow == Flow::More { first.finish() } else { Ok(()) }
    }
}

fn no_bell(error: std::io::Error) -> NetworkError {
    NetworkError::Invalid(format!("cannot make a pipe between two threads: {error}; allow one thread only"))
}

/// Whether there was nothing at a standard descriptor when the program was started, as after `>&-`. The runtime of Rust opens
/// `/dev/null` there, where everything would be lost without a word.
fn is_closed(descriptor: i32) -> bool {
    inherited::closed_standard_descriptors().any(|closed| closed == descriptor)
}

/// How a file is called in a message.
fn called(path: Option<&PathBuf>, standard: &str) -> String {
    path.map_or_else(|| format!("the standard {standard}"), |path| format!("'{}'", path.display()))
}

/// How a target is called in a message.
fn target_called(target: &Target) -> String {
    match target {
        Target::Stdout => called(None, "output"),
        Target::File(path) | Target::Append(path) => called(Some(path), "output"),
    }
}
