//! From a network to TOML.

use std::fmt::Write as _;

use toml::Value;

use crate::graph::{Case, Network, Node, Target, Work};

pub(crate) fn print(network: &Network) -> String {
    let mut blocks: Vec<String> = Vec::new();
    for (place, node) in network.nodes.iter().enumerate() {
        blocks.extend(node_in_words(network, place, node));
    }
    blocks.extend(network.tests.iter().map(case_in_words));
    blocks.join("\n")
}

/// `None` for a named input or output, which stands in the lines of its command.
fn node_in_words(network: &Network, place: usize, node: &Node) -> Option<String> {
    let (key, value) = match &node.work {
        Work::Read(path) => ("read", path.as_ref().map_or("-".into(), |path| path.to_string_lossy().into_owned())),
        Work::Write(Target::Stdout) => ("write", "-".into()),
        Work::Write(Target::File(path)) => ("write", path.to_string_lossy().into_owned()),
        Work::Write(Target::Append(path)) => ("append", path.to_string_lossy().into_owned()),
        transform @ Work::Transform(_) => ("do", transform.to_line()),
        Work::Inlet { .. } | Work::Outlet { .. } => return None,
    };
    let mut text = format!("[nodes.{}]\n", key_of(&node.name));
    // Writing to a text cannot fail.
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
    Some(text)
}

fn case_in_words(test: &Case) -> String {
    let mut text = format!("[[test]]\nname = {}\n", literal(&test.name));
    for (key, ends) in [("input", &test.inputs), ("output", &test.outputs)] {
        for (name, bytes) in ends {
            let value = match std::str::from_utf8(bytes) {
                Ok(text) => literal(text),
                Err(_) => format!("{bytes:?}"),
            };
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{key}.{} = {value}", key_of(name));
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
