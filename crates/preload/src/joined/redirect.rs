//! The hooks of glibc's `read` and `write`, from wherever they are called.

use core::arch::global_asm;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize};

use super::text::{self, Library, Patch, Stubs};
use super::{read, write};
use crate::glibc::Behind;
use crate::names::Names;

/// The functions of glibc that are redirected, and where a call with several threads goes on.
static READ: Behind = Behind::new(c"__read");
static WRITE: Behind = Behind::new(c"__write");

/// glibc's flag; and where each hooked function goes on with several threads.
static SINGLE_THREADED: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static SEVERAL_READ: AtomicUsize = AtomicUsize::new(0);
static SEVERAL_WRITE: AtomicUsize = AtomicUsize::new(0);
static SEVERAL_BARE_READ: AtomicUsize = AtomicUsize::new(0);
static SEVERAL_BARE_WRITE: AtomicUsize = AtomicUsize::new(0);

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

// With several threads the call goes on in glibc as if it had not been hooked, and so stays a point of cancellation where it is one.
macro_rules! hook {
    ($name:ident, $label:literal, $ours:ident, $several:ident) => {
        global_asm!(
            ".pushsection .text.millstream_joined,\"ax\",@progbits",
            concat!(".globl ", $label),
            concat!(".hidden ", $label),
            ".balign 16",
            concat!($label, ": endbr64"),
            "mov rax, [rip + {flag}]",
            "cmp byte ptr [rax], 0",
            "je 6f",
            "jmp {ours}",
            "6: jmp [rip + {several}]",
            ".popsection",
            flag = sym SINGLE_THREADED,
            several = sym $several,
            ours = sym $ours,
        );
        unsafe extern "C" {
            #[link_name = $label]
            fn $name();
        }
    };
}

hook!(read_hook, "millstream_read_hook", read, SEVERAL_READ);
hook!(write_hook, "millstream_write_hook", write, SEVERAL_WRITE);
hook!(bare_read_hook, "millstream_bare_read_hook", read, SEVERAL_BARE_READ);
hook!(bare_write_hook, "millstream_bare_write_hook", write, SEVERAL_BARE_WRITE);

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
    let library = Library::with(read_at)?;
    let mut patch = Patch::of(&library)?;
    hook_both(&mut patch)?;
    patch.finish().then_some(true)
}

/// Hooks both, also for who replaces the page that they are on by the file's, with hooks of its own.
pub(super) fn hook_both(patch: &mut Patch<'_>) -> Option<()> {
    // SAFETY: only the addresses are used.
    let [read_at, write_at] = [&READ, &WRITE].map(|function| unsafe { function.function::<usize>() });
    patch.jump(read_at, read_hook as *const () as usize)?;
    patch.jump(write_at, write_hook as *const () as usize)
}

/// Hooks their variants that are no points of cancellation. They are on another page, whose copy only a process is to pay
/// for that wants to join: stdio of the standard input and output does not use them.
pub(super) fn hook_bare(names: &Names, patch: &mut Patch<'_>, stubs: &mut Stubs, first_stub: usize) -> Option<()> {
    let bare = [
        (c"__read_nocancel", 0, bare_read_hook as *const () as usize, &SEVERAL_BARE_READ),
        (c"__write_nocancel", 1, bare_write_hook as *const () as usize, &SEVERAL_BARE_WRITE),
    ];
    for (at, (name, number, hook, several)) in bare.into_iter().enumerate() {
        let mut found = None;
        names.each(name, |entry| found = Some(entry));
        let entry = found.filter(|&entry| text::is_bare_call(entry, number))?;
        stubs.add(first_stub + at, &patch.hook(entry, hook)?)?;
        several.store(stubs.at(first_stub + at)?, Relaxed);
    }
    Some(())
}

/// How many stubs these take.
pub(super) const BARE_STUBS: usize = 2;

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
