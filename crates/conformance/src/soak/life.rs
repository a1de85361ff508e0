//! One life: a pipe is made, its participants are started, stopped and killed as planned, and when all are gone the
//! account is made up.

use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, setpgid, wait};

use super::acting::Actor;
use super::cast::Cast;
use super::plan::{Plan, What};
use super::role::{Fault, Reading, Writing, is_atomic};
use super::said::{Count, Desk, Said, Totals};
use super::stream::UNIT;
use crate::isolated::tasks_of;
use crate::ours::{Reader, Writer};
use crate::process::{die_with_parent, fork};

/// Without a byte moved or a process ended for so long a life counts as hanging. The time in which this process itself
/// was not run does not count.
const PATIENCE: Duration = Duration::from_secs(60);

/// After so long without progress all participants get another `SIGCONT`. A child can begin as stopped if its parent
/// was stopped and continued during the fork (seen on Linux 6.18).
const STILL: Duration = Duration::from_secs(1);

/// Between two looks at the participants.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Lives one life.
///
/// # Panics
/// When a byte is not accounted for, or a participant met what the contract does not allow.
pub(super) fn live(plan: &Plan, said: &Said, totals: &Totals, fault: Option<Fault>) {
    said.clear(plan.length);
    let mut crew = Crew::start(plan, said, totals, fault);
    crew.see_out(plan, said, totals);
    let ends: Vec<End> = crew.members.iter().map(|member| member.end).collect();
    check(plan, said, &ends);
    let is_cut_off = (0..plan.cast.writers()).any(|writer| ends[writer] == End::Killed && !said.desk(writer).ended());
    totals.add(Count::Prefixes, u64::from(is_cut_off));
    let refused = (0..plan.cast.writers()).filter(|&writer| said.desk(writer).refused()).count();
    totals.add(Count::BrokenPipes, refused as u64);
    totals.add_pipe(plan.kind.0);
    totals.add(Count::Lives, 1);
}

/// How a participant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    NotYet,
    ByItself,
    Killed,
}

/// A participant: a process group, whose first process is this one's child and leads it until it is waited for.
struct Member {
    group: Pid,
    end: End,
}

struct Crew {
    members: Vec<Member>,
    began: Instant,
}

impl Crew {
    fn start(plan: &Plan, said: &Said, totals: &Totals, fault: Option<Fault>) -> Crew {
        let mut ends = plan.pipe().map(|(reader, writer)| (Reader(reader), Writer(writer))).expect("a pipe");
        let mut members = Vec::new();
        for (part, who) in plan.parts.iter().enumerate() {
            let (child, back) = fork(ends, |(reader, writer)| {
                die_with_parent();
                let _ = setpgid(None, None);
                if who.is_writer {
                    drop(reader);
                    Actor::new(Writing::new(plan, part, fault), plan, part, said, totals).run(writer)
                }
                drop(writer);
                Actor::new(Reading::new(plan, part, said), plan, part, said, totals).run(reader)
            });
            ends = back;
            // Parent and child both set the group, since either may be first.
            let _ = setpgid(Some(child.id), Some(child.id));
            members.push(Member { group: child.id, end: End::NotYet });
            child.forget();
        }
        Crew { members, began: Instant::now() }
    }

    /// Strikes as planned until all participants have ended.
    fn see_out(&mut self, plan: &Plan, said: &Said, totals: &Totals) {
        let mut blows = plan.blows.iter().peekable();
        let (mut progress, mut still_for, mut looked) = (0, Duration::ZERO, Instant::now());
        while self.collect(plan) {
            while let Some(blow) = blows.next_if(|blow| self.began.elapsed() >= blow.at) {
                self.strike(blow.part, blow.what, totals);
            }
            let next = blows.peek().map(|blow| blow.at.saturating_sub(self.began.elapsed()));
            thread::sleep(next.unwrap_or(LOOK_EVERY).min(LOOK_EVERY));
            let moved = (0..plan.parts.len()).map(|part| said.desk(part).done()).sum();
            still_for += looked.elapsed().min(4 * LOOK_EVERY);
            if moved != progress {
                (progress, still_for) = (moved, Duration::ZERO);
            }
            looked = Instant::now();
            if still_for > STILL && blows.peek().is_none() {
                (0..plan.parts.len()).for_each(|part| self.strike(part, What::Continue, totals));
            }
            assert!(still_for < PATIENCE, "life {} hangs\n{plan:#?}\n{}", plan.life, self.tasks());
        }
    }

    /// Waits for the processes that have ended; whether any is left.
    fn collect(&mut self, plan: &Plan) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((id, status))) => self.note_end(id, status, plan),
                Ok(None) | Err(Errno::INTR) => return true,
                // None is left, not even one whose parent had ended.
                Err(Errno::CHILD) => return false,
                Err(error) => panic!("waiting for participants: {error}"),
            }
        }
    }

    fn note_end(&mut self, id: Pid, status: WaitStatus, plan: &Plan) {
        let is_killed = status.terminating_signal() == Some(Signal::KILL.as_raw());
        let Some(part) = self.members.iter().position(|member| member.group == id) else {
            // The child of a participant that was killed, perhaps when it was about to be waited for.
            assert!(
                is_killed || status.exit_status() == Some(0),
                "life {}: an orphan ended with {status:?}",
                plan.life
            );
            return;
        };
        let may_be_killed = plan.blows.iter().any(|blow| blow.part == part && blow.what == What::Kill);
        let is_fine = status.exit_status() == Some(0) || (is_killed && may_be_killed);
        assert!(is_fine, "life {}: participant {part} ended with {status:?}", plan.life);
        self.members[part].end = if is_killed { End::Killed } else { End::ByItself };
    }

    fn strike(&self, part: usize, what: What, totals: &Totals) {
        let member = &self.members[part];
        // After the wait another process may have the number of the group.
        if member.end != End::NotYet {
            return;
        }
        let (signal, count) = match what {
            What::Kill => (Signal::KILL, Some(Count::Kills)),
            What::Stop => (Signal::STOP, Some(Count::Stops)),
            What::Continue => (Signal::CONT, None),
        };
        kill_process_group(member.group, signal).expect("a participant to strike");
        if let Some(count) = count {
            totals.add(count, 1);
        }
    }

    fn tasks(&self) -> String {
        let alive = self.members.iter().filter(|member| member.end == End::NotYet);
        alive.map(|member| tasks_of(member.group)).collect()
    }
}

fn check(plan: &Plan, said: &Said, ends: &[End]) {
    let writers = plan.cast.writers();
    let some_reader_stayed =
        (writers..ends.len()).any(|reader| ends[reader] == End::ByItself && plan.parts[reader].leaves_after.is_none());
    for (writer, &end) in ends.iter().enumerate().take(writers) {
        let desk = said.desk(writer);
        assert!(!desk.refused() || !some_reader_stayed, "life {}: refused, and a reader is left", plan.life);
        let is_whole = desk.done() == plan.length;
        assert!(is_whole || end == End::Killed || desk.refused(), "life {}: a writer stopped early", plan.life);
    }
    match plan.cast {
        Cast::Pair | Cast::Writers(_) => check_streams(plan, said, ends, some_reader_stayed),
        Cast::Readers(_) => check_units(plan, said, ends, some_reader_stayed),
    }
}

/// One reader: of each writer exactly a beginning of its stream.
fn check_streams(plan: &Plan, said: &Said, ends: &[End], reader_stayed: bool) {
    let life = plan.life;
    let reader = said.desk(plan.cast.writers());
    for (writer, &end) in ends.iter().enumerate().take(plan.cast.writers()) {
        let desk = said.desk(writer);
        let (came, done, asked) = (reader.from(writer), desk.done(), desk.asked());
        assert!(came <= done + asked, "life {life}: {came} bytes came of {done} written and {asked} begun");
        if !reader_stayed {
            continue;
        }
        assert!(reader.ended(), "life {life}: the reader has not seen the end");
        assert!(came >= done, "life {life}: {came} bytes came of {done} written by {writer}, which {}", told(end));
        let is_whole = came == done || came == done + asked;
        assert!(is_whole || !is_atomic(asked), "life {life}: a part of a small write came");
    }
}

/// Several readers: every unit once, but for what the dead may have taken along.
fn check_units(plan: &Plan, said: &Said, ends: &[End], some_reader_stayed: bool) {
    let life = plan.life;
    let writer = said.desk(0);
    let units = said.units(plan.length);
    let times: Vec<u64> = units.iter().map(|unit| unit.load(std::sync::atomic::Ordering::Acquire)).collect();
    let twice = times.iter().position(|&times| times > 1);
    assert_eq!(twice, None, "life {life}: a unit was read twice");
    let last = times.iter().rposition(|&times| times == 1).map_or(0, |last| last as u64 + 1) * UNIT as u64;
    let most = writer.done_at_most();
    assert!(last <= most, "life {life}: byte {last} came of {most} written");
    if !some_reader_stayed {
        return;
    }
    let lost_at_most: u64 = said_by_readers(plan, said, ends).map(|desk| desk.asked()).sum();
    let missing = times.iter().take(writer.done() as usize / UNIT).filter(|&&times| times == 0).count() * UNIT;
    assert!(missing as u64 <= lost_at_most, "life {life}: {missing} bytes are lost; the dead took {lost_at_most}");
}

/// Of those readers that were killed.
fn said_by_readers<'a>(plan: &Plan, said: &'a Said, ends: &'a [End]) -> impl Iterator<Item = Desk<'a>> {
    let first = plan.cast.writers();
    (first..ends.len()).filter(|&part| ends[part] == End::Killed).map(|part| said.desk(part))
}

fn told(end: End) -> &'static str {
    if end == End::Killed { "was killed" } else { "ended by itself" }
}
