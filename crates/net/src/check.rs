//! Looks at a whole network before a byte moves.

use std::collections::BTreeSet;

use crate::catalogue::{self, Catalogue, Transform};
use crate::error::NetworkError;
use crate::files;
use crate::graph::{Call, Network, Node, Work};
use crate::transform::{Data, Stage};

/// A network that can run, as far as can be said before it does.
#[derive(Debug)]
pub struct Checked<'a> {
    /// What was checked.
    pub network: &'a Network,
    /// For each node, if it is a transform.
    pub stages: Vec<Option<(&'a dyn Transform, Stage)>>,
    /// The sources in an order in which every merge gets its inputs one after the other.
    pub sources: Vec<usize>,
}

/// Checks names, arguments, edges and files.
///
/// # Errors
/// [`NetworkError::Invalid`] with the first thing that is wrong, and where.
pub fn check<'a>(network: &'a Network, catalogue: Catalogue<'a>) -> Result<Checked<'a>, NetworkError> {
    let stages = network.nodes.iter().map(|node| stage_of(node, catalogue)).collect::<Result<Vec<_>, _>>()?;
    for (place, node) in network.nodes.iter().enumerate() {
        check_degree(network, place, node)?;
        check_edges(network, &stages, place, node)?;
    }
    files::check_named(network, &stages)?;
    let sources = sources_in_order(network)?;
    Ok(Checked { network, stages, sources })
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
        Work::Read(_) | Work::Write(_) => Ok(None),
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
        Work::Transform(_) | Work::Write(_) if from.is_empty() => Err(unfit(format!("nothing goes into '{name}'"))),
        Work::Read(_) | Work::Transform(_) if feeds == 0 => {
            Err(unfit(format!("what comes out of '{name}' goes nowhere")))
        }
        Work::Write(_) if feeds > 0 => Err(unfit(format!("'{name}' writes a file, and nothing can come from it"))),
        _ => Ok(()),
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

/// Where several edges meet, the bytes of the first come before those of the second. Each source runs to its end before the
/// next begins, so the sources of the first have to run before those of the second, and none can feed both.
fn sources_in_order(network: &Network) -> Result<Vec<usize>, NetworkError> {
    let mut above: Vec<BTreeSet<usize>> = Vec::new();
    // Pairs of sources, of which the first has to run before the second.
    let mut orders: BTreeSet<(usize, usize)> = BTreeSet::new();
    for (place, node) in network.nodes.iter().enumerate() {
        let mut all = BTreeSet::new();
        if matches!(node.work, Work::Read(_)) {
            all.insert(place);
        }
        for &from in &node.from {
            if let Some(&both) = all.intersection(&above[from]).next() {
                return Err(unfit(format!(
                    "two ways lead from '{}' to '{}': the second would have to be kept in memory until the first has ended",
                    network.nodes[both].name, node.name
                )));
            }
            orders.extend(all.iter().flat_map(|&first| above[from].iter().map(move |&second| (first, second))));
            all.extend(&above[from]);
        }
        above.push(all);
    }
    let mut left: BTreeSet<usize> =
        (0..network.nodes.len()).filter(|&place| matches!(network.nodes[place].work, Work::Read(_))).collect();
    let mut sources = Vec::new();
    while !left.is_empty() {
        let is_next = |source: &&usize| !orders.iter().any(|(first, second)| second == *source && left.contains(first));
        let Some(&next) = left.iter().find(is_next) else {
            return Err(unfit("two merges want the same sources in different orders"));
        };
        left.remove(&next);
        sources.push(next);
    }
    Ok(sources)
}
