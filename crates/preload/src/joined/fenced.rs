//! Pages of code that hold the bytes of a system call, where no call is [trapped](super::trapped) and nothing tells whether they are code
//! or data: libcrypto has constants between its functions.
//!
//! While pipes are attached these pages cannot be executed. A thread that executes one all the same comes to the handler of SIGSEGV. The
//! handler gives the pipes back, makes the pages executable again, and the thread goes on.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicUsize};

use millstream_sys::fate::Fate;

use super::alone::PAGE;
use super::decoded::LONGEST;
use super::forked::begin_as_child;
use super::own_process::is_own_process;
use super::{kernel, own_process, retreat};

/// A program with more of them stays with the kernel.
const MOST: usize = 8;
/// Bit 0 of a place: the last search of the code has not found this page. It is kept until the next search all the same: a thread may
/// have executed it a moment before it became executable, and its signal is still to come.
const IS_OLD: usize = 1;

static PAGES: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];
/// The pages cannot be executed, or some of them.
static IS_UP: AtomicBool = AtomicBool::new(false);
/// Where a page was executed last that could be, and by which thread.
static LAST: AtomicUsize = AtomicUsize::new(0);

/// A search of the code begins.
pub(super) fn begin_search() {
    for place in &PAGES {
        let page = place.load(Relaxed);
        place.store(if page & IS_OLD == 0 && page != 0 { page | IS_OLD } else { 0 }, Relaxed);
    }
}

/// The page of this address is to be fenced. `false`: there is no room for another one.
pub(super) fn add(address: usize) -> bool {
    let page = address & !(PAGE - 1);
    let is_here = |place: &&AtomicUsize| place.load(Relaxed) & !IS_OLD == page;
    let place = PAGES.iter().find(is_here).or_else(|| PAGES.iter().find(|place| place.load(Relaxed) == 0));
    place.inspect(|place| place.store(page, Relaxed)).is_some()
}

/// From now on what the search has found cannot be executed. `false`: it still can, or the kernel would not let it be executed again
/// (`PR_SET_MDWE`).
pub(super) fn raise() -> bool {
    if !has_pages() {
        return true;
    }
    if kernel::keeps_data_from_execution() {
        return false;
    }
    LAST.store(0, Relaxed);
    IS_UP.store(true, SeqCst);
    found().all(|page| kernel::make_readable(page, PAGE))
}

pub(super) fn lift() {
    if is_up() {
        found().for_each(|page| {
            kernel::make_executable(page, PAGE);
        });
        IS_UP.store(false, SeqCst);
    }
}

pub(super) fn is_up() -> bool {
    IS_UP.load(SeqCst)
}

/// Whether the last search has found any.
#[inline(never)]
pub(super) fn has_pages() -> bool {
    found().next().is_some()
}

fn found() -> impl Iterator<Item = usize> {
    PAGES.iter().map(|place| place.load(SeqCst)).filter(|&page| page != 0 && page & IS_OLD == 0)
}

/// In the handler of SIGSEGV, in which all signals are held back: whether this thread has executed a fenced page. It then does so again.
pub(super) fn is_executed(instruction: usize, fault: usize) -> bool {
    let page = fault & !(PAGE - 1);
    let is_listed = PAGES.iter().any(|place| place.load(SeqCst) & !IS_OLD == page) && page != 0;
    // The instruction may begin on the page before.
    if !is_listed || fault.wrapping_sub(instruction) > LONGEST {
        return false;
    }
    if !is_up() {
        // It came before the fence was lifted; or the program has made its page so, and it comes once more.
        let place = instruction.wrapping_add(own_process::this_thread());
        return LAST.swap(place, SeqCst) != place;
    }
    if !is_own_process() {
        begin_as_child();
        lift();
    } else if retreat::try_before_a_call(Fate::Code) == Some(false) {
        // No file can be opened. What the rings hold is moved by the next call, and until then nothing goes past them.
        retreat::all(Fate::Code);
        lift();
    }
    true
}
