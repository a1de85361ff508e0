//! From TOML to a network.

use toml::{Table, Value};

use crate::graph::{Case, Network, Node, Work};
use crate::notation::error::{NODES_MAX, NotationError};
use crate::notation::{names, words};

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

pub(crate) fn parse(text: &str) -> Result<Network, NotationError> {
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
    let from = node.remove("from").map(|from| names_of("from", from)).transpose()?.unwrap_or_default();
    let (inputs, outputs) = named_ends(&mut node)?;
    let mut works = works_of(node)?;
    if inputs.is_empty() && outputs.is_empty() {
        return Ok(chained(name, works, from));
    }
    match (works.len(), works.pop()) {
        (1, work @ Some(Work::Transform(_))) => Ok(vec![Draft { name: name.into(), work, from, inputs, outputs }]),
        (1, _) => Err("only a command has 'inputs' and 'outputs', not a file".into()),
        _ => Err("only one command can have 'inputs' and 'outputs'; give each stage of 'do' a node of its own".into()),
    }
}

/// What a node does, from all keys that are left of it: several transforms after each other, or one thing.
fn works_of(mut node: Table) -> Result<Vec<Work>, String> {
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
            "'{key}' means nothing here; a node has one of 'read', 'do', 'write', 'append', \
             and 'from', 'inputs', 'outputs'"
        ));
    }
    if works.is_empty() {
        return Err("says nothing of what it does: 'read', 'do', 'write' or 'append'".into());
    }
    Ok(works)
}

/// Nodes after each other: the last has the name, the others have it with a number.
fn chained(name: &str, works: Vec<Work>, mut from: Vec<String>) -> Vec<Draft> {
    let count = works.len();
    let mut drafts = Vec::new();
    for (number, work) in (1..).zip(works) {
        let name = if number == count { name.to_owned() } else { format!("{name}/{number}") };
        let from = std::mem::replace(&mut from, vec![name.clone()]);
        drafts.push(Draft { name, work: Some(work), from, ..Draft::default() });
    }
    drafts
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
                "'{name}' cannot be the name of an input or output; \
                 use letters, digits, '_' and '-', and begin with a letter or '_'"
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

/// Each node after all that feed it (Kahn 1962), otherwise in the order of the file. The inputs of a command stand
/// directly before it, and its outputs directly behind it.
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
