//! What is made without any program, and is the same on every machine.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::random::Random;

pub(super) type Generator = fn(&mut Random, &mut dyn Write, u64) -> io::Result<()>;

/// What is made without any program: its name and what makes so many bytes of it, of the size that was asked for.
pub(super) const GENERATED: [(&str, Generator); 6] = [
    ("text", |random, out, size| text(random, out, size)),
    ("random", |random, out, size| bytes(random, out, size)),
    ("numbers", |random, out, size| numbers(random, out, size / 16)),
    ("table", |random, out, size| table(random, out, size / 4)),
    ("records", |random, out, size| records(random, out, size / 16)),
    ("reads", |random, out, size| reads(random, out, size / 4)),
];

/// Writes a text of so many bytes to a file, the same on every machine.
pub(crate) fn write_text(path: &Path, size: u64) -> io::Result<()> {
    generate(text, path, size)
}

pub(super) fn generate(generator: Generator, path: &Path, size: u64) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    generator(&mut Random(1), &mut out, size)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()
}

/// So many different words.
const WORDS: usize = 3000;

/// Words of two to ten letters, the first of them more frequent by far (Zipf's law), a few of which pipelines look for.
fn words(random: &mut Random) -> Vec<String> {
    let known = ["the", "of", "and", "water", "stone", "river", "wheel"].map(str::to_owned);
    let letter =
        |random: &mut Random| char::from(b"etaoinshrdlucmfwypvbgkjqxz"[random.below(26).min(random.below(26))]);
    let mut word = || (0..2 + random.below(9)).map(|_| letter(random)).collect();
    known.into_iter().chain(std::iter::repeat_with(&mut word).take(WORDS)).collect()
}

/// Lines of one to sixteen words, and then exactly `size` bytes.
fn text(random: &mut Random, out: &mut dyn Write, size: u64) -> io::Result<()> {
    let words = words(random);
    let mut left = size as usize;
    while left > 0 {
        let mut line = String::new();
        for _ in 0..=random.below(16) {
            // The product of two even choices: nearly one over the rank.
            let rank = random.below(words.len()) * random.below(words.len()) / words.len();
            line += &words[rank];
            line.push(' ');
        }
        line.pop();
        line.push('\n');
        line.truncate(left);
        out.write_all(line.as_bytes())?;
        left -= line.len();
    }
    Ok(())
}

fn bytes(random: &mut Random, out: &mut dyn Write, size: u64) -> io::Result<()> {
    for _ in 0..size / 8 {
        out.write_all(&random.word().to_le_bytes())?;
    }
    Ok(())
}

/// A number of eight digits on each line.
fn numbers(random: &mut Random, out: &mut dyn Write, size: u64) -> io::Result<()> {
    for _ in 0..size / 9 {
        writeln!(out, "{:08}", random.below(100_000_000))?;
    }
    Ok(())
}

/// Comma-separated values, in the order of the first, with a heading.
fn table(random: &mut Random, out: &mut dyn Write, size: u64) -> io::Result<()> {
    let words = words(random);
    writeln!(out, "00000000,amount,price,name")?;
    for row in 1..=size / 32 {
        let name = &words[random.below(words.len())];
        writeln!(out, "{row:08},{},{}.{:02},{name}", random.below(1_000_000), random.below(1000), random.below(100))?;
    }
    Ok(())
}

/// An object of JSON on each line.
fn records(random: &mut Random, out: &mut dyn Write, size: u64) -> io::Result<()> {
    let words = words(random);
    for row in 0..size / 64 {
        let name = &words[random.below(words.len())];
        writeln!(out, r#"{{"id":{row},"name":"{name}","value":{},"tags":["a","b"]}}"#, random.below(1_000_000))?;
    }
    Ok(())
}

/// Aligned reads of a genome, as SAM (samtools.github.io/hts-specs): 100 bases each, on two sequences.
fn reads(random: &mut Random, out: &mut dyn Write, size: u64) -> io::Result<()> {
    const LENGTH: usize = 1_000_000;
    for name in ["one", "two"] {
        writeln!(out, "@SQ\tSN:{name}\tLN:{LENGTH}")?;
    }
    for row in 0..size / 250 {
        let name = ["one", "two"][random.below(2)];
        let bases: String = (0..100).map(|_| char::from(b"ACGT"[random.below(4)])).collect();
        let quality: String = (0..100).map(|_| char::from(b'5' + random.below(30) as u8)).collect();
        let at = 1 + random.below(LENGTH - 200);
        writeln!(out, "read{row}\t0\t{name}\t{at}\t60\t100M\t*\t0\t0\t{bases}\t{quality}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_are_deterministic_and_sized() {
        for (name, generator) in GENERATED {
            let make = || {
                let mut out = Vec::new();
                generator(&mut Random(1), &mut out, 1 << 18).unwrap();
                out
            };
            let made = make();
            assert_eq!(made, make(), "{name}");
            assert!((8_000..300_000).contains(&made.len()), "{name}: {}", made.len());
        }
    }

    #[test]
    fn text_contains_searched_words() {
        let mut out = Vec::new();
        text(&mut Random(1), &mut out, 1 << 18).unwrap();
        let text = String::from_utf8(out).unwrap();
        for word in ["stone", "river"] {
            assert!(text.matches(word).count() > 10, "{word}");
        }
        assert_eq!(text.len(), 1 << 18);
    }
}
