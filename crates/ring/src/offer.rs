//! Single-copy transfer: bytes stay in the memory of a writer that blocks, until a reader has copied them out. An
//! *offer* is a range of such bytes.
//!
//! The stream is what lies in the ring, and behind it at most one offer. A writer that finds the ring full says where
//! its bytes are ([`Terms`]) and waits. A reader that finds the ring empty copies from there, without any lock, and
//! then commits with one exchange of one word. Positions do not change.
//!
//! ```text
//! word      sequence 32 | open 1 | returned 1 | taken 30
//!
//!                    take: taken + n
//!                      ┌─────┐
//! settled ──open──▶ open ─────┴─ take the last ──▶ settled (all was taken)
//!    ▲               │ │
//!    │               │ └── return ──▶ returned ─┐   a reader that may not read it, or a process that changes the pipe
//!    └── withdraw ───┴────────────── withdraw ──┘   the writer: a signal, no reader left; or its process is dead
//! ```
//!
//! Every change replaces this word by an exchange that fails if the word has changed. A reader whose exchange fails
//! discards what it has copied, and a writer that has withdrawn knows exactly how much was taken. There is no state "is
//! being taken". A reader that is stopped or killed during its copy blocks no other process and takes nothing with it.
//! The sequence makes an old copy of the word useless. A returned offer stays until its writer has seen how much was
//! taken, or is dead.
//!
//! While an offer is open, no writer has room in the ring ([`WriteSide::room`](crate::WriteSide::room)), so what comes
//! later stays behind the offer.

use crate::error::RingError;
use crate::header::OfferWords;
use crate::lock::Parking;
use crate::ring::{ReadSide, Ring, WriteSide};
use crate::sync::{Ordering, fence};

const OPEN: u64 = 1 << 31;
const RETURNED: u64 = 1 << 30;
const TAKEN: u64 = RETURNED - 1;

/// Most bytes of one offer. While it is open other writers wait, so a longer write is offered in parts.
pub const LARGEST_OFFER: usize = 4 << 20;

/// An exchange fails when a reader has just taken something, which it first had to copy. If it fails so often, a
/// hostile process changes the word.
const ATTEMPTS: u32 = 1000;

/// Where the bytes of an offer are. A reader believes none of it before the transfer descriptor has confirmed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The process whose memory it is.
    pub process: u32,
    /// When that process was started, so that its number cannot mean another.
    pub start: u64,
    /// The address of the transfer descriptor in that process, which says what it offers.
    pub voucher: u64,
    /// The address of the first byte.
    pub address: u64,
    /// Bytes: 1 to [`LARGEST_OFFER`].
    pub len: u32,
}

/// An offer as a load of its word found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    word: u64,
    terms: Terms,
}

impl Offer {
    /// The number of the offer at this pipe, wrapping.
    pub fn serial(&self) -> u32 {
        serial(self.word)
    }

    /// What is offered.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// Bytes taken so far.
    pub fn taken(&self) -> usize {
        taken(self.word)
    }

    /// Bytes left to take.
    pub fn rest(&self) -> usize {
        self.terms.len as usize - self.taken()
    }
}

/// The state of an offer, for the writer that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// So many bytes are taken, and a reader can take more.
    Open(usize),
    /// Readers have taken all of it, or it was returned.
    Over,
}

fn serial(word: u64) -> u32 {
    (word >> 32) as u32
}

fn taken(word: u64) -> usize {
    (word & TAKEN) as usize
}

/// What is left of an offer of `len` bytes with this word, for a process that only observes. It is 0 if the offer is
/// not open, or if the numbers are impossible.
#[cfg(not(loom))]
pub(crate) fn offered(word: u64, len: u32) -> u32 {
    if word & OPEN == 0 || len as usize > LARGEST_OFFER { 0 } else { len.saturating_sub(taken(word) as u32) }
}

/// The word of the same offer when nothing more of it can be taken.
fn settled(word: u64) -> u64 {
    word & !(OPEN | RETURNED)
}

impl<'a> Ring<'a> {
    fn offer_words(&self) -> &'a OfferWords {
        &self.header.offer.0
    }

    /// Whether an offer is open.
    #[inline]
    pub fn is_offered(&self) -> bool {
        self.offer_words().word.load(Ordering::Relaxed) & OPEN != 0
    }

    /// The offer that is open or has been returned, if any.
    ///
    /// # Errors
    /// [`RingError`]: nothing is left of it, or it is larger than an offer may be.
    pub fn offer(&self) -> Result<Option<Offer>, RingError> {
        let words = self.offer_words();
        // E9 with `WriteSide::offer`: the terms, and what was written to the ring before, are in place.
        let word = words.word.load(Ordering::Acquire);
        if word & (OPEN | RETURNED) == 0 {
            return Ok(None);
        }
        let terms = Terms {
            process: words.process.load(Ordering::Relaxed),
            start: words.start.load(Ordering::Relaxed),
            voucher: words.voucher.load(Ordering::Relaxed),
            address: words.address.load(Ordering::Relaxed),
            len: words.len.load(Ordering::Relaxed),
        };
        let is_possible = (taken(word) + 1..=LARGEST_OFFER).contains(&(terms.len as usize));
        // The terms may be those of the next offer already: then this one is over, and not broken. With the fence in
        // `WriteSide::offer`: a reader that has seen one of those terms sees here that the word has changed.
        fence(Ordering::Acquire);
        if !is_possible && words.word.load(Ordering::Relaxed) != word {
            return Ok(None);
        }
        if is_possible { Ok(Some(Offer { word, terms })) } else { Err(RingError) }
    }

    /// The open offer, if it is the next part of the stream: nothing lies in the ring.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn next_offer(&self) -> Result<Option<Offer>, RingError> {
        let offer = self.offer()?.filter(|offer| offer.word & OPEN != 0);
        // In this order: this process sees what was written before the offer was opened. While it is open, nothing is
        // written.
        Ok(if offer.is_some() && self.readable()? == 0 { offer } else { None })
    }

    /// Commits `count` bytes, at least one, that the caller has copied from the offer as it was seen. If this returns
    /// true they belong to the caller. Otherwise they do not, and the caller must load the offer again.
    pub fn take(&self, offer: &Offer, count: usize) -> bool {
        let done = offer.taken() + count;
        if count == 0 || count > offer.rest() || offer.word & OPEN == 0 {
            return false;
        }
        let word = (offer.word & !TAKEN) | done as u64;
        let word = if done == offer.terms.len as usize { settled(word) } else { word };
        // E10 with `Ring::withdraw` and `Ring::standing`: the copy is complete. Also half of E3: a locked instruction.
        self.exchange(offer.word, word)
    }

    /// Returns the offer: its writer goes on through the ring. False if the offer has changed since it was loaded.
    pub fn return_offer(&self, offer: &Offer) -> bool {
        offer.word & OPEN != 0 && self.exchange(offer.word, (offer.word & !OPEN) | RETURNED)
    }

    /// Drops an offer whose process is dead. False if the offer has changed since it was loaded.
    pub fn drop_offer(&self, offer: &Offer) -> bool {
        self.exchange(offer.word, settled(offer.word))
    }

    /// From now on no writer makes an offer at this pipe.
    pub fn refuse_offers(&self) {
        self.offer_words().refused.store(1, Ordering::Relaxed);
    }

    /// Whether a reader was not allowed to read what was offered.
    pub fn offers_are_refused(&self) -> bool {
        self.offer_words().refused.load(Ordering::Relaxed) != 0
    }

    /// The state of the caller's own offer.
    #[inline]
    pub fn standing(&self, own: u32) -> Standing {
        // E10 with `Ring::take`.
        let word = self.offer_words().word.load(Ordering::Acquire);
        if serial(word) == own && word & OPEN != 0 { Standing::Open(taken(word)) } else { Standing::Over }
    }

    /// Ends the caller's own offer of `len` bytes. Returns how many of them were taken; the memory is the caller's
    /// again.
    ///
    /// # Errors
    /// [`RingError`]: more were taken than there were, or the word keeps changing.
    pub fn withdraw(&self, own: u32, len: usize) -> Result<usize, RingError> {
        for _ in 0..ATTEMPTS {
            // E10 with `Ring::take`.
            let word = self.offer_words().word.load(Ordering::Acquire);
            if serial(word) != own {
                // Only its writer settles an offer before the last byte is taken.
                return Ok(len);
            }
            if word & (OPEN | RETURNED) == 0 || self.exchange(word, settled(word)) {
                return Some(taken(word)).filter(|&taken| taken <= len).ok_or(RingError);
            }
        }
        Err(RingError)
    }

    /// Release: a process that sees the new word sees what was done before. Acquire: see E10.
    fn exchange(&self, from: u64, to: u64) -> bool {
        self.offer_words().word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl<P: Parking> WriteSide<'_, P> {
    /// The number that an offer would have; `None` while there is another, or if offers are refused here.
    pub fn next_serial(&self) -> Option<u32> {
        let word = self.ring().offer_words().word.load(Ordering::Relaxed);
        let is_free = word & (OPEN | RETURNED) == 0 && !self.ring().offers_are_refused();
        is_free.then(|| serial(word).wrapping_add(1))
    }

    /// Opens an offer with this number. False if it could not be opened.
    pub fn offer(&self, number: u32, terms: Terms) -> bool {
        let (ring, words) = (self.ring(), self.ring().offer_words());
        let word = words.word.load(Ordering::Relaxed);
        if serial(word).wrapping_add(1) != number || word & (OPEN | RETURNED) != 0 {
            return false;
        }
        // With the fence in `Ring::offer`.
        fence(Ordering::Release);
        words.process.store(terms.process, Ordering::Relaxed);
        words.start.store(terms.start, Ordering::Relaxed);
        words.voucher.store(terms.voucher, Ordering::Relaxed);
        words.address.store(terms.address, Ordering::Relaxed);
        words.len.store(terms.len, Ordering::Relaxed);
        // E9 with `Ring::offer`.
        ring.exchange(word, u64::from(number) << 32 | OPEN)
    }

    /// Returns an open offer. While the caller holds the lock, no writer opens a new one. Returns whether an offer was
    /// open.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn return_offers(&self, _: &ReadSide<'_, P>) -> Result<bool, RingError> {
        let ring = self.ring();
        for _ in 0..ATTEMPTS {
            match ring.offer()?.filter(|offer| offer.word & OPEN != 0) {
                None => return Ok(false),
                Some(offer) if ring.return_offer(&offer) => return Ok(true),
                Some(_) => {}
            }
        }
        Err(RingError)
    }
}
