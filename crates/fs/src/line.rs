//! A line of transforms, as a rule or a link has it, and what else is said of a view beside it.

use millstream_net::{Call, Network, Stage, Target, Work, check};
use millstream_transforms::ALL;
use serde::{Deserialize, Serialize};

/// How the size of a transformed file is found where neither the transforms nor the format tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SizeFrom {
    /// By reading the whole file once; kept in an extended attribute of the source.
    #[default]
    Scan,
    /// Not at all: the file says 0, as those of `/proc` do, and is read to its end.
    Unknown,
}

/// What writes go through.
pub(crate) enum WriteNetwork {
    /// What undoes the read network, if anything does.
    Inverse,
    /// Nothing: the file cannot be written.
    None,
    /// This.
    Given(Network),
}

/// A line of transforms without files of its own.
pub(crate) fn network(line: &str) -> Result<Network, String> {
    let network = Network::from_line(line).map_err(|error| format!("'{line}': {error}"))?;
    check_line(&network).map_err(|error| format!("'{line}': {error}"))?;
    Ok(network)
}

/// Refuses what cannot be a network of a view.
pub(crate) fn check_line(network: &Network) -> Result<(), String> {
    for node in &network.nodes {
        let names_a_file = match &node.work {
            Work::Read(path) => path.is_some(),
            Work::Write(target) => *target != Target::Stdout,
            _ => false,
        };
        if names_a_file {
            return Err(format!("'{}' names a file; the mount gives the bytes and takes them", node.work.to_line()));
        }
    }
    if !network.is_line() {
        return Err("a network with splits or merges cannot be a view".into());
    }
    for (call, stage) in calls(network).zip(stages(network)?) {
        if stage.beside.is_some() {
            return Err(format!("'{}' writes a file of its own", Work::Transform(call.clone()).to_line()));
        }
    }
    check::check(network, ALL).map(drop).map_err(|error| error.to_string())
}

pub(crate) fn calls(network: &Network) -> impl Iterator<Item = &Call> {
    network.nodes.iter().filter_map(|node| match &node.work {
        Work::Transform(call) => Some(call),
        _ => None,
    })
}

pub(crate) fn stages(network: &Network) -> Result<Vec<Stage>, String> {
    calls(network)
        .map(|call| check::build(call, ALL).map(|(_, stage)| stage).map_err(|error| error.to_string()))
        .collect()
}
