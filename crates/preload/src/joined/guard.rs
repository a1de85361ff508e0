//! The guards: while an end of this process is attached, or wants to be, every function of glibc by which a descriptor could get
//! to another process, be watched by others, or be used other than by `read` and `write` gives the pipe back to the kernel
//! first, and the call goes on as if nothing had been ([`interposed`]).
//!
//! A few that programs call all the time are let through when they do not concern an attached end. While no guard is up an
//! interposed function costs two jumps more.

use core::ffi::c_int;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use millstream_sys::fate::{Fate, place_of};

use super::end::{End, READER, Stage, WRITER};
use super::{
    alone, faults, fenced, interposed, is_alone, kernel, meet, other_names, polled, retreat, threads, trapped, watched,
};
use crate::{glibc, names};

/// Which calls the entries of [`interposed`] bring here: none, or all. [`UP`] and [`WITH_THREADS`].
pub(super) static WATCHED: AtomicU8 = AtomicU8::new(0);
/// The guards are up.
const UP: u8 = 1;
/// The process has had several threads.
const WITH_THREADS: u8 = 2;

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
    if !super::mark_own_process() {
        return Err(Fate::Slot);
    }
    WATCHED.fetch_or(UP, SeqCst);
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

pub(super) fn are_up() -> bool {
    WATCHED.load(SeqCst) & UP != 0
}

/// Whether calls come here at all.
pub(super) fn are_watched() -> bool {
    WATCHED.load(Relaxed) != 0
}

pub(super) fn has_threads() -> bool {
    WATCHED.load(Relaxed) & WITH_THREADS != 0
}

/// From now on every guarded call comes here.
pub(super) fn expect_threads() {
    WATCHED.fetch_or(WITH_THREADS, SeqCst);
}

/// Takes them down.
pub(super) fn lift() {
    // First: a thread that finds the guards down may fork, and nothing would lift the fence in the child.
    fenced::lift();
    if WATCHED.fetch_and(!UP, SeqCst) & UP != 0 {
        trapped::end();
        faults::step_aside_unless_used();
    }
}

pub(super) fn lift_if_unused() {
    if WRITER.channel().is_none() && READER.channel().is_none() {
        lift();
    }
}

pub(super) const CLOSE: [usize; 2] = [place_of("close"), place_of("__close")];
pub(super) const FCNTL: [usize; 3] = [place_of("fcntl"), place_of("__fcntl"), place_of("fcntl64")];
pub(super) const IOCTL: usize = place_of("ioctl");
pub(super) const SIGPROCMASK: usize = place_of("sigprocmask");
pub(super) const PTHREAD_SIGMASK: usize = place_of("pthread_sigmask");
pub(super) const POLL: [usize; 2] = [place_of("poll"), place_of("__poll")];
pub(super) const POLL_CHK: usize = place_of("__poll_chk");
const PPOLL: usize = place_of("ppoll");
const PPOLL_CHK: usize = place_of("__ppoll_chk");
pub(super) const SELECT: [usize; 2] = [place_of("select"), place_of("__select")];
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
pub(super) const LONGJMP: [usize; 4] =
    [place_of("longjmp"), place_of("_longjmp"), place_of("siglongjmp"), place_of("__longjmp_chk")];

/// Whether a function changes nothing but what its thread does next, or which signals it takes.
pub(super) fn is_of_mask_or_jump(place: usize) -> bool {
    [SIGPROCMASK, PTHREAD_SIGMASK].contains(&place) || LONGJMP.contains(&place)
}

/// Whether a function says what becomes of a signal, and that is none of those that must come here.
pub(super) fn is_of_other_signal(place: usize, first: usize, second: usize) -> bool {
    const SIGACTION: [usize; 2] = [place_of("sigaction"), place_of("__sigaction")];
    const OF_SIGNAL: [usize; 7] = [
        place_of("signal"),
        place_of("bsd_signal"),
        place_of("ssignal"),
        place_of("sysv_signal"),
        place_of("__sysv_signal"),
        place_of("sigignore"),
        place_of("siginterrupt"),
    ];
    let action = if SIGACTION.contains(&place) { second as *const [u64; 2] } else { core::ptr::null() };
    // SAFETY: what glibc reads as well.
    (SIGACTION.contains(&place) || OF_SIGNAL.contains(&place)) && unsafe { faults::are_left_alone(first, action) }
}

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
    if !super::is_own_process() {
        super::begin_as_child();
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
        SIGPROCMASK if unsafe { faults::are_let_through(first, second) } => {
            return Some(sigprocmask as *const () as usize);
        }
        // SAFETY: as above.
        PTHREAD_SIGMASK if unsafe { faults::are_let_through(first, second) } => {
            return Some(pthread_sigmask as *const () as usize);
        }
        // SAFETY: what `setjmp` has filled.
        _ if LONGJMP.contains(&place) && unsafe { faults::are_let_through_by_jump(first) } => return None,
        DLCLOSE if !fenced::is_up() => {
            // An attempt to attach may be reading the code that goes. The next one finds the note.
            drop(super::signals::Held::all());
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

pub(super) fn is_harmless_fcntl(concerns_an_end: bool, command: u32) -> bool {
    const F_GETFD: u32 = 1;
    const F_SETFD: u32 = 2;
    const F_GETFL: u32 = 3;
    const F_SETPIPE_SZ: u32 = 1031;
    const F_GETOWN: u32 = 9;
    // `F_GETOWN` is another call inside glibc.
    matches!(command, F_GETFD | F_SETFD | F_GETFL)
        || (!concerns_an_end && command != F_SETPIPE_SZ && command != F_GETOWN)
}

pub(super) fn is_harmless_ioctl(concerns_an_end: bool, request: usize) -> bool {
    const TCGETS: u32 = 0x5401;
    /// Terminals, flags and sizes of files. Any other request may have a descriptor inside (`BTRFS_IOC_SEND`).
    const OF_OTHER_FILES: [u32; 15] = [
        0x5402,      // TCSETS
        0x5403,      // TCSETSW
        0x5404,      // TCSETSF
        0x5405,      // TCGETA
        0x5409,      // TCSBRK
        0x540b,      // TCFLSH
        0x540f,      // TIOCGPGRP
        0x5410,      // TIOCSPGRP
        0x5413,      // TIOCGWINSZ
        0x5414,      // TIOCSWINSZ
        0x5421,      // FIONBIO
        0x5450,      // FIONCLEX
        0x5451,      // FIOCLEX
        0x8008_1272, // BLKGETSIZE64
        0x8008_6601, // FS_IOC_GETFLAGS
    ];
    // glibc gives the kernel 32 bits of it.
    let request = request as u32;
    request == TCGETS || (!concerns_an_end && OF_OTHER_FILES.contains(&request))
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
    let _held = ends().next().map(|_| super::signals::Held::all());
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
            meet::leave_robust();
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
