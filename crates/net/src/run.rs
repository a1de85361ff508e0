//! Moves the bytes.
//!
//! Each node pushes what it has into the next: a chunk goes from the source to the sinks before the next one is read, so
//! back-pressure is a function that has not returned yet. Who has been told `Flow::Enough` pushes no more, and has been
//! told only after everything below was finished.

mod count;
mod fused;
mod join;
mod relay;
mod rewriter;
mod sink;
mod source;
mod split;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::catalogue::Catalogue;
use crate::check::{Checked, check};
use crate::chunk::Chunk;
use crate::failure::Failure;
use crate::graph::{Case, Network, Target, Work};
use crate::plan::{BUFFER_MIN, Options, Place, Plan};
use crate::transform::Kind;

use count::Counter;
pub use count::StageCount;
use sink::{Complete, Sink};
use source::Source;

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
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, Failure>;

    /// Nothing follows. Not called after [`Flow::Enough`].
    fn finish(&mut self) -> Result<(), Failure>;
}

/// What a run did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// In the order of the nodes.
    pub stages: Vec<StageCount>,
}

/// What a network reads and writes in place of the files that it names.
#[derive(Default)]
struct Ends {
    inputs: Vec<(String, Vec<u8>)>,
    outputs: Vec<(String, Arc<Mutex<Vec<u8>>>)>,
}

/// Runs a network from its files to its files.
///
/// # Errors
/// [`Failure`]. Files that were to be written are as they were.
pub fn run(network: &Network, catalogue: Catalogue<'_>, options: &Options) -> Result<Outcome, Failure> {
    run_with(network, catalogue, options, &Ends::default(), &mut |_| {})
}

/// The same, and says after each chunk how many bytes have been read.
///
/// # Errors
/// As [`run`].
pub fn run_watched(
    network: &Network,
    catalogue: Catalogue<'_>,
    options: &Options,
    watch: &mut dyn FnMut(u64),
) -> Result<Outcome, Failure> {
    run_with(network, catalogue, options, &Ends::default(), watch)
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
) -> Result<Vec<u8>, Failure> {
    let names = |is_wanted: fn(&Work) -> bool| network.nodes.iter().filter(move |node| is_wanted(&node.work));
    let sources: Vec<_> = names(|work| matches!(work, Work::Read(_))).collect();
    let sinks: Vec<_> = names(|work| matches!(work, Work::Write(_))).collect();
    let ([source], [sink]) = (&sources[..], &sinks[..]) else {
        return Err(Failure::Unfit("only a network with one source and one sink runs in memory".into()));
    };
    let output = Arc::default();
    let ends = Ends {
        inputs: vec![(source.name.clone(), input.into())],
        outputs: vec![(sink.name.clone(), Arc::clone(&output))],
    };
    run_with(network, catalogue, options, &ends, &mut |_| {})?;
    Ok(taken(&output))
}

/// Runs a test of a network: in memory, with the inputs that the test names and none where it names none.
///
/// # Errors
/// What came out that should not have, or [`Failure`] as a sentence.
pub fn test(network: &Network, catalogue: Catalogue<'_>, case: &Case) -> Result<(), String> {
    let mut ends = Ends::default();
    for node in &network.nodes {
        let name = node.name.clone();
        match node.work {
            Work::Read(_) => {
                let input = case.inputs.iter().find(|(of, _)| *of == name);
                ends.inputs.push((name, input.map(|(_, bytes)| bytes.clone()).unwrap_or_default()));
            }
            Work::Write(_) => ends.outputs.push((name, Arc::default())),
            Work::Transform(_) => {}
        }
    }
    run_with(network, catalogue, &Options::default(), &ends, &mut |_| {}).map_err(|failure| failure.to_string())?;
    for (name, expected) in &case.outputs {
        let found = ends.outputs.iter().find(|(of, _)| of == name).map(|(_, output)| taken(output)).unwrap_or_default();
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
    std::mem::take(&mut output.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn run_with(
    network: &Network,
    catalogue: Catalogue<'_>,
    options: &Options,
    ends: &Ends,
    watch: &mut dyn FnMut(u64),
) -> Result<Outcome, Failure> {
    let mut checked = check(network, catalogue)?;
    let plan = Plan::of(&checked, options)?;
    let counters: Vec<Arc<Counter>> = network.nodes.iter().map(|_| Arc::default()).collect();
    // Every file is opened before the first byte moves.
    let mut sources = Vec::new();
    for &place in &checked.sources {
        sources.push((place, Source::open(&network.nodes[place], ends, &counters[place])?));
    }
    let complete = Complete::default();
    let mut builder = Builder { plan: &plan, counters: &counters, ends, complete: &complete, shared: Vec::new() };
    let mut firsts = Vec::new();
    let order = checked.sources.clone();
    for place in order {
        firsts.push(builder.below(place, &mut checked)?);
    }
    drop(builder);
    let (mut chunk, mut read) = (Chunk::of(plan.buffer_bytes), 0);
    for ((_, source), first) in sources.iter_mut().zip(&mut firsts) {
        let mut flow = Flow::More;
        while flow == Flow::More && source.fill(&mut chunk)? {
            read += chunk.len() as u64;
            flow = first.push(&mut chunk)?;
            watch(read);
        }
        if flow == Flow::More {
            first.finish()?;
        }
    }
    // Threads that nobody waits for any more have ended then.
    drop(firsts);
    complete.keep()?;
    let stages = network.nodes.iter().zip(&counters).map(|(node, counter)| counter.of(node)).collect();
    Ok(Outcome { stages })
}

/// Puts nodes together, from the sinks upwards.
struct Builder<'a> {
    plan: &'a Plan,
    counters: &'a [Arc<Counter>],
    ends: &'a Ends,
    complete: &'a Complete,
    /// Nodes that several others feed, for those that come later.
    shared: Vec<(usize, join::Joined)>,
}

impl Builder<'_> {
    /// Everything that a node feeds.
    fn below(&mut self, place: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, Failure> {
        let fed: Vec<usize> = checked.network.fed_by(place).collect();
        let mut branches = fed.into_iter().map(|node| self.at(node, checked)).collect::<Result<Vec<_>, _>>()?;
        match branches.len() {
            1 => Ok(branches.remove(0)),
            _ => Ok(Box::new(split::Split::new(branches, self.plan.buffer_bytes, &self.counters[place]))),
        }
    }

    /// A node and everything below it.
    fn at(&mut self, place: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, Failure> {
        let node = &checked.network.nodes[place];
        if node.from.len() == 1 {
            return self.alone(place, checked);
        }
        if let Some((_, joined)) = self.shared.iter().find(|(shared, _)| *shared == place) {
            return Ok(Box::new(joined.clone()));
        }
        let inputs = node.from.len();
        let joined = join::Joined::new(self.alone(place, checked)?, inputs);
        self.shared.push((place, joined.clone()));
        Ok(Box::new(joined))
    }

    fn alone(&mut self, place: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, Failure> {
        let (node, counter) = (&checked.network.nodes[place], Arc::clone(&self.counters[place]));
        if let Work::Write(target) = &node.work {
            let sink = match self.ends.outputs.iter().find(|(name, _)| *name == node.name) {
                Some((_, output)) => Sink::memory(Arc::clone(output), counter),
                None => Sink::open(target, self.plan.buffer_bytes, self.complete, counter)?,
            };
            return Ok(Box::new(sink));
        }
        let text = node.work.to_line();
        let (_, stage) = checked.stages[place].take().expect("a transform was checked, and is used once");
        let next = self.below(place, checked)?;
        Ok(match stage.kind {
            Kind::InPlace(_, transform) => Box::new(fused::Fused::new(transform, text, counter, next)),
            Kind::Rewrite(transform) => {
                let out = Chunk::of(self.plan.buffer_bytes);
                let rewriter = rewriter::Rewriter::new(transform, text, counter, out, next);
                match self.plan.places[place] {
                    Place::OwnThread => Box::new(relay::Relay::new(rewriter, self.plan.buffer_bytes)?),
                    _ => Box::new(rewriter),
                }
            }
        })
    }
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
