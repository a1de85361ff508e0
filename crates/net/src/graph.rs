//! A network: sources, transforms and sinks, and which feeds which.

use std::path::PathBuf;

use crate::external::Ends;

/// A transform with its arguments, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its name in the catalogue.
    pub name: String,
    /// What follows the name.
    pub arguments: Vec<String>,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Work {
    /// Gives the bytes of a file, or of the standard input.
    Read(Option<PathBuf>),
    /// Transforms what comes in, and gives it to all that follow. Of several inputs one comes after the other.
    Transform(Call),
    /// Takes the bytes.
    Write(Target),
    /// Takes the bytes that a command reads under this name. Stands before the command.
    Inlet {
        /// The node of the command.
        command: usize,
        /// As `{NAME}` in its words.
        name: String,
    },
    /// Gives the bytes that a command writes under this name. Stands behind the command.
    Outlet {
        /// The node of the command.
        command: usize,
        /// As `{NAME}` in its words.
        name: String,
    },
}

/// Where bytes go in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The standard output.
    Stdout,
    /// A file that appears whole or not at all.
    File(PathBuf),
    /// A file that is written at its end.
    Append(PathBuf),
}

/// One node of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique in the network.
    pub name: String,
    /// What it does.
    pub work: Work,
    /// The nodes whose output it gets, one after the other.
    pub from: Vec<usize>,
}

/// A test that stands in the file of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What it shows.
    pub name: String,
    /// Bytes for each source, by name.
    pub inputs: Vec<(String, Vec<u8>)>,
    /// Bytes that each sink must get, by name.
    pub outputs: Vec<(String, Vec<u8>)>,
}

/// A graph without loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// In an order in which each stands after those it gets its input from.
    pub nodes: Vec<Node>,
    /// In the order of the file.
    pub tests: Vec<Case>,
}

impl Network {
    /// Whether it can be written as a line: one source, one sink, and one after the other.
    pub fn is_line(&self) -> bool {
        let follows_the_one_before = |(place, node): (usize, &Node)| match place {
            0 => matches!(node.work, Work::Read(_)),
            _ => node.from == [place - 1],
        };
        let ends_in_a_sink = matches!(self.nodes.last(), Some(Node { work: Work::Write(_), .. }));
        self.nodes.iter().enumerate().all(follows_the_one_before) && ends_in_a_sink
    }

    /// The nodes of the named inputs of a command, in the order of the file.
    pub(crate) fn inlets(&self, of: usize) -> impl Iterator<Item = (usize, &str)> {
        self.nodes.iter().enumerate().filter_map(move |(place, node)| match &node.work {
            Work::Inlet { command, name } if *command == of => Some((place, name.as_str())),
            _ => None,
        })
    }

    /// The nodes of its named outputs, in the order of the file.
    pub(crate) fn outlets(&self, of: usize) -> impl Iterator<Item = (usize, &str)> {
        self.nodes.iter().enumerate().filter_map(move |(place, node)| match &node.work {
            Work::Outlet { command, name } if *command == of => Some((place, name.as_str())),
            _ => None,
        })
    }

    /// What a command is connected to.
    pub(crate) fn ends(&self, command: usize) -> Ends {
        Ends {
            has_input: !self.nodes[command].from.is_empty(),
            has_output: self.fed_by(command).next().is_some(),
            inputs: self.inlets(command).map(|(_, name)| name.into()).collect(),
            outputs: self.outlets(command).map(|(_, name)| name.into()).collect(),
        }
    }

    /// The nodes of all inputs of a command: its own, if the stream goes into it, and then the named ones.
    pub(crate) fn input_nodes(&self, command: usize) -> Vec<usize> {
        let own = (!self.nodes[command].from.is_empty()).then_some(command);
        own.into_iter().chain(self.inlets(command).map(|(place, _)| place)).collect()
    }

    /// The nodes of all its outputs, in the same order.
    pub(crate) fn output_nodes(&self, command: usize) -> Vec<usize> {
        let own = self.fed_by(command).next().map(|_| command);
        own.into_iter().chain(self.outlets(command).map(|(place, _)| place)).collect()
    }

    /// The nodes whose bytes reach a node directly: also from a command to its outputs, and from its inputs to it.
    pub(crate) fn before(&self, place: usize) -> Vec<usize> {
        let mut before = self.nodes[place].from.clone();
        match &self.nodes[place].work {
            Work::Outlet { command, .. } => before.push(*command),
            Work::Transform(_) => before.extend(self.inlets(place).map(|(inlet, _)| inlet)),
            Work::Read(_) | Work::Write(_) | Work::Inlet { .. } => {}
        }
        before
    }

    /// The nodes that a node feeds.
    pub(crate) fn fed_by(&self, node: usize) -> impl Iterator<Item = usize> {
        let is_fed = move |&(_, other): &(usize, &Node)| other.from.contains(&node);
        self.nodes.iter().enumerate().filter(is_fed).map(|(place, _)| place)
    }

    /// The line of the inverse: each transform undone, last first. `inverse_of` gives that of one.
    ///
    /// # Errors
    /// The name of the first transform that has none, or what keeps the network from being turned around.
    pub fn inverse(&self, inverse_of: impl Fn(&Call) -> Result<String, String>) -> Result<String, String> {
        if !self.is_line() {
            return Err("only a network without splits and merges can be inverted".into());
        }
        let calls = self.nodes.iter().filter_map(|node| match &node.work {
            Work::Transform(call) => Some(call),
            _ => None,
        });
        let inverses: Vec<String> = calls.rev().map(inverse_of).collect::<Result<_, _>>()?;
        Ok(inverses.join(" | "))
    }
}
