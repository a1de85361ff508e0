//! When a reader batches, from what came of it before.
//!
//! A reader that keeps up with a writer on another CPU finds each transfer as soon as it is written. Both then use
//! the same cache lines at the same time. The reader's looks take away the position that the writer is about to
//! store. The bytes leave the writer's cache while it still fills their neighbours. The writer is slower by a third
//! to a half, and the reader has to wait for it all the same. If the reader looks again only when some microseconds
//! of bytes have gathered, each has its lines to itself meanwhile.
//!
//! Nothing is gained where bytes do not flow, and a reader that waits for an answer must have it at once. So a reader
//! pauses only after pauses were seen to pay. A pause in which nothing came ends the batching. It is tried again
//! after so many waits, twice as many each time. Two processes that take turns lose one pause in thousands of turns.
//! While it pays, the reader pauses before each look at more than it has seen. So it does not follow the writer line
//! by line when it has nearly caught up.

/// TSC cycles between two looks at what has gathered, less than a microsecond: longer than a transfer of a few
/// kilobytes takes.
pub(super) const PAUSE: u64 = 2_000;

/// TSC cycles that bytes gather at most, about 7 microseconds. Three of them gain as much where two CPUs share a
/// cache, and half where they do not.
pub(super) const LONGEST: u64 = 20_000;

/// Waits before the first try.
const FIRST_REST: u32 = 16;

/// Waits between two tries at most.
const LONGEST_REST: u32 = 4096;

/// What a reader has learnt about batching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gathering {
    /// Waits until it is tried.
    pub(super) rest: u32,
    /// Waits for which it will rest if the next try brings nothing.
    pub(super) next_rest: u32,
}

impl Gathering {
    pub(super) fn untried() -> Gathering {
        Gathering { rest: FIRST_REST, next_rest: FIRST_REST }
    }

    /// Whether to batch in this wait.
    #[inline]
    pub(super) fn begins(&mut self) -> bool {
        let begins = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        begins
    }

    /// After each pause: `grew` by something since the one before, `took` so long by now, `is_enough`. Returns
    /// whether to pause again.
    #[inline]
    pub(super) fn goes_on(&mut self, grew: bool, took: u64, is_enough: bool) -> bool {
        if !grew {
            self.rest = self.next_rest;
            self.next_rest = (2 * self.next_rest).min(LONGEST_REST);
            return false;
        }
        let is_over = is_enough || took >= LONGEST;
        if is_over {
            *self = Gathering { rest: 0, next_rest: FIRST_REST };
        }
        !is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One wait, after which the stream flows for so many pauses; returns for how many pauses the reader batched.
    fn wait(gathering: &mut Gathering, flows: u64) -> u64 {
        if !gathering.begins() {
            return 0;
        }
        let mut pauses = 1;
        while gathering.goes_on(pauses <= flows, pauses * PAUSE, false) {
            pauses += 1;
        }
        pauses
    }

    #[test]
    fn a_stream_that_flows_gathers_in_every_wait_but_the_first_ones() {
        let mut gathering = Gathering::untried();
        let pauses: Vec<u64> = (0..1000).map(|_| wait(&mut gathering, u64::MAX)).collect();
        assert!(pauses[..16].iter().all(|&pauses| pauses == 0));
        assert!(pauses[16..].iter().all(|&pauses| pauses == LONGEST / PAUSE), "{pauses:?}");
    }

    #[test]
    fn reader_of_answers_loses_a_pause_in_thousands_of_waits() {
        let mut gathering = Gathering::untried();
        let pauses: u64 = (0..100_000).map(|_| wait(&mut gathering, 0)).sum();
        assert!((20..40).contains(&pauses), "{pauses}");
    }

    #[test]
    fn bursts_shorter_than_the_longest_gathering_count_as_none() {
        let mut gathering = Gathering::untried();
        let pauses: u64 = (0..100_000).map(|_| wait(&mut gathering, 2)).sum();
        assert!(pauses < 120, "{pauses}");
    }

    #[test]
    fn one_silence_ends_it_and_a_stream_is_soon_found_again() {
        let mut gathering = Gathering::untried();
        (0..100).for_each(|_| _ = wait(&mut gathering, u64::MAX));
        assert_eq!(wait(&mut gathering, 0), 1);
        assert_eq!((0..16).map(|_| wait(&mut gathering, u64::MAX)).sum::<u64>(), 0);
        assert_eq!(wait(&mut gathering, u64::MAX), LONGEST / PAUSE);
    }

    #[test]
    fn it_ends_when_there_is_enough() {
        let mut gathering = Gathering { rest: 0, next_rest: 1 };
        assert!(gathering.begins() && !gathering.goes_on(true, PAUSE, true));
        assert_eq!(gathering, Gathering { rest: 0, next_rest: FIRST_REST });
    }
}
