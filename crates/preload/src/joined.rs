//! Pipes in shared memory: one that this process reads from and one that it writes to, if both sides of the pipe are
//! such processes, and no other process holds an end.
//!
//! `docs/joining.md` has the reasons. In reading order: [`interposed`] stands in front of glibc's functions, `lookup` and
//! [`stdio`] see to calls that are not made by name, [`calls`] has `read` and `write`, [`other_calls`] and `spliced` what else moves bytes; [`notice`] finds
//! the descriptors that are worth it, and `outlook` how much is to come; and [`end`] is what is known of one; `guard` makes a
//! process leave before it does anything that the ring cannot carry, `confined` before it sandboxes itself, [`trapped`] and `fenced` before its own
//! code calls the kernel; `alone` proves that no other process holds the pipe; `meet` is how two
//! sides agree; `millstream_ring::channel` is the protocol, `ring_memory` and
//! `backing_pipe` are what it needs of this process; `stream` reads and writes, `polled` waits; `retreat` gives everything back to the kernel. `brief` learns
//! which programs are too short for any of that.
//!
//! The flag by which glibc itself knows that a process has one thread is looked at in every call; where there are several,
//! [`threads`] sees to it that one at a time has an end. Programs that know this library make a promise instead: [`promised`].

mod alone;
mod backing_pipe;
mod brief;
mod calls;
mod confined;
mod contention;
mod decoded;
mod end;
mod faults;
mod fenced;
mod guard;
mod interposed;
mod kernel;
mod lookup;
mod mapping;
mod meet;
mod newer;
mod notice;
mod offer;
mod other_calls;
mod other_names;
mod outlook;
mod own_word;
mod polled;
mod promised;
mod retreat;
mod ring_memory;
mod signals;
mod spliced;
mod stdio;
mod stream;
mod tally;
mod threads;
mod trapped;
mod wait;
mod watched;

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};

use millstream_ring::channel::Channel;
use millstream_sys::fate::{Fate, WORTH_IT};
use millstream_sys::pipe;
use millstream_sys::settings::{OLDER_PIPES, Ring, Settings};

use crate::descriptor::borrow;
use calls::{Calls, has_one_thread, read_from_kernel, write_to_kernel};
use end::{End, READER, Stage, WRITER};
use signals::Held;
use threads::OwnPage;

pub(crate) use brief::{expect_starts, is_brief, know};
pub(crate) use confined::{leaves, stop_wanting};
pub(crate) use interposed::{next_by_name, start_counting};
pub(crate) use notice::reason_of as reason_of_other_use;

/// A call costs the kernel as much as moving so many bytes.
const CALL: u64 = 1024;
/// And this, if all processes of the machine have to be looked at, which may take milliseconds.
const WORTH_A_LONG_LOOK: u64 = 8 << 20;
/// After so many times as much as is worth it a writer's offer that no reader has taken makes way for another pipe.
const OFTEN: u64 = 8;

/// Where the ends of pipes stand in programs that got them from others: the standard input and output, the first number behind the
/// standard streams, and the first that bash gives to a process substitution.
const INHERITED: [c_int; 4] = [0, 1, 3, 63];

/// A page that is wiped in every forked child. Null before the process has a reason to know its children from itself.
static OWN: AtomicPtr<OwnPage> = AtomicPtr::new(core::ptr::null_mut());

/// Which run this is, and [`AFTER`] how many bytes its pipes attach. Zeros: it attaches none.
static RUN: [AtomicU64; RUN_WORDS] = [const { AtomicU64::new(0) }; RUN_WORDS];
const RUN_WORDS: usize = 7 + OLDER_PIPES;
const AFTER: usize = 1;
/// A process number, which is never 0.
const FIRST: usize = 2;
/// Whether its pipes are to be attached. Not any more in a process that has sandboxed itself: from then on it makes no calls that it would
/// not make by itself.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// Begins to count what passes, if this process was given a pipe and is in a run whose pipes are to be attached.
pub(crate) fn start(settings: &Settings<'_>) {
    let Some(run) = settings.ring else { return };
    let words = [run.token, run.after, run.first, run.namespace, run.ticks, run.birth, u64::from(run.filters)];
    for (word, value) in RUN.iter().zip(words.iter().chain(&run.older)) {
        word.store(*value, Relaxed);
    }
    IS_WANTED.store(true, Relaxed);
    if INHERITED.iter().any(|fd| borrow(fd).and_then(pipe::identity).is_some()) {
        // The program's handlers are not there yet, and a sandboxed program need not expect a call that holds signals back.
        calls::begin();
    }
}

/// Whether the run attaches pipes, though a process that has sandboxed itself does not.
pub(crate) fn is_wanted() -> bool {
    RUN[FIRST].load(Relaxed) > 0
}

/// The process has a pipe of which it may use an end itself: from now on what passes is counted.
pub(crate) fn has_pipe() {
    if IS_WANTED.load(Relaxed) && calls::state() == Calls::NotYet {
        let _held = Held::all();
        calls::begin();
    }
}

/// Whether less than a page waits in a pipe, but something: a shell has written a line into it, and is about to leave. A program that
/// writes much cannot have begun so early, or has written whole pages.
pub(crate) fn has_some_bytes(fd: c_int) -> bool {
    IS_WANTED.load(Relaxed) && (1..4096).contains(&kernel::bytes_in(fd))
}

/// Tells this process from children that it forks from now on.
fn mark_own_process() -> bool {
    own_page().is_some_and(|own| {
        own.is_own.store(1, Relaxed);
        true
    })
}

/// What is this process's own. Made by the only thread there is.
fn own_page() -> Option<&'static OwnPage> {
    if OWN.load(Relaxed).is_null() {
        let page = kernel::page_of_this_process()?.cast::<OwnPage>();
        OWN.store(page, Relaxed);
        // A process that is asked before it has begun anything is no child.
        // SAFETY: a page of zeros that lasts.
        unsafe { &*page }.is_own.store(1, Relaxed);
    }
    // SAFETY: null, or a page that lasts.
    unsafe { OWN.load(Relaxed).as_ref() }
}

/// Before this process becomes another program. `false`: a pipe cannot be given back, because no file can be opened for it.
pub(crate) fn leave() -> bool {
    let has_nothing = READER.channel().is_none() && WRITER.channel().is_none();
    // What a parent has offered goes with this program, which has a copy of the descriptor.
    let has_parents = WRITER.stage() == Stage::Offers && !guard::are_up() && offer::is_of_parent();
    has_nothing || has_parents || retreat::before_a_call(Fate::called(c"execve"))
}

/// The run that this process belongs to.
fn own_run() -> Ring {
    let words: [u64; RUN_WORDS] = core::array::from_fn(|at| RUN[at].load(Relaxed));
    let [token, after, first, namespace, ticks, birth, filters, older @ ..] = words;
    Ring { token, after, first, namespace, ticks, birth, filters: filters as u32, older }
}

/// What the user has said instead of both below.
fn after() -> Option<u64> {
    Some(RUN[AFTER].load(Relaxed)).filter(|&after| after > 0)
}

/// Whether a program that moves so much through a pipe is to have this library.
pub(crate) fn is_worth(bytes: u64) -> bool {
    bytes >= worth_it()
}

/// What a call that has moved so many bytes counts for [`worth_it`]. Where the user has said when, bytes are what was said.
fn worth_of(moved: u64) -> u64 {
    if after().is_some() { moved } else { moved + CALL }
}

fn worth_it() -> u64 {
    after().unwrap_or(WORTH_IT)
}

fn worth_a_long_look() -> u64 {
    after().unwrap_or(WORTH_A_LONG_LOOK)
}

/// Whether this is not a forked child of the process that put its guards up.
fn is_own_process() -> bool {
    // SAFETY: null, or a page that lasts.
    unsafe { OWN.load(Relaxed).as_ref() }.is_none_or(|own| own.is_own.load(Relaxed) == 1)
}

/// Whether there is one thread, in the process that put the guards up.
fn is_alone() -> bool {
    has_one_thread() && is_own_process()
}

fn leave_if_not_alone(end: &End) {
    if end.is_promised() {
        // Several threads know that each end is used by one of them at a time, and no child uses it.
    } else if !is_own_process() {
        begin_as_child();
    } else if !has_one_thread() && !threads::are_there() {
        // They were made past this library.
        retreat::all(Fate::Threads);
    }
}

fn begin_as_child() {
    let _held = Held::all();
    // Another thread may have been here.
    if !is_own_process() {
        forget_parents();
        // What it begins from now on is its own.
        mark_own_process();
    }
}

/// In a forked child: the memory of its parent's pipes is not there.
fn forget_parents() {
    meet::forget_offer_of_parent();
    for end in [&WRITER, &READER] {
        if end.channel().is_some() {
            if end.is_reader() {
                meet::leave_robust();
            }
            end.tally.tell(Fate::Forked);
        }
        end.forget();
    }
    guard::lift();
}

/// With a bell, of a promised end, it may return [`promised::RUNG`] instead of sleeping.
#[inline(never)]
fn read_input(fd: c_int, buffer: *mut u8, len: usize, bell: Option<c_int>) -> isize {
    match READER.call(|| read_attached(fd, buffer, len, bell)) {
        Some(moved) => moved,
        None if leave_to_threads(&READER) => read_from_kernel(fd, buffer, len),
        None => kernel::EMFILE,
    }
}

/// Another thread has this end. `false`: its pipe could not be given back, because no file can be opened for it.
#[cold]
fn leave_to_threads(end: &'static End) -> bool {
    if !is_own_process() {
        begin_as_child();
        return true;
    }
    if end.channel().is_some() {
        retreat::because_of(end, Fate::Threads);
    }
    let is_left = retreat::follow(end);
    let _held = Held::all();
    if is_left && end.stage() != Stage::Ring {
        end.give_up();
    }
    is_left
}

/// Before a call that takes bytes out of the input: a step nearer to the ring.
#[inline(never)]
fn advance_reader() {
    leave_if_not_alone(&READER);
    match (READER.stage(), READER.channel()) {
        (Stage::Counted, _) if READER.is_due() => meet::accept(),
        (Stage::Wants, Some(channel)) => meet::prove(&READER, channel),
        (Stage::Ready, Some(channel)) if !READER.is_in_kernel() => meet::meet_writer(channel),
        _ => {}
    }
}

fn read_attached(fd: c_int, buffer: *mut u8, len: usize, bell: Option<c_int>) -> isize {
    advance_reader();
    if let (Stage::Ring, Some(channel)) = (READER.stage(), READER.channel())
        && len > 0
        && can_be_memory(buffer, len)
    {
        return stream::read(channel, fd, buffer, len, bell);
    }
    if promised::is_only_rung(fd, bell) {
        return promised::RUNG;
    }
    READER.in_kernel(|| read_from_kernel(fd, buffer, len))
}

#[inline(never)]
fn write_output(fd: c_int, buffer: *const u8, len: usize) -> isize {
    match WRITER.call(|| write_attached(fd, buffer, len)) {
        Some(moved) => moved,
        None if leave_to_threads(&WRITER) => write_to_kernel(fd, buffer, len),
        None => kernel::EMFILE,
    }
}

/// Before a call that puts so many bytes into the output: a step nearer to the ring.
#[inline(never)]
fn advance_writer(len: usize) {
    leave_if_not_alone(&WRITER);
    match (WRITER.stage(), WRITER.channel()) {
        // Of no bytes: it tells nothing of what is to come, and Perl ends each of its writes with one.
        _ if len == 0 => {}
        (Stage::Counted, _) if WRITER.is_due() => meet::offer(),
        (Stage::Offers, Some(channel)) if meet::is_accepted(channel) && WRITER.may_try() => meet::want(channel),
        (Stage::Offers, _) if WRITER.is_due() => meet::look_after_offer(),
        (Stage::Wants, Some(channel)) if WRITER.is_due() => meet::prove(&WRITER, channel),
        _ => {}
    }
}

/// Whether the reader now waits for the call that comes to be the last to the backing pipe.
fn announces(channel: &Channel) -> bool {
    WRITER.stage() == Stage::Ready && !WRITER.is_in_kernel() && meet::announce(channel)
}

fn write_attached(fd: c_int, buffer: *const u8, len: usize) -> isize {
    advance_writer(len);
    if let (Stage::Ring, Some(channel)) = (WRITER.stage(), WRITER.channel())
        && len > 0
        && can_be_memory(buffer, len)
    {
        return stream::write(channel, fd, buffer, len);
    }
    let Some(channel) = WRITER.channel().filter(|&channel| announces(channel)) else {
        return WRITER.in_kernel(|| write_to_kernel(fd, buffer, len));
    };
    let first = len.min(meet::LAST_BYTES);
    let moved = WRITER.in_kernel(|| write_to_kernel(fd, buffer, first));
    meet::await_reader(channel, moved > 0);
    if moved.cast_unsigned() < len && moved.cast_unsigned() == first {
        return moved + write_output(fd, buffer.wrapping_add(first), len - first).max(0);
    }
    moved
}

/// Where no memory can be the kernel is to say `EFAULT`, so the pipe goes back to it first.
fn can_be_memory(buffer: *const u8, len: usize) -> bool {
    /// The first page is never mapped, and above this are no addresses of programs, unless they ask for some.
    const ADDRESSES: core::ops::Range<usize> = 4096..1 << 47;
    let start = buffer as usize;
    let can_be = ADDRESSES.contains(&start) && len <= ADDRESSES.end - start;
    if !can_be {
        retreat::all(Fate::Nowhere);
    }
    can_be
}
