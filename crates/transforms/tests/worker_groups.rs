//! Stages on several threads: the same bytes, in the same order, and the same failures as on one.

use std::fs;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use millstream_net::{
    Data, Entry, InPlace, Network, Options, Plan, Stage, State, Transform, TransformError, check, explain, run,
};
use millstream_transforms::ALL;

/// A directory that is removed when the value is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("millstream-groups-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().into()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// No multiple of any size of a buffer.
fn content() -> Vec<u8> {
    (0..3_000_017_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Fails at every byte that is 7, which the content has in every piece.
struct Seven;

impl InPlace for Seven {
    fn apply(&mut self, _offset: u64, bytes: &mut [u8]) -> Result<(), TransformError> {
        match bytes.iter().position(|&byte| byte == 7) {
            Some(place) => Err(TransformError::new("a seven").after(place)),
            None => Ok(()),
        }
    }
}

/// Only one of all copies of the stage is told of the end, also of an early one.
struct Told;

impl InPlace for Told {
    fn apply(&mut self, _offset: u64, _bytes: &mut [u8]) -> Result<(), TransformError> {
        Ok(())
    }

    fn finish_early(&mut self) -> Result<(), TransformError> {
        Err(TransformError::new("ended early"))
    }

    fn finish(&mut self) -> Result<(), TransformError> {
        Err(TransformError::new("finished"))
    }
}

/// Adds one. The thread with the beginning of the file waits until another thread has it too, as if it had lost its
/// CPU.
struct Late;

static ARRIVALS: Mutex<u32> = Mutex::new(0);
static ARRIVED: Condvar = Condvar::new();

impl InPlace for Late {
    fn apply(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), TransformError> {
        if offset == 0 {
            let mut arrivals = ARRIVALS.lock().unwrap();
            *arrivals += 1;
            ARRIVED.notify_all();
            let minute = Duration::from_secs(60);
            let waited = ARRIVED.wait_timeout_while(arrivals, minute, |arrivals| *arrivals < 2).unwrap();
            if waited.1.timed_out() {
                return Err(TransformError::new("no thread did the late piece"));
            }
        }
        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        Ok(())
    }
}

const fn entry(name: &'static str, build: fn(&[String]) -> Result<Stage, String>) -> Entry {
    Entry { name, usage: name, summary: name, takes: Data::Any, gives: Data::Any, build }
}

static SEVEN: Entry = entry("seven", |_| Ok(Stage::in_place(State::Stateless, Seven)));
static TOLD: Entry = entry("told", |_| Ok(Stage::in_place(State::Stateless, Told)));
static LATE: Entry = entry("late", |_| Ok(Stage::in_place(State::Positional, Late)));

fn catalogue() -> Vec<&'static dyn Transform> {
    let own: [&dyn Transform; 3] = [&SEVEN, &TOLD, &LATE];
    ALL.iter().copied().chain(own).collect()
}

/// Many small buffers on so many threads.
fn options(threads: usize) -> Options {
    Options { memory: 256 << 10, threads, timeout: None }
}

fn run_line(line: &str, threads: usize) -> Result<(), String> {
    let network = Network::from_line(line).map_err(|error| error.to_string())?;
    run::run(&network, &catalogue(), &options(threads)).map(|_| ()).map_err(|failure| failure.to_string())
}

#[test]
fn the_order_and_the_bytes_are_those_of_one_thread() {
    let scratch = Scratch::new("order");
    let (input, output) = (scratch.path("in"), scratch.path("out"));
    let content = content();
    fs::write(&input, &content).unwrap();
    let mut expected: Vec<u8> = content.iter().map(|byte| byte.wrapping_add(3)).collect();
    expected.iter_mut().enumerate().for_each(|(at, byte)| *byte ^= [1, 2, 3][at % 3]);
    expected[2_000_000] ^= 1;
    let network = format!(
        "read '{input}' | increment 3 | xor 010203 | corrupt 2000000 | sha256 '{output}.sum' | write '{output}'"
    );
    let mut sums = Vec::new();
    for threads in [1, 2, 3, 8, 2, 2] {
        run_line(&network, threads).unwrap();
        assert!(fs::read(&output).unwrap() == expected, "{threads} threads");
        sums.push(fs::read_to_string(format!("{output}.sum")).unwrap());
    }
    assert!(sums.windows(2).all(|pair| pair[0] == pair[1]), "{sums:?}");
}

#[test]
fn the_plan_says_which_stages_run_beside_each_other_and_why_others_do_not() {
    let scratch = Scratch::new("plan");
    let (input, small) = (scratch.path("in"), scratch.path("small"));
    fs::write(&input, content()).unwrap();
    fs::write(&small, "small").unwrap();
    for (line, threads, says) in [
        (
            "read IN | upper | xor 01 | sha256 | upper | write OUT",
            3,
            &["3 threads", "3 threads", "all bytes in order", ""][..],
        ),
        ("read IN | upper | gzip | write OUT", 3, &["2 threads"]),
        ("read IN | upper | gzip | write OUT", 2, &["on one thread: no thread is left"]),
        ("read IN | upper | write OUT", 1, &["on one thread: no thread is left"]),
        ("read SMALL | upper | write OUT", 4, &["on one thread: the source is no file of 1 MiB or more"]),
        ("read /dev/zero | upper | write OUT", 4, &["on one thread: the source is no file of 1 MiB or more"]),
    ] {
        let line = line.replace("IN", &input).replace("SMALL", &small).replace("OUT", "/dev/null");
        let network = Network::from_line(&line).unwrap();
        let checked = check::check(&network, ALL).unwrap();
        let plan = Plan::of(&checked, &options(threads)).unwrap();
        assert!(plan.threads <= threads, "{line}: {plan:?}");
        assert!(plan.memory() <= 256 << 10, "{line}: {plan:?}");
        let explained = explain(&checked, &plan);
        let stages = explained.lines().skip(1);
        for (stage, says) in stages.zip(says) {
            assert!(stage.contains(says), "{says:?} in {explained}");
        }
        let in_groups =
            plan.worker_groups.iter().filter(|group| group.threads > 1).map(|group| group.stages.len()).sum::<usize>();
        assert_eq!(in_groups, says.iter().filter(|says| says.ends_with("threads")).count(), "{line}: {plan:?}");
    }
}

#[test]
fn first_fault_of_the_stream_is_reported() {
    let scratch = Scratch::new("fault");
    let (input, output) = (scratch.path("in"), scratch.path("out"));
    let mut content = content();
    let first = 1_234_567;
    content[..first].iter_mut().filter(|byte| **byte == 7).for_each(|byte| *byte = 8);
    content[first] = 7;
    fs::write(&input, &content).unwrap();
    for threads in [1, 2, 5] {
        for _ in 0..5 {
            let failure =
                run_line(&format!("read '{input}' | identity | seven | write '{output}'"), threads).unwrap_err();
            assert_eq!(failure, format!("seven: at byte {first} of its input: a seven"));
            assert!(!fs::exists(&output).unwrap());
        }
    }
}

#[test]
fn stage_that_has_enough_ends_the_others_early() {
    let scratch = Scratch::new("enough");
    let (input, output) = (scratch.path("in"), scratch.path("out"));
    let content = content();
    fs::write(&input, &content).unwrap();
    for threads in [2, 4] {
        run_line(&format!("read '{input}' | increment | head -c 100001 | write '{output}'"), threads).unwrap();
        let found = fs::read(&output).unwrap();
        assert_eq!(found.len(), 100_001);
        assert!(found.iter().zip(&content).all(|(found, byte)| *found == byte.wrapping_add(1)));
        let failure = run_line(&format!("read '{input}' | told | head -c 5 | write '{output}'"), threads).unwrap_err();
        assert!(failure.ends_with("ended early"), "{failure}");
        let failure = run_line(&format!("read '{input}' | told | write '{output}'"), threads).unwrap_err();
        assert_eq!(failure, format!("told: at byte {} of its input: finished", content.len()));
        let failure = run_line(&format!("read '{input}' | upper | write /dev/full"), threads).unwrap_err();
        assert!(failure.contains("No space left on device"), "{failure}");
    }
}

#[test]
fn late_piece_is_done_by_another_thread_and_counted_once() {
    let scratch = Scratch::new("late");
    let (input, output) = (scratch.path("in"), scratch.path("out"));
    let content = content();
    fs::write(&input, &content).unwrap();
    let network = Network::from_line(&format!("read '{input}' | late | write '{output}'")).unwrap();
    for threads in [2, 4] {
        *ARRIVALS.lock().unwrap() = 0;
        let outcome = run::run(&network, &catalogue(), &options(threads)).unwrap();
        assert!(*ARRIVALS.lock().unwrap() >= 2);
        let found = fs::read(&output).unwrap();
        assert!(found.len() == content.len(), "{threads} threads");
        assert!(found.iter().zip(&content).all(|(found, byte)| *found == byte.wrapping_add(1)), "{threads} threads");
        for stage in &outcome.stages {
            assert_eq!(stage.bytes_in.max(stage.bytes_out), content.len() as u64, "{stage:?}");
        }
    }
}

#[test]
fn several_files_are_read_one_after_the_other() {
    let scratch = Scratch::new("several");
    let (input, output) = (scratch.path("in"), scratch.path("out"));
    let content = content();
    fs::write(&input, &content).unwrap();
    let text = format!(
        "[nodes.a]\nread = '{input}'\n[nodes.b]\nread = '{input}'\n[nodes.x]\nfrom = 'a'\ndo = 'increment 1'\n\
         [nodes.y]\nfrom = 'b'\ndo = 'increment 2'\n[nodes.o]\nfrom = ['x', 'y']\nwrite = '{output}'"
    );
    let network = Network::from_toml(&text).unwrap();
    run::run(&network, ALL, &options(3)).unwrap();
    let expected = |more: u8| content.iter().map(move |byte| byte.wrapping_add(more));
    assert!(fs::read(&output).unwrap() == expected(1).chain(expected(2)).collect::<Vec<u8>>());
}
