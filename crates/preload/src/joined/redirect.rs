//! The jumps by which glibc's `read` and `write` come here, from wherever they are called.

use core::arch::global_asm;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize};

use super::{read, text, write};
use crate::glibc::Behind;
use crate::names::Names;

/// The functions of glibc that are redirected, and where a call with several threads goes on.
static READ: Behind = Behind::new(c"__read");
static WRITE: Behind = Behind::new(c"__write");
static PLACES: [text::Place; 2] = [const { text::Place::new() }; 2];
static BARE_PLACES: [text::Place; 2] = [const { text::Place::new() }; 2];

/// glibc's flag; and the two places behind the jump.
static SINGLE_THREADED: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static SEVERAL_READ: AtomicUsize = AtomicUsize::new(0);
static SEVERAL_WRITE: AtomicUsize = AtomicUsize::new(0);

/// Whether glibc's `read` and `write` begin with the jump.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Redirected {
    /// Nothing in this process asked for it.
    NotYet,
    Yes,
    /// It is not a glibc that we know.
    Never,
}

static STATE: AtomicU8 = AtomicU8::new(Redirected::NotYet as u8);

// With several threads the call goes on in glibc as if it had not been redirected, and so stays a point of cancellation.
global_asm!(
    ".pushsection .text.millstream_joined,\"ax\",@progbits",
    ".globl millstream_read_jump",
    ".hidden millstream_read_jump",
    ".balign 16",
    "millstream_read_jump: endbr64",
    "mov rax, [rip + {flag}]",
    "cmp byte ptr [rax], 0",
    "je 6f",
    "jmp {read}",
    "6: jmp [rip + {several_read}]",
    ".globl millstream_write_jump",
    ".hidden millstream_write_jump",
    ".balign 16",
    "millstream_write_jump: endbr64",
    "mov rax, [rip + {flag}]",
    "cmp byte ptr [rax], 0",
    "je 7f",
    "jmp {write}",
    "7: jmp [rip + {several_write}]",
    ".popsection",
    flag = sym SINGLE_THREADED,
    several_read = sym SEVERAL_READ,
    several_write = sym SEVERAL_WRITE,
    read = sym read,
    write = sym write,
);

unsafe extern "C" {
    #[link_name = "millstream_read_jump"]
    fn read_jump();
    #[link_name = "millstream_write_jump"]
    fn write_jump();
}

pub(super) fn state() -> Redirected {
    match STATE.load(Relaxed) {
        1 => Redirected::Yes,
        2 => Redirected::Never,
        _ => Redirected::NotYet,
    }
}

/// Looks both up, as the program starts: later that could forget an error which its own `dlerror` is to report.
pub(super) fn find() {
    READ.prepare();
    WRITE.prepare();
}

/// Redirects both, if they are what we know. Done once. While there are several threads one of them may be executing what is to be
/// changed, so then it is left for another time.
pub(super) fn begin() {
    if state() == Redirected::NotYet {
        let state = match redirect() {
            Some(true) => Redirected::Yes,
            Some(false) => return,
            None => Redirected::Never,
        };
        STATE.store(state as u8, Relaxed);
    }
}

/// `false`: there are several threads.
fn redirect() -> Option<bool> {
    // SAFETY: only the addresses are used.
    let [read_at, write_at] = [&READ, &WRITE].map(|function| unsafe { function.function::<usize>() });
    if read_at == 0 || write_at == 0 {
        return None;
    }
    let (reading, writing) = (text::cancellable(read_at)?, text::cancellable(write_at)?);
    SINGLE_THREADED.store(reading.single_threaded.cast_mut(), Relaxed);
    if !has_one_thread() {
        return Some(false);
    }
    SEVERAL_READ.store(reading.several, Relaxed);
    SEVERAL_WRITE.store(writing.several, Relaxed);
    let (first, last) = (read_at.min(write_at), read_at.max(write_at));
    // Far apart: not the glibc that we know.
    if last - first > 1 << 20 || !text::open(first, last + 16, true) {
        return None;
    }
    let are_all =
        redirect_to(&PLACES, [read_at, write_at], [read_jump as *const () as usize, write_jump as *const () as usize]);
    text::open(first, last + 16, false);
    are_all.then_some(true)
}

/// The same for their variants that are no points of cancellation. They are on another page, whose copy only a process is to pay
/// for that wants to join: stdio of the standard input and output does not use them. glibc's code is writable.
pub(super) fn begin_bare(names: &Names) -> bool {
    let entry_of = |name, number| {
        let mut found = 0;
        names.each(name, |entry| found = entry);
        if found != 0 && text::is_bare_call(found, number) { found } else { 0 }
    };
    let entries = [entry_of(c"__read_nocancel", 0), entry_of(c"__write_nocancel", 1)];
    !entries.contains(&0)
        && redirect_to(&BARE_PLACES, entries, [read as *const () as usize, write as *const () as usize])
}

pub(super) fn restore_bare() {
    BARE_PLACES.iter().for_each(text::Place::restore);
}

fn redirect_to(places: &[text::Place; 2], entries: [usize; 2], to: [usize; 2]) -> bool {
    let are_all = places.iter().zip(entries.into_iter().zip(to)).all(|(place, (entry, to))| place.redirect(entry, to));
    if !are_all {
        places.iter().for_each(text::Place::restore);
    }
    are_all
}

/// An address in glibc's code.
pub(super) fn glibc_code() -> usize {
    // SAFETY: only the address is used.
    unsafe { READ.function::<usize>() }
}

pub(super) fn has_one_thread() -> bool {
    let flag = SINGLE_THREADED.load(Relaxed);
    // SAFETY: glibc's own flag, which is never moved.
    !flag.is_null() && unsafe { flag.read_volatile() } != 0
}

/// Whether calls of `read` and `write` are counted in here, because they come here from wherever they are made.
#[cfg(feature = "count")]
pub(crate) fn counts_inside() -> bool {
    state() == Redirected::Yes && has_one_thread()
}
