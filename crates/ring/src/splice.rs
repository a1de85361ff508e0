//! Bytes that move without passing through this process's own memory: from or to the ring in a system call, and from
//! ring to ring.
//!
//! The protocol is that of [`WriteSide::write`] and [`ReadSide::read`]: bytes first, then the position (E1, E2).

#[cfg(not(loom))]
use crate::bytes::Stretch;
use crate::lock::Parking;
use crate::ring::{ReadSide, Room, Waiting, WriteSide};

impl<P: Parking> WriteSide<'_, P> {
    /// The addresses of the first `len` bytes of `room`, or of all of it, in order. The second stretch is empty unless
    /// they wrap around.
    #[cfg(not(loom))]
    pub fn stretches(&self, room: Room, len: usize) -> [Stretch; 2] {
        self.ring().stretches(room.place(), len.min(room.len()))
    }

    /// Makes the first `len` bytes of `room`, or all of it, readable: the caller has put them where
    /// [`stretches`](WriteSide::stretches) says. All become readable at once, whatever their number.
    pub fn commit(&self, room: Room, len: usize, cpu: u32) {
        self.publish_after(room, len.min(room.len()), cpu);
    }
}

impl<P: Parking> ReadSide<'_, P> {
    /// The addresses of the first `len` bytes of `waiting`, or of all of them, as [`WriteSide::stretches`].
    #[cfg(not(loom))]
    pub fn stretches(&self, waiting: Waiting, len: usize) -> [Stretch; 2] {
        self.ring().stretches(waiting.place(), len.min(waiting.len()))
    }

    /// Frees the place of the first `len` bytes of `waiting`, or of all of them: the caller has copied them out.
    pub fn consume_first(&self, waiting: Waiting, len: usize, cpu: u32) {
        self.consume_after(waiting, len.min(waiting.len()), cpu);
    }

    /// Copies the first bytes of `waiting` to the `room` of another ring. Returns how many: at most `len`, what waits,
    /// and what there is room for. No process sees them before [`WriteSide::commit`], and they still wait in this ring
    /// until [`ReadSide::consume_first`].
    pub fn copy_into<Q: Parking>(&self, waiting: Waiting, writers: &WriteSide<'_, Q>, room: Room, len: usize) -> usize {
        let len = len.min(waiting.len()).min(room.len());
        let mut done = 0;
        while done < len {
            done += self.ring().copy_stretch(waiting.place(), &writers.ring(), room.place(), done, len);
        }
        len
    }
}
