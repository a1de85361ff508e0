//! Puts nodes together, from the sinks upwards.

use std::sync::Arc;

use super::abort::Abort;
use super::count::Counter;
use super::environment::Environment;
use super::external::{self, Context, Downstream, ExternalInput};
use super::fused::{Chain, Fused, FusedStage, Untouched};
use super::merge::Merge;
use super::push::Push;
use super::relay::Relay;
use super::rewriter::Rewriter;
use super::sink::Sink;
use super::split::Split;
use super::spool::Spools;
use super::unfinished::UnfinishedFiles;
use crate::catalogue::Catalogue;
use crate::check::{Checked, build};
use crate::chunk::Chunk;
use crate::error::NetworkError;
use crate::graph::{Target, Work};
use crate::plan::{self, Placement, Plan, RELAYED};
use crate::transform::{Kind, Stage};

/// Makes nodes of what was planned.
pub(super) struct Builder<'a> {
    pub(super) plan: &'a Plan,
    pub(super) catalogue: Catalogue<'a>,
    pub(super) counters: &'a [Arc<Counter>],
    pub(super) environment: &'a Environment,
    pub(super) files: &'a UnfinishedFiles,
    pub(super) abort: &'a Abort,
    pub(super) spools: &'a Spools,
    /// Nodes that several others feed, for the others that are built later.
    pub(super) shared: Vec<(usize, Merge)>,
    /// The inputs of commands that were started, each with its node, for nodes that are built later.
    pub(super) inputs: Vec<(usize, ExternalInput)>,
}

/// What a source pushes into, and the chains of stages before it, one for each thread of a worker group; none if one
/// thread does everything.
pub(super) type First = (Vec<Chain>, Box<dyn Push>);

impl Builder<'_> {
    /// Everything that a source feeds.
    pub(super) fn first(
        &mut self,
        source: usize,
        is_shareable: bool,
        checked: &mut Checked<'_>,
    ) -> Result<First, NetworkError> {
        let plan = self.plan;
        let group = plan.worker_groups.iter().find(|group| group.source == source && group.threads > 1 && is_shareable);
        let Some(group) = group else { return Ok((Vec::new(), self.below(source, checked)?)) };
        let chains = (0..group.threads).map(|_| self.chain(&group.stages, checked)).collect::<Result<_, _>>()?;
        let last = group.stages.last().copied().unwrap_or(source);
        Ok((chains, self.below(last, checked)?))
    }

    /// Stages that are made once more, for one thread of a worker group.
    fn chain(&self, stages: &[usize], checked: &Checked<'_>) -> Result<Chain, NetworkError> {
        let fused_stage = |&place: &usize| {
            let Work::Transform(call) = &checked.network.nodes[place].work else {
                unreachable!("only transforms are done by several threads")
            };
            let (_, stage) = build(call, self.catalogue)?;
            Ok(self.fused_stage(place, stage, checked, None))
        };
        stages.iter().map(fused_stage).collect::<Result<_, _>>().map(Chain::new)
    }

    fn fused_stage(&self, place: usize, stage: Stage, checked: &Checked<'_>, beside: Option<Sink>) -> FusedStage {
        let Kind::InPlace(_, transform) = stage.kind else { unreachable!("only transforms in place share a buffer") };
        let text = checked.network.nodes[place].work.to_line();
        FusedStage { transform, text, counter: Arc::clone(&self.counters[place]), beside }
    }

    /// A stage in place, with those behind it if all of them work on any piece of the stream.
    fn fused(&mut self, place: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, NetworkError> {
        let mut places = vec![place];
        if plan::is_independent(checked, place) {
            places.extend(plan::independent_after(checked, place));
        }
        let mut stages = Vec::new();
        for &place in &places {
            let stage = taken(checked, place);
            let beside = self.beside(&stage)?;
            stages.push(self.fused_stage(place, stage, checked, beside));
        }
        let last = places.last().copied().unwrap_or(place);
        Ok(Box::new(Fused::new(Chain::new(stages), self.below(last, checked)?)))
    }

    /// The sidecar of a stage.
    fn beside(&self, stage: &Stage) -> Result<Option<Sink>, NetworkError> {
        let path = stage.beside.clone().filter(|_| !self.environment.is_test);
        let open = |path| Sink::open(&Target::File(path), self.plan.buffer_bytes, self.files, false, Arc::default());
        path.map(open).transpose()
    }

    /// Everything that a node feeds.
    fn below(&mut self, place: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, NetworkError> {
        let fed: Vec<usize> = checked.network.fed_by(place).collect();
        let mut branches =
            fed.into_iter().map(|node| self.branch(node, place, checked)).collect::<Result<Vec<_>, _>>()?;
        match branches.len() {
            1 => Ok(branches.remove(0)),
            _ => Ok(Box::new(Split::new(branches, self.plan.buffer_bytes, &self.counters[place]))),
        }
    }

    /// A node and everything below it, for one of the nodes that feed it.
    fn branch(&mut self, place: usize, from: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, NetworkError> {
        let node = &checked.network.nodes[place];
        if node.from.len() == 1 {
            return self.node(place, checked);
        }
        let number = node.from.iter().position(|&other| other == from).unwrap_or(0);
        if let Some((_, merge)) = self.shared.iter().find(|(shared, _)| *shared == place) {
            return Ok(Box::new(merge.input(number)));
        }
        let inputs = node.from.len();
        let merge = Merge::new(self.node(place, checked)?, inputs, self.abort);
        let input = merge.input(number);
        self.shared.push((place, merge));
        Ok(Box::new(input))
    }

    /// A node and everything below it.
    fn node(&mut self, place: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, NetworkError> {
        match self.plan.placements[place] {
            Placement::Sink => self.sink(place, checked),
            Placement::Fused => self.fused(place, checked),
            Placement::SameThread => Ok(Box::new(self.rewriter(place, checked)?)),
            Placement::OwnThread => {
                let rewriter = self.rewriter(place, checked)?;
                self.relayed(Box::new(rewriter), RELAYED)
            }
            Placement::Buffered => self.buffered(place, checked),
            Placement::External | Placement::Inlet => self.input(place, checked),
            Placement::Source | Placement::Outlet => unreachable!("no node feeds it by an edge"),
        }
    }

    fn sink(&self, place: usize, checked: &Checked<'_>) -> Result<Box<dyn Push>, NetworkError> {
        let (node, counter) = (&checked.network.nodes[place], Arc::clone(&self.counters[place]));
        let Work::Write(target) = &node.work else { unreachable!("only a sink has a place at the end") };
        let sink = match self.environment.outputs.iter().find(|(name, _)| *name == node.name) {
            Some((_, output)) => Sink::given(Arc::clone(output), counter),
            None => Sink::open(target, self.plan.buffer_bytes, self.files, self.environment.has_process, counter)?,
        };
        Ok(Box::new(sink))
    }

    fn rewriter(&mut self, place: usize, checked: &mut Checked<'_>) -> Result<Rewriter, NetworkError> {
        let (stage, next) = (taken(checked, place), self.below(place, checked)?);
        let Kind::Rewrite(mut transform) = stage.kind else {
            unreachable!("only transforms that rewrite need a buffer")
        };
        if stage.keeps != (0..=0) {
            transform.may_keep(self.plan.kept_bytes[place]);
        }
        transform.use_threads(self.plan.threads_allowed);
        let text = checked.network.nodes[place].work.to_line();
        let out = Chunk::of(self.plan.buffer_bytes);
        Ok(Rewriter::new(transform, text, Arc::clone(&self.counters[place]), out, next))
    }

    fn buffered(&mut self, place: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, NetworkError> {
        let (stage, next) = (taken(checked, place), self.below(place, checked)?);
        let Kind::Buffer(bytes) = stage.kind else { unreachable!("the plan has another place for it") };
        let text = checked.network.nodes[place].work.to_line();
        let counter = Arc::clone(&self.counters[place]);
        let untouched = FusedStage { transform: Box::new(Untouched), text, counter, beside: None };
        self.relayed(Box::new(Fused::new(Chain::new(vec![untouched]), next)), self.plan.buffers_for(bytes))
    }

    /// A node in a thread of its own, behind so many buffers.
    fn relayed(&self, node: Box<dyn Push>, buffers: usize) -> Result<Box<dyn Push>, NetworkError> {
        Ok(Box::new(Relay::new(node, buffers, self.plan.buffer_bytes, self.abort)?))
    }

    /// An input of an external transform, which is started with its first one.
    fn input(&mut self, place: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, NetworkError> {
        let command = match &checked.network.nodes[place].work {
            Work::Inlet { command, .. } => *command,
            _ => place,
        };
        if checked.stages[command].is_some() {
            self.start(command, checked)?;
        }
        let taken = self.inputs.iter().position(|(of, _)| *of == place).expect("every input is taken once");
        let (_, input) = self.inputs.swap_remove(taken);
        if !checked.is_spooled[place] {
            return Ok(Box::new(input));
        }
        let name = &checked.network.nodes[place].name;
        let spool = self.spools.before(Box::new(input), name, self.plan.buffer_bytes, self.abort)?;
        Ok(Box::new(spool))
    }

    /// Starts an external transform, when everything below it is there.
    fn start(&mut self, command: usize, checked: &mut Checked<'_>) -> Result<(), NetworkError> {
        let network = checked.network;
        let (node, ends) = (&network.nodes[command], network.ends(command));
        let Kind::Exported(transform) = taken(checked, command).kind else {
            unreachable!("only an external transform is started")
        };
        let counters = self.counters;
        let counter = |place: usize| Arc::clone(&counters[place]);
        let mut below = Vec::new();
        for place in network.output_nodes(command) {
            let (counter, out) = (counter(place), Chunk::of(self.plan.buffer_bytes));
            below.push(Downstream { counter, out, next: self.below(place, checked)? });
        }
        let inputs = network.input_nodes(command);
        let line = node.work.to_line();
        let is_one_of_several = network.nodes.iter().filter(|other| other.work == node.work).count() > 1;
        let has_name = ends.are_named() || is_one_of_several;
        let text = if has_name { format!("{}: {line}", node.name) } else { line };
        let counters = inputs.iter().map(|&place| counter(place)).collect();
        let context = Context { text, abort: self.abort.clone(), counter: counter(command) };
        let started = external::start(transform, &ends, counters, below, context)?;
        self.inputs.extend(inputs.into_iter().zip(started));
        Ok(())
    }
}

/// Takes a stage, which is used once.
fn taken(checked: &mut Checked<'_>, place: usize) -> Stage {
    checked.stages[place].take().map(|(_, stage)| stage).expect("a transform was checked, and is used once")
}
