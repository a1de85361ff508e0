//! What the fuzzer does with formats, modules and notations (`fuzz/formats.rs`), for a moment and without a nightly compiler: bytes without
//! sense, and good streams with a few bytes changed, lost or doubled.

#[path = "../../../fuzz/formats.rs"]
mod formats;
#[allow(dead_code, reason = "what is made up here needs no compiler")]
mod wasm_modules;

use millstream_net::{Network, Options, run};
use millstream_transforms::ALL;

const FORMATS: &[(&str, &str)] = &[
    ("gzip", "gunzip"),
    ("zlib", "unzlib"),
    ("zstd -1", "unzstd"),
    ("xz -0", "unxz"),
    ("lz4", "unlz4"),
    ("brotli -2", "unbrotli"),
    ("base64", "unbase64"),
    ("hex", "unhex"),
];

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }

    /// The same bytes with something wrong, or nothing.
    fn spoiled(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len().max(1));
            match self.below(4) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at.min(bytes.len())..(at + self.below(9)).min(bytes.len()))),
                2 => bytes.extend_from_within(at.min(bytes.len())..),
                _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << self.below(8)),
            }
        }
        bytes
    }
}

#[test]
fn no_stream_breaks_a_decoder() {
    let mut numbers = Numbers(1);
    for &(pack, unpack) in FORMATS {
        let network = Network::from_line(pack).unwrap();
        for round in 0..150 {
            let plain = numbers.below(3000);
            let plain = numbers.bytes(plain).iter().map(|byte| byte % (1 + round as u8 * 2 % 97)).collect::<Vec<u8>>();
            let stream = match round % 10 {
                0 => plain,
                _ => run::in_memory(&network, ALL, &plain, &Options::default()).unwrap(),
            };
            let cut = numbers.below(256) as u8;
            formats::format(&[&[cut][..], &numbers.spoiled(stream)].concat(), pack, unpack);
        }
    }
}

#[test]
fn no_byte_of_an_age_file_can_be_changed() {
    let mut numbers = Numbers(3);
    for _ in 0..100 {
        let count = 4 + numbers.below(2000);
        formats::age(&numbers.bytes(count));
    }
}

#[test]
fn no_module_breaks_its_sandbox() {
    let mut numbers = Numbers(4);
    for module in ["rot13", "unhex"].map(|name| std::fs::read(wasm_modules::template(name)).unwrap()) {
        for _ in 0..40 {
            formats::module(&numbers.spoiled(module.clone()));
        }
    }
}

#[test]
fn no_text_breaks_the_grammar_of_a_file() {
    let document = include_str!("../../../docs/networks.md");
    let (_, example) = document.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    assert!(Network::from_toml(example).is_ok());
    let mut numbers = Numbers(5);
    for _ in 0..1000 {
        // Lines are left out, doubled and spoiled.
        let mut lines: Vec<&str> = example.split_inclusive('\n').collect();
        for _ in 0..numbers.below(3) {
            let (from, to) = (numbers.below(lines.len()), numbers.below(lines.len()));
            match numbers.below(3) {
                0 => drop(lines.remove(from)),
                1 => lines.insert(to, lines[from]),
                _ => lines.swap(from, to),
            }
        }
        let text = lines.concat().into_bytes();
        formats::file(&if numbers.below(2) == 0 { text } else { numbers.spoiled(text) });
    }
}

#[test]
fn no_text_breaks_the_grammar_of_a_line() {
    let mut numbers = Numbers(2);
    let pieces = [
        "read", "write", "append", "-", "a", "grep", "gzip", "exec", "|", "||", " ", "\t", "'", "\"", "\\", "a b", "ü",
        "\n", "''", "in", "out", "[", "=", "#", "\u{0}", "'a|b'", "\"\\\"\"",
    ];
    for _ in 0..20_000 {
        let text: String = (0..numbers.below(12)).map(|_| pieces[numbers.below(pieces.len())]).collect();
        formats::line(text.as_bytes());
    }
}
