//! A network as TOML: named nodes, splits, merges, and tests.

mod parse;
mod print;

pub(super) use parse::parse;
pub(super) use print::print;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Network, Work};

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
