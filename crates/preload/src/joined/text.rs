//! Jumps in this process's own copy of glibc's code.
//!
//! Interposing names reaches the calls of the program, but not those inside glibc: `printf`, `fread` and all of stdio call
//! `read` and `write` by address. So the first instruction of a function is replaced by a jump. Only a process with one
//! thread changes its code, and never from a signal handler, so nobody can be in the middle of what is replaced.
//!
//! ```text
//! read:  cmpb $0, __libc_single_threaded     ──▶   jmp ours
//!        je   <the way of several threads>          (rest never reached, but for that way)
//! ```

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::kernel;

const PAGE: usize = 4096;
/// `jmp` with a displacement of 32 bits.
const JUMP_BYTES: usize = 5;
/// `endbr64`, which stays where it is.
const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// A place in glibc's code and what stood there.
pub(super) struct Place {
    at: AtomicUsize,
    before: AtomicU64,
}

impl Place {
    pub(super) const fn new() -> Place {
        Place { at: AtomicUsize::new(0), before: AtomicU64::new(0) }
    }

    /// Replaces the beginning of the function at `entry`. Its page is writable.
    pub(super) fn redirect(&self, entry: usize, to: usize) -> bool {
        let at = behind_landing(entry);
        let distance = (to as i64).wrapping_sub((at + JUMP_BYTES) as i64);
        let Ok(distance) = i32::try_from(distance) else { return false };
        // SAFETY: code of glibc, at least 16 bytes long because functions are aligned to that.
        let before = unsafe { (at as *const u64).read_unaligned() };
        let mut bytes = before.to_le_bytes();
        bytes[0] = 0xe9;
        bytes[1..JUMP_BYTES].copy_from_slice(&distance.to_le_bytes());
        self.before.store(before, Relaxed);
        self.at.store(at, Relaxed);
        // SAFETY: as above; the caller has made the page writable, and nobody executes this place now.
        unsafe { (at as *mut u64).write_unaligned(u64::from_le_bytes(bytes)) };
        true
    }

    /// Puts back what stood there. Its page is writable.
    pub(super) fn restore(&self) {
        let at = self.at.load(Relaxed);
        if at != 0 {
            // SAFETY: the place that `redirect` wrote to.
            unsafe { (at as *mut u64).write_unaligned(self.before.load(Relaxed)) };
        }
    }

    /// Where the function goes on when it is its own again; 0: it was never redirected.
    pub(super) fn entry(&self) -> usize {
        self.at.load(Relaxed)
    }
}

fn behind_landing(entry: usize) -> usize {
    // SAFETY: code of glibc.
    let first = unsafe { (entry as *const [u8; 4]).read_unaligned() };
    if first == LANDING { entry + LANDING.len() } else { entry }
}

/// What a function of glibc does that is a point of cancellation, if it begins as those do.
pub(super) struct Cancellable {
    /// glibc's note that there is one thread.
    pub(super) single_threaded: *const u8,
    /// Where the function goes when there are several.
    pub(super) several: usize,
}

/// Understands `cmpb $0, flag(%rip); je several`.
pub(super) fn cancellable(entry: usize) -> Option<Cancellable> {
    let at = behind_landing(entry);
    // SAFETY: code of glibc.
    let bytes = unsafe { (at as *const [u8; 9]).read_unaligned() };
    let [0x80, 0x3d, a, b, c, d, 0x00, 0x74, several] = bytes else { return None };
    let flag = (at + 7).wrapping_add_signed(i32::from_le_bytes([a, b, c, d]) as isize);
    let several = (at + 9).wrapping_add_signed(isize::from(several.cast_signed()));
    Some(Cancellable { single_threaded: flag as *const u8, several })
}

/// Whether a function begins as a bare system call of this number does: no point of cancellation.
pub(super) fn is_bare_call(entry: usize, number: u8) -> bool {
    let at = behind_landing(entry);
    // SAFETY: code of glibc.
    let bytes = unsafe { (at as *const [u8; 7]).read_unaligned() };
    match bytes {
        [0x31, 0xc0, 0x0f, 0x05, ..] => number == 0,
        [0xb8, n, 0, 0, 0, 0x0f, 0x05] => n == number,
        _ => false,
    }
}

/// Makes code writable, or only executable again.
pub(super) fn open(start: usize, end: usize, is_writable: bool) -> bool {
    let (start, end) = (start & !(PAGE - 1), (end + PAGE - 1) & !(PAGE - 1));
    kernel::protect(start, end - start, is_writable)
}
