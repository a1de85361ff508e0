//! The guards: while an end of this process is joined, or wants to be, every function of glibc by which a descriptor could get
//! to somebody else, be watched by others, or be used other than by `read` and `write` is hooked. The pipe then goes
//! back to the kernel first, and the call goes on as if nothing had been.
//!
//! A few that programs call all the time are let through when they do not concern a joined end. The hooks stay for good. While no
//! guard is up a hooked function costs two jumps more.

use core::arch::global_asm;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};

use millstream_sys::fate::{Fate, guarded};

use super::end::{End, READER, Stage, WRITER};
use super::text::{self, Library, Patch, Stubs};
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
/// Which of [`guarded`] a place is. Small, as all of the library's data: what fits into the last page of its file takes no call to map more.
static OF: [AtomicU8; PLACES] = [const { AtomicU8::new(0) }; PLACES];
/// Where the stub of the first place is; 0 before the functions are hooked.
static STUBS: AtomicUsize = AtomicUsize::new(0);
static ARE_UP: AtomicBool = AtomicBool::new(false);
/// Some of the functions could not be hooked, and none will be.
static CANNOT_HOOK: AtomicBool = AtomicBool::new(false);

const _: () = assert!(PLACES + redirect::BARE_STUBS <= Stubs::MOST);

// One entry of 16 bytes for each place, then what they have in common. Without guards that is a jump to the stub; the register that it
// takes is none that carries an argument. With guards every register that can carry an argument is kept,
// the stack is as the function will find it, and it goes on at the address that Rust names.
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
    "5: cmpb $0, {are_up}(%rip)",
    "jne 6f",
    "popq %r11",
    "shlq ${stub_shift}, %r11",
    "addq {stubs}(%rip), %r11",
    "jmp *%r11",
    "6: pushq %rax",
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
    stub_shift = const Stubs::BYTES.trailing_zeros(),
    are_up = sym ARE_UP,
    stubs = sym STUBS,
    goes_on_at = sym goes_on_at,
    options(att_syntax)
);

unsafe extern "C" {
    #[link_name = "millstream_guards"]
    static ENTRIES: [[u8; 16]; PLACES];
}

/// Puts the guards up, or says why they cannot be.
pub(super) fn raise() -> Result<(), Fate> {
    if ARE_UP.load(Relaxed) {
        return Ok(());
    }
    let own_code = (&raw const ENTRIES) as usize;
    let library = Library::with(redirect::glibc_code()).ok_or(Fate::Glibc)?;
    let hooks = text::stubs_from(STUBS.load(Relaxed));
    if !alone::only_glibc_calls_the_kernel(&library, own_code, &hooks) {
        return Err(Fate::Code);
    }
    if !are_hooked(&library, own_code) {
        return Err(Fate::Glibc);
    }
    if !super::mark_own_process() {
        return Err(Fate::Slot);
    }
    ARE_UP.store(true, Relaxed);
    if !faults::stand_in_front() {
        lift();
        return Err(Fate::Signals);
    }
    Ok(())
}

/// Hooks the functions, once.
fn are_hooked(library: &Library, own_code: usize) -> bool {
    if STUBS.load(Relaxed) == 0 && !CANNOT_HOOK.load(Relaxed) {
        let is_done = hook(library, own_code).is_some();
        // Hooks that are in place without the others need the stubs as they are, and a second attempt would find changed code.
        CANNOT_HOOK.store(!is_done, Relaxed);
    }
    STUBS.load(Relaxed) != 0 && !CANNOT_HOOK.load(Relaxed)
}

fn hook(library: &Library, own_code: usize) -> Option<()> {
    let names = Names::of(library.base)?;
    let (mut patch, mut stubs) = (Patch::of(library)?, Stubs::new()?);
    patch.ask_which_are_of_file();
    let (mut entries, mut used) = ([0; PLACES], 0);
    let mut add = |index: usize, entry: usize| {
        // Two names of one function.
        if entries[..used].contains(&entry) {
            return Some(());
        }
        *entries.get_mut(used)? = entry;
        OF.get(used)?.store(index as u8, Relaxed);
        stubs.add(used, &patch.hook(entry, own_code + used * 16)?)?;
        used += 1;
        Some(())
    };
    let mut is_complete = true;
    for (index, name) in guarded().enumerate() {
        names.each(name, |entry| is_complete &= add(index, entry).is_some());
    }
    redirect::hook_both(&mut patch)?;
    redirect::hook_bare(&names, &mut patch, &mut stubs, PLACES)?;
    if !is_complete {
        return None;
    }
    STUBS.store(stubs.finish()?, Relaxed);
    patch.finish().then_some(())
}

pub(super) fn are_up() -> bool {
    ARE_UP.load(Relaxed)
}

/// Takes them down: hooked functions are their own again.
pub(super) fn lift() {
    if ARE_UP.swap(false, Relaxed) {
        faults::step_aside();
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
    STUBS.load(Relaxed) + place * Stubs::BYTES
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
