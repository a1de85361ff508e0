//! A network as one line: `read FILE | transform ... | write FILE`.

use super::error::{NODES_MAX, NotationError};
use super::words;
use crate::graph::{Network, Node, Target, Work};

pub(super) fn parse(text: &str) -> Result<Network, NotationError> {
    let stages = words::stages(text).map_err(NotationError::line)?;
    let count = stages.len();
    if count > NODES_MAX {
        return Err(NotationError::line(format!("a line has at most {NODES_MAX} stages, not {count}")));
    }
    // A line without a word is the identity.
    let is_blank = count == 1 && stages[0].is_empty();
    let mut works = Vec::new();
    for (place, words) in stages.into_iter().enumerate().filter(|_| !is_blank) {
        let at = |what: String| NotationError::line(format!("{what}, at stage {} of the line", place + 1));
        let work = Work::from_words(words).map_err(at)?;
        let is_misplaced = match work {
            Work::Read(_) => place != 0,
            Work::Write(_) => place + 1 != count,
            Work::Transform(_) | Work::Inlet { .. } | Work::Outlet { .. } => false,
        };
        if is_misplaced {
            let place = if matches!(work, Work::Read(_)) { "first" } else { "last" };
            return Err(at(format!("'{}' can only stand {place} in a line", work.to_line())));
        }
        works.push(work);
    }
    if !matches!(works.first(), Some(Work::Read(_))) {
        works.insert(0, Work::Read(None));
    }
    if !matches!(works.last(), Some(Work::Write(_))) {
        works.push(Work::Write(Target::Stdout));
    }
    Ok(Network { nodes: named(works), tests: Vec::new() })
}

/// Each stage after the one before it, under the name of its transform, and a number if that stands there twice.
fn named(works: Vec<Work>) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::with_capacity(works.len());
    for (place, work) in works.into_iter().enumerate() {
        let plain = match &work {
            Work::Read(_) => "in",
            Work::Write(_) => "out",
            Work::Transform(call) => &call.name,
            Work::Inlet { name, .. } | Work::Outlet { name, .. } => name,
        };
        let is_taken = |name: &str| nodes.iter().any(|node| node.name == name);
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        let name = std::iter::once(plain.to_owned()).chain(numbered).find(|name| !is_taken(name));
        let from = place.checked_sub(1).into_iter().collect();
        nodes.push(Node { name: name.expect("there are more numbers than nodes"), work, from });
    }
    nodes
}

pub(super) fn print(network: &Network) -> String {
    let is_said = |work: &&Work| !matches!(work, Work::Read(None) | Work::Write(Target::Stdout));
    let stages = network.nodes.iter().map(|node| &node.work).filter(is_said);
    stages.map(Work::to_line).collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_printed_back() {
        for line in ["", "gunzip", "read a | gunzip | grep 'a b' | gunzip | write b", "xor 17 | append c"] {
            let network = parse(line).unwrap();
            assert_eq!(network.to_string(), line);
            assert_eq!(parse(&network.to_string()).unwrap(), network);
        }
        assert_eq!(parse("read - | x | write -").unwrap(), parse("x").unwrap());
    }

    #[test]
    fn names_are_unique() {
        let network = parse("a | a | a-2 | a").unwrap();
        let names: Vec<_> = network.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["in", "a", "a-2", "a-2-2", "a-3", "out"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let error = |line| parse(line).unwrap_err().to_string();
        assert_eq!(error("a || b"), "a transform is missing, at stage 2 of the line");
        assert_eq!(error("a | read b"), "'read b' can only stand first in a line, at stage 2 of the line");
        assert_eq!(error("write b | a"), "'write b' can only stand last in a line, at stage 1 of the line");
        assert_eq!(error("read"), "'read' takes one file, or - for the standard input, at stage 1 of the line");
        assert_eq!(error("a 'b"), "a ' is not closed");
    }
}
