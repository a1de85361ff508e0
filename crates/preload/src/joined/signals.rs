//! Whether code runs in a signal handler.

use core::ops::Range;

use super::own_process::first_stack;
use super::{alone, kernel, own_process};

/// Whether this may be a signal handler: on a stack that is no thread's, or with the frame of a signal between here and the stack's
/// end. The kernel leaves in each such frame the address of the code by which a handler returns. Here it is only kept with its bits
/// turned over, so that no word of this function is taken for one of a frame.
#[inline(never)]
pub(super) fn may_be_in_handler() -> bool {
    let (mut has_handlers, mut returns) = (false, [!0; 2]);
    for inverted in (1..=64).filter_map(inverted_return) {
        has_handlers = true;
        if !returns.contains(&inverted) {
            match returns.iter_mut().find(|place| **place == !0) {
                Some(place) => *place = inverted,
                None => return true,
            }
        }
    }
    let here = (&raw const returns) as usize;
    let Some(stack) = stack_around(here) else { return true };
    has_handlers && has_frame(here, stack.end, &returns)
}

/// Whether the frame of a signal begins between two addresses of a stack. Of another thread's the end is that of a mapping, in which other
/// things may come and go.
#[inline(never)] // its room is below the frames that are looked at
fn has_frame(start: usize, end: usize, returns: &[usize; 2]) -> bool {
    const WORDS: usize = 128;
    let mut room = [0_usize; WORDS];
    let is_first = first_stack().contains(&start);
    let mut at = start;
    while at + FRAME <= end {
        let bytes = (end - at).min(size_of_val(&room));
        if is_first {
            for (place, word) in room.iter_mut().take(bytes / 8).enumerate() {
                // SAFETY: the stack of this thread, from a variable of a function that goes on to where its first frame began.
                *word = unsafe { ((at + place * 8) as *const usize).read_volatile() };
            }
        } else if !kernel::read_own_memory(at as *const u8, room.as_mut_ptr().cast(), bytes) {
            return true;
        }
        let starts = (bytes - FRAME) / 8 + 1;
        let is_frame = |word: &[usize]| {
            word[0] != 0
                && returns.contains(&!word[0])
                && word[FLAGS] < 16
                && word[LINK] == 0
                && word[SEGMENTS] & 0xffff == CODE
        };
        if room.get(..bytes / 8).is_some_and(|words| words.windows(FRAME / 8).any(is_frame)) {
            return true;
        }
        at += starts * 8;
    }
    false
}

/// In the frame that the kernel makes for a handler (`struct rt_sigframe` of x86-64), in words: flags and link of the context, which are small and
/// null, and the segments of the interrupted code. A call of `sigaction(2)` leaves the same address on the stack, without these.
const FLAGS: usize = 1;
const LINK: usize = 2;
const SEGMENTS: usize = 24;
/// Bytes that are looked at.
const FRAME: usize = (SEGMENTS + 1) * 8;
/// The segment of 64-bit code.
const CODE: usize = 0x33;

/// By which code the handler of a signal returns, with its bits turned over. `None`: it has none, or is ignored.
#[inline(never)] // its frame is below that of the caller
fn inverted_return(signal: usize) -> Option<usize> {
    let action = kernel::action_of(signal);
    (action.handler > 1).then_some(!(action.restorer as usize))
}

/// The stack that an address is on, up to where its first frame began at least: of the first thread, or of another one, in whose
/// mapping nothing else comes before the thread's own data.
fn stack_around(here: usize) -> Option<Range<usize>> {
    let first = first_stack();
    if first.contains(&here) || !own_process::has_threads() {
        return Some(first).filter(|first| first.contains(&here));
    }
    let end = alone::end_of_mapping(here)?;
    (end - here < first.len()).then_some(here..end)
}
