//! The bytes of an attached pipe, where this process has them: behind the words of its channel.

use millstream_ring::channel::{Channel, HEADER_BYTES, LABEL_BYTES, RING_BYTES, Span};
use millstream_sys::joint;

use super::copy::copy;

const _: () = assert!(HEADER_BYTES == joint::HEADER_BYTES && RING_BYTES == joint::RING_BYTES);
const _: () = assert!(LABEL_BYTES == joint::LABEL_BYTES);

/// Where the ring begins.
pub(super) fn ring_of(channel: &Channel) -> *mut u8 {
    core::ptr::from_ref(channel).cast::<u8>().cast_mut().wrapping_add(HEADER_BYTES)
}

/// Copies from the program's memory into the ring. `false`: it is not there.
#[inline]
pub(super) fn fill(channel: &Channel, [first, rest]: [Span; 2], source: *const u8) -> bool {
    let ring = ring_of(channel);
    // SAFETY: the spans are inside this channel's ring, which no reference covers.
    unsafe {
        copy(source, ring.wrapping_add(first.at), first.len)
            && copy(source.wrapping_add(first.len), ring.wrapping_add(rest.at), rest.len)
    }
}

/// Copies out of the ring to the program's memory. `false`: it is not there.
#[inline]
pub(super) fn empty(channel: &Channel, [first, rest]: [Span; 2], target: *mut u8) -> bool {
    let ring = ring_of(channel);
    // SAFETY: the spans are inside this channel's ring; the target is what the program gave for the purpose.
    unsafe {
        copy(ring.wrapping_add(first.at), target, first.len)
            && copy(ring.wrapping_add(rest.at), target.wrapping_add(first.len), rest.len)
    }
}
