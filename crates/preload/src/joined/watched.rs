//! `poll` and `select` in front of glibc's. They note which descriptors were ready: a pipe is left alone that the program waits for before
//! it writes. Such a program writes a page at a time, as Python's `communicate`, and over a full kernel's pipe its reader gets many at once;
//! from memory it gets each by itself, which took half as long again (two CPUs).
//!
//! A process with threads notes what it waits for, before it does. Another thread may be asleep in such a call when a pipe is to be
//! attached, and would not learn of what happens in memory.

use core::ffi::{c_int, c_ulong, c_void};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use millstream_sys::fate::Fate;

use super::end::{READER, WRITER};
use super::own_process::NUMBERS;
use super::threads::{self, Waits};
use super::{guard_flags, kernel};
use crate::behind::Behind;
use crate::glibc;

const WORDS: usize = NUMBERS / 64;
/// A bit for each number that was ready since it was last asked.
static WAITED: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// More descriptors than this are not looked at in one call.
const LOOKED_AT: usize = 16;

/// Whether the program has waited for this one since the last time.
pub(super) fn was_waited_for(fd: c_int) -> bool {
    let (at, bit) = place_of(fd);
    WAITED.get(at).is_some_and(|word| word.fetch_and(!bit, Relaxed) & bit != 0)
}

fn note_ready(fd: c_int) {
    let (at, bit) = place_of(fd);
    if let Some(word) = WAITED.get(at)
        && word.load(Relaxed) & bit == 0
    {
        word.fetch_or(bit, Relaxed);
    }
}

fn place_of(fd: c_int) -> (usize, u64) {
    (fd as usize / 64, 1 << (fd & 63))
}

/// `struct pollfd`.
#[repr(C)]
pub struct Asked {
    fd: c_int,
    events: i16,
    answer: i16,
}

static POLL: Behind = Behind::new("poll");
static SELECT: Behind = Behind::new("select");

/// `poll(2)`.
///
/// # Safety
/// As for `poll(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(asked: *mut Asked, len: c_ulong, limit_ms: c_int) -> c_int {
    let waits = Waits::begin();
    if waits.are_noted {
        note_list(asked, len as usize);
    }
    // SAFETY: the signature is that of the C library's function.
    let behind: unsafe extern "C-unwind" fn(*mut Asked, c_ulong, c_int) -> c_int = unsafe {
        // After the note: an attempt to attach has raised the guards, or finds it.
        if guard_flags::are_up() { POLL.function_for(asked as usize, len as usize) } else { POLL.glibcs() }
    };
    // SAFETY: the caller's promise is the same.
    let answer = unsafe { behind(asked, len, limit_ms) };
    if answer > 0 {
        for at in 0..(len as usize).min(LOOKED_AT) {
            // SAFETY: the kernel has just read and written these entries.
            note_ready(unsafe { (*asked.wrapping_add(at)).fd });
        }
    }
    answer
}

/// The same function.
///
/// # Safety
/// As for `poll(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll(asked: *mut Asked, len: c_ulong, limit_ms: c_int) -> c_int {
    // SAFETY: the caller's promise is the same.
    unsafe { poll(asked, len, limit_ms) }
}

/// `poll(2)` as programs built with `_FORTIFY_SOURCE` call it.
///
/// # Safety
/// As for `poll(2)`; `room` is the size of the list in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll_chk(asked: *mut Asked, len: c_ulong, limit_ms: c_int, room: usize) -> c_int {
    if room / size_of::<Asked>() < len as usize {
        glibc::chk_fail();
    }
    // SAFETY: the caller's promise is the same.
    unsafe { poll(asked, len, limit_ms) }
}

/// Descriptors that a `select` is about.
#[derive(Clone, Copy)]
struct Set([u64; WORDS]);

impl Set {
    fn has(&self, fd: c_int) -> bool {
        let (at, bit) = place_of(fd);
        self.0.get(at).is_some_and(|word| word & bit != 0)
    }

    fn numbers(&self) -> impl Iterator<Item = c_int> {
        (0..NUMBERS as c_int).filter(|&fd| self.has(fd))
    }
}

/// Before a wait of a process with threads.
fn note_list(list: *const Asked, len: usize) {
    const AT_ONCE: usize = 16;
    let mut done = 0;
    while done < len {
        let mut entries = [const { Asked { fd: -1, events: 0, answer: 0 } }; AT_ONCE];
        let count = AT_ONCE.min(len - done);
        let (from, to) = (list.wrapping_add(done).cast(), entries.as_mut_ptr().cast());
        if !kernel::read_own_memory(from, to, count * size_of::<Asked>()) {
            // The kernel says so as well.
            return;
        }
        entries.iter().for_each(|entry| threads::note_number(entry.fd));
        done += count;
    }
}

/// The same for all that stand in any of the program's sets. `None`: they cannot be read.
fn note_sets(sets: [*mut u64; 3], numbers: c_int) -> Option<Set> {
    let set = asked_of(sets, numbers);
    match set {
        Some(set) => set.numbers().for_each(threads::note_number),
        None => threads::note_any(Fate::called(c"select")),
    }
    set
}

fn asked_of(sets: [*mut u64; 3], numbers: c_int) -> Option<Set> {
    // Higher ones are never attached.
    let numbers = usize::try_from(numbers).ok()?.min(NUMBERS);
    let mut all = Set([0; WORDS]);
    for set in sets.into_iter().filter(|set| !set.is_null()) {
        let mut words = [0; WORDS];
        if !kernel::read_own_memory(set.cast(), words.as_mut_ptr().cast(), numbers.div_ceil(64) * 8) {
            return None;
        }
        all.0.iter_mut().zip(words).for_each(|(all, word)| *all |= word);
    }
    if numbers % 64 != 0 {
        all.0[numbers / 64] &= (1 << (numbers % 64)) - 1;
    }
    Some(all)
}

/// The type of `select`.
type Select = unsafe extern "C-unwind" fn(c_int, *mut u64, *mut u64, *mut u64, *mut c_void) -> c_int;

/// `select(2)`.
///
/// # Safety
/// As for `select(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn select(
    numbers: c_int,
    read: *mut u64,
    write: *mut u64,
    other: *mut u64,
    limit: *mut c_void,
) -> c_int {
    let waits = Waits::begin();
    let asked = if waits.are_noted { note_sets([read, write, other], numbers) } else { None };
    let concerns_an_end = asked.is_none_or(|asked| [&READER, &WRITER].into_iter().any(|end| asked.has(end.fd())));
    // SAFETY: the signature is that of the C library's function.
    let behind: Select =
        unsafe { if guard_flags::are_up() && concerns_an_end { SELECT.function() } else { SELECT.glibcs() } };
    // SAFETY: the caller's promise is the same.
    let answer = unsafe { behind(numbers, read, write, other, limit) };
    if answer > 0 {
        let words = (numbers as usize).div_ceil(64).min(WORDS);
        for (at, word) in WAITED.iter().enumerate().take(words) {
            for set in [read, write] {
                // SAFETY: the kernel has just read and written sets of at least so many bits, in words of 64.
                let bits = if set.is_null() { 0 } else { unsafe { set.wrapping_add(at).read() } };
                if word.load(Relaxed) & bits != bits {
                    word.fetch_or(bits, Relaxed);
                }
            }
        }
    }
    answer
}

/// The same function.
///
/// # Safety
/// As for `select(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __select(
    numbers: c_int,
    read: *mut u64,
    write: *mut u64,
    other: *mut u64,
    limit: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise is the same.
    unsafe { select(numbers, read, write, other, limit) }
}
