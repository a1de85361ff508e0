//! How an end of a pipe is noticed among all descriptors, whatever its number.
//!
//! Programs open, close and renumber descriptors unseen, so nothing is remembered of what they are: the bytes that pass each number are
//! counted, and once in so many bytes the kernel is asked what stands there. Everything after that begins with the pipe that was
//! found, and asks whether it is still there.

use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use millstream_sys::fate::Fate;
use millstream_sys::ledger::Direction;
use millstream_sys::pipe;

use super::calls::{self, Calls};
use super::end::{End, Stage};
use super::held::Held;
use super::outlook::{self, Outlook};
use super::own_process::{NUMBERS, is_alone, is_own_process};
use super::own_run::{IS_WANTED, OFTEN, worth_it, worth_of};
use super::{confined, kernel, offer, own_run, tally, threads, watched};
use crate::descriptor::borrow;

/// What passed each number since the kernel was last asked. Small, as all of the library's data: what fits into the
/// last page of its file takes no call to map more.
static PASSED: [AtomicU32; NUMBERS] = [const { AtomicU32::new(0) }; NUMBERS];

/// A number counts so far.
const MOST: u64 = u32::MAX as u64;

/// However little was said to be left, it was not when so much has passed.
const LITTLE_MOST: u64 = 36 << 20;
/// When half of this has passed a number, and each time that so much more has, it is asked whether more is to come. A power of two, and
/// such that one of these moments is [`WORTH_IT`](millstream_sys::fate::WORTH_IT).
const LOOK: u64 = 1 << 20;
const _: () = assert!(LOOK.is_power_of_two() && millstream_sys::fate::WORTH_IT % LOOK == LOOK / 2);

/// After a call for a descriptor that is no end: counts, and passes the number on.
#[inline]
pub(super) fn passed(end: &End, fd: c_int, moved: isize) -> isize {
    if moved > 0
        && let Some(count) = PASSED.get(fd as usize)
    {
        let before = u64::from(count.load(Relaxed));
        let sum = before + worth_of(moved.cast_unsigned() as u64);
        count.store(sum.min(MOST) as u32, Relaxed);
        let is_time = || ((sum + LOOK / 2) ^ (before + LOOK / 2)) >= LOOK;
        if own_run::after().map_or_else(is_time, |after| sum >= after.min(MOST)) {
            ask(end, fd, sum);
        }
    }
    moved
}

/// Much has passed this number, if all of it was of one pipe.
#[cold]
fn ask(end: &End, fd: c_int, passed: u64) {
    if !IS_WANTED.load(Relaxed) {
        return;
    }
    let has_passed_enough = passed >= worth_it().min(MOST);
    let is_due = match outlook(end, fd, passed) {
        Outlook::Much => true,
        Outlook::Little if passed < LITTLE_MOST => {
            if has_passed_enough {
                tally::tell(fd, Direction::Written, Fate::LittleLeft);
            }
            false
        }
        Outlook::Little | Outlook::Unknown => has_passed_enough,
    };
    if is_due && let Some(count) = PASSED.get(fd as usize) {
        count.store(0, Relaxed);
        look(end, fd, passed);
    }
}

/// What is to come through this number. Asks the kernel only where that can change what is done.
fn outlook(end: &End, fd: c_int, passed: u64) -> Outlook {
    let may_tell = if end.is_reader() { passed < worth_it() } else { fd == outlook::OUTPUT };
    // A program with threads gains less, and some lose. In a forked child the ends are its parent's. A program that has children makes
    // more of them, which detaches its pipes, and so may one of which that was seen.
    let may_last = || end.is_without_vain_attempts() && is_alone() && !kernel::has_children();
    // The call that asks for children is made only by a program that may attach.
    if !may_tell || own_run::after().is_some() || confined::may_not_join() || !may_last() {
        return Outlook::Unknown;
    }
    let _held = Held::all();
    match borrow(&fd).and_then(pipe::identity) {
        Some(pipe) if end.has_given_up(pipe.inode) => Outlook::Unknown,
        Some(_) if !end.is_reader() => outlook::after(passed),
        Some(_) if offer::is_there(fd) => Outlook::Much,
        _ => Outlook::Unknown,
    }
}

/// It is worth it to attach this pipe, if it is one.
fn look(end: &End, fd: c_int, passed: u64) {
    let direction = if end.is_reader() { Direction::Read } else { Direction::Written };
    if confined::may_not_join() {
        return tally::tell(fd, direction, Fate::Confined);
    }
    let _held = Held::all();
    let Some(pipe) = borrow(&fd).and_then(pipe::identity) else { return };
    if end.has_given_up(pipe.inode) {
        return;
    }
    if !end.is_reader() && watched::was_waited_for(fd) {
        tally::tell(fd, direction, Fate::called(c"poll"));
    } else if makes_way(end) {
        let try_at = if own_run::after().is_some() { 0 } else { end.price(passed.min(worth_it())) };
        end.adopt(fd, pipe.inode, passed, try_at);
    } else {
        tally::tell(fd, direction, Fate::Second);
    }
}

/// Whether the end has no pipe now, or is rid of one that nothing came of.
fn makes_way(end: &End) -> bool {
    if end.is_promised() || end.uses.are_of_another_thread() {
        return false;
    }
    match end.stage() {
        Stage::Kernel | Stage::Counted => true,
        // A child that borrows its parent's memory (`vfork`) leaves everything as it is, and a forked one has nothing to leave.
        Stage::Offers if offer::is_of_parent() => {
            if !is_own_process() {
                offer::forget_offer_of_parent();
            }
            end.stage() == Stage::Kernel
        }
        Stage::Offers => {
            let is_vain = end.passed.load(Relaxed) >= OFTEN * worth_it();
            let is_there = end.is_still_there();
            if is_vain || !is_there {
                offer::withdraw();
                if is_there { end.give_up() } else { end.release() }
            }
            is_vain || !is_there
        }
        _ => false,
    }
}

/// Before a program makes promises for an end: whether it is a pipe that may be attached.
pub(super) fn adopts_promised(end: &End, fd: c_int) -> bool {
    let _held = Held::all();
    let Some(pipe) = borrow(&fd).and_then(pipe::identity) else { return false };
    let can_be = calls::state() == Calls::Ours && !end.has_given_up(pipe.inode) && makes_way(end);
    if can_be {
        let try_at = if end.is_reader() { worth_it().min(LOOK) } else { worth_it() };
        end.adopt(fd, pipe.inode, 0, try_at);
    }
    can_be
}

/// What keeps a descriptor that is a pipe from being noticed, for the statistics.
pub(crate) fn reason_of(fd: c_int) -> Option<Fate> {
    let is_promised = |end: &End| end.is_promised() && end.is_at(fd);
    match calls::state() {
        _ if !IS_WANTED.load(Relaxed) => None,
        _ if [&super::READER, &super::WRITER].into_iter().any(is_promised) => None,
        Calls::NotYet => Some(Fate::Number),
        Calls::Glibcs => Some(Fate::Glibc),
        Calls::Ours if fd as usize >= NUMBERS => Some(Fate::Number),
        Calls::Ours => threads::why_not(),
    }
}
