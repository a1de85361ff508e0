//! The guards: while an end of this process is attached, or wants to be, every function of glibc by which a descriptor could get
//! to another process, be watched by others, or be used other than by `read` and `write` gives the pipe back to the kernel
//! first, and the call goes on as if nothing had been ([`interposed`]).
//!
//! A few that programs call all the time are let through when they do not concern an attached end. While no guard is up an
//! interposed function costs two jumps more.

use core::ffi::c_int;
use millstream_sys::fate::{Fate, place_of};

use super::end::{End, READER, Stage, WRITER};
use super::guard_flags::are_up;
use super::harmless::is_of_other_signal;
use super::harmless::{
    CLOSE, FCNTL, IOCTL, LONGJMP, POLL, POLL_CHK, PTHREAD_SIGMASK, SELECT, SIGPROCMASK, is_harmless_fcntl,
    is_harmless_ioctl,
};
use super::own_process::has_threads;
use super::own_process::is_alone;
use super::{
    alone, caught, faults, fenced, forked, guard_flags, interposed, kernel, meet, other_names, own_process, polled,
    retreat, robust, threads, trapped, watched,
};
use crate::{glibc, names};

/// Puts the guards up, or says why they cannot be.
#[inline(never)]
pub(super) fn raise() -> Result<(), Fate> {
    if are_up() {
        return Ok(());
    }
    let glibc = names::c_library().ok_or(Fate::Glibc)?;
    let own_code = own_code();
    if !interposed::reaches_all_calls() {
        return Err(Fate::Code);
    }
    // What is answered here must not be meant for another library.
    if !ANSWERED.iter().all(|&place| interposed::is_behind(place, &glibc.code)) {
        return Err(Fate::Glibc);
    }
    if !own_process::mark_own_process() {
        return Err(Fate::Slot);
    }
    guard_flags::put_up();
    let Some(trapped_outside) = threads::may_read_code().and_then(|()| alone::range_of_calls(&glibc.code, own_code))
    else {
        lift();
        return Err(threads::why_not().unwrap_or(Fate::Code));
    };
    if !faults::stand_in_front() {
        lift();
        return Err(Fate::Signals);
    }
    // The fence comes last: from the trap on every thread lets in the signal of an executed page.
    if trapped_outside.is_some_and(|allowed| !trapped::begin(&allowed)) || !fenced::raise() {
        lift();
        return Err(Fate::Code);
    }
    Ok(())
}

/// An address in this library.
pub(super) fn own_code() -> usize {
    raise as *const () as usize
}

/// Takes them down.
pub(super) fn lift() {
    // First: a thread that finds the guards down may fork, and nothing would lift the fence in the child.
    fenced::lift();
    if guard_flags::take_down() {
        trapped::end();
        faults::step_aside_unless_used();
    }
}

pub(super) fn lift_if_unused() {
    if WRITER.channel().is_none() && READER.channel().is_none() {
        lift();
    }
}

const PPOLL: usize = place_of("ppoll");
const PPOLL_CHK: usize = place_of("__ppoll_chk");
const PSELECT: usize = place_of("pselect");
const DLCLOSE: usize = place_of("dlclose");
/// Those of which some calls are answered here instead of in glibc, each by one of its names.
const ANSWERED: [usize; 9] =
    [CLOSE[0], FCNTL[0], IOCTL, SIGPROCMASK, PTHREAD_SIGMASK, POLL[0], PPOLL, SELECT[0], PSELECT];

/// Those after which numbers stand for something else.
const REPLACE: [usize; 7] = [
    place_of("dup2"),
    place_of("__dup2"),
    place_of("dup3"),
    place_of("close_range"),
    place_of("closefrom"),
    place_of("freopen"),
    place_of("freopen64"),
];

/// A guarded function is being called, and the entries bring it here: where it goes on. `None`: in glibc.
pub(super) fn before_call(place: usize, first: usize, second: usize) -> Option<usize> {
    if let Some(here) = threads::before_call(place, second) {
        return Some(here);
    }
    if has_threads() {
        if !are_up() && threads::loads_here(place, first) {
            return Some(threads::load as *const () as usize);
        }
        // In any case: before such a call is in the kernel the guards may go down, and up again for another pipe.
        threads::note(place, first, second);
    }
    if !are_up() {
        return None;
    }
    if !own_process::is_own_process() {
        forked::begin_as_child();
        return None;
    }
    // A thread that has raised them meanwhile may not have read the note.
    goes_on_at(place, first, second)
}

fn goes_on_at(place: usize, first: usize, second: usize) -> Option<usize> {
    /// The first argument is the descriptor that they are about.
    const OF_DESCRIPTOR: [usize; 11] = [
        place_of("fdopen"),
        place_of("_IO_fdopen"),
        place_of("lockf"),
        place_of("lockf64"),
        place_of("eventfd_read"),
        place_of("eventfd_write"),
        place_of("mq_close"),
        place_of("dprintf"),
        place_of("vdprintf"),
        place_of("__dprintf_chk"),
        place_of("__vdprintf_chk"),
    ];
    let fd = first as c_int;
    let concerns_an_end = READER.is_at(fd) || WRITER.is_at(fd);
    match place {
        _ if CLOSE.contains(&place) => return Some(close as *const () as usize),
        _ if FCNTL.contains(&place) && is_harmless_fcntl(concerns_an_end, second as u32) => {
            return Some(fcntl as *const () as usize);
        }
        IOCTL if is_harmless_ioctl(concerns_an_end, second) => return Some(ioctl as *const () as usize),
        // SAFETY: what the program passed as a set, or null.
        SIGPROCMASK if unsafe { caught::are_let_through(first, second) } => {
            return Some(sigprocmask as *const () as usize);
        }
        // SAFETY: as above.
        PTHREAD_SIGMASK if unsafe { caught::are_let_through(first, second) } => {
            return Some(pthread_sigmask as *const () as usize);
        }
        // SAFETY: what `setjmp` has filled.
        _ if LONGJMP.contains(&place) && unsafe { caught::are_let_through_by_jump(first) } => return None,
        DLCLOSE if !fenced::is_up() => {
            // An attempt to attach may be reading the code that goes. The next one finds the note.
            drop(super::held::Held::all());
            return None;
        }
        _ if is_of_other_signal(place, first, second) => return None,
        _ if OF_DESCRIPTOR.contains(&place) && !concerns_an_end => {
            // `mq_close` closes it.
            other_names::forget(fd);
            return None;
        }
        _ if has_threads() && threads::leaves_ends_alone(place, first, second) => return None,
        // In a child nothing stays attached: then it is glibc's own function that waits.
        _ if is_alone() => {
            if let Some(here) = wait_at(place) {
                return Some(here);
            }
        }
        _ => {}
    }
    if REPLACE.contains(&place) && has_threads() {
        [&READER, &WRITER].into_iter().for_each(End::keep_for_other_thread);
    }
    let is_given_back = retreat::before_a_call(u16::try_from(place).map_or(Fate::Untold, Fate::Called));
    (!is_given_back).then_some(refuse as *const () as usize)
}

/// The function here that waits for descriptors in the place of one of glibc's.
fn wait_at(place: usize) -> Option<usize> {
    Some(match place {
        _ if POLL.contains(&place) => polled::poll as *const () as usize,
        POLL_CHK => watched::__poll_chk as *const () as usize,
        PPOLL => polled::ppoll as *const () as usize,
        PPOLL_CHK => polled::ppoll_chk as *const () as usize,
        _ if SELECT.contains(&place) => polled::select as *const () as usize,
        PSELECT => polled::pselect as *const () as usize,
        _ => return None,
    })
}

pub(super) extern "C" fn close(fd: c_int) -> c_int {
    // Both may think that they have this number, as one of them may not know yet that it means something else now.
    let ends = [&READER, &WRITER].map(|end| end.is_at(fd).then_some(end));
    let ends = || ends.into_iter().flatten();
    // The next file with this number must not be taken for this end; a call of another thread goes on with the file of before.
    if ends().any(|end| end.uses.are_of_another_thread()) {
        ends().for_each(End::keep_for_other_thread);
        if !retreat::before_a_call(Fate::Threads) {
            return refuse() as c_int;
        }
    }
    let _held = ends().next().map(|_| super::held::Held::all());
    if ends().any(|end| end.stage() == Stage::Ring && alone::has_other_name(end)) {
        retreat::all(Fate::Renamed);
    }
    // Before: another thread may get the number at once.
    other_names::forget(fd);
    let result = kernel::close(fd);
    other_names::forget(fd);
    if result == 0 {
        ends().for_each(closed);
    }
    glibc::returned_from_kernel(result) as c_int
}

fn closed(end: &End) {
    if let Some(channel) = end.channel() {
        if end.stage() != Stage::Ring {
            retreat::want_no_more(channel, end);
        } else if end.is_reader() {
            meet::reader_closes(channel);
        }
        if end.is_reader() {
            robust::leave();
        }
    }
    end.release();
}

extern "C" fn fcntl(fd: c_int, command: u32, argument: usize) -> c_int {
    glibc::returned_from_kernel(kernel::fcntl(fd, command, argument)) as c_int
}

extern "C" fn ioctl(fd: c_int, request: usize, argument: usize) -> c_int {
    glibc::returned_from_kernel(kernel::ioctl(fd, request, argument)) as c_int
}

extern "C" fn sigprocmask(how: usize, set: *const u64, before: *mut u64) -> c_int {
    // SAFETY: the caller's arguments.
    glibc::returned_from_kernel(unsafe { change_mask(how, set, before) }) as c_int
}

extern "C" fn pthread_sigmask(how: usize, set: *const u64, before: *mut u64) -> c_int {
    // SAFETY: the caller's arguments.
    -unsafe { change_mask(how, set, before) } as c_int
}

/// As glibc does it: two signals are its own, and never held back.
///
/// # Safety
/// As for `pthread_sigmask(3)`.
unsafe fn change_mask(how: usize, set: *const u64, before: *mut u64) -> isize {
    const GLIBCS: u64 = 1 << (32 - 1) | 1 << (33 - 1);
    // SAFETY: null, or a set; of the program's 128 bytes the kernel knows the first eight.
    let set = unsafe { set.as_ref() }.map(|set| set & !GLIBCS);
    let set_at = set.as_ref().map_or(0, |set| core::ptr::from_ref(set) as usize);
    kernel::change_program_mask(how, set_at, before as usize)
}

/// The pipe could not be given back, because no further file could be opened: that is what the call then says.
pub(super) extern "C" fn refuse() -> isize {
    glibc::returned_from_kernel(kernel::EMFILE)
}
