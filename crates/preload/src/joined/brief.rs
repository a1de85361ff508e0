//! Which programs are too short to gain: each start with the library costs its program about 50 microseconds.
//!
//! A process that makes pipes has a page that it shares with the children that it forks. Before a child becomes a program that
//! starts no others, it notes there the program, itself and the time. The program was brief if its process was gone when the
//! same program was started again, within 5 milliseconds: what moves in that time gains less than a start costs. After
//! [`STREAK`] brief starts without a break the next one goes without the library. One that is not brief ends the streak.
//!
//! The page is only evidence: whatever it says, a program without the library has ordinary pipes.

use core::ffi::CStr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use super::confined::has_untried_filter;
use super::kernel;
use super::own_run::{IS_WANTED, after};
use crate::exec;

/// So many ticks after its start (about 5 milliseconds) a brief program has ended.
const BRIEF: u64 = 12_500_000;
/// So many brief starts in a row are believed.
const STREAK: u32 = 2;
const PROGRAMS: usize = 64;

/// What was seen of one program, or of several that have the same place. Torn by two starts at once it may cost a start its gain.
#[repr(C)]
struct Starts {
    /// A hash of the path; 0: none is known.
    path: AtomicU64,
    last_at: AtomicU64,
    last_process: AtomicU32,
    streak: AtomicU32,
}

/// Null until this process, or one that it was forked from, made two pipes.
static PAGE: AtomicPtr<[Starts; PROGRAMS]> = AtomicPtr::new(core::ptr::null_mut());

/// Pipes that this process has made, as far as that matters.
static PIPES: AtomicU32 = AtomicU32::new(0);

/// This process makes a pipe, and so will start programs at it. One that makes a single pipe need not learn anything.
pub(crate) fn expect_starts() {
    // Statistics and flushed lines need the library in every program, and '--ring-after' is an order.
    let is_asked = IS_WANTED.load(Relaxed) && after().is_none() && !exec::wants_every_program();
    if is_asked && PIPES.fetch_add(1, Relaxed) == 1 && PAGE.load(Relaxed).is_null() && !has_untried_filter() {
        let page = kernel::page_of_children(size_of::<[Starts; PROGRAMS]>());
        PAGE.store(page.unwrap_or(core::ptr::null_mut()).cast(), Relaxed);
    }
}

/// Whether the program that this process is about to become has been brief each time of late. Notes this start, if the
/// program is known.
pub(crate) fn is_brief(path: &CStr) -> bool {
    let Some((starts, hash)) = starts_of(path) else { return false };
    if starts.path.load(Relaxed) != hash {
        return false;
    }
    let now = kernel::ticks();
    let is_soon = now.wrapping_sub(starts.last_at.swap(now, Relaxed)) < BRIEF;
    let last = starts.last_process.swap(millstream_sys::own_pid(), Relaxed);
    let streak = if is_soon && !kernel::is_alive(last) { starts.streak.load(Relaxed).saturating_add(1) } else { 0 };
    starts.streak.store(streak, Relaxed);
    streak >= STREAK
}

/// The program that this process is about to become starts no others: from the next start on it is known.
pub(crate) fn know(path: &CStr) {
    let Some((starts, hash)) = starts_of(path) else { return };
    if starts.path.swap(hash, Relaxed) != hash {
        starts.last_at.store(kernel::ticks(), Relaxed);
        starts.last_process.store(millstream_sys::own_pid(), Relaxed);
        starts.streak.store(0, Relaxed);
    }
}

/// The place of a program, and the hash of its path.
fn starts_of(path: &CStr) -> Option<(&'static Starts, u64)> {
    // SAFETY: null, or a page that lasts, and whose bytes are numbers.
    let page = unsafe { PAGE.load(Relaxed).as_ref() }.filter(|_| IS_WANTED.load(Relaxed))?;
    // Elsewhere another directory has another program of that name.
    if !path.to_bytes().starts_with(b"/") {
        return None;
    }
    // FNV-1a.
    let mix = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let hash = path.to_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix) | 1;
    Some((&page[(hash >> 32) as usize % PROGRAMS], hash))
}
