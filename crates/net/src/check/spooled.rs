//! Which inputs of commands need a temporary file.

use crate::graph::{Network, Work};

/// For each node, whether it is an input of a command that must take all bytes at once.
///
/// A command with several inputs may read another one first. Where a second way leads from the nodes that feed an input
/// to the command, whatever the direction of its edges, the command and these nodes could wait for each other for ever.
/// Each such circle has a node at which two of its edges end, and inputs that take all bytes at once open it there.
pub(super) fn spooled(network: &Network, has_inlets: bool) -> Vec<bool> {
    let count = network.nodes.len();
    if !has_inlets {
        return vec![false; count];
    }
    let mut neighbours = vec![Vec::new(); count];
    for place in 0..count {
        for before in network.before(place) {
            neighbours[place].push(before);
            neighbours[before].push(place);
        }
    }
    let is_spooled = |place: usize| match &network.nodes[place].work {
        Work::Inlet { command, .. } => are_connected(&neighbours, &[place], *command),
        Work::Transform(_) if network.inlets(place).next().is_some() => {
            are_connected(&neighbours, &network.nodes[place].from, place)
        }
        _ => false,
    };
    (0..count).map(is_spooled).collect()
}

/// Whether a way leads from one of `feeds` to `command` that uses none of the edges between them.
fn are_connected(neighbours: &[Vec<usize>], feeds: &[usize], command: usize) -> bool {
    let mut reached = vec![false; neighbours.len()];
    let mut left = feeds.to_vec();
    while let Some(node) = left.pop() {
        if !std::mem::replace(&mut reached[node], true) {
            left.extend(neighbours[node].iter().filter(|&&next| next != command || !feeds.contains(&node)));
        }
    }
    reached[command]
}
