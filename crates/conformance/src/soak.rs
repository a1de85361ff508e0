//! The soak: lives of pipes, several at once and one after the other for a given time. Everything that may happen to a
//! pipe happens in them, and every byte is accounted for.
//!
//! ```text
//! soak ─┬─ lane 0 ── life ─┬─ writer ── child ── child ...      stopped, continued, killed by the lane
//!       │                  └─ reader ── child ...               each interrupted by its own timer
//!       ├─ lane 1 ── life ─── ...
//!       └─ lane 2
//! ```
//!
//! In a life one to three writers and readers move streams of up to 64 MiB through one pipe, by transfers of 1 byte to
//! 4 MiB, each by another way of [`crate::paths`]. Between them they resize the pipe, count what waits, clone their
//! ends, export them and attach them again, and go on in children. Each byte that was written arrives once and in
//! order. After a kill exactly a beginning of the stream arrives. A reader gets the end of the stream only without
//! writers, and a writer gets `EPIPE` only without readers.
//!
//! All of this follows from the number of the life; lives are numbered from a seed. After the last life no process, no
//! descriptor and no memory is left.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};

use crate::left::{left_behind, open_files};
use crate::process::{Child, die_with_parent, fork, private_directories};

mod acting;
mod cast;
mod life;
mod plan;
mod role;
mod said;
mod stream;

pub use role::{Fault, FaultKind};

use crate::paths::{PIPE_KINDS, READ_PATHS, WRITE_PATHS};
use plan::Plan;
use said::{COUNTS, Count, Said, Totals};

/// From the first life of one lane to that of the next.
const LANE: u64 = 1_000_000;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Soak {
    /// Where lives begin.
    pub seed: u64,
    /// No life begins after this time.
    pub time: Duration,
    /// How many at once.
    pub lanes: u64,
    /// Only so many lives in each lane.
    pub lives: u64,
    /// A mistake to make.
    pub fault: Option<Fault>,
}

/// The plans of the first lives, as text.
pub fn told(soak: &Soak) -> String {
    let lives = (0..soak.lanes).flat_map(|lane| (0..soak.lives).map(move |number| soak.seed + lane * LANE + number));
    lives.map(|life| format!("{:?}\n", Plan::of(life))).collect()
}

/// Soaks, and tells how it went; whether everything was as it should be.
///
/// # Panics
/// When there are no more processes, or no memory.
pub fn run(soak: &Soak) -> bool {
    if rustix::process::geteuid().is_root() {
        private_directories(1 << 20);
    }
    let before = open_files();
    let (totals, began) = (Totals::new(), Instant::now());
    let lanes: Vec<Child> = (0..soak.lanes).map(|lane| fork((), |()| run_lane(soak, lane, &totals, began)).0).collect();
    let all_went_well = watch(lanes, &totals, began);
    println!("soak: {:.0} s, seed {}", began.elapsed().as_secs_f64(), soak.seed);
    print!("{}", summary(&totals));
    let left = left_behind(&before);
    left.iter().for_each(|left| println!("soak: left behind: {left}"));
    let is_fine = all_went_well && left.is_empty();
    println!("soak: {}", if is_fine { "every byte is accounted for, nothing is left" } else { "FAILED" });
    is_fine
}

fn run_lane(soak: &Soak, lane: u64, totals: &Totals, began: Instant) {
    die_with_parent();
    set_child_subreaper(Some(getpid())).expect("to be given the children of the dead");
    let said = Said::new();
    let before = open_files();
    for life in (soak.seed + lane * LANE..).take(soak.lives as usize) {
        if began.elapsed() >= soak.time {
            break;
        }
        totals.begins(lane as usize, life);
        life::live(&Plan::of(life), &said, totals, soak.fault);
        let left = left_behind(&before);
        assert!(left.is_empty(), "life {life} left behind: {left:?}");
    }
}

/// Shows how far it is until all lanes have ended, or one has failed.
fn watch(lanes: Vec<Child>, totals: &Totals, began: Instant) -> bool {
    let is_terminal = std::io::stderr().is_terminal();
    let every = Duration::from_secs(if is_terminal { 1 } else { 30 });
    let (mut left, mut shown) = (lanes.len(), Instant::now());
    let mut all_went_well = true;
    while left > 0 && all_went_well {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((id, status))) => {
                left -= 1;
                all_went_well = status.exit_status() == Some(0);
                if let (false, Some(lane)) = (all_went_well, lanes.iter().position(|lane| lane.id == id)) {
                    let life = totals.last_begun(lane);
                    eprintln!("soak: failed in this life: {:?}", Plan::of(life));
                    eprintln!("soak: the same again: --seed {life} --lanes 1 --lives 1");
                }
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => panic!("waiting for lanes: {error}"),
        }
        if shown.elapsed() >= every {
            shown = Instant::now();
            show(totals, began, is_terminal);
        }
    }
    if is_terminal {
        eprintln!();
    }
    // If all went well every lane was waited for, and none is there to be killed. Otherwise the others are killed, with
    // all that they have started.
    if all_went_well {
        lanes.into_iter().for_each(Child::forget)
    } else {
        drop(lanes)
    }
    all_went_well
}

fn show(totals: &Totals, began: Instant, is_terminal: bool) {
    let get = |count| totals.get(count);
    let line = format!(
        "{:4.0} s  {} lives  {:.1} GB  {} killed  {} stopped  {} interrupted  {} given away",
        began.elapsed().as_secs_f64(),
        get(Count::Lives),
        get(Count::Bytes) as f64 / 1e9,
        get(Count::Kills),
        get(Count::Stops),
        get(Count::Interrupted),
        get(Count::Shadows) + get(Count::Forks),
    );
    let mut stderr = std::io::stderr();
    // An error is of no importance: standard error may be closed.
    let _ = if is_terminal { write!(stderr, "\r{line} ") } else { writeln!(stderr, "{line}") };
}

/// A line for everything that was counted.
fn summary(totals: &Totals) -> String {
    let counts = COUNTS.iter().map(|&(count, name)| format!("  {name}: {}\n", totals.get(count)));
    let line = |is_writer, path, name| {
        let [calls, bytes] = totals.calls(is_writer, path);
        format!("  by {name}: {bytes} bytes in {calls} calls\n")
    };
    let ins = WRITE_PATHS.iter().enumerate().map(|(path, way)| line(true, path, way.name));
    let outs = READ_PATHS.iter().enumerate().map(|(path, way)| line(false, path, way.name));
    let kinds = PIPE_KINDS.iter().enumerate();
    let kinds = kinds.map(|(kind, way)| format!("  pipes, {}: {}\n", way.name, totals.pipes(kind)));
    counts.chain(ins).chain(outs).chain(kinds).collect()
}
