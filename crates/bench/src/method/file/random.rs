//! 4 KiB at random places of a compressed file: how long the slowest in a hundred take, and the memory of the daemon.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use millstream_sys::clock;

use super::plan::Row;
use super::setting::{OURS, PIPE, Setting};
use super::side::{Side, drop_cached};
use crate::cell::Cell;
use crate::engine::{Comparison, Job, Launch};
use crate::random::Random;

/// How many places are read for one sample.
const READS: usize = 400;

/// Bytes at each.
const BYTES: usize = 4 << 10;

/// A compressed text, and what programs over it are called in the table.
struct Packed {
    file: PathBuf,
    /// Of the latency and of the memory.
    names: [&'static str; 2],
    network: &'static str,
    /// Decompresses it in a pipeline.
    program: &'static str,
    is_rivalled: bool,
}

/// Each format that can be read from the middle, where the program that makes it is installed.
pub(super) fn comparisons(setting: &Setting<'_>) -> Result<Vec<Comparison>, String> {
    let mut comparisons = Vec::new();
    for packed in packed(setting)? {
        comparisons.extend(both(setting, &packed)?);
    }
    Ok(comparisons)
}

fn packed(setting: &Setting<'_>) -> Result<Vec<Packed>, String> {
    let size = setting.plan.size;
    let gzip = setting.rival("gzip", |_| setting.place().packed(size, "gzip", "gz"));
    let bgzip = setting.rival("bgzip", |program| {
        let mut command = setting.place().commands().command(program);
        command.arg("-c");
        setting.place().packed_by(size, command, "bgzip", "gz")
    });
    let zstd = setting.rival("zstd", |_| setting.place().packed_by_network(size, "zstd -s 1M", "zst"));
    let found = [
        gzip.map(|file| Packed {
            file,
            names: ["random-gzip", "memory-gzip"],
            network: "gunzip",
            program: "gzip",
            is_rivalled: true,
        }),
        bgzip.map(|file| Packed {
            file,
            names: ["random-bgzip", "memory-bgzip"],
            network: "gunzip",
            program: "gzip",
            is_rivalled: true,
        }),
        zstd.map(|file| Packed {
            file,
            names: ["random-zstd", "memory-zstd"],
            network: "unzstd",
            program: "zstd",
            is_rivalled: false,
        }),
    ];
    Ok(found.into_iter().flatten().collect())
}

/// The latency, and after it the memory.
fn both(setting: &Setting<'_>, packed: &Packed) -> Result<[Comparison; 2], String> {
    let text = setting.place().text(setting.plan.size)?;
    let source = packed.file.parent().unwrap_or(&packed.file);
    let point = setting.place().mounted(source, Some(packed.network))?;
    let rival = setting
        .rival("ratarmount", |program| {
            let options = ["-f", "--index-file", ":memory:"].map(AsRef::as_ref);
            let options = [&options[..], &[packed.file.as_os_str()]].concat();
            setting.place().mounted_by(program, &packed.file, &options)
        })
        .filter(|_| packed.is_rivalled);
    let [latency, memory] = packed.names;
    let cell = |name, transport, unit| setting.named_cell(Row::Random, name, None, transport, unit);
    let mounted = [(OURS, Some(point)), ("ratarmount", rival)];
    let mounted = mounted.into_iter().filter_map(|(transport, point)| Some((transport, point?)));
    let (mut latencies, mut memories) = (vec![sought(setting, packed, &text, cell(latency, PIPE, "ms"))?], Vec::new());
    for (transport, point) in mounted {
        let reader = Rc::new(Reader::new(point.join("text"), &text)?);
        latencies.push(read(setting, Rc::clone(&reader), cell(latency, transport, "ms")));
        memories.push(remembered(setting, reader, point, cell(memory, transport, "MiB")));
    }
    let baseline = memories.get(1).map(|_| "ratarmount");
    Ok([
        Comparison { baseline: Some(PIPE), rehearsals: 1, jobs: latencies },
        Comparison { baseline, rehearsals: 1, jobs: memories },
    ])
}

/// A pipeline for the 99th place in a hundred: it decompresses all that is before it.
fn sought(setting: &Setting<'_>, packed: &Packed, text: &Path, cell: Cell) -> Result<Job, String> {
    let (place, commands) = (Arc::clone(setting.place), setting.place().commands());
    let expected = Reader::new(text.to_owned(), text)?;
    let offset = expected.last() / 100 * 99;
    let script = format!("{} -dc \"$FILE\" | tail -c +{} | head -c {}", packed.program, offset + 1, expected.len);
    let side = Side::new(PIPE, script, packed.file.clone());
    let sum = Side::new(PIPE, format!("tail -c +{} \"$FILE\" | head -c {}", offset + 1, expected.len), text.into());
    let mut is_proven = false;
    Ok(Job::new(cell, move || {
        let _until_measured = &place;
        if !std::mem::replace(&mut is_proven, true) && side.digest(&commands)? != sum.digest(&commands)? {
            return Err("other bytes came out than are in the text".into());
        }
        side.launch(&commands)
    }))
}

/// The slowest in a hundred reads.
fn read(setting: &Setting<'_>, reader: Rc<Reader>, cell: Cell) -> Job {
    let place = Arc::clone(setting.place);
    let mut seed = 0;
    Job::new(cell, move || {
        let _until_measured = &place;
        seed += 1;
        let milliseconds = percentile_99(reader.read(seed)?);
        Ok(Launch { operations: READS as u64, ..Launch::of(milliseconds) })
    })
}

/// The most memory that the daemon has had when all this was read.
fn remembered(setting: &Setting<'_>, reader: Rc<Reader>, point: PathBuf, cell: Cell) -> Job {
    let place = Arc::clone(setting.place);
    let mut seed = 1 << 32;
    Job::new(cell, move || {
        seed += 1;
        reader.read(seed)?;
        super::setting::locked(&place).peak_memory(&point).map(Launch::of)
    })
}

/// Reads at random places of a mounted text, and compares with the text.
struct Reader {
    mounted: PathBuf,
    text: File,
    size: u64,
    len: usize,
}

impl Reader {
    fn new(mounted: PathBuf, text: &Path) -> Result<Reader, String> {
        let cannot = |error| format!("cannot open '{}': {error}", text.display());
        let file = File::open(text).map_err(cannot)?;
        let size = file.metadata().map_err(cannot)?.len();
        Ok(Reader { mounted, text: file, size, len: BYTES.min(size as usize) })
    }

    /// The last place where so many bytes begin.
    fn last(&self) -> u64 {
        self.size - self.len as u64
    }

    /// Milliseconds of each read. Before the first of them the file has been read once, for the index of formats that have none.
    fn read(&self, seed: u64) -> Result<Vec<f64>, String> {
        let cannot = |error| format!("cannot read '{}': {error}", self.mounted.display());
        let mounted = File::open(&self.mounted).map_err(cannot)?;
        if seed & 0xffff == 1 {
            std::io::copy(&mut &mounted, &mut std::io::sink()).map_err(cannot)?;
        }
        drop_cached(&self.mounted).map_err(cannot)?;
        let mut random = Random(seed);
        let (mut bytes, mut expected) = (vec![0; self.len], vec![0; self.len]);
        let mut milliseconds = Vec::with_capacity(READS);
        for _ in 0..READS {
            let offset = random.below(self.last() as usize + 1) as u64;
            let start = clock::raw_nanoseconds();
            mounted.read_exact_at(&mut bytes, offset).map_err(cannot)?;
            milliseconds.push((clock::raw_nanoseconds() - start) as f64 / 1e6);
            self.text.read_exact_at(&mut expected, offset).map_err(cannot)?;
            if bytes != expected {
                return Err(format!("other bytes than in the text came out at {offset}"));
            }
        }
        Ok(milliseconds)
    }
}

/// By nearest rank.
fn percentile_99(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() * 99).div_ceil(100) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_that_of_the_nearest_rank() {
        assert_eq!(percentile_99((1..=400).rev().map(f64::from).collect()), 396.0);
        assert_eq!(percentile_99(vec![7.0]), 7.0);
    }

    #[test]
    fn reader_finds_bytes_that_differ() {
        let directory = std::env::temp_dir().join(format!("millstream-random-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (text, other) = (directory.join("text"), directory.join("other"));
        std::fs::write(&text, vec![b'a'; 10_000]).unwrap();
        std::fs::write(&other, vec![b'b'; 10_000]).unwrap();
        assert_eq!(Reader::new(text.clone(), &text).unwrap().read(1).unwrap().len(), READS);
        assert!(Reader::new(other, &text).unwrap().read(1).unwrap_err().contains("other bytes"));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
