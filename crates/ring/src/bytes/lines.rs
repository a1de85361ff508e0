//! Cache lines that travel between two CPUs.
//!
//! What is copied into the ring lies in the cache of the CPU that has read it the last time round, and what is copied out
//! in that of the CPU that has just written it. A copy of a few kilobytes mostly waits for such lines, and ends before the
//! processor has guessed that a stream goes on. What helps depends on the processor (measured, docs/pipe.md), and hurts on
//! another:
//!
//! - Intel's are told which lines come next ([`ask_for`]), up to 16 KiB.
//! - AMD's lose up to two thirds by that from 1 KiB on, and win below. Those with fast short string copies take lines over with
//!   `rep movsb`, without fetching the bytes that it overwrites anyway. From 2112 bytes on the C library does that too, if it
//!   suits how the two pieces lie to each other.
//!
//! Who fills the ring in place copies nothing that could ask. Up to 1 KiB at once AMD's gain a third to more than twice by being
//! told of the lines that are filled two or more calls later; with 4 KiB they lose half. Of Intel's it is not known.

use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count, _MM_HINT_T0, _mm_prefetch};
use core::ptr::copy_nonoverlapping;
use core::sync::atomic::{AtomicU8, Ordering};

use super::Travelling;

/// How far ahead lines are asked for, and in pieces of what size the copy is made. Between 256 and 1024 it makes no
/// difference.
const AHEAD: usize = 512;

/// In a longer copy Intel's processors find the stream by themselves.
const LONGEST_ASKED_FOR: usize = 16 << 10;

/// A shorter string copy takes longer to begin than it saves.
const SHORTEST_STRING: usize = 1 << 10;

/// Longer ones are left to the C library.
const LONGEST_STRING: usize = 2 << 10;

/// Of what is filled in place, lines so far behind it are asked for: between 1 and 4 KiB it makes little difference.
const AHEAD_OF_FILLING: usize = 2 << 10;

/// Longer pieces are often filled by one string instruction, which takes lines over without fetching them.
const LONGEST_FILLED: usize = 1 << 10;

/// What a processor is good at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Habit {
    None = 1,
    BeingTold,
    Strings,
}

/// Copies to or from lines that are away.
///
/// # Safety
/// As for [`copy_nonoverlapping`].
#[inline]
pub(super) unsafe fn copy(source: *const u8, target: *mut u8, len: usize, travelling: Travelling) {
    // SAFETY: as promised.
    unsafe {
        match habit() {
            Habit::BeingTold if len <= LONGEST_ASKED_FOR => copy_asking(source, target, len, travelling),
            Habit::Strings if len < SHORTEST_STRING => copy_asking(source, target, len, travelling),
            Habit::Strings if len <= LONGEST_STRING && travelling == Travelling::Target => {
                copy_as_string(source, target, len);
            }
            _ => copy_nonoverlapping(source, target, len),
        }
    }
}

/// Asks for as many lines as will be filled now, but such as are filled later.
#[inline]
pub(super) fn ask_ahead_of_filling(here: *const u8, len: usize) {
    if len <= LONGEST_FILLED && habit() == Habit::Strings {
        ask_for(here.wrapping_add(AHEAD_OF_FILLING), len, Travelling::Target);
    }
}

/// Asked of the processor once, because a virtual machine takes a microsecond or more to answer.
#[inline]
fn habit() -> Habit {
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    const NONE: u8 = Habit::None as u8;
    const BEING_TOLD: u8 = Habit::BeingTold as u8;
    const STRINGS: u8 = Habit::Strings as u8;
    match KNOWN.load(Ordering::Relaxed) {
        NONE => Habit::None,
        BEING_TOLD => Habit::BeingTold,
        STRINGS => Habit::Strings,
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
        b"AuthenticAMD" | b"HygonGenuine" if processor.has_fast_short_strings => Habit::Strings,
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
        let first = __cpuid(0);
        let mut vendor = [0; 12];
        for (part, word) in vendor.chunks_exact_mut(4).zip([first.ebx, first.edx, first.ecx]) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        let has_fast_short_strings = first.eax >= 7 && __cpuid_count(7, 0).edx & (1 << 4) != 0;
        Processor { vendor, has_fast_short_strings }
    }
}

/// Copies in pieces of [`AHEAD`], each after asking for the lines of the next.
///
/// # Safety
/// As for [`copy_nonoverlapping`].
#[inline]
unsafe fn copy_asking(source: *const u8, target: *mut u8, len: usize, travelling: Travelling) {
    let mut done = 0;
    while done < len {
        let piece = AHEAD.min(len - done);
        // SAFETY: both pieces lie in what the caller has promised.
        let (from, to) = unsafe { (source.add(done), target.add(done)) };
        let here: *const u8 = if travelling == Travelling::Target { to } else { from };
        ask_for(here.wrapping_add(AHEAD), piece, travelling);
        // SAFETY: as promised.
        unsafe { copy_nonoverlapping(from, to, piece) };
        done += piece;
    }
}

/// Asks for the lines of `len` bytes. They may lie behind the ring: nothing is touched.
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

/// Copies `len` bytes with one instruction.
///
/// # Safety
/// As for [`copy_nonoverlapping`].
#[inline]
unsafe fn copy_as_string(source: *const u8, target: *mut u8, len: usize) {
    // SAFETY: as promised. The ABI has the direction flag clear.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rsi") source => _, inout("rdi") target => _,
             options(nostack, preserves_flags));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn habit_with(vendor: &[u8; 12], has_fast_short_strings: bool) -> Habit {
        habit_of(Processor { vendor: *vendor, has_fast_short_strings })
    }

    #[test]
    fn each_maker_has_its_habit_and_strangers_have_none() {
        assert_eq!(habit_with(b"GenuineIntel", true), Habit::BeingTold);
        assert_eq!(habit_with(b"AuthenticAMD", true), Habit::Strings);
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

    #[test]
    fn a_string_copy_copies_all_and_nothing_else() {
        let source: std::vec::Vec<u8> = (0..5000_u32).map(|at| (at * 7 % 251) as u8).collect();
        for (start, len) in [(0, 5000), (1, 4096), (63, 1024), (7, 1), (9, 0)] {
            let mut target = std::vec![0xEE; 5002];
            // SAFETY: both pieces lie in their vectors.
            unsafe { copy_as_string(source.as_ptr().add(start), target.as_mut_ptr().add(1), len) };
            assert_eq!(target[1..=len], source[start..start + len]);
            assert!(target[0] == 0xEE && target[len + 1..].iter().all(|&byte| byte == 0xEE));
        }
    }
}
