//! One network.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use millstream_net::{Data, Entry, InPlace, Network, Options, Stage, State, Transform, TransformError, run, words};
use millstream_sys::{clock, cpu};
use millstream_transforms::INCREMENT;

use super::bounds::{Expected, LIMIT};
use super::sum::Sum;
use crate::engine::Launch;
use crate::engine::crew::{self, Post};
use crate::engine::placement::Placement;
use crate::method::cached_file::CachedFile;

/// The network as a user would write it, with the sum where the pipeline has one.
pub(super) fn launch(
    stages: usize,
    threads: Option<usize>,
    placement: Placement,
    file: &CachedFile,
    expected: Expected,
) -> Result<Launch, String> {
    let cpus = placement.cpus()?;
    let path = file.path().to_str().ok_or("the name of the file is no text")?;
    let line = format!("read {} | {}sum | write /dev/null", words::quoted(path), "increment | ".repeat(stages));
    crew::run_within(LIMIT, &[Post { name: "network", cpu: cpus[0] }], move |_| {
        // The process stays where it was put, and its network may use what the placement gives it.
        let network = thread::spawn(move || {
            cpu::restrict_to(&cpus).map_err(|error| format!("cannot run on the CPUs {cpus:?}: {error}"))?;
            run_line(&line, threads)
        });
        let nanoseconds = network.join().map_err(|_| "the network panicked")??;
        let bytes = BYTES.load(Relaxed);
        expected.check(bytes, SUM_OF_ALL.load(Relaxed))?;
        Ok(Some(Launch { operations: bytes, ..Launch::of(nanoseconds as f64 / 1e6) }))
    })
}

/// Returns how long it took, with everything that the program does for a line but starting itself.
fn run_line(line: &str, threads: Option<usize>) -> Result<u64, String> {
    let start = clock::raw_nanoseconds();
    let network = Network::from_line(line).map_err(|error| error.to_string())?;
    let usual = Options::default();
    let options = Options { threads: threads.unwrap_or(usual.threads), ..usual };
    // All that the line names: the program carries no format for it.
    let catalogue: [&dyn Transform; 2] = [&INCREMENT, &SUM];
    run::run(&network, &catalogue, &options).map_err(|failure| failure.to_string())?;
    Ok(clock::raw_nanoseconds() - start)
}

/// What the sum came to: a process runs one network.
static SUM_OF_ALL: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

static SUM: Entry = Entry {
    name: "sum",
    usage: "sum",
    summary: "adds up what passes",
    takes: Data::Any,
    gives: Data::Any,
    build: |_| Ok(Stage::in_place(State::Stateful, Summing(Sum::default()))),
};

struct Summing(Sum);

impl InPlace for Summing {
    fn apply(&mut self, _offset: u64, bytes: &mut [u8]) -> Result<(), TransformError> {
        self.0.add(bytes);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), TransformError> {
        SUM_OF_ALL.store(self.0.total(), Relaxed);
        BYTES.store(self.0.bytes(), Relaxed);
        Ok(())
    }
}
