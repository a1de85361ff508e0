//! A network as TOML: named nodes, splits, merges, and tests.

use std::fmt::Write as _;

use toml::{Table, Value};

use super::error::{NODES_MAX, NotationError};
use super::{names, words};
use crate::graph::{Case, Network, Node, Target, Work};

/// A node as the file has it: names instead of places.
#[derive(Default)]
struct Draft {
    name: String,
    /// Whatever it is replaced by, until it is known.
    work: Option<Work>,
    from: Vec<String>,
    /// Named inputs of a command, and what goes into each.
    inputs: Vec<(String, Vec<String>)>,
    /// Named outputs.
    outputs: Vec<String>,
}

/// How the node of a named input or output is called.
fn end_name(command: &str, end: &str) -> String {
    format!("{command}.{end}")
}

pub(super) fn parse(text: &str) -> Result<Network, NotationError> {
    let mut file: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        NotationError::toml(format!("line {line}: {}", error.message().replace('\n', " ")))
    })?;
    let nodes = match file.remove("nodes") {
        Some(Value::Table(nodes)) if !nodes.is_empty() => nodes,
        _ => return Err(NotationError::toml("a network needs a table [nodes.NAME] for each of its nodes".into())),
    };
    let tests = match file.remove("test") {
        None => Vec::new(),
        Some(Value::Array(tests)) => tests,
        Some(_) => return Err(NotationError::toml("tests are written as [[test]]".into())),
    };
    if let Some(key) = file.keys().next() {
        return Err(NotationError::toml(format!("'{key}' means nothing here; a file has [nodes.NAME] and [[test]]")));
    }
    let mut drafts = Vec::new();
    for (name, node) in nodes {
        drafts.extend(node_of(&name, node).map_err(|what| NotationError::toml(format!("node '{name}': {what}")))?);
    }
    let count = drafts.iter().map(|draft| 1 + draft.inputs.len() + draft.outputs.len()).sum::<usize>();
    if count > NODES_MAX {
        return Err(NotationError::toml(format!("a network has at most {NODES_MAX} nodes, not {count}")));
    }
    let nodes = in_order(drafts)?;
    let tests = tests.into_iter().enumerate().map(|(place, test)| {
        case_of(test, &nodes).map_err(|what| NotationError::toml(format!("test {}: {what}", place + 1)))
    });
    let tests = tests.collect::<Result<_, _>>()?;
    Ok(Network { nodes, tests })
}

/// The node, and before it those of the chain that it ends.
fn node_of(name: &str, node: Value) -> Result<Vec<Draft>, String> {
    let Value::Table(mut node) = node else { return Err("is not a table".into()) };
    let mut from = node.remove("from").map(|from| names_of("from", from)).transpose()?.unwrap_or_default();
    let (inputs, outputs) = named_ends(&mut node)?;
    let mut works = Vec::new();
    for key in ["read", "do", "write", "append"] {
        let Some(value) = node.remove(key).map(|value| text_of(key, value)).transpose()? else { continue };
        match key {
            "do" => {
                for words in words::stages(&value)? {
                    works.push(Work::from_words(words)?);
                }
                if works.iter().any(|work| !matches!(work, Work::Transform(_))) {
                    return Err("'do' names transforms; files have nodes of their own, with 'read' or 'write'".into());
                }
            }
            verb => works.push(Work::from_words(vec![verb.into(), value])?),
        }
        if !node.is_empty() {
            break;
        }
    }
    if let Some(key) = node.keys().next() {
        return Err(format!(
            "'{key}' means nothing here; a node has one of 'read', 'do', 'write', 'append', and 'from', 'inputs', 'outputs'"
        ));
    }
    if works.is_empty() {
        return Err("says nothing of what it does: 'read', 'do', 'write' or 'append'".into());
    }
    let last = works.len() - 1;
    if !inputs.is_empty() || !outputs.is_empty() {
        return match (last, works.pop()) {
            (0, work @ Some(Work::Transform(_))) => Ok(vec![Draft { name: name.into(), work, from, inputs, outputs }]),
            (0, _) => Err("only a command has 'inputs' and 'outputs', not a file".into()),
            _ => {
                Err("only one command can have 'inputs' and 'outputs'; give each stage of 'do' a node of its own"
                    .into())
            }
        };
    }
    let mut drafts = Vec::new();
    for (place, work) in works.into_iter().enumerate() {
        let name = if place == last { name.to_owned() } else { format!("{name}/{}", place + 1) };
        let from = std::mem::replace(&mut from, vec![name.clone()]);
        drafts.push(Draft { name, work: Some(work), from, ..Draft::default() });
    }
    Ok(drafts)
}

/// The name of a node, or several.
fn names_of(key: &str, value: Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(one) => Ok(vec![one]),
        Value::Array(several) => several.into_iter().map(|one| text_of(key, one)).collect(),
        _ => Err(format!("'{key}' is the name of a node, or a list of names")),
    }
}

/// Named inputs with what goes into them, and named outputs.
type NamedEnds = (Vec<(String, Vec<String>)>, Vec<String>);

fn named_ends(node: &mut Table) -> Result<NamedEnds, String> {
    let inputs = match node.remove("inputs") {
        None => Vec::new(),
        Some(Value::Table(inputs)) => {
            let input = |(name, from)| names_of(&format!("inputs.{name}"), from).map(|from| (name, from));
            inputs.into_iter().map(input).collect::<Result<Vec<_>, _>>()?
        }
        Some(_) => return Err("'inputs' is written as inputs.NAME = \"NODE\", a line for each".into()),
    };
    let outputs = match node.remove("outputs") {
        None => Vec::new(),
        Some(Value::Array(names)) => {
            names.into_iter().map(|name| text_of("outputs", name)).collect::<Result<Vec<_>, _>>()?
        }
        Some(_) => return Err("'outputs' is a list of names, such as [\"rest\"]".into()),
    };
    let mut seen: Vec<&str> = Vec::new();
    for name in inputs.iter().map(|(name, _)| name).chain(&outputs) {
        if !names::is_name(name) {
            return Err(format!(
                "'{name}' cannot be the name of an input or output; use letters, digits, '_' and '-', and begin with a letter or '_'"
            ));
        }
        if seen.contains(&name.as_str()) {
            return Err(format!("two of its inputs and outputs are called '{name}'; give each a name of its own"));
        }
        seen.push(name);
    }
    Ok((inputs, outputs))
}

fn text_of(key: &str, value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(format!("'{key}' is a text in quotes")),
    }
}

/// Each node after all that feed it (Kahn 1962), otherwise in the order of the file. The inputs of a command stand directly before
/// it, and its outputs directly behind it.
fn in_order(mut drafts: Vec<Draft>) -> Result<Vec<Node>, NotationError> {
    check_names(&drafts)?;
    let mut nodes: Vec<Node> = Vec::new();
    while !drafts.is_empty() {
        let place_of = |name: &String| nodes.iter().position(|node| node.name == *name);
        let ready = drafts.iter().enumerate().find_map(|(place, draft)| {
            let from: Option<Vec<usize>> = draft.from.iter().map(place_of).collect();
            let inputs = draft.inputs.iter().map(|(_, from)| from.iter().map(place_of).collect());
            let inputs: Option<Vec<Vec<usize>>> = inputs.collect();
            Some((place, from?, inputs?))
        });
        let Some((place, from, inputs)) = ready else {
            let names: Vec<&str> = drafts.iter().map(|draft| draft.name.as_str()).collect();
            return Err(NotationError::toml(format!("these nodes go round in a circle: {}", names.join(", "))));
        };
        let draft = drafts.remove(place);
        let command = nodes.len() + inputs.len();
        for ((name, _), from) in draft.inputs.into_iter().zip(inputs) {
            nodes.push(Node { name: end_name(&draft.name, &name), work: Work::Inlet { command, name }, from });
        }
        let outlets = draft.outputs.into_iter().map(|name| {
            let work = Work::Outlet { command, name: name.clone() };
            Node { name: end_name(&draft.name, &name), work, from: Vec::new() }
        });
        let outlets: Vec<Node> = outlets.collect();
        let work = draft.work.expect("every node does something");
        nodes.push(Node { name: draft.name, work, from });
        nodes.extend(outlets);
    }
    Ok(nodes)
}

/// No two nodes have one name, and each comes from nodes that are there.
fn check_names(drafts: &[Draft]) -> Result<(), NotationError> {
    // Each name, and whether bytes come from it.
    let mut known: Vec<(String, bool)> = Vec::new();
    for draft in drafts {
        let inputs = draft.inputs.iter().map(|(name, _)| (end_name(&draft.name, name), false));
        let outputs = draft.outputs.iter().map(|name| (end_name(&draft.name, name), true));
        for (name, is_from) in [(draft.name.clone(), true)].into_iter().chain(inputs).chain(outputs) {
            if known.iter().any(|(other, _)| *other == name) {
                return Err(NotationError::toml(format!("two nodes are called '{name}'")));
            }
            known.push((name, is_from));
        }
    }
    for draft in drafts {
        let inputs = draft.inputs.iter().flat_map(|(_, from)| from);
        for from in draft.from.iter().chain(inputs) {
            let what = match known.iter().find(|(name, _)| name == from) {
                Some((_, true)) => continue,
                Some((_, false)) => "is an input of a command, which nothing can come from",
                None => "",
            };
            let node = &draft.name;
            return Err(NotationError::toml(match what {
                "" => format!("node '{node}': there is no node '{from}' that it could come from"),
                _ => format!("node '{node}': '{from}' {what}"),
            }));
        }
    }
    Ok(())
}

fn case_of(test: Value, nodes: &[Node]) -> Result<Case, String> {
    let Value::Table(mut test) = test else { return Err("is not a table".into()) };
    let name = test.remove("name").map(|name| text_of("name", name)).transpose()?.unwrap_or_default();
    let is_source = |node: &Node| matches!(node.work, Work::Read(_));
    let is_sink = |node: &Node| matches!(node.work, Work::Write(_));
    let inputs = ends_of(&mut test, "input", nodes, is_source)?;
    let outputs = ends_of(&mut test, "output", nodes, is_sink)?;
    if outputs.is_empty() {
        return Err("says nothing of what should come out: 'output.NAME'".into());
    }
    match test.keys().next() {
        Some(key) => Err(format!("'{key}' means nothing here; a test has 'name', 'input.NODE' and 'output.NODE'")),
        None => Ok(Case { name, inputs, outputs }),
    }
}

fn ends_of(
    test: &mut Table,
    key: &str,
    nodes: &[Node],
    fits: impl Fn(&Node) -> bool,
) -> Result<Vec<(String, Vec<u8>)>, String> {
    let ends = match test.remove(key) {
        None => return Ok(Vec::new()),
        Some(Value::Table(ends)) => ends,
        Some(_) => return Err(format!("'{key}' is written as {key}.NODE")),
    };
    let end = |(name, value): (String, Value)| {
        if !nodes.iter().any(|node| node.name == name && fits(node)) {
            return Err(format!(
                "'{key}.{name}' names no {} of the network",
                if key == "input" { "source" } else { "sink" }
            ));
        }
        let bytes = match value {
            Value::String(text) => text.into_bytes(),
            Value::Array(bytes) => {
                bytes.iter().map(byte_of).collect::<Option<_>>().ok_or("a byte is a number from 0 to 255")?
            }
            _ => return Err(format!("'{key}.{name}' is a text, or a list of bytes")),
        };
        Ok((name, bytes))
    };
    ends.into_iter().map(end).collect()
}

fn byte_of(value: &Value) -> Option<u8> {
    value.as_integer().and_then(|number| u8::try_from(number).ok())
}

pub(super) fn print(network: &Network) -> String {
    let mut text = String::new();
    for (place, node) in network.nodes.iter().enumerate() {
        let (key, value) = match &node.work {
            Work::Read(path) => ("read", path.as_ref().map_or("-".into(), |path| path.to_string_lossy().into_owned())),
            Work::Write(Target::Stdout) => ("write", "-".into()),
            Work::Write(Target::File(path)) => ("write", path.to_string_lossy().into_owned()),
            Work::Write(Target::Append(path)) => ("append", path.to_string_lossy().into_owned()),
            transform @ Work::Transform(_) => ("do", transform.to_line()),
            // Printed with its command.
            Work::Inlet { .. } | Work::Outlet { .. } => continue,
        };
        let separator = if text.is_empty() { "" } else { "\n" };
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{separator}[nodes.{}]", key_of(&node.name));
        if !node.from.is_empty() {
            let _ = writeln!(text, "from = {}", list_of(network, &node.from));
        }
        for (inlet, name) in network.inlets(place) {
            let _ = writeln!(text, "inputs.{} = {}", key_of(name), list_of(network, &network.nodes[inlet].from));
        }
        let outputs: Vec<String> = network.outlets(place).map(|(_, name)| literal(name)).collect();
        if !outputs.is_empty() {
            let _ = writeln!(text, "outputs = [{}]", outputs.join(", "));
        }
        let _ = writeln!(text, "{key} = {}", literal(&value));
    }
    for test in &network.tests {
        let _ = writeln!(text, "\n[[test]]\nname = {}", literal(&test.name));
        for (key, ends) in [("input", &test.inputs), ("output", &test.outputs)] {
            for (name, bytes) in ends {
                let value = match std::str::from_utf8(bytes) {
                    Ok(text) => literal(text),
                    Err(_) => format!("{bytes:?}"),
                };
                let _ = writeln!(text, "{key}.{} = {value}", key_of(name));
            }
        }
    }
    text
}

/// The names of nodes: one as a text, several as a list.
fn list_of(network: &Network, places: &[usize]) -> String {
    let names: Vec<String> = places.iter().map(|&place| literal(&network.nodes[place].name)).collect();
    match &names[..] {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// A text as a TOML key, which has to stand on one line.
fn key_of(text: &str) -> String {
    let escaped = text.chars().map(|letter| match letter {
        '"' | '\\' => format!("\\{letter}"),
        _ if letter.is_ascii_control() => format!("\\u{:04x}", u32::from(letter)),
        _ => letter.into(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// A text as a TOML string.
fn literal(text: &str) -> String {
    Value::String(text.into()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPLIT: &str = r#"
[nodes.out]
from = "errors"
write = "errors.zst"

[nodes.log]
read = "access.log.gz"

[nodes.plain]
from = "log"
do = "gunzip"

[nodes.errors]
from = "plain"
do = "grep 'ERR OR' | zstd -3"

[nodes.both]
from = ["plain", "log"]
append = "both"

[[test]]
name = "one line of two"
input.log = "a\nb"
output.out = [255, 0]
output.both = ""
"#;

    #[test]
    fn a_name_of_any_letters_is_printed_back() {
        let network = crate::Network::from_line("'a\nb\u{0}\u{7f}\"\\' | \"it's\"").unwrap();
        assert_eq!(parse(&print(&network)).unwrap(), network);
    }

    #[test]
    fn a_file_is_printed_back() {
        let network = parse(SPLIT).unwrap();
        let names: Vec<_> = network.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["log", "plain", "errors/1", "errors", "out", "both"]);
        assert_eq!(network.nodes[5].from, [1, 0]);
        assert!(!network.is_line());
        assert_eq!(parse(&print(&network)).unwrap(), network, "{}", print(&network));
        assert_eq!(network.to_string(), print(&network));
    }

    const ENDS: &str = r#"
[nodes.a]
read = "1"

[nodes.paired]
inputs.r1 = "a"
inputs."r-2" = ["b", "c"]
outputs = ["rest", "log"]
do = "exec pair {r1} {r-2} --rest={rest} {log}"

[nodes.b]
read = "2"

[nodes.c]
read = "3"

[nodes.end]
from = ["paired.log", "paired.rest"]
write = "-"
"#;

    #[test]
    fn named_ends_stand_around_their_command_and_are_printed_back() {
        let network = parse(ENDS).unwrap();
        let names: Vec<_> = network.nodes.iter().map(|node| node.name.as_str()).collect();
        let expected = ["a", "b", "c", "paired.r1", "paired.r-2", "paired", "paired.rest", "paired.log", "end"];
        assert_eq!(names, expected);
        assert_eq!(network.nodes[4].from, [1, 2]);
        assert_eq!(network.nodes[8].from, [7, 6]);
        assert_eq!(network.nodes[6].work, Work::Outlet { command: 5, name: "rest".into() });
        assert!(!network.is_line());
        assert_eq!(parse(&print(&network)).unwrap(), network, "{}", print(&network));
    }

    #[test]
    fn wrong_named_ends_are_named() {
        let with = |node: &str| format!("[nodes.a]\nread = 'x'\n[nodes.b]\n{node}");
        for (node, error) in [
            ("inputs = 'a'\ndo = 'x'", "node 'b': 'inputs' is written as inputs.NAME"),
            ("inputs.r = 1\ndo = 'x'", "node 'b': 'inputs.r' is the name of a node, or a list of names"),
            ("outputs = 'a'\ndo = 'x'", "node 'b': 'outputs' is a list of names"),
            ("inputs.1 = 'a'\ndo = 'x'", "node 'b': '1' cannot be the name of an input or output"),
            ("inputs.r = 'a'\noutputs = ['r']\ndo = 'x'", "node 'b': two of its inputs and outputs are called 'r'"),
            ("inputs.r = 'n'\ndo = 'x'", "node 'b': there is no node 'n' that it could come from"),
            ("inputs.r = 'b.r'\ndo = 'x'", "node 'b': 'b.r' is an input of a command, which nothing can come from"),
            ("inputs.r = 'b'\ndo = 'x'", "these nodes go round in a circle: b"),
            ("inputs.r = 'b.o'\noutputs = ['o']\ndo = 'x'", "these nodes go round in a circle: b"),
            ("inputs.r = 'a'\nread = 'x'", "node 'b': only a command has 'inputs' and 'outputs', not a file"),
            ("inputs.r = 'a'\ndo = 'x | x'", "node 'b': only one command can have 'inputs' and 'outputs'"),
            ("outputs = ['o']\ndo = 'x'\n[nodes.'b.o']\nread = 'x'", "two nodes are called 'b.o'"),
        ] {
            let found = parse(&with(node)).unwrap_err().to_string();
            assert!(found.starts_with(error), "{node}\n{found}");
        }
    }

    #[test]
    fn a_line_is_the_same_network_as_toml() {
        let network = Network::from_line("read a | gunzip | grep 'a b' | write b").unwrap();
        assert_eq!(parse(&network.to_toml()).unwrap(), network);
        assert_eq!(parse(&network.to_toml()).unwrap().to_string(), "read a | gunzip | grep 'a b' | write b");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, error) in [
            ("", "a network needs a table [nodes.NAME] for each of its nodes"),
            ("[nodes.a]\nread = 'x'\n\n= 3", "line 4: "),
            ("[nodes.a]\nread = 1", "node 'a': 'read' is a text in quotes"),
            ("[nodes.a]\nfrom = 'b'\ndo = 'x'", "node 'a': there is no node 'b' that it could come from"),
            (
                "[nodes.a]\nfrom = 'b'\ndo = 'x'\n[nodes.b]\nfrom = 'a'\ndo = 'x'",
                "these nodes go round in a circle: a, b",
            ),
            ("[nodes.a]\nfrom = 'a'", "node 'a': says nothing of what it does"),
            ("[nodes.a]\ndo = 'x'\ndoo = 'x'", "node 'a': 'doo' means nothing here"),
            ("[nodes.a]\nread = 'x'\nwrite = 'x'", "node 'a': 'write' means nothing here"),
            ("[nodes.a]\ndo = 'write x'", "node 'a': 'do' names transforms"),
            ("[node.a]", "a network needs a table"),
            ("[nodes]", "a network needs a table"),
            (
                "[nodes.a]\nread = 'x'\n[nodes.'b/1']\nfrom = 'a'\ndo = 'x'\n[nodes.b]\nfrom = 'a'\ndo = 'x|x'",
                "two nodes are called 'b/1'",
            ),
            ("[nodes.a]\nread = 'x'\n[[test]]\noutput.a = ''", "test 1: 'output.a' names no sink of the network"),
            ("[nodes.a]\nread = 'x'\n[[test]]\ninput.a = [256]", "test 1: a byte is a number from 0 to 255"),
        ] {
            let found = parse(text).unwrap_err().to_string();
            assert!(found.starts_with(error), "{text}\n{found}");
        }
    }
}
