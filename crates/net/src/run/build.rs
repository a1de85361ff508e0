//! Puts nodes together, from the sinks upwards.

use std::sync::Arc;

use super::abort::Abort;
use super::count::Counter;
use super::environment::Environment;
use super::external::{self, Around, Below, Elsewhere};
use super::fused::{Fused, Group, Member, Untouched};
use super::merge::Merge;
use super::push::Push;
use super::rewriter::Rewriter;
use super::sink::{Files, Sink};
use super::spool::Spools;
use super::{relay, split};
use crate::catalogue::Catalogue;
use crate::check::{Checked, build};
use crate::chunk::Chunk;
use crate::error::NetworkError;
use crate::graph::{Target, Work};
use crate::plan::{self, Place, Plan, RELAYED};
use crate::transform::{Kind, Stage};

/// Makes nodes of what was planned.
pub(super) struct Builder<'a> {
    pub(super) plan: &'a Plan,
    pub(super) catalogue: Catalogue<'a>,
    pub(super) counters: &'a [Arc<Counter>],
    pub(super) environment: &'a Environment,
    pub(super) files: &'a Files,
    pub(super) abort: &'a Abort,
    pub(super) spools: &'a Spools,
    /// Nodes that several others feed, for those that come later.
    pub(super) shared: Vec<(usize, Merge)>,
    /// The inputs of commands that were started, for what has not been built yet: each with its node.
    pub(super) inputs: Vec<(usize, Elsewhere)>,
}

/// What a source pushes into, and the stages before that of which several threads have one each: none if there is one thread.
pub(super) type First = (Vec<Group>, Box<dyn Push>);

impl Builder<'_> {
    /// Everything that a source feeds.
    pub(super) fn first(
        &mut self,
        source: usize,
        is_shareable: bool,
        checked: &mut Checked<'_>,
    ) -> Result<First, NetworkError> {
        let plan = self.plan;
        let team = plan.teams.iter().find(|team| team.source == source && team.threads > 1 && is_shareable);
        let Some(team) = team else { return Ok((Vec::new(), self.below(source, checked)?)) };
        let groups = (0..team.threads).map(|_| self.another(&team.stages, checked)).collect::<Result<_, _>>()?;
        let last = team.stages.last().copied().unwrap_or(source);
        Ok((groups, self.below(last, checked)?))
    }

    /// Stages made anew, for one of several threads.
    fn another(&self, stages: &[usize], checked: &Checked<'_>) -> Result<Group, NetworkError> {
        let member = |&place: &usize| {
            let Work::Transform(call) = &checked.network.nodes[place].work else {
                unreachable!("only transforms are done by several threads")
            };
            let (_, stage) = build(call, self.catalogue)?;
            Ok(self.member(place, stage, checked, None))
        };
        stages.iter().map(member).collect::<Result<_, _>>().map(Group::new)
    }

    fn member(&self, place: usize, stage: Stage, checked: &Checked<'_>, beside: Option<Sink>) -> Member {
        let Kind::InPlace(_, transform) = stage.kind else { unreachable!("only transforms in place share a buffer") };
        let text = checked.network.nodes[place].work.to_line();
        Member { transform, text, counter: Arc::clone(&self.counters[place]), beside }
    }

    /// A stage in place, with those behind it that do not care either how the stream is cut.
    fn fused(&mut self, place: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, NetworkError> {
        let mut places = vec![place];
        if plan::is_independent(checked, place) {
            places.extend(plan::independent_after(checked, place));
        }
        let mut members = Vec::new();
        for &place in &places {
            let stage = taken(checked, place);
            let beside = self.beside(&stage)?;
            members.push(self.member(place, stage, checked, beside));
        }
        let last = places.last().copied().unwrap_or(place);
        Ok(Box::new(Fused::new(Group::new(members), self.below(last, checked)?)))
    }

    /// The file that a stage writes beside the stream.
    fn beside(&self, stage: &Stage) -> Result<Option<Sink>, NetworkError> {
        let path = stage.beside.clone().filter(|_| !self.environment.is_test);
        let open = |path| Sink::open(&Target::File(path), self.plan.buffer_bytes, self.files, false, Arc::default());
        path.map(open).transpose()
    }

    /// Everything that a node feeds.
    fn below(&mut self, place: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, NetworkError> {
        let fed: Vec<usize> = checked.network.fed_by(place).collect();
        let mut branches = fed.into_iter().map(|node| self.at(node, place, checked)).collect::<Result<Vec<_>, _>>()?;
        match branches.len() {
            1 => Ok(branches.remove(0)),
            _ => Ok(Box::new(split::Split::new(branches, self.plan.buffer_bytes, &self.counters[place]))),
        }
    }

    /// A node and everything below it, for one of those that feed it.
    fn at(&mut self, place: usize, from: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, NetworkError> {
        let node = &checked.network.nodes[place];
        if node.from.len() == 1 {
            return self.alone(place, checked);
        }
        let number = node.from.iter().position(|&other| other == from).unwrap_or(0);
        if let Some((_, merge)) = self.shared.iter().find(|(shared, _)| *shared == place) {
            return Ok(Box::new(merge.input(number)));
        }
        let inputs = node.from.len();
        let merge = Merge::new(self.alone(place, checked)?, inputs, self.abort);
        let input = merge.input(number);
        self.shared.push((place, merge));
        Ok(Box::new(input))
    }

    fn alone(&mut self, place: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, NetworkError> {
        let (node, counter) = (&checked.network.nodes[place], Arc::clone(&self.counters[place]));
        if let Work::Write(target) = &node.work {
            let sink = match self.environment.outputs.iter().find(|(name, _)| *name == node.name) {
                Some((_, output)) => Sink::given(Arc::clone(output), counter),
                None => Sink::open(target, self.plan.buffer_bytes, self.files, self.environment.has_process, counter)?,
            };
            return Ok(Box::new(sink));
        }
        if matches!(self.plan.places[place], Place::Elsewhere | Place::Inlet) {
            return self.input(place, checked);
        }
        if self.plan.places[place] == Place::Fused {
            return self.fused(place, checked);
        }
        let text = node.work.to_line();
        let (stage, next) = (taken(checked, place), self.below(place, checked)?);
        let buffer_bytes = self.plan.buffer_bytes;
        let relayed =
            |node, buffers| Ok(Box::new(relay::Relay::new(node, buffers, buffer_bytes, self.abort)?) as Box<dyn Push>);
        match stage.kind {
            Kind::Rewrite(mut transform) => {
                if stage.keeps != (0..=0) {
                    transform.may_keep(self.plan.kept[place]);
                }
                transform.use_threads(self.plan.threads_allowed);
                let node = Rewriter::new(transform, text, counter, Chunk::of(buffer_bytes), next);
                match self.plan.places[place] {
                    Place::OwnThread => relayed(Box::new(node), RELAYED),
                    _ => Ok(Box::new(node)),
                }
            }
            Kind::Buffer(bytes) => {
                let member = Member { transform: Box::new(Untouched), text, counter, beside: None };
                relayed(Box::new(Fused::new(Group::new(vec![member]), next)), self.plan.buffers_for(bytes))
            }
            Kind::InPlace(..) | Kind::Exported(_) => unreachable!("the plan has another place for it"),
        }
    }

    /// An input of what works outside, which is started with its first one.
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

    /// Starts what works outside, when everything below it is there.
    fn start(&mut self, command: usize, checked: &mut Checked<'_>) -> Result<(), NetworkError> {
        let network = checked.network;
        let (node, ends) = (&network.nodes[command], network.ends(command));
        let Kind::Exported(transform) = taken(checked, command).kind else {
            unreachable!("only it has a place outside")
        };
        let counters = self.counters;
        let counter = |place: usize| Arc::clone(&counters[place]);
        let outputs =
            ends.has_output.then_some(command).into_iter().chain(network.outlets(command).map(|(place, _)| place));
        let mut below = Vec::new();
        for place in outputs {
            let (counter, out) = (counter(place), Chunk::of(self.plan.buffer_bytes));
            below.push(Below { counter, out, next: self.below(place, checked)? });
        }
        let inputs =
            ends.has_input.then_some(command).into_iter().chain(network.inlets(command).map(|(place, _)| place));
        let inputs: Vec<usize> = inputs.collect();
        let line = node.work.to_line();
        let is_one_of_several = network.nodes.iter().filter(|other| other.work == node.work).count() > 1;
        let has_name = ends.are_named() || is_one_of_several;
        let text = if has_name { format!("{}: {line}", node.name) } else { line };
        let counters = inputs.iter().map(|&place| counter(place)).collect();
        let around = Around { text, abort: self.abort.clone(), counter: counter(command) };
        let started = external::start(transform, &ends, counters, below, around)?;
        self.inputs.extend(inputs.into_iter().zip(started));
        Ok(())
    }
}

/// A stage, which is used once.
fn taken(checked: &mut Checked<'_>, place: usize) -> Stage {
    checked.stages[place].take().map(|(_, stage)| stage).expect("a transform was checked, and is used once")
}
