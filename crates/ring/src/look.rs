//! What the first page of a segment says to a process that only observes. It reads a copy, so it maps and writes
//! nothing, and waits for nothing.
//!
//! Participants write while the copy is made. Each word of it is right, but two words need not be of the same instant.
//! So positions are compared over two copies ([`Look::waiting_since`]).

use core::mem::offset_of;

use crate::claim::claimant;
use crate::error::ForeignError;
use crate::geometry::Geometry;
use crate::header::{
    BellWords, HEADER_BYTES, Header, Identity, MAGIC, OfferWords, Published, Side, State, Tally, VERSION,
};
use crate::offer::offered;
use crate::ring::Whose;
use crate::route::Route;
use crate::sleeper::is_asleep;

/// The words that say how a pipe is doing, from such a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Which pipe it is.
    pub whose: Whose,
    /// The pipe with the readiness bytes, if this is the ring of a FIFO; otherwise 0.
    pub bell_inode: u64,
    /// The largest ring that fits.
    pub bank_bytes: usize,
    /// Bytes that the ring holds when full.
    pub capacity: usize,
    /// The state of the pipe: where new bytes go.
    pub route: Route,
    /// Bytes put into the ring since the beginning.
    pub written: u64,
    /// Bytes taken out of it.
    pub read: u64,
    /// Readers that sleep, or are about to.
    pub readers_asleep: u32,
    /// Writers that sleep, or are about to.
    pub writers_asleep: u32,
    /// Whether a process outside polls the read end.
    pub is_read_end_watched: bool,
    /// Whether a process outside polls the write end.
    pub is_write_end_watched: bool,
    /// Bytes that a writer offers out of its own memory and that no reader has taken yet; 0 if there is no offer.
    pub offered: u32,
    /// The process that fills the ring in place, if there is one. It may be dead.
    pub filled_by: Option<u32>,
    /// The process that peeks at waiting bytes in place. It may be dead.
    pub looked_at_by: Option<u32>,
    /// The counters.
    pub tallies: Tallies,
}

/// Counters of events since the pipe was made; they wrap after 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Readers began to sleep.
    pub reader_sleeps: u32,
    /// Writers began to sleep.
    pub writer_sleeps: u32,
    /// Wake-ups for bytes, of readers and of processes that poll.
    pub reader_wakes: u32,
    /// Wake-ups for room, of writers and of processes that poll.
    pub writer_wakes: u32,
}

impl Look {
    /// Reads a copy of the first page of a segment whose banks have `bank_bytes` each.
    ///
    /// # Errors
    /// What differs from a segment of this layout. This does not check which pipe the segment belongs to.
    pub fn of(page: &[u8; HEADER_BYTES], bank_bytes: usize) -> Result<Look, ForeignError> {
        let identity = offset_of!(Header, identity);
        if word64(page, identity + offset_of!(Identity, magic)) != MAGIC {
            return Err(ForeignError::Magic);
        }
        match word32(page, identity + offset_of!(Identity, version)) {
            VERSION => {}
            other => return Err(ForeignError::Version(other)),
        }
        let state = offset_of!(Header, state);
        let geometry = Geometry::from_word(word64(page, state + offset_of!(State, geometry)), bank_bytes);
        let is_size_as_said = word32(page, identity + offset_of!(Identity, bank_bytes)) as usize == bank_bytes;
        let geometry = geometry.filter(|_| is_size_as_said).ok_or(ForeignError::Size)?;
        let watched = word32(page, state + offset_of!(State, watched));
        let (is_read_end_watched, is_write_end_watched) = (watched & 1 != 0, watched & 2 != 0);
        let asleep = |offset, is_watched| word32(page, state + offset).saturating_sub(u32::from(is_watched));
        let position = |side| word64(page, side + offset_of!(Published, position));
        let offer = offset_of!(Header, offer);
        let sleeper = word32(page, offset_of!(Header, bell) + offset_of!(BellWords, sleeper));
        let offered_bytes = word32(page, offer + offset_of!(OfferWords, len));
        Ok(Look {
            whose: Whose {
                device: word64(page, identity + offset_of!(Identity, shadow_device)),
                inode: word64(page, identity + offset_of!(Identity, shadow_inode)),
                pid_namespace: word64(page, identity + offset_of!(Identity, pid_namespace)),
            },
            bell_inode: word64(page, identity + offset_of!(Identity, bell_inode)),
            bank_bytes,
            capacity: geometry.bytes(),
            route: Route::from_word(word32(page, state + offset_of!(State, route))),
            written: position(offset_of!(Header, write_pos)),
            read: position(offset_of!(Header, read_pos)),
            readers_asleep: asleep(offset_of!(State, readers_waiting), is_read_end_watched)
                .saturating_add(u32::from(is_asleep(sleeper))),
            writers_asleep: asleep(offset_of!(State, writers_waiting), is_write_end_watched)
                .saturating_add(word32(page, state + offset_of!(State, writers_deferring))),
            is_read_end_watched,
            is_write_end_watched,
            offered: offered(word64(page, offer + offset_of!(OfferWords, word)), offered_bytes),
            filled_by: claimant(word32(page, offset_of!(Header, writers) + offset_of!(Side, claim))),
            looked_at_by: claimant(word32(page, offset_of!(Header, readers) + offset_of!(Side, claim))),
            tallies: counters(page),
        })
    }

    /// Bytes in the ring, from this copy and an `earlier` one, and whether that many waited at one instant. If not, the
    /// number is off by no more than what readers took between the two copies. `None`: no ring has such positions.
    pub fn waiting_since(&self, earlier: &Look) -> Option<(usize, bool)> {
        // `earlier` was complete before this copy began. So these bytes had been read when those had been written.
        let waiting = self.written.checked_sub(earlier.read)?;
        let read_meanwhile = self.read.checked_sub(earlier.read)?;
        let most = (self.bank_bytes as u64).checked_add(read_meanwhile)?;
        if waiting > most {
            return None;
        }
        let waiting = usize::try_from(waiting).ok()?;
        Some((waiting.min(self.bank_bytes), read_meanwhile == 0))
    }
}

fn counters(page: &[u8; HEADER_BYTES]) -> Tallies {
    let tally = offset_of!(Header, bell) + offset_of!(BellWords, tally);
    Tallies {
        reader_sleeps: word32(page, tally + offset_of!(Tally, reader_sleeps)),
        writer_sleeps: word32(page, tally + offset_of!(Tally, writer_sleeps)),
        reader_wakes: word32(page, tally + offset_of!(Tally, reader_wakes)),
        writer_wakes: word32(page, tally + offset_of!(Tally, writer_wakes)),
    }
}

fn word32(page: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(core::array::from_fn(|byte| page[at + byte]))
}

fn word64(page: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|byte| page[at + byte]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering::Relaxed;
    use crate::{Bytes, Ring};

    const BANK: usize = 1 << 20;

    /// The bytes of a header, as another process would read them.
    #[allow(unsafe_code)]
    fn copy(header: &Header) -> [u8; HEADER_BYTES] {
        let mut page = [0; HEADER_BYTES];
        // SAFETY: a header is that long, and no thread writes to it now.
        let bytes = unsafe { core::slice::from_raw_parts((&raw const *header).cast::<u8>(), size_of::<Header>()) };
        page[..bytes.len()].copy_from_slice(bytes);
        page
    }

    #[allow(unsafe_code)]
    fn founded() -> Header {
        let header = Header::new();
        // SAFETY: none of the bytes is touched.
        let bytes = unsafe { Bytes::new(core::ptr::NonNull::dangling(), 2 * BANK) };
        let whose = Whose { device: 3, inode: 4, pid_namespace: 5 };
        Ring::new(&header, bytes).found(whose, Geometry::of(1 << 16).unwrap());
        header
    }

    #[test]
    fn look_says_what_the_header_says() {
        let header = founded();
        header.write_pos.0.position.store(1000, Relaxed);
        header.read_pos.0.position.store(300, Relaxed);
        header.state.0.watched.store(2, Relaxed);
        header.state.0.writers_waiting.store(3, Relaxed);
        header.state.0.writers_deferring.store(4, Relaxed);
        header.state.0.readers_waiting.store(1, Relaxed);
        let tally = &header.bell.0.tally;
        let words = [&tally.reader_sleeps, &tally.writer_sleeps, &tally.reader_wakes, &tally.writer_wakes];
        words.iter().zip(11..).for_each(|(word, number)| word.store(number, Relaxed));
        header.offer.0.word.store(7 << 32 | 1 << 31 | 100, Relaxed);
        header.offer.0.len.store(150, Relaxed);
        header.readers.0.claim.store(1 << 31 | 21, Relaxed);
        let look = Look::of(&copy(&header), BANK).unwrap();
        let expected = Look {
            whose: Whose { device: 3, inode: 4, pid_namespace: 5 },
            bell_inode: 0,
            bank_bytes: BANK,
            capacity: 1 << 16,
            route: Route::Ring,
            written: 1000,
            read: 300,
            readers_asleep: 1,
            writers_asleep: 6,
            is_read_end_watched: false,
            is_write_end_watched: true,
            offered: 50,
            filled_by: None,
            looked_at_by: Some(21),
            tallies: Tallies { reader_sleeps: 11, writer_sleeps: 12, reader_wakes: 13, writer_wakes: 14 },
        };
        assert_eq!(look, expected);
        assert_eq!(look.waiting_since(&look), Some((700, true)));
    }

    #[test]
    fn segment_of_other_layout_is_refused() {
        let header = founded();
        assert_eq!(Look::of(&[0; HEADER_BYTES], BANK), Err(ForeignError::Magic));
        assert_eq!(Look::of(&copy(&header), BANK / 2), Err(ForeignError::Size));
        header.state.0.geometry.store(31, Relaxed);
        assert_eq!(Look::of(&copy(&header), BANK), Err(ForeignError::Size));
        header.identity.0.version.store(VERSION - 1, Relaxed);
        assert_eq!(Look::of(&copy(&header), BANK), Err(ForeignError::Version(VERSION - 1)));
    }

    #[test]
    fn impossible_positions_are_told_from_those_of_a_busy_ring() {
        let look = Look::of(&copy(&founded()), BANK).unwrap();
        let at = |written, read| Look { written, read, ..look };
        assert_eq!(at(5000, 4000).waiting_since(&at(4500, 4000)), Some((1000, true)));
        assert_eq!(at(5000, 4900).waiting_since(&at(4500, 4000)), Some((1000, false)));
        let busy = at(9 << 20, 8 << 20).waiting_since(&at(0, 0));
        assert_eq!(busy, Some((BANK, false)), "no more than there is room for");
        for (later, earlier) in [(at(10, 20), at(10, 20)), (at(3 << 20, 0), at(0, 0)), (at(u64::MAX, 5), at(0, 6))] {
            assert_eq!(later.waiting_since(&earlier), None, "{later:?} {earlier:?}");
        }
    }
}
