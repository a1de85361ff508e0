//! The write monitor (`Lookout`): a reader has the kernel flag writes of foreign processes into a FIFO, so that writers
//! need not ask the kernel before each write.
//!
//! The reader has the kernel change a word before such a write returns. Here it publishes where the word is, and its
//! value while no foreign process has written. The word lies in a page that this reader takes for itself, behind the
//! record boundaries ([`crate::whole`]). The page is never taken again: the kernel may write there for a while after
//! its owner is gone.

use crate::ring::Ring;
use crate::sync::{AtomicU64, Ordering};

/// Pages that write monitors take at most, as long as the ring lives.
const PAGES_MAX: u32 = 16;

const PAGE_BYTES: usize = 4096;

/// Where it is published whether a foreign process has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookout {
    /// The number of the page.
    pub page: u8,
    /// Where in it the flags lie that are 0 as long as no foreign process has written: below 4096.
    pub flags: u16,
    /// Where in it a count lies: below 4096.
    pub count_at: u16,
    /// The value of that count as long as the owner of the page monitors writes. Another value each time that it begins
    /// again.
    pub count: u32,
}

impl Lookout {
    fn word(self) -> u64 {
        let (flags, count_at) = (u64::from(self.flags & 0xfff), u64::from(self.count_at & 0xfff));
        (u64::from(self.page) + 1) << 56 | count_at << 44 | flags << 32 | u64::from(self.count)
    }

    fn of(word: u64) -> Option<Lookout> {
        let page = (word >> 56).checked_sub(1)? as u8;
        let (flags, count_at) = ((word >> 32) as u16 & 0xfff, (word >> 44) as u16 & 0xfff);
        Some(Lookout { page, flags, count_at, count: word as u32 })
    }
}

impl Ring<'_> {
    /// The write monitor, if one is published.
    #[inline]
    pub fn monitor(&self) -> Option<Lookout> {
        // E13 with `post_monitor`. Also with `withdraw_monitor`, where a writer calls this again after it has loaded
        // the monitor's words.
        Lookout::of(self.monitor_word().load(Ordering::Acquire))
    }

    /// Publishes `next` as the write monitor in place of `before`. Returns false, and changes nothing, if another was
    /// published first.
    pub fn post_monitor(&self, before: Option<Lookout>, next: Lookout) -> bool {
        // E13: a writer that sees it sees its words as they were before any foreign write.
        let before = before.map_or(0, Lookout::word);
        self.monitor_word().compare_exchange(before, next.word(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Withdraws the write monitor `lookout`. Returns false if the published one is another.
    pub fn withdraw_monitor(&self, lookout: Lookout) -> bool {
        // E13: sequentially consistent, because no writer may see what the owner does next to the words before it sees
        // this.
        self.monitor_word().compare_exchange(lookout.word(), 0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Takes a page for a write monitor, all zeros; `None` if none is left.
    pub fn take_monitor_page(&self) -> Option<u8> {
        let page = self.header.state.0.lookout_pages.fetch_add(1, Ordering::Relaxed);
        let page = u8::try_from(page).ok().filter(|&page| u32::from(page) < PAGES_MAX)?;
        self.monitor_page(page).map(|_| page)
    }

    /// Where such a page lies, from the start of the segment; `None` if it does not fit into the bank.
    #[inline]
    pub fn monitor_page(&self, page: u8) -> Option<usize> {
        let notes = self.geometry().ok()?.extent_beside(0);
        let first = crate::whole::bytes_of_notes(self.bank_bytes()).next_multiple_of(PAGE_BYTES);
        let at = first + usize::from(page) * PAGE_BYTES;
        (at + PAGE_BYTES <= self.bank_bytes()).then(|| self.bank_offset(notes.bank) + at)
    }

    /// Says that writers want a write monitor.
    pub fn want_monitor(&self) {
        self.header.state.0.lookout_wanted.store(1, Ordering::Relaxed);
    }

    /// Whether writers want one.
    #[inline]
    pub fn is_monitor_wanted(&self) -> bool {
        self.header.state.0.lookout_wanted.load(Ordering::Relaxed) != 0
    }

    fn monitor_word(&self) -> &AtomicU64 {
        &self.header.state.0.lookout
    }
}

#[cfg(all(test, not(loom)))]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use crate::{Bytes, Geometry, Header, Whose};
    use core::ptr::NonNull;

    #[test]
    fn monitor_survives_the_way_through_a_word() {
        for (page, flags, count_at, count) in [(0, 0, 0, 0), (15, 4092, 36, u32::MAX), (7, 12, 4092, 1)] {
            let lookout = Lookout { page, flags, count_at, count };
            assert_eq!(Lookout::of(lookout.word()), Some(lookout));
        }
        assert_eq!(Lookout::of(0), None);
    }

    #[test]
    fn pages_lie_behind_the_notes_and_are_taken_once() {
        let header = Header::new();
        for (bank_bytes, pages) in [(4096, 0), (65_536, 14), (1 << 20, 16)] {
            // SAFETY: none of the bytes is touched.
            let ring = Ring::new(&header, unsafe { Bytes::new(NonNull::dangling(), 2 * bank_bytes) });
            ring.header.state.0.geometry.store(0, Ordering::Relaxed);
            ring.header.state.0.lookout_pages.store(0, Ordering::Relaxed);
            ring.found_for_fifo(Whose::default(), Geometry::of(4096).unwrap(), 7);
            let taken = (0..40).filter_map(|_| ring.take_monitor_page()).count();
            assert_eq!(taken, pages, "{bank_bytes}");
            let places = (0..=u8::MAX).filter_map(|page| ring.monitor_page(page));
            let notes_end = ring.bank_offset(1) + bank_bytes / 8;
            assert!(places.into_iter().all(|at| at >= notes_end && at + 4096 <= ring.bank_offset(2)));
        }
    }

    #[test]
    fn post_fails_while_another_monitor_is_published() {
        let header = Header::new();
        // SAFETY: no bytes.
        let ring = Ring::new(&header, unsafe { Bytes::new(NonNull::dangling(), 0) });
        let monitor = |page, count| Lookout { page, flags: 36, count_at: 12, count };
        assert!(ring.post_monitor(None, monitor(0, 5)) && !ring.post_monitor(None, monitor(1, 9)));
        assert!(!ring.withdraw_monitor(monitor(0, 4)) && ring.post_monitor(Some(monitor(0, 5)), monitor(1, 9)));
        assert_eq!(ring.monitor(), Some(monitor(1, 9)));
        assert!(ring.withdraw_monitor(monitor(1, 9)));
        assert_eq!(ring.monitor(), None);
    }
}
