//! The guards: while an end of this process is joined, or wants to be, every function of glibc by which a descriptor could get
//! to somebody else, be watched by others, or be used other than by `read` and `write` begins with a jump to here. The pipe then goes
//! back to the kernel first, the functions become their own again, and the call goes on as if nothing had been.
//!
//! A few that programs call all the time are let through when they do not concern a joined end.

use core::arch::global_asm;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};

use millstream_sys::fate::{Fate, guarded};

use super::end::{End, READER, Stage, WRITER};
use super::text::{self, Place};
use super::{alone, faults, is_alone, kernel, meet, other_names, polled, redirect, retreat, watched};
use crate::glibc;
use crate::names::Names;

/// Places in [`guarded`].
const CLOSES: [usize; 2] = [0, 1];
const FCNTL: usize = 2;
const IOCTL: usize = 3;
const SIGPROCMASK: usize = 4;
const PTHREAD_SIGMASK: usize = 5;
const POLL: usize = 6;
const POLL_CHK: usize = 7;
const PPOLL: usize = 8;
const PPOLL_CHK: usize = 9;
const SELECT: usize = 10;
const PSELECT: usize = 11;

/// Some names have two versions.
const PLACES: usize = 104;
static AT: [Place; PLACES] = [const { Place::new() }; PLACES];
/// Which of [`guarded`] a place is. Small, as all of the library's data: what fits into the last page of its file takes no call to map more.
static OF: [AtomicU8; PLACES] = [const { AtomicU8::new(0) }; PLACES];
static ARE_UP: AtomicBool = AtomicBool::new(false);
/// Start and end of glibc's code.
static CODE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

// One entry of 16 bytes for each place, then what they have in common: every register that can carry an argument is kept,
// the stack is as the function will find it, and it goes on at the address that Rust names; 0 is a failure, EMFILE.
global_asm!(
    ".pushsection .text.millstream_guards,\"ax\",@progbits",
    ".balign 16",
    ".globl millstream_guards",
    ".hidden millstream_guards",
    "millstream_guards:",
    ".set index, 0",
    ".rept {places}",
    ".balign 16",
    "endbr64",
    "pushq $index",
    "jmp 5f",
    ".set index, index + 1",
    ".endr",
    ".balign 16",
    "5: pushq %rax",
    "pushq %rdi",
    "pushq %rsi",
    "pushq %rdx",
    "pushq %rcx",
    "pushq %r8",
    "pushq %r9",
    "subq $8, %rsp",
    "movq %rsi, %rdx",
    "movq %rdi, %rsi",
    "movq 64(%rsp), %rdi",
    "call {goes_on_at}",
    "movq %rax, %r11",
    "addq $8, %rsp",
    "popq %r9",
    "popq %r8",
    "popq %rcx",
    "popq %rdx",
    "popq %rsi",
    "popq %rdi",
    "popq %rax",
    "addq $8, %rsp",
    "jmp *%r11",
    ".popsection",
    places = const PLACES,
    goes_on_at = sym goes_on_at,
    options(att_syntax)
);

unsafe extern "C" {
    #[link_name = "millstream_guards"]
    static ENTRIES: [[u8; 16]; PLACES];
}

/// Puts the guards up. `false`: they cannot be, or something in this process goes past glibc.
pub(super) fn raise() -> bool {
    if ARE_UP.load(Relaxed) {
        return true;
    }
    let own_code = (&raw const ENTRIES) as usize;
    let Some((base, code)) = alone::glibc_if_nobody_else_calls_the_kernel(redirect::glibc_code(), own_code) else {
        return false;
    };
    let Some(names) = Names::of(base) else { return false };
    if !text::open(code.start, code.end, true) {
        return false;
    }
    let (mut used, mut all_fit) = (0, redirect::begin_bare(&names) && super::mark_own_process());
    for (index, name) in guarded().enumerate() {
        names.each(name, |entry| {
            // Two names of one function.
            if AT[..used].iter().any(|place| place.entry() == entry) {
                return;
            }
            let (Some(place), Some(of)) = (AT.get(used), OF.get(used)) else {
                all_fit = false;
                return;
            };
            of.store(index as u8, Relaxed);
            all_fit &= place.redirect(entry, own_code + used * 16);
            used += 1;
        });
    }
    text::open(code.start, code.end, false);
    CODE[0].store(code.start, Relaxed);
    CODE[1].store(code.end, Relaxed);
    ARE_UP.store(true, Relaxed);
    all_fit &= faults::stand_in_front();
    if !all_fit {
        lift();
    }
    all_fit
}

pub(super) fn are_up() -> bool {
    ARE_UP.load(Relaxed)
}

/// Takes them down.
pub(super) fn lift() {
    let [start, end] = [CODE[0].load(Relaxed), CODE[1].load(Relaxed)];
    if ARE_UP.load(Relaxed) && text::open(start, end, true) {
        AT.iter().for_each(Place::restore);
        redirect::restore_bare();
        text::open(start, end, false);
        faults::step_aside();
        ARE_UP.store(false, Relaxed);
    }
}

pub(super) fn lift_if_unused() {
    if WRITER.slot().is_none() && READER.slot().is_none() {
        lift();
    }
}

/// A guarded function is being called: where it goes on.
extern "C" fn goes_on_at(place: usize, first: usize, second: usize) -> usize {
    let of = OF.get(place).map_or(usize::MAX, |of| of.load(Relaxed).into());
    let fd = first as c_int;
    let concerns_an_end = READER.is_at(fd) || WRITER.is_at(fd);
    match of {
        _ if CLOSES.contains(&of) => return close as *const () as usize,
        FCNTL if is_harmless_fcntl(concerns_an_end, second as u32) => return fcntl as *const () as usize,
        IOCTL if is_harmless_ioctl(concerns_an_end, second) => return ioctl as *const () as usize,
        // SAFETY: what the program passed as a set, or null.
        SIGPROCMASK if unsafe { faults::are_let_through(first, second) } => return sigprocmask as *const () as usize,
        // SAFETY: as above.
        PTHREAD_SIGMASK if unsafe { faults::are_let_through(first, second) } => {
            return pthread_sigmask as *const () as usize;
        }
        // With several threads, or in a child, nothing stays joined: then it is glibc's own function that waits.
        POLL..=PSELECT if is_alone() => match of {
            POLL => return polled::poll as *const () as usize,
            POLL_CHK => return watched::__poll_chk as *const () as usize,
            PPOLL => return polled::ppoll as *const () as usize,
            PPOLL_CHK => return polled::ppoll_chk as *const () as usize,
            SELECT => return polled::select as *const () as usize,
            _ => return polled::pselect as *const () as usize,
        },
        _ => {}
    }
    if !retreat::before_a_call(u16::try_from(of).map_or(Fate::Untold, Fate::Called)) {
        return refuse as *const () as usize;
    }
    AT.get(place).map_or(0, Place::entry)
}

fn is_harmless_fcntl(concerns_an_end: bool, command: u32) -> bool {
    const F_GETFD: u32 = 1;
    const F_SETFD: u32 = 2;
    const F_GETFL: u32 = 3;
    const F_SETPIPE_SZ: u32 = 1031;
    const F_GETOWN: u32 = 9;
    // `F_GETOWN` is another call inside glibc.
    matches!(command, F_GETFD | F_SETFD | F_GETFL)
        || (!concerns_an_end && command != F_SETPIPE_SZ && command != F_GETOWN)
}

fn is_harmless_ioctl(concerns_an_end: bool, request: usize) -> bool {
    const TCGETS: usize = 0x5401;
    request == TCGETS || (!concerns_an_end && request as u32 as usize != kernel::FIONREAD)
}

extern "C" fn close(fd: c_int) -> c_int {
    // Both may think that they have this number, as one of them may not know yet that it means something else now.
    let ends = [&READER, &WRITER].map(|end| end.is_at(fd).then_some(end));
    let ends = || ends.into_iter().flatten();
    // Whoever else has the number next is not taken for this end.
    let _held = ends().next().map(|_| super::signals::Held::all());
    if ends().any(|end| end.stage() == Stage::Ring && alone::has_other_name(end)) {
        retreat::all(Fate::Renamed);
    }
    let result = kernel::close(fd);
    other_names::forget(fd);
    if result == 0 {
        ends().for_each(closed);
    }
    glibc::returned_from_kernel(result) as c_int
}

fn closed(end: &End) {
    if let Some(slot) = end.slot() {
        if end.stage() != Stage::Ring {
            retreat::want_no_more(slot, end);
        } else if end.is_reader() {
            meet::reader_closes(slot);
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
extern "C" fn refuse() -> isize {
    glibc::returned_from_kernel(kernel::EMFILE)
}
