//! Puts nodes together, from the sinks upwards.

use std::sync::Arc;

use super::bell::Rope;
use super::count::Counter;
use super::elsewhere::Elsewhere;
use super::fused::{Fused, Group, Member, Untouched};
use super::rewriter::Rewriter;
use super::sink::{Files, Sink};
use super::{Ends, Push, join, relay, split};
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
    pub(super) ends: &'a Ends,
    pub(super) files: &'a Files,
    pub(super) rope: Option<Rope>,
    /// Nodes that several others feed, for those that come later.
    pub(super) shared: Vec<(usize, join::Joined)>,
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
        let path = stage.beside.clone().filter(|_| !self.ends.is_test);
        let open = |path| Sink::open(&Target::File(path), self.plan.buffer_bytes, self.files, false, Arc::default());
        path.map(open).transpose()
    }

    /// Everything that a node feeds.
    fn below(&mut self, place: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, NetworkError> {
        let fed: Vec<usize> = checked.network.fed_by(place).collect();
        let mut branches = fed.into_iter().map(|node| self.at(node, checked)).collect::<Result<Vec<_>, _>>()?;
        match branches.len() {
            1 => Ok(branches.remove(0)),
            _ => Ok(Box::new(split::Split::new(branches, self.plan.buffer_bytes, &self.counters[place]))),
        }
    }

    /// A node and everything below it.
    fn at(&mut self, place: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, NetworkError> {
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

    fn alone(&mut self, place: usize, checked: &mut Checked<'_>) -> Result<Box<dyn Push>, NetworkError> {
        let (node, counter) = (&checked.network.nodes[place], Arc::clone(&self.counters[place]));
        if let Work::Write(target) = &node.work {
            let sink = match self.ends.outputs.iter().find(|(name, _)| *name == node.name) {
                Some((_, output)) => Sink::given(Arc::clone(output), counter),
                None => Sink::open(target, self.plan.buffer_bytes, self.files, self.ends.has_process, counter)?,
            };
            return Ok(Box::new(sink));
        }
        if self.plan.places[place] == Place::Fused {
            return self.fused(place, checked);
        }
        let text = node.work.to_line();
        let (stage, next) = (taken(checked, place), self.below(place, checked)?);
        let buffer_bytes = self.plan.buffer_bytes;
        let relayed = |node, buffers| {
            Ok(Box::new(relay::Relay::new(node, buffers, buffer_bytes, self.rope.clone())?) as Box<dyn Push>)
        };
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
            Kind::Exported(transform) => {
                let rope = self.rope.clone();
                Ok(Box::new(Elsewhere::start(transform, text, counter, Chunk::of(buffer_bytes), next, rope)?))
            }
            Kind::InPlace(..) => unreachable!("the plan fuses what works in place"),
        }
    }
}

/// A stage, which is used once.
fn taken(checked: &mut Checked<'_>, place: usize) -> Stage {
    checked.stages[place].take().map(|(_, stage)| stage).expect("a transform was checked, and is used once")
}
