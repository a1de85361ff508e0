//! How a writer and a reader agree on the ring.
//!
//! ```text
//!            nearly free      wants (guarded)      proved alone           agreed
//!   writer ───── offers ──┐   ┌─ wants ──▶ looks for other holders ────────▶ ready ──▶ waits ─┐
//!                         ▼   │                 exactly these two                             ├──▶ ring
//!   reader ─────────── finds ─┴─ wants ──────────────────────────────▶ ready ──▶ pipe empty ───┘
//! ```
//!
//! The writer makes a slot, and a lock on the pipe says where it is ([`super::offer`]). A side that wants to attach
//! first puts the guards up: from then on it cannot fork, exec, pass an end on or watch one without detaching; or it has promised not to.
//! Only then are other holders looked for. The ring
//! begins at an instant at which the reader is in here, so that it is not asleep in the kernel, the writer is in here too, and the
//! backing pipe is empty.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use millstream_ring::channel::{Channel, RING_BYTES, Side, activation};
use millstream_sys::fate::Fate;
use millstream_sys::ledger::Direction;

use super::alone::Opposite;
use super::end::{End, READER, Stage, WRITER};
use super::held::Held;
use super::own_run::{worth_a_long_look, worth_it};
use super::ring_memory::ring_of;
use super::signals;
use super::{alone, confined, faults, guard, kernel, newer, offer, other_names, own_run, retreat, robust, threads};

/// A writer waits this long for its reader to come, and a reader for its writer.
const MEETING_NS: u64 = 2_000_000;
/// A reader that finds no offer asks the kernel for one again after so many bytes.
const ASK_AGAIN: u64 = 256 << 10;
/// A writer whose input may still join looks again after so many bytes.
const LOOK_AGAIN: u64 = 512 << 10;
/// So often it waits in vain after one write; as long as the reader empties the pipe no wait is in vain. A reader that is the slower side
/// never finds the pipe empty while the writer adds to it, and the writer would have had to wait for room anyway.
const MEETINGS: u32 = 2;
const MEETINGS_MOST: u32 = 100;
/// What the write before it is at most: it fits into a pipe of the usual size, and so mostly ends without the reader.
pub(super) const LAST_BYTES: usize = 64 << 10;
/// So often a look that found too much is repeated, each time after twice as many bytes.
const TRIES: u32 = 5;

/// A first step that may succeed later: more must pass before the next. `false`: that was the last.
fn later(end: &End, why_not: Fate) -> bool {
    end.tally.tell(why_not);
    let tries = end.tries.load(Relaxed) + 1;
    end.tries.store(tries, Relaxed);
    // An end that was expected to get much began early: a shell may close its copies late all the same.
    end.try_at.store((end.passed.load(Relaxed) * 2).max(worth_it()), Relaxed);
    tries < TRIES
}

/// Enough has passed to be worth it: makes a slot and lets the reader find it. That is cheap, and the reader may never come.
pub(super) fn offer() {
    let _held = Held::all();
    if WRITER.stage() != Stage::Counted {
        return;
    }
    if !WRITER.is_still_there() {
        return WRITER.release();
    }
    WRITER.tally.begin(WRITER.fd(), Direction::Written);
    if confined::may_not_join() {
        WRITER.give_up();
        return WRITER.tally.tell(Fate::Confined);
    }
    if let Some(why_not) = never(&WRITER) {
        WRITER.give_up();
        return WRITER.tally.tell(why_not);
    }
    if is_fed_by_kernel() {
        WRITER.try_at.store(WRITER.passed.load(Relaxed) + LOOK_AGAIN, Relaxed);
        return WRITER.tally.tell(Fate::Fed);
    }
    let mut room = [0; 64];
    match pipe_of(&WRITER, &mut room).ok_or(Fate::Untold).and_then(|(_, inode)| offer::make(inode)) {
        Ok(slot) => {
            WRITER.set_channel(slot);
            WRITER.set_stage(Stage::Offers);
            WRITER.try_at.store(WRITER.passed.load(Relaxed) + worth_it(), Relaxed);
            WRITER.tally.tell(Fate::Waits);
        }
        Err(why_not) => {
            WRITER.give_up();
            WRITER.tally.tell(why_not);
        }
    }
}

/// Whether the input of this process is a busy pipe that is not attached so far, and this process has several CPUs. A reader of its
/// output that takes each piece at once from memory would make this process sleep for each piece of its input, and the writer of that
/// input wake it: on another CPU that is dearer than what memory saves. Where the user has said when pipes attach, they do.
fn is_fed_by_kernel() -> bool {
    let is_in_kernel = matches!(READER.stage(), Stage::Counted | Stage::Wants | Stage::Ready);
    let is_asked = own_run::after().is_none() && !WRITER.is_promised() && !READER.is_promised();
    is_asked && is_in_kernel && READER.is_still_there() && !kernel::has_one_cpu()
}

/// Before a write, now and then: without guards the program may have closed the pipe, and another may have its number.
pub(super) fn look_after_offer() {
    let _held = Held::all();
    if WRITER.stage() != Stage::Offers || offer::is_of_parent() {
    } else if WRITER.is_still_there() {
        WRITER.try_at.store(WRITER.passed.load(Relaxed) + worth_it(), Relaxed);
    } else {
        offer::withdraw();
        WRITER.release();
    }
}

/// Before a write: whether the reader has found the slot, and is guarded.
pub(super) fn is_accepted(slot: &Channel) -> bool {
    slot.arrival().process != 0
}

/// The same as for the reader in [`accept`], and the slot need not be found any more.
pub(super) fn want(slot: &'static Channel) {
    if !WRITER.is_promised() && signals::may_be_in_handler() {
        return;
    }
    let is_caught = WRITER.is_promised() || faults::can_be_caught();
    let _held = Held::all();
    // A child that borrows its parent's memory (`vfork`) has nothing to want.
    if WRITER.stage() != Stage::Offers || offer::is_of_parent() {
        return;
    }
    if !WRITER.is_still_there() {
        offer::withdraw();
        return WRITER.release();
    }
    match if is_caught { guarded(&WRITER) } else { Err(Fate::Signals) } {
        Ok(()) => {
            WRITER.try_at.store(0, Relaxed);
            WRITER.set_stage(Stage::Wants);
            prove(&WRITER, slot);
        }
        Err(why_not) => {
            if !(threads::may_pass(why_not) && later(&WRITER, why_not)) {
                offer::withdraw();
                WRITER.give_up();
            }
            WRITER.tally.tell(why_not);
            guard::lift_if_unused();
        }
    }
}

/// Enough has passed for a reader to be worth it: looks for the writer's offer, and if there is one that pays puts the guards up and
/// says that this end wants to join.
pub(super) fn accept() {
    if !READER.is_still_there() {
        return READER.release();
    }
    READER.tally.begin(READER.fd(), Direction::Read);
    if confined::may_not_join() {
        READER.give_up();
        return READER.tally.tell(Fate::Confined);
    }
    if let Some(why_not) = never(&READER) {
        READER.give_up();
        return READER.tally.tell(why_not);
    }
    let passed = READER.passed.load(Relaxed);
    let Some(found) = offer::find() else {
        READER.try_at.store(passed + ASK_AGAIN.min(worth_it()), Relaxed);
        return READER.tally.tell(Fate::Waits);
    };
    if !READER.is_promised() && signals::may_be_in_handler() {
        return accept_later(Fate::Handler);
    }
    if !READER.is_promised() && !faults::can_be_caught() {
        return accept_later(Fate::Signals);
    }
    let _held = Held::all();
    if READER.stage() != Stage::Counted {
        return;
    }
    match accepted(&found) {
        Ok(slot) => {
            READER.set_channel(slot);
            READER.set_stage(Stage::Wants);
            READER.tally.tell(Fate::Waits);
        }
        Err(why_not) => {
            if !(threads::may_pass(why_not) && later(&READER, why_not)) {
                READER.give_up();
            }
            READER.tally.tell(why_not);
            guard::lift_if_unused();
        }
    }
}

/// What is known of the other threads by now, if it keeps the end from being attached for good: then nothing is begun.
fn never(end: &End) -> Option<Fate> {
    let is_promised = end.is_promised();
    threads::allow(end).err().filter(|&why_not| !is_promised && !threads::may_pass(why_not))
}

fn accept_later(why_not: Fate) {
    if !later(&READER, why_not) {
        READER.give_up();
    }
}

fn accepted(found: &offer::Found) -> Result<&'static Channel, Fate> {
    guarded(&READER)?;
    let mut room = [0; 64];
    let (_, inode) = pipe_of(&READER, &mut room).ok_or(Fate::Untold)?;
    let slot = offer::open(found, inode).ok_or(Fate::Slot)?;
    if !slot.arrive(millstream_sys::own_pid(), kernel::is_alive) {
        // Another reader has it.
        READER.uses.leave(NonNull::from(slot));
        return Err(Fate::Slot);
    }
    READER.patience.shared_cpu.is_shared_with(found.process);
    Ok(slot)
}

/// The guards are up, or why not.
#[inline(never)]
fn guarded(end: &End) -> Result<(), Fate> {
    let mut room = [0; 64];
    // Something else stands at this number by now.
    pipe_of(end, &mut room).ok_or(Fate::Untold)?;
    let access = if end.is_reader() { kernel::O_RDONLY } else { kernel::O_WRONLY };
    if !kernel::is_plain(end.fd(), access) {
        return Err(Fate::Mode);
    }
    let is_promised = end.is_promised();
    if !alone::here_is_only(end, if is_promised { Opposite::Counts } else { Opposite::Stays }) {
        return Err(Fate::Descriptors);
    }
    if is_promised {
        return Ok(());
    }
    guard::raise()?;
    threads::allow(end)?;
    if end.holds_both.load(Relaxed) {
        other_names::forget_all();
        // Before the other side marks the open file of its end, which this process may share.
        if !alone::here_is_only(end, Opposite::Renewed) {
            return Err(Fate::Descriptors);
        }
    }
    Ok(())
}

/// `pipe:[INODE]` and the inode, for an anonymous pipe, if it still stands at the number.
fn pipe_of<'a>(end: &End, room: &'a mut [u8; 64]) -> Option<(&'a [u8], u64)> {
    let len = usize::try_from(kernel::link_of(end.fd(), room)).ok()?;
    let name = room.get(..len)?;
    let digits = name.strip_prefix(b"pipe:[")?.strip_suffix(b"]")?;
    let inode = digits.iter().try_fold(0_u64, |value, &digit| {
        value.checked_mul(10)?.checked_add(u64::from(char::from(digit).to_digit(10)?))
    })?;
    Some((name, inode)).filter(|&(_, inode)| inode == end.inode())
}

/// Before a read or write of an end that wants to join: proves that it is alone, when the other side is there.
pub(super) fn prove(end: &End, slot: &Channel) {
    let reader = slot.arrival();
    let proved = slot.ready_word(Side::Writer).load(SeqCst);
    if reader.process == 0 || (end.is_reader() && proved == 0) {
        return;
    }
    let _held = Held::all();
    if end.stage() != Stage::Wants {
        return;
    }
    if end.is_reader() {
        if proved != reader.number {
            // The writer has looked at a reader that was here before this one.
            retreat::because_of(end, Fate::Slot);
            return;
        }
        if !alone::has_own_file(end.fd(), false) {
            retreat::because_of(end, Fate::Shared);
            return;
        }
        if !robust::enter(slot) {
            retreat::because_of(end, Fate::Mutex);
            return;
        }
    } else {
        let mut room = [0; 64];
        let found = pipe_of(end, &mut room);
        let lowest = found.map_or(0, |(_, inode)| newer::lowest_holder(inode, reader.process));
        if lowest == 0 && end.passed.load(Relaxed) < worth_a_long_look() {
            end.try_at.store(worth_a_long_look(), Relaxed);
            return;
        }
        let is_alone = found.is_some_and(|(pipe, _)| {
            alone::here_is_only(end, Opposite::Stays)
                && alone::Holders::of(pipe).elsewhere_is_only(reader.process, lowest)
        });
        if !is_alone {
            if !later(end, Fate::Shared) {
                retreat::because_of(end, Fate::Shared);
            }
            return;
        }
        end.patience.shared_cpu.is_shared_with(reader.process);
        offer::withdraw();
        // Pieces of more than 64 KiB are more than Python's allocator keeps, so a reader of `multiprocessing` would take half as long
        // again on one CPU.
        if !end.holds_both.load(Relaxed) {
            crate::pipes::enlarge_to_join(end.fd());
        }
        if !alone::has_own_file(end.fd(), true) {
            retreat::because_of(end, Fate::Shared);
            return;
        }
    }
    slot.ready_word(end.side()).store(reader.number, SeqCst);
    end.set_stage(Stage::Ready);
    end.tally.tell(Fate::Unmet);
}

/// Before a write that is to be the last one to the backing pipe: tells the reader that this side will wait for it. Said before and not
/// after, because on one CPU the reader may take these bytes and be asleep again before the call returns. Each attempt in vain makes
/// the next one rarer.
pub(super) fn announce(slot: &Channel) -> bool {
    if slot.ready_word(Side::Reader).load(SeqCst) == 0 || !WRITER.has_its_turn() {
        return false;
    }
    slot.set_writer_waits(true);
    true
}

/// After that write: waits for the reader to find the backing pipe empty.
pub(super) fn await_reader(slot: &Channel, has_written: bool) {
    let (mut left, mut bytes) = (MEETINGS, usize::MAX);
    for _ in 0..MEETINGS_MOST {
        let _held = Held::all();
        // A handler may have given the pipe back.
        if !has_written || WRITER.stage() != Stage::Ready || left == 0 || meets_reader(slot) {
            break;
        }
        let bytes_left = kernel::bytes_in(WRITER.fd());
        left = if bytes_left < bytes { MEETINGS } else { left - 1 };
        bytes = bytes_left;
    }
    slot.set_writer_waits(false);
}

/// Whether the reader came, and the pipe was empty.
fn meets_reader(slot: &Channel) -> bool {
    let word = slot.activation_word();
    if word.load(SeqCst) == activation::NONE {
        kernel::wait(word, activation::NONE, Some(MEETING_NS));
    }
    let has_agreed = slot.agree(&WRITER, || make_ring(slot));
    if has_agreed {
        other_names::forget_all();
        WRITER.set_stage(Stage::Ring);
        WRITER.tally.tell(Fate::Joined);
        kernel::wake_all(word);
    }
    has_agreed
}

/// Makes the pages of the ring, and returns how many bytes it is to hold.
fn make_ring(slot: &Channel) -> usize {
    let capacity = kernel::fcntl(WRITER.fd(), F_GETPIPE_SZ, 0).max(0) as usize;
    let bytes = capacity.min(RING_BYTES);
    kernel::populate(ring_of(slot), bytes);
    bytes
}

const F_GETPIPE_SZ: u32 = 1032;

/// Before a read, or a wait for something to read: if the writer waits and the backing pipe is empty, this is the moment.
pub(super) fn meet_writer(slot: &Channel) {
    if !slot.writer_waits() || kernel::bytes_in(READER.fd()) != 0 {
        return;
    }
    let _held = Held::all();
    if READER.stage() != Stage::Ready {
        return;
    }
    let word = slot.activation_word();
    slot.reader_waits();
    kernel::wake_all(word);
    kernel::wait(word, activation::READER_WAITS, Some(MEETING_NS));
    if slot.has_agreed() {
        other_names::forget_all();
        READER.set_stage(Stage::Ring);
        READER.tally.tell(Fate::Joined);
    }
}

/// This process closes its read end: the writer learns of it as it would of the end of the thread.
pub(super) fn reader_closes(slot: &Channel) {
    slot.note_reader_gone();
    slot.takes_writers_wait();
    kernel::wake_all(slot.room_word());
}
