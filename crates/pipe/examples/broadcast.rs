//! What a broadcast costs beside as many pipes as it has readers, each written in turn: bytes a second of the writer, and CPU time
//! of all threads for each gigabyte that it wrote. Medians of interleaved pairs.
//!
//! ```text
//! cargo run --release -p millstream-pipe --example broadcast [-- PAIRS]
//! ```

use std::io::{self, Read, Write};
use std::thread;
use std::time::Instant;

use millstream_pipe::{Builder, broadcast};

const BYTES: usize = 256 << 20;
const PIECE: usize = 64 << 10;

/// Seconds, and seconds of CPU time, that it takes until every reader has had everything.
fn measure(mut writer: impl Write, readers: Vec<Box<dyn Read + Send>>) -> io::Result<(f64, f64)> {
    let (began, used) = (Instant::now(), cpu_seconds());
    let reading: Vec<_> = readers
        .into_iter()
        .map(|mut reader| {
            thread::spawn(move || {
                let (mut buffer, mut had) = (vec![0; PIECE], 0);
                while let count @ 1.. = reader.read(&mut buffer)? {
                    had += count;
                }
                Ok::<_, io::Error>(had)
            })
        })
        .collect();
    let piece = vec![7; PIECE];
    for _ in 0..BYTES / PIECE {
        writer.write_all(&piece)?;
    }
    drop(writer);
    for reader in reading {
        assert_eq!(reader.join().expect("a reader")?, BYTES);
    }
    Ok((began.elapsed().as_secs_f64(), cpu_seconds() - used))
}

fn by_broadcast(readers: usize) -> io::Result<(f64, f64)> {
    let (writer, ends) = broadcast(readers)?;
    let ends = ends.into_iter().map(|end| Box::new(end) as Box<dyn Read + Send>).collect();
    measure(writer, ends)
}

fn by_pipes(readers: usize) -> io::Result<(f64, f64)> {
    let (mut writers, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..readers {
        let (reader, writer) = Builder::new().create()?;
        writers.push(writer);
        ends.push(Box::new(reader) as Box<dyn Read + Send>);
    }
    measure(Pipes(writers), ends)
}

/// Written in turn.
struct Pipes(Vec<millstream_pipe::Writer>);

impl Write for Pipes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.iter_mut().try_for_each(|one| one.write_all(bytes)).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Of this process (`/proc/self/stat`, in hundredths).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() -> io::Result<()> {
    let pairs = std::env::args().nth(1).map_or(5, |count| count.parse().expect("a number of pairs"));
    let gigabytes = BYTES as f64 / 1e9;
    println!("readers  broadcast GB/s  CPU s/GB    pipes GB/s  CPU s/GB");
    for readers in [1, 2, 4, 8] {
        let mut samples = [const { Vec::new() }; 4];
        for _ in 0..pairs {
            for (index, (seconds, cpu)) in [by_broadcast(readers)?, by_pipes(readers)?].into_iter().enumerate() {
                samples[2 * index].push(gigabytes / seconds);
                samples[2 * index + 1].push(cpu / gigabytes);
            }
        }
        let [rate, cpu, pipes_rate, pipes_cpu] = samples.map(median);
        println!("{readers:>7}  {rate:>14.1}  {cpu:>8.2}  {pipes_rate:>12.1}  {pipes_cpu:>8.2}");
    }
    Ok(())
}
