//! When a pipe enters idle mode: its reader falls asleep again and again, and little comes each time.
//!
//! Then the ring gains nothing. The cost of a byte is the wake-up. A reader that sleeps in the kernel's pipe itself
//! is woken by the write that brings the byte: one call for each side. A wake token beside the ring takes two or
//! three. So in idle mode the stream goes through the backing pipe for as long as the reader is found asleep.

/// Bytes, for which the wake-up is nearly all of the cost. Transfers of 2 KiB beside a busy program, for which a
/// reader is woken one by one, go faster through the ring, where it can batch them.
const LITTLE: u64 = 256;

/// Sleeps in a row before a pipe becomes idle: the change costs as much as a sleep.
const SLEEPS: u32 = 3;

/// What a reader has seen of its own sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Quiet {
    /// One more than the bytes that had come before the last sleep; 0: it has not slept.
    pub(super) slept_after: u64,
    /// Sleeps in a row between which little came.
    pub(super) sleeps: u32,
}

impl Quiet {
    /// About to sleep, after so many bytes in all. Returns whether the pipe is idle.
    pub(super) fn will_sleep(&mut self, bytes: u64) -> bool {
        self.count(bytes);
        self.sleeps > SLEEPS
    }

    /// About to sleep at an idle pipe. Returns whether it still is idle: one sleep after little is enough.
    pub(super) fn will_sleep_on(&mut self, bytes: u64) -> bool {
        self.count(bytes);
        self.sleeps > 0
    }

    /// A call before anything has come is part of the same wait: the reader was woken by a signal, or waits on.
    fn count(&mut self, bytes: u64) {
        let sleeps_after = bytes.wrapping_add(1);
        if sleeps_after != self.slept_after {
            let is_little = bytes.wrapping_sub(self.slept_after.saturating_sub(1)) <= LITTLE;
            let sleeps = if is_little { self.sleeps.saturating_add(1) } else { 0 };
            *self = Quiet { slept_after: sleeps_after, sleeps };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sleep, counted from 1, at which the pipe is idle first, if so much comes before each.
    fn first_quiet_sleep(comes: impl IntoIterator<Item = u64>) -> Option<usize> {
        let (mut quiet, mut bytes) = (Quiet::default(), 0);
        let sleeps = comes.into_iter().map(|more| {
            bytes += more;
            quiet.will_sleep(bytes)
        });
        sleeps.into_iter().position(|is_quiet| is_quiet).map(|index| index + 1)
    }

    #[test]
    fn little_and_little_again_is_quiet() {
        assert_eq!(first_quiet_sleep([1; 10]), Some(4));
        assert_eq!(first_quiet_sleep([LITTLE; 10]), Some(4));
    }

    #[test]
    fn a_stream_is_not_however_often_its_reader_sleeps() {
        assert_eq!(first_quiet_sleep([LITTLE + 1; 100]), None);
        assert_eq!(first_quiet_sleep([1, 1, 1, 1 << 20].repeat(100)), None);
    }

    #[test]
    fn after_a_stream_it_is_quiet_again() {
        assert_eq!(first_quiet_sleep([1 << 30, 1, 1, 1, 1]), Some(5));
    }

    #[test]
    fn it_stays_quiet_until_much_comes() {
        let mut quiet = Quiet::default();
        assert_eq!([1, 2, 3, 4].map(|bytes| quiet.will_sleep(bytes)), [false, false, false, true]);
        assert!(
            quiet.will_sleep_on(5) && quiet.will_sleep_on(5) && quiet.will_sleep(5) && quiet.will_sleep_on(5 + LITTLE)
        );
        let much = 6 + 2 * LITTLE;
        assert!(!quiet.will_sleep_on(much));
        assert!(!quiet.will_sleep_on(much), "nothing has come since");
        assert!((0..10).all(|_| !quiet.will_sleep(much)), "nothing has come since");
        assert!(quiet.will_sleep_on(much + 1));
    }

    #[test]
    fn reader_that_is_new_to_an_idle_pipe_finds_it_idle() {
        assert!(Quiet::default().will_sleep_on(0));
    }

    #[test]
    fn a_wrong_count_does_no_harm() {
        let mut quiet = Quiet { slept_after: 5, sleeps: u32::MAX };
        assert!(!quiet.will_sleep(0) && !quiet.will_sleep(1));
    }
}
