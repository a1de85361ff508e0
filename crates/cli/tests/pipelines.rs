//! A linear network is the pipeline of its stages, each as a process of its own: whatever the stages, and whatever the bytes.

mod common;

use std::fs::File;
use std::process::{Child, Stdio};

use common::{Scratch, millstream};
use millstream_net::{Network, check};
use millstream_transforms::ALL;

/// Compressors stand beside what undoes them: where a stream is cut may show in their bytes, and not in what these mean.
const STAGES: &[&str] = &[
    "identity",
    "increment 3",
    "xor 0102ff",
    "swab",
    "rot13",
    "upper",
    "lower",
    "tr a-y b-z",
    "hex",
    "hex | unhex",
    "base64",
    "base64 -w 0 | unbase64",
    "gzip -1 | gunzip",
    "zlib -1 | unzlib",
    "zstd -1 | unzstd",
    "xz -0 | unxz",
    "crc32 /dev/null",
    "grep e",
    "grep -v e",
    "grep -i 'A.*b'",
    "head",
    "head -n 700",
    "head -c 70000",
    "tail",
    "tail -n 700",
    "tail -c 70000",
    "cut -d ' ' -f 2-",
    "count",
    "short 1000",
    "corrupt 5000",
    "truncate 150000",
];

/// The stages that fit after those before them, as one line.
fn fitting(chosen: &[&str]) -> String {
    let mut line = String::from("identity");
    for stage in chosen {
        let longer = format!("{line} | {stage}");
        let network = Network::from_line(&longer).unwrap();
        if check::check(&network, ALL).is_ok() {
            line = longer;
        }
    }
    line
}

fn output_of(mut children: Vec<Child>) -> Vec<u8> {
    let last = children.pop().unwrap().wait_with_output().unwrap();
    assert!(last.status.success(), "{}", String::from_utf8_lossy(&last.stderr));
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    last.stdout
}

/// One process for each of the lines.
fn piped(lines: &[&str], input: File) -> Vec<u8> {
    let mut children: Vec<Child> = Vec::new();
    let mut stdin = Stdio::from(input);
    for line in lines {
        let mut child = millstream(["net", line]).stdin(stdin).stdout(Stdio::piped()).spawn().unwrap();
        // The last one keeps its end, for the test to read.
        stdin = if children.len() + 1 < lines.len() { child.stdout.take().unwrap().into() } else { Stdio::null() };
        children.push(child);
    }
    output_of(children)
}

const WORDS: &[&str] = &["the", "a b", "error\n", "\n", " ", "x\ty", "\u{e9}\0"];

/// The same cases again: `MILLSTREAM_SEED=N` in the environment.
fn seed() -> u64 {
    std::env::var("MILLSTREAM_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().expect("a number"))
}

#[test]
fn a_linear_network_is_the_pipeline_of_its_stages() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for case in 0..40 {
        let chosen: Vec<&str> = (0..random.usize(1..6)).map(|_| random.choice(STAGES).copied().unwrap()).collect();
        let words: String = (0..random.usize(..60_000)).map(|_| random.choice(WORDS).copied().unwrap()).collect();
        let line = fitting(&chosen);
        let scratch = Scratch::new();
        let input = scratch.file("in", &words);
        let together = piped(&[&line], File::open(&input).unwrap());
        let apart = piped(&line.split(" | ").collect::<Vec<_>>(), File::open(&input).unwrap());
        let sizes = (words.len(), together.len(), apart.len());
        assert!(together == apart, "case {case} of MILLSTREAM_SEED={seed}: {line}: bytes {sizes:?}");
    }
}
