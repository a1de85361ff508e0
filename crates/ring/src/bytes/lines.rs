//! Cache lines that travel between two CPUs.
//!
//! What is copied into the ring lies in the cache of the CPU that has read it the last time round, and what is copied out
//! in that of the CPU that has just written it. A copy of a few kilobytes mostly waits for such lines, and ends before the
//! processor has guessed that a stream goes on: so it is told.

/// How far ahead lines are asked for, and in pieces of what size the copy is made. Between 256 and 1024 it makes no
/// difference.
pub(super) const AHEAD: usize = 512;

/// In a longer copy the processor finds the stream by itself.
pub(super) const LONGEST: usize = 16 << 10;

/// Which side of a copy lies in the ring.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Travelling {
    /// Read by the other side, and about to be overwritten here.
    Target,
    /// Written by the other side.
    Source,
}

/// Asks for the `len` bytes of lines that begin [`AHEAD`] of `here`. They may lie behind the ring: nothing is touched.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn ask_for_next(here: *const u8, len: usize, travelling: Travelling) {
    const LINE: usize = 64;
    for offset in (0..len).step_by(LINE) {
        let line = here.wrapping_add(AHEAD + offset);
        match travelling {
            // SAFETY: a hint. It reads and writes nothing, never faults, and processors that do not know it ignore it.
            Travelling::Target => unsafe {
                core::arch::asm!("prefetchw byte ptr [{}]", in(reg) line, options(nostack, preserves_flags));
            },
            Travelling::Source => {
                use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                // SAFETY: as above.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
            }
        }
    }
}

/// Not on other processors.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn ask_for_next(_: *const u8, _: usize, _: Travelling) {}
