//! Looks at a whole network before a byte moves.

mod order;
mod spooled;

use std::time::Duration;

use crate::catalogue::{self, Catalogue, Transform};
use crate::error::NetworkError;
use crate::files;
use crate::graph::{Call, Network, Node, Work};
use crate::notation::names::{self, Piece};
use crate::transform::{Data, Kind, Stage};

use order::sources_in_order;
use spooled::spooled;

/// A network that can run, as far as can be said before it does.
#[derive(Debug)]
pub struct Checked<'a> {
    /// What was checked.
    pub network: &'a Network,
    /// For each node, if it is a transform.
    pub stages: Vec<Option<(&'a dyn Transform, Stage)>>,
    /// The sources in an order in which every merge gets its inputs one after the other.
    pub sources: Vec<usize>,
    /// Whether the sources run at the same time, each in a thread of its own: a command with several inputs may read
    /// any of them first. Otherwise each runs to its end before the next begins.
    pub is_concurrent: bool,
    /// For each node: whether it is an input of a command that has to take all bytes at once, or the network could wait
    /// for itself.
    pub is_spooled: Vec<bool>,
}

/// Checks names, arguments, edges and files.
///
/// # Errors
/// [`NetworkError::Invalid`] with the first thing that is wrong, and where.
pub fn check<'a>(network: &'a Network, catalogue: Catalogue<'a>) -> Result<Checked<'a>, NetworkError> {
    let stages = network.nodes.iter().map(|node| stage_of(node, catalogue)).collect::<Result<Vec<_>, _>>()?;
    for (place, node) in network.nodes.iter().enumerate() {
        check_degree(network, place, node)?;
        check_ends(network, stages[place].as_ref().map(|(_, stage)| stage), place, node)?;
        check_edges(network, &stages, place, node)?;
    }
    files::check_named(network, &stages)?;
    let sources = sources_in_order(network)?;
    let has_inlets = network.nodes.iter().any(|node| matches!(node.work, Work::Inlet { .. }));
    let is_concurrent = has_inlets && sources.len() > 1;
    let is_spooled = spooled(network, has_inlets);
    Ok(Checked { network, stages, sources, is_concurrent, is_spooled })
}

impl Checked<'_> {
    /// Gives commands so much time, or all that they want.
    pub(crate) fn limit(&mut self, timeout: Option<Duration>) {
        for (_, stage) in self.stages.iter_mut().flatten() {
            if let (Kind::Exported(transform), Some(timeout)) = (&mut stage.kind, timeout) {
                transform.limit(timeout);
            }
        }
    }
}

/// The transform that a call names, made with its arguments.
///
/// # Errors
/// [`NetworkError::Invalid`].
pub fn build<'a>(call: &Call, catalogue: Catalogue<'a>) -> Result<(&'a dyn Transform, Stage), NetworkError> {
    let transform = catalogue::find(catalogue, &call.name).ok_or_else(|| {
        let meant = catalogue::nearest(catalogue, &call.name).map(|name| format!(" (did you mean '{name}'?)"));
        unfit(format!("there is no transform '{}'{}", call.name, meant.unwrap_or_default()))
    })?;
    let stage = transform
        .build(&call.arguments)
        .map_err(|what| unfit(format!("{}: {what}; it is used as: {}", call.name, transform.usage())))?;
    Ok((transform, stage))
}

fn unfit(what: impl Into<String>) -> NetworkError {
    NetworkError::Invalid(what.into())
}

fn stage_of<'a>(node: &Node, catalogue: Catalogue<'a>) -> Result<Option<(&'a dyn Transform, Stage)>, NetworkError> {
    match &node.work {
        Work::Transform(call) => build(call, catalogue).map(Some),
        Work::Read(_) | Work::Write(_) | Work::Inlet { .. } | Work::Outlet { .. } => Ok(None),
    }
}

/// Every node but a source gets something, and every node but a sink feeds something.
fn check_degree(network: &Network, place: usize, node: &Node) -> Result<(), NetworkError> {
    let Node { name, work, from } = node;
    let feeds = network.fed_by(place).count();
    match work {
        Work::Read(_) if !from.is_empty() => {
            Err(unfit(format!("'{name}' reads a file, and cannot also come from '{}'", network.nodes[from[0]].name)))
        }
        Work::Transform(_) if from.is_empty() && network.inlets(place).next().is_some() => {
            check_is_taken(network, place, feeds)
        }
        Work::Transform(_) | Work::Write(_) | Work::Inlet { .. } if from.is_empty() => {
            Err(unfit(format!("nothing goes into '{name}'")))
        }
        Work::Read(_) | Work::Transform(_) | Work::Outlet { .. } => check_is_taken(network, place, feeds),
        Work::Write(_) if feeds > 0 => Err(unfit(format!("'{name}' writes a file, and nothing can come from it"))),
        _ => Ok(()),
    }
}

/// Something that is a source of bytes feeds a node, itself or through a named output.
fn check_is_taken(network: &Network, place: usize, feeds: usize) -> Result<(), NetworkError> {
    if feeds == 0 && network.outlets(place).next().is_none() {
        return Err(unfit(format!("what comes out of '{}' goes nowhere", network.nodes[place].name)));
    }
    Ok(())
}

/// Only a command has named inputs and outputs, and its words name each of them and no others.
fn check_ends(network: &Network, stage: Option<&Stage>, place: usize, node: &Node) -> Result<(), NetworkError> {
    let (Work::Transform(call), ends) = (&node.work, network.ends(place)) else { return Ok(()) };
    if !ends.are_named() {
        return Ok(());
    }
    let is_command =
        stage.is_some_and(|stage| matches!(&stage.kind, Kind::Exported(export) if export.has_named_ends()));
    if !is_command {
        return Err(unfit(format!(
            "'{}': '{}' cannot have 'inputs' and 'outputs'; a command that 'exec' runs can",
            node.name, call.name
        )));
    }
    let declared: Vec<&String> = ends.inputs.iter().chain(&ends.outputs).collect();
    let pieces = call.arguments.iter().flat_map(|word| names::pieces(word));
    let used: Vec<&str> = pieces
        .filter_map(|piece| match piece {
            Piece::Name(name) => Some(name),
            Piece::Text(_) => None,
        })
        .collect();
    if let Some(unknown) = used.iter().find(|used| !declared.iter().any(|name| name == *used)) {
        let known: Vec<String> = declared.iter().map(|name| format!("'{name}'")).collect();
        return Err(unfit(format!(
            "'{}': '{{{unknown}}}' names no input or output; it has {}; write {{{{{unknown}}}}} if it is only text",
            node.name,
            known.join(", ")
        )));
    }
    match declared.iter().find(|name| !used.contains(&name.as_str())) {
        Some(unused) => Err(unfit(format!(
            "'{}': the command has no use for '{unused}'; write {{{unused}}} where it takes the path",
            node.name
        ))),
        None => Ok(()),
    }
}

/// What comes along an edge must be what is taken at its end.
fn check_edges(
    network: &Network,
    stages: &[Option<(&dyn Transform, Stage)>],
    place: usize,
    node: &Node,
) -> Result<(), NetworkError> {
    let Some((taker, _)) = &stages[place] else { return Ok(()) };
    for &from in &node.from {
        let Some((giver, _)) = &stages[from] else { continue };
        let is_wrong = match (giver.gives(), taker.takes()) {
            (Data::Format(given), Data::Format(taken)) => given != taken,
            (Data::Format(_), Data::Text) | (Data::Text, Data::Format(_)) => true,
            _ => false,
        };
        if is_wrong {
            let (giver, taker) = (&network.nodes[from].name, &node.name);
            let (given, taken) = (
                in_words(stages[from].as_ref().map(|(giver, _)| giver.gives())),
                in_words(stages[place].as_ref().map(|(taker, _)| taker.takes())),
            );
            return Err(unfit(format!(
                "between '{giver}' and '{taker}': '{giver}' gives {given}, and '{taker}' takes {taken}"
            )));
        }
    }
    Ok(())
}

fn in_words(data: Option<Data>) -> String {
    match data {
        Some(Data::Format(name)) => format!("the format {name}"),
        Some(Data::Text) => "lines of text".into(),
        _ => "any bytes".into(),
    }
}
