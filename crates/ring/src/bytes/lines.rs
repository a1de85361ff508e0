//! Cache lines that travel between two CPUs.
//!
//! The room that a writer copies to lies in the cache of the CPU that read it the last time round. The bytes that a
//! reader copies lie in the cache of the CPU that has just written them. A copy of a few kilobytes mostly waits for
//! such lines, and ends before the hardware prefetcher has detected the stream. What helps depends on the processor
//! (measured, docs/pipe.md), and hurts on another:
//!
//! - Intel's gain by prefetching the next lines ([`ask_for`]), up to 16 KiB.
//! - AMD's gain by that up to 2 KiB, and lose half from 4 KiB on where the two CPUs are separate cores. There the C
//!   library uses `rep movsb`, if the alignment of the two pieces allows it: that takes lines over without fetching the
//!   bytes that it overwrites.
//!
//! A writer that fills the ring in place makes no copy that could prefetch. Up to 2 KiB at once, AMD's gain a third to
//! more than twice by prefetching the lines that are filled 2 KiB later; with 4 KiB they lose half. For Intel's this
//! was not measured.

use core::arch::asm;
use core::arch::x86_64::{__cpuid_count, _MM_HINT_T0, _mm_prefetch, CpuidResult};
use core::ptr::copy_nonoverlapping;
use core::sync::atomic::{AtomicU8, Ordering};

use super::Travelling;

/// The size of the pieces of a copy, and how far ahead of each the lines are prefetched. Between 256 and 1024 it makes
/// no difference to Intel's.
const AHEAD: usize = 512;

/// On AMD's, lines to write to are prefetched further ahead: between 1 and 2 KiB is best.
const FAR_AHEAD: usize = 2 << 10;

/// In a longer copy Intel's processors detect the stream by themselves.
const LONGEST_ASKED_FOR: usize = 16 << 10;

/// In a longer copy AMD's take the lines over by themselves.
const LITTLE: usize = 2 << 10;

/// Longer pieces are often filled by one string instruction, which takes lines over without fetching them.
const LONGEST_FILLED: usize = 2 << 10;

/// By which prefetching a processor gains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Habit {
    None = 1,
    BeingTold,
    BeingToldOfLittle,
}

/// Copies to or from lines that another CPU has.
///
/// # Safety
/// As for [`copy_nonoverlapping`].
#[inline]
pub(super) unsafe fn copy(source: *const u8, target: *mut u8, len: usize, travelling: Travelling) {
    // SAFETY: as promised.
    unsafe {
        match habit() {
            Habit::BeingTold if len <= LONGEST_ASKED_FOR => copy_asking(source, target, len, travelling, AHEAD),
            Habit::BeingToldOfLittle if len <= LITTLE => {
                let ahead = if travelling == Travelling::Target { FAR_AHEAD } else { AHEAD };
                copy_asking(source, target, len, travelling, ahead);
            }
            _ => copy_nonoverlapping(source, target, len),
        }
    }
}

/// Prefetches as many lines as are filled now, but those that are filled later.
#[inline]
pub(super) fn ask_ahead_of_filling(here: *const u8, len: usize) {
    if len <= LONGEST_FILLED && habit() == Habit::BeingToldOfLittle {
        ask_for(here.wrapping_add(FAR_AHEAD), len, Travelling::Target);
    }
}

/// `cpuid` runs once, because in a virtual machine it takes a microsecond or more.
#[inline]
fn habit() -> Habit {
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    const NONE: u8 = Habit::None as u8;
    const BEING_TOLD: u8 = Habit::BeingTold as u8;
    const TOLD_OF_LITTLE: u8 = Habit::BeingToldOfLittle as u8;
    match KNOWN.load(Ordering::Relaxed) {
        NONE => Habit::None,
        BEING_TOLD => Habit::BeingTold,
        TOLD_OF_LITTLE => Habit::BeingToldOfLittle,
        _ => {
            let habit = habit_of(Processor::this());
            KNOWN.store(habit as u8, Ordering::Relaxed);
            habit
        }
    }
}

fn habit_of(processor: Processor) -> Habit {
    match &processor.vendor {
        b"GenuineIntel" => Habit::BeingTold,
        b"AuthenticAMD" | b"HygonGenuine" if processor.has_fast_short_strings => Habit::BeingToldOfLittle,
        _ => Habit::None,
    }
}

/// What `cpuid` says (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A; AMD64 Architecture
/// Programmer's Manual, volume 3, appendix E).
#[derive(Clone, Copy, Debug)]
struct Processor {
    vendor: [u8; 12],
    /// FSRM.
    has_fast_short_strings: bool,
}

impl Processor {
    #[cold]
    fn this() -> Processor {
        let first = cpuid(0);
        let mut vendor = [0; 12];
        for (part, word) in vendor.chunks_exact_mut(4).zip([first.ebx, first.edx, first.ecx]) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        let has_fast_short_strings = first.eax >= 7 && cpuid(7).edx & (1 << 4) != 0;
        Processor { vendor, has_fast_short_strings }
    }
}

// Newer versions of Rust have made this intrinsic safe.
#[allow(unused_unsafe)]
fn cpuid(leaf: u32) -> CpuidResult {
    // SAFETY: every processor of x86-64 has the instruction.
    unsafe { __cpuid_count(leaf, 0) }
}

/// Copies in pieces of [`AHEAD`]. Before each it prefetches as many lines, `ahead` of the piece.
///
/// # Safety
/// As for [`copy_nonoverlapping`].
#[inline]
unsafe fn copy_asking(source: *const u8, target: *mut u8, len: usize, travelling: Travelling, ahead: usize) {
    let mut done = 0;
    while done < len {
        let piece = AHEAD.min(len - done);
        // SAFETY: both pieces lie in what the caller has promised.
        let (from, to) = unsafe { (source.add(done), target.add(done)) };
        let here: *const u8 = if travelling == Travelling::Target { to } else { from };
        ask_for(here.wrapping_add(ahead), piece, travelling);
        // SAFETY: as promised.
        unsafe { copy_nonoverlapping(from, to, piece) };
        done += piece;
    }
}

/// Prefetches the lines of `len` bytes. They may lie behind the ring: a prefetch touches nothing.
#[inline]
fn ask_for(start: *const u8, len: usize, travelling: Travelling) {
    const LINE: usize = 64;
    for offset in (0..len).step_by(LINE) {
        let line = start.wrapping_add(offset);
        match travelling {
            // SAFETY: a hint. It reads and writes nothing, never faults, and processors that do not know it ignore it.
            Travelling::Target => unsafe {
                asm!("prefetchw byte ptr [{}]", in(reg) line, options(nostack, preserves_flags));
            },
            // SAFETY: as above.
            Travelling::Source => unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn habit_with(vendor: &[u8; 12], has_fast_short_strings: bool) -> Habit {
        habit_of(Processor { vendor: *vendor, has_fast_short_strings })
    }

    #[test]
    fn makers_have_their_habits_and_other_vendors_have_none() {
        assert_eq!(habit_with(b"GenuineIntel", true), Habit::BeingTold);
        assert_eq!(habit_with(b"AuthenticAMD", true), Habit::BeingToldOfLittle);
        assert_eq!(habit_with(b"AuthenticAMD", false), Habit::None);
        assert_eq!(habit_with(b"CentaurHauls", true), Habit::None);
    }

    #[test]
    fn the_kernel_reads_the_same_of_this_processor() {
        let Ok(text) = std::fs::read_to_string("/proc/cpuinfo") else { panic!("/proc is not mounted") };
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.split(": ").nth(1));
        let this = Processor::this();
        assert_eq!(field("vendor_id").unwrap().as_bytes(), this.vendor);
        assert_eq!(field("flags").unwrap().split(' ').any(|flag| flag == "fsrm"), this.has_fast_short_strings);
        assert_eq!(habit(), habit_of(this));
        assert_eq!(habit(), habit_of(this), "asked once");
    }
}
