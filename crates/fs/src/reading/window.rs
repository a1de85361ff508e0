//! How far the thread that works ahead is, and how far the program that reads: what each of them waits for.

use std::sync::Condvar;

/// Blocks that are made before they are asked for, at most. The thread then sleeps until half of them are gone: to wake it for
/// each would cost more than the block.
pub(super) const BLOCKS: u64 = 8;

/// A block that is so far ahead is waited for. For one further on another decoder may be sooner there.
const NEAR: u64 = 64;

/// What programs know of the thread.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// `None`: there is none.
    pub(super) at_work: Option<Window>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// The block that is made next.
    pub(super) next: u64,
    /// The last block that a program has asked for.
    pub(super) reached: u64,
    pub(super) is_stopped: bool,
    /// The thread sleeps, because enough is made.
    pub(super) is_asleep: bool,
}

/// What wakes threads. Many wait at once, each for a block of its own: one that is made must not wake them all.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// A block is made. Those of one number, modulo how many there are, wait here.
    made: [Condvar; 16],
    /// A program has asked for a block, or the thread is to stop.
    pub(super) asked: Condvar,
}

impl Changed {
    pub(super) fn of_block(&self, block: u64) -> &Condvar {
        &self.made[(block % self.made.len() as u64) as usize]
    }

    pub(super) fn for_all(&self) {
        self.made.iter().for_each(Condvar::notify_all);
    }
}

impl Ahead {
    /// Whether a block that is not there will be, without its being asked for in any other way.
    pub(super) fn will_make(&self, block: u64) -> bool {
        self.at_work.is_some_and(|window| !window.is_stopped && (window.next..=window.next + NEAR).contains(&block))
    }

    /// A program has asked for a block.
    pub(super) fn reached(&mut self, block: u64, changed: &Changed) {
        if let Some(window) = &mut self.at_work
            && (window.reached + 1..=window.next + NEAR).contains(&block)
        {
            window.reached = block;
            if window.is_asleep && window.next <= window.reached + BLOCKS / 2 {
                changed.asked.notify_all();
            }
        }
    }

    /// No program wants more.
    pub(super) fn stop(&mut self, changed: &Changed) {
        if let Some(window) = &mut self.at_work {
            window.is_stopped = true;
            changed.asked.notify_all();
            changed.for_all();
        }
    }
}
