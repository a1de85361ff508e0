//! Compares the time of a stage of a network with one call of the same library on all bytes in memory.
//!
//! `cargo run --release -p millstream-transforms --example library -- [MIB] [ROUNDS]`: a log of `MIB` MiB, 100 by
//! default. Prints medians of `ROUNDS` rounds, 7 by default, in ms. Each round runs everything once, in turn; the next
//! one uses the reverse order.
//!
//! | column | |
//! |---|---|
//! | `library` | one call on all bytes, which are in memory, into memory that has been used before |
//! | `read+library` | the same after reading the file, as a program would that does it so |
//! | `stage` | the time in the stage, as `--stats` tells it, in `read FILE \| STAGE \| write /dev/null` on one thread; what the library does in threads of its own is not in it |
//! | `network-1` | the whole of that network, on one thread, the file read by it |
//! | `network` | the same, on as many threads as there are CPUs |

use std::error::Error;
use std::fmt::Write as _;
use std::time::Instant;

use millstream_net::{Network, Options, Outcome, run};
use millstream_transforms::ALL;

const PATTERN: &str = "(?m) 50[03] ";

/// A comparison: bytes in a file, the stage that reads them, and the library that does the same.
struct Rival {
    name: &'static str,
    stage: &'static str,
    input: Vec<u8>,
    /// Calls the library. Returns how many bytes it wrote.
    in_one_call: fn(&[u8], &mut [u8]) -> usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mebibytes: usize = arguments.next().map_or(Ok(100), |word| word.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(7), |word| word.parse())?;
    let log = log_of(mebibytes << 20);
    let mut packed = vec![0; log.len()];
    let packed_bytes = gzip(&log, &mut packed);
    packed.truncate(packed_bytes);
    let rivals = [
        Rival { name: "gunzip", stage: "gunzip", input: packed, in_one_call: gunzip },
        Rival { name: "gzip -6", stage: "gzip -6", input: log.clone(), in_one_call: gzip },
        Rival { name: "zstd -3", stage: "zstd -3", input: log.clone(), in_one_call: zstd },
        Rival { name: "sha256", stage: "sha256 /dev/null", input: log.clone(), in_one_call: sha256 },
        Rival { name: "grep", stage: "grep ' 50[03] '", input: log, in_one_call: grep },
    ];
    println!("{:10}{:>10}{:>14}{:>10}{:>12}{:>10}", "", "library", "read+library", "stage", "network-1", "network");
    for rival in &rivals {
        println!("{}", measure(rival, rounds, mebibytes << 20)?);
    }
    Ok(())
}

fn measure(rival: &Rival, rounds: usize, log_bytes: usize) -> Result<String, Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("millstream-library-{}", std::process::id()));
    std::fs::write(&path, &rival.input)?;
    let line = format!("read '{}' | {} | write /dev/null", path.display(), rival.stage);
    let network = Network::from_line(&line)?;
    let usual = Options::default();
    let run = |threads| run::run(&network, ALL, &Options { threads, ..usual });
    // Filled with ones, so that all its pages exist before the measurement.
    let mut output = vec![1; log_bytes + (log_bytes >> 6) + 1024];
    let mut times: [Vec<f64>; 5] = Default::default();
    for round in 0..=rounds {
        let mut seen = [0.0; 5];
        // Forwards and backwards in turn: the order of the runs has some effect too.
        let order = if round % 2 == 0 { [0, 1, 2, 3] } else { [3, 2, 1, 0] };
        for way in order {
            match way {
                0 => seen[0] = timed(|| (rival.in_one_call)(&rival.input, &mut output)).0,
                1 => seen[1] = timed(|| std::fs::read(&path).map(|bytes| (rival.in_one_call)(&bytes, &mut output))).0,
                2 => {
                    let (one, outcome) = timed(|| run(1));
                    let outcome = outcome?;
                    check(rival, (rival.in_one_call)(&rival.input, &mut output), &outcome)?;
                    (seen[2], seen[3]) = (outcome.stages[1].nanoseconds as f64 / 1e6, one);
                }
                _ => seen[4] = timed(|| run(usual.threads)).0,
            }
        }
        // The first round reads bytes that are not in the caches yet.
        if round > 0 {
            times.iter_mut().zip(seen).for_each(|(times, time)| times.push(time));
        }
    }
    std::fs::remove_file(&path)?;
    let medians = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let mut text = format!("{:10}", rival.name);
    for (median, width) in medians.iter().zip([10, 14, 10, 12, 10]) {
        write!(text, "{median:>width$.1}")?;
    }
    write!(
        text,
        "   network-1 / library {:.3}, stage / library {:.3}",
        medians[3] / medians[0],
        medians[2] / medians[0]
    )?;
    Ok(text)
}

/// Checks that both did the same work: they wrote as many bytes. A compressed stream differs, because the stage cuts it
/// into jobs or pieces.
fn check(rival: &Rival, came: usize, outcome: &Outcome) -> Result<(), String> {
    let stage = &outcome.stages[1];
    let is_same = match rival.name {
        "zstd -3" | "gzip -6" => stage.bytes_out.abs_diff(came as u64) < came as u64 / 50,
        _ => stage.bytes_out == came as u64,
    };
    if is_same && stage.bytes_in == rival.input.len() as u64 {
        return Ok(());
    }
    Err(format!("{}: {came} bytes came of the library, {} of the stage", rival.name, stage.bytes_out))
}

fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64() * 1e3, result)
}

fn gunzip(input: &[u8], output: &mut [u8]) -> usize {
    let mut inflate = flate2::Decompress::new_gzip(15);
    inflate.decompress(input, output, flate2::FlushDecompress::Finish).expect("it was compressed above");
    usize::try_from(inflate.total_out()).expect("it is in memory")
}

fn gzip(input: &[u8], output: &mut [u8]) -> usize {
    let mut deflate = flate2::Compress::new_gzip(flate2::Compression::new(6), 15);
    deflate.compress(input, output, flate2::FlushCompress::Finish).expect("there is room");
    usize::try_from(deflate.total_out()).expect("it is in memory")
}

fn zstd(input: &[u8], output: &mut [u8]) -> usize {
    let mut compressor = zstd::bulk::Compressor::new(3).expect("there is memory");
    compressor.include_checksum(true).expect("this is an option");
    compressor.compress_to_buffer(input, output).expect("there is room")
}

fn sha256(input: &[u8], _output: &mut [u8]) -> usize {
    use sha2::Digest;
    std::hint::black_box(sha2::Sha256::digest(input));
    input.len()
}

/// The lines with a match, as grep writes them.
fn grep(input: &[u8], output: &mut [u8]) -> usize {
    let regex = regex::bytes::Regex::new(PATTERN).expect("it is one");
    let (mut from, mut written) = (0, 0);
    while let Some(found) = regex.find_at(input, from) {
        let start = memchr::memrchr(b'\n', &input[..found.start()]).map_or(0, |end| end + 1);
        let end = memchr::memchr(b'\n', &input[found.start()..]).map_or(input.len(), |end| found.start() + end + 1);
        output[written..written + end - start].copy_from_slice(&input[start..end]);
        (from, written) = (end, written + end - start);
    }
    written
}

/// Lines as a web server writes them; one in fifty has the status that is searched for.
fn log_of(bytes: usize) -> Vec<u8> {
    let mut log = String::with_capacity(bytes + 200);
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let names =
        ["index.html", "style.css", "logo.png", "api/v1/items", "api/v1/users", "search", "login", "favicon.ico"];
    let agents = ["Mozilla/5.0 (X11; Linux x86_64)", "curl/8.5.0", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)"];
    let statuses = [200, 200, 200, 304, 404];
    let mut second = 0;
    while log.len() < bytes {
        second += next(3);
        let status = if next(50) == 0 { 500 + 3 * next(2) } else { statuses[next(5) as usize] };
        let _ = writeln!(
            log,
            "10.{}.{}.{} - - [12/Mar/2024:{:02}:{:02}:{:02} +0000] \"GET /{}?id={} HTTP/1.1\" {status} {} \"-\" \"{}\"",
            next(4),
            next(256),
            next(256),
            second / 3600 % 24,
            second / 60 % 60,
            second % 60,
            names[next(8) as usize],
            next(100_000),
            next(60_000),
            agents[next(3) as usize]
        );
    }
    log.into_bytes()
}
