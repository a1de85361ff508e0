//! What a reader remembers from one wait to the next.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::policy::{FIRST_NAP, longer};

/// Of one call, until something was moved.
pub(crate) struct Waits<'b> {
    /// Times that it was woken and found nothing.
    pub(crate) false_wakes: u32,
    /// How long it sleeps at most the next time.
    pub(crate) nap: Duration,
    /// What else ends a sleep, if it can be read.
    pub(crate) bell: Option<BorrowedFd<'b>>,
}

impl Default for Waits<'_> {
    fn default() -> Self {
        Waits { false_wakes: 0, nap: FIRST_NAP, bell: None }
    }
}

impl<'b> Waits<'b> {
    pub(crate) fn beside(bell: Option<BorrowedFd<'b>>) -> Waits<'b> {
        Waits { bell, ..Waits::default() }
    }

    /// A reader whose sleep ended by a timeout without bytes sleeps on, and does not spin first.
    pub(crate) fn has_slept(&self) -> bool {
        self.nap != FIRST_NAP
    }

    /// After a sleep, which was `in_vain` if it was ended by what should not have ended it.
    pub(crate) fn slept(&mut self, in_vain: bool) {
        self.false_wakes += u32::from(in_vain);
        self.nap = longer(self.nap);
    }
}
