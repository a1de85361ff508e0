//! In which order the sources run.

use std::collections::BTreeSet;

use crate::error::NetworkError;
use crate::graph::{Network, Work};

/// Where several edges meet, the bytes of the first come before those of the second. Each source runs to its end before
/// the next begins, so the sources of the first have to run before those of the second, and none can feed both.
pub(super) fn sources_in_order(network: &Network) -> Result<Vec<usize>, NetworkError> {
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
                return Err(NetworkError::Invalid(format!(
                    "two ways lead from '{}' to '{}': \
                     the second would have to be kept in memory until the first has ended",
                    network.nodes[both].name, node.name
                )));
            }
            orders.extend(all.iter().flat_map(|&first| above[from].iter().map(move |&second| (first, second))));
            all.extend(&above[from]);
        }
        // A command takes its inputs at the same time.
        all.extend(network.before(place).iter().flat_map(|&before| &above[before]));
        above.push(all);
    }
    let mut left: BTreeSet<usize> =
        (0..network.nodes.len()).filter(|&place| matches!(network.nodes[place].work, Work::Read(_))).collect();
    let mut sources = Vec::new();
    while !left.is_empty() {
        let is_next = |source: &&usize| !orders.iter().any(|(first, second)| second == *source && left.contains(first));
        let Some(&next) = left.iter().find(is_next) else {
            return Err(NetworkError::Invalid("two merges want the same sources in different orders".into()));
        };
        left.remove(&next);
        sources.push(next);
    }
    Ok(sources)
}
