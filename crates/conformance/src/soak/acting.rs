//! One participant: a process, or several of which one acts, that goes through its steps until its stream is over.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Signal;

use super::cast::Cast;
use super::plan::{Plan, Step, Steps};
use super::role::{At, Role, Traveller};
use super::said::{Count, Desk, Said, Totals};
use crate::End;
use crate::process::{Child, count_signals, die_with_parent, end, fork, repeat_alarm};

/// Everything that a participant knows.
pub(super) struct Actor<'a, R> {
    role: R,
    plan: &'a Plan,
    part: usize,
    steps: Steps<'a>,
    desk: Desk<'a>,
    /// What the others of the pair say, if it is one.
    other: Option<Desk<'a>>,
    totals: &'a Totals,
    /// Whether the end was told not to wait.
    is_nonblocking: bool,
    pauses: u64,
}

/// Whether there is more to come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    GoesOn,
    IsOver,
}

impl<'a, R: Role> Actor<'a, R> {
    pub(super) fn new(role: R, plan: &'a Plan, part: usize, said: &'a Said, totals: &'a Totals) -> Actor<'a, R> {
        let steps = plan.parts[part].steps();
        let other = (plan.cast == Cast::Pair).then(|| said.desk(1 - part));
        Actor { role, plan, part, steps, desk: said.desk(part), other, totals, is_nonblocking: false, pauses: 0 }
    }

    /// Does everything, and ends the process.
    pub(super) fn run(mut self, mut at: R::End) -> ! {
        self.set_alarm();
        loop {
            let flow = match self.steps.next().expect("steps have no end") {
                Step::Transfer { path, size, waits } => self.transfer_at_end(&at, path, size, waits),
                Step::Resize(bytes) => self.resize(&at, bytes),
                Step::Count => self.count(&at),
                Step::Pause(time) => pause(time),
                Step::Clone => {
                    let clone = at.try_clone().expect("another handle");
                    self.leave(std::mem::replace(&mut at, clone));
                    self.totals.add(Count::Clones, 1);
                    Flow::GoesOn
                }
                Step::Shadow { transfers, size } => {
                    let (back, flow) = self.transfer_through_backing_pipe(at, transfers, size);
                    at = back;
                    flow
                }
                Step::Fork { parent_keeps } => self.go_on_in_child(at, parent_keeps),
                Step::GiveToChild => self.give_to_child(at),
            };
            if flow == Flow::IsOver {
                self.leave(at);
                end(0);
            }
        }
    }

    fn set_alarm(&self) {
        if let Some(alarm) = self.plan.parts[self.part].alarm {
            count_signals(Signal::ALARM, alarm.restarts);
            repeat_alarm(alarm.every);
        }
    }

    /// Drops a handle, after what it has done was counted, at the side where bytes are counted.
    fn leave(&self, end: R::End) {
        if self.plan.parts[self.part].is_writer {
            return;
        }
        let statistics = end.statistics();
        let beside = statistics.bytes_through_kernel + statistics.bytes_direct;
        self.totals.add(Count::RingBytes, statistics.bytes - beside);
        self.totals.add(Count::DirectBytes, statistics.bytes_direct);
        self.totals.add(Count::KernelBytes, statistics.bytes_through_kernel);
        self.totals.add(Count::SplicedBytes, statistics.bytes_spliced);
    }

    fn transfer_at_end(&mut self, end: &R::End, path: usize, size: usize, waits: bool) -> Flow {
        if self.is_nonblocking == waits {
            end.set_nonblocking(!waits).expect("to wait or not");
            self.is_nonblocking = !waits;
        }
        self.transfer(&At::End(end, path), size)
    }

    fn transfer(&mut self, at: &At<'_, R::End>, size: usize) -> Flow {
        let size = self.role.clipped(size);
        if size == 0 {
            if self.plan.parts[self.part].is_writer {
                self.desk.has_ended();
            }
            return Flow::IsOver;
        }
        self.desk.asks(size);
        let outcome = self.role.transfer(at, size);
        if let Ok(count) = outcome {
            self.check_count(at, size, count);
            self.role.account(count);
        }
        let count = outcome.as_ref().map_or(0, |&count| count);
        let is_refused = outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        // Only what a reader has checked is done. A writer that gets `EPIPE` has asked for more than it did: the last
        // reader may have taken some of these bytes before it closed.
        if !is_refused {
            self.desk.has_done(count);
        }
        self.note(at, count);
        match outcome {
            Ok(0) => {
                self.desk.has_ended();
                Flow::IsOver
            }
            Ok(_) => Flow::GoesOn,
            Err(error) => self.stand(at, &error),
        }
    }

    /// What a call has returned is possible.
    fn check_count(&self, at: &At<'_, R::End>, size: usize, count: usize) {
        let (life, part) = (self.plan.life, self.part);
        assert!(count <= size, "life {life}: participant {part} moved {count} of {size} bytes");
        if !self.plan.parts[self.part].is_writer {
            return;
        }
        assert!(count > 0, "life {life}: a write of {size} bytes wrote none");
        // A blocking write writes everything, unless a signal or a death cuts it short, or another process that shares
        // the end makes it non-blocking. A stop, too, cuts short the kernel's own calls, and those of an end without a
        // ring. An end has none after a process without another handle has exported and attached it again: exporting
        // the last handle closes the memory of the pipe.
        let ours = matches!(at, At::End(end, _) if end.has_ring());
        let is_steady = self.plan.parts[part].alarm.is_none()
            && !self.is_nonblocking
            && self.plan.cast.writers() == 1
            && (0..self.plan.parts.len()).all(|part| !self.plan.may_vanish(part));
        assert!(
            !ours || !is_steady || count == size,
            "life {life}: a write of {size} bytes wrote {count} and returned"
        );
    }

    fn note(&self, at: &At<'_, R::End>, count: usize) {
        let is_writer = self.plan.parts[self.part].is_writer;
        match at {
            At::End(_, path) => self.totals.add_calls(is_writer, *path, 1, count as u64),
            At::Plain(_) if is_writer => {}
            At::Plain(_) => self.totals.add(Count::KernelBytes, count as u64),
        }
        if !is_writer {
            self.totals.add(Count::Bytes, count as u64);
        }
    }

    /// Goes on after an error that may be.
    fn stand(&mut self, at: &At<'_, R::End>, error: &io::Error) -> Flow {
        let (life, part) = (self.plan.life, &self.plan.parts[self.part]);
        let sharing = if part.is_writer { self.plan.cast.writers() } else { self.plan.cast.readers() };
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::INTR) => {
                let may_be = part.alarm.is_some_and(|alarm| !alarm.restarts);
                assert!(may_be, "life {life}: participant {} was interrupted by nothing", self.part);
                self.totals.add(Count::Interrupted, 1);
                Flow::GoesOn
            }
            Some(Errno::AGAIN) => {
                assert!(self.is_nonblocking || sharing > 1, "life {life}: an end that waits says EAGAIN");
                if !self.is_nonblocking {
                    // Another process that shares the end has made it non-blocking; an exported end is not reset by
                    // that one.
                    let _ = match at {
                        At::End(end, _) => end.set_nonblocking(false),
                        At::Plain(fd) => rustix::io::ioctl_fionbio(fd, false).map_err(io::Error::from),
                    };
                }
                self.pauses += 1;
                if self.pauses.is_multiple_of(16) { pause(Duration::from_micros(100)) } else { give_way() }
            }
            Some(Errno::PIPE) if part.is_writer => {
                self.desk.was_refused();
                Flow::IsOver
            }
            _ => panic!("life {life}: participant {} at byte {}: {error}", self.part, self.role.position()),
        }
    }

    fn resize(&self, end: &R::End, bytes: usize) -> Flow {
        match end.set_capacity(bytes) {
            Ok(granted) => assert!(granted >= bytes, "{granted} bytes granted of {bytes}"),
            Err(error) => {
                let is_usual = [Errno::BUSY, Errno::PERM].map(|errno| Some(errno.raw_os_error()));
                assert!(is_usual.contains(&error.raw_os_error()), "life {}: resized: {error}", self.plan.life);
            }
        }
        self.totals.add(Count::Resizes, 1);
        Flow::GoesOn
    }

    /// With one at each side, both know within what bounds the number of bytes that wait must be.
    fn count(&self, end: &R::End) -> Flow {
        let Some(other) = self.other else { return Flow::GoesOn };
        let own = self.role.position();
        let least = other.done();
        let waiting = end.bytes_readable().expect("a count of the bytes that wait") as u64;
        let most = other.done_at_most();
        let bounds = match self.plan.parts[self.part].is_writer {
            true => own.saturating_sub(most)..=own - least,
            false => least.saturating_sub(own)..=most - own,
        };
        assert!(bounds.contains(&waiting), "life {}: {waiting} bytes wait, and not {bounds:?}", self.plan.life);
        self.totals.add(Count::Counted, 1);
        Flow::GoesOn
    }

    fn transfer_through_backing_pipe(&mut self, end: R::End, transfers: usize, size: usize) -> (R::End, Flow) {
        // Of a clone: when it is refused, because more bytes wait than the kernel takes, the end is still there.
        let Ok(given) = end.try_clone().expect("another handle").into_fd() else { return (end, Flow::GoesOn) };
        self.leave(end);
        let mut flow = Flow::GoesOn;
        for _ in 0..transfers {
            if flow == Flow::GoesOn {
                flow = self.transfer(&At::Plain(&given), size);
            }
        }
        self.totals.add(Count::Shadows, 1);
        (R::End::attach(given).expect("the end that was given away"), flow)
    }

    fn go_on_in_child(self, at: R::End, parent_keeps: bool) -> ! {
        self.is_about_to_fork();
        let (child, (actor, at)) = fork((self, at), |(actor, at)| actor.run_in_child(at));
        let kept = if parent_keeps {
            Some(at)
        } else {
            drop(at);
            None
        };
        actor.wait_for(child);
        drop(kept);
        end(0)
    }

    fn give_to_child(self, at: R::End) -> ! {
        let clone = at.try_clone().expect("another handle");
        let Ok(given) = clone.into_fd() else { self.go_on_in_child(at, false) };
        self.leave(at);
        self.is_about_to_fork();
        let take = |(actor, given): (Actor<'a, R>, OwnedFd)| {
            let end = R::End::attach(given).expect("the end that was given to a child");
            actor.run_in_child(end);
        };
        let (child, (actor, given)) = fork((self, given), take);
        drop(given);
        actor.wait_for(child);
        end(0)
    }

    /// A fork that is interrupted begins again: with alarms more frequent than it takes it would never end.
    fn is_about_to_fork(&self) {
        self.totals.add(Count::Forks, 1);
        repeat_alarm(Duration::ZERO);
    }

    fn run_in_child(self, at: R::End) -> ! {
        die_with_parent();
        self.run(at)
    }

    fn wait_for(&self, child: Child) {
        let status = child.wait();
        let has_panicked =
            status.exit_status().is_some() || status.terminating_signal() == Some(Signal::ABORT.as_raw());
        assert!(has_panicked, "life {}: a child ended with {status:?}", self.plan.life);
        if status.exit_status() != Some(0) {
            // It has said why.
            end(1);
        }
    }
}

fn pause(time: Duration) -> Flow {
    std::thread::sleep(time);
    Flow::GoesOn
}

fn give_way() -> Flow {
    std::thread::yield_now();
    Flow::GoesOn
}
