//! One end of a pipe that this process reads from or writes to: which descriptor it is, and how far it has come.

use core::ffi::c_int;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

use millstream_ring::channel::{Channel, OwnSleep, Side};
use millstream_sys::{joint, pipe};

use super::mapping::Uses;
use super::own_word::OwnFlag;
use super::patience::Patience;
use super::{kernel, own_run, tally};
use crate::descriptor::borrow;

/// What an end of this process is.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    /// No end, or one that stays with the kernel for ever.
    Kernel,
    /// A kernel's pipe that carries much.
    Counted,
    /// A writer that has made a channel for its reader to find. No guards yet.
    Offers,
    /// It has a channel, and the guards are up.
    Wants,
    /// No other process holds it.
    Ready,
    /// Its stream is in the ring.
    Ring,
}

/// To be worth what it took, an attempt must bring so much through memory: twice what has to pass before it is made.
const PAYS: u64 = 8 << 20;
/// After so many attempts in vain the next is not put off any further.
const VAIN_MOST: u32 = 4;
/// So many pipes that stay with the kernel are remembered for each direction.
const GIVEN_UP: usize = 8;

/// The end that is read from, or the one that is written to.
pub(super) struct End {
    is_reader: bool,
    /// Its number; that of the last one while there is none.
    fd: AtomicI32,
    /// The pipe that has been seen at that number.
    inode: AtomicU64,
    stage: AtomicU8,
    channel: AtomicPtr<Channel>,
    /// Bytes that went through the kernel, and what the calls for them count.
    pub(super) passed: AtomicU64,
    pub(super) try_at: AtomicU64,
    pub(super) tries: AtomicU32,
    turns: AtomicU32,
    /// Attempts since one was worth it, whatever the pipe.
    vain: AtomicU32,
    is_in_kernel: OwnFlag,
    /// Calls that may use its memory.
    pub(super) uses: Uses,
    /// This process has the opposite end of the pipe too, as far as it has looked.
    pub(super) holds_both: AtomicBool,
    /// It is used only as [`super::promised`] says.
    pub(super) is_promised: AtomicBool,
    /// Another descriptor of its file, for the call of one thread while another closes the number; -1: none.
    kept: AtomicI32,
    /// A copy to or from its ring goes on.
    pub(super) is_copying: OwnFlag,
    /// The last thread whose copies were found to be safe where memory is not there ([`super::faults::would_catch`]).
    pub(super) checked_thread: AtomicUsize,
    pub(super) patience: Patience,
    pub(super) tally: tally::Tally,
    given_up: [AtomicU64; GIVEN_UP],
    given_up_next: AtomicU32,
}

pub(super) static READER: End = End::new(true);
pub(super) static WRITER: End = End::new(false);
/// Where a signal handler or another thread finds that the reader sleeps.
pub(super) static READERS_SLEEP: OwnSleep = OwnSleep::new();

impl End {
    const fn new(is_reader: bool) -> End {
        End {
            is_reader,
            fd: AtomicI32::new(-1),
            inode: AtomicU64::new(0),
            stage: AtomicU8::new(Stage::Kernel as u8),
            channel: AtomicPtr::new(core::ptr::null_mut()),
            passed: AtomicU64::new(0),
            try_at: AtomicU64::new(0),
            tries: AtomicU32::new(0),
            turns: AtomicU32::new(0),
            vain: AtomicU32::new(0),
            is_in_kernel: OwnFlag::new(),
            uses: Uses::new(),
            holds_both: AtomicBool::new(false),
            is_promised: AtomicBool::new(false),
            kept: AtomicI32::new(-1),
            is_copying: OwnFlag::new(),
            checked_thread: AtomicUsize::new(0),
            patience: Patience::new(),
            tally: tally::Tally::new(),
            given_up: [const { AtomicU64::new(0) }; GIVEN_UP],
            given_up_next: AtomicU32::new(0),
        }
    }

    /// Whether this end is what `fd` stands for, as far as this process has looked.
    pub(super) fn is_at(&self, fd: c_int) -> bool {
        self.fd.load(Relaxed) == fd && self.stage() != Stage::Kernel
    }

    /// Before this thread closes the number, or has it stand for something else: the call of another thread goes on with the file, as in
    /// the kernel.
    #[inline(never)] // has many callers
    pub(super) fn keep_for_other_thread(&self) {
        const F_DUPFD_CLOEXEC: u32 = 1030;
        if self.uses.are_of_another_thread() && self.kept.load(SeqCst) < 0 {
            let kept = kernel::fcntl(self.fd(), F_DUPFD_CLOEXEC, joint::NUMBERS_FROM as usize) as c_int;
            self.kept.store(kept.max(-1), SeqCst);
        }
    }

    /// Where a call of this end goes on that began with the number `fd`.
    pub(super) fn file(&self, fd: c_int) -> c_int {
        let kept = self.kept.load(SeqCst);
        if kept >= 0 { kept } else { fd }
    }

    /// Does a read or a write of this end. `None`: another thread has it.
    pub(super) fn call(&self, call: impl FnOnce() -> isize) -> Option<isize> {
        self.uses.during(|| {
            let moved = call();
            if self.kept.load(SeqCst) >= 0 && self.uses.is_outermost() {
                kernel::close(self.kept.swap(-1, SeqCst));
            }
            moved
        })
    }

    /// Its number. That of the end before as long as there is none.
    pub(super) fn fd(&self) -> c_int {
        self.fd.load(Relaxed)
    }

    pub(super) fn is_reader(&self) -> bool {
        self.is_reader
    }

    pub(super) fn side(&self) -> Side {
        if self.is_reader { Side::Reader } else { Side::Writer }
    }

    pub(super) fn inode(&self) -> u64 {
        self.inode.load(Relaxed)
    }

    pub(super) fn is_promised(&self) -> bool {
        self.is_promised.load(Relaxed)
    }

    pub(super) fn stage(&self) -> Stage {
        match self.stage.load(Relaxed) {
            1 => Stage::Counted,
            2 => Stage::Offers,
            3 => Stage::Wants,
            4 => Stage::Ready,
            5 => Stage::Ring,
            _ => Stage::Kernel,
        }
    }

    /// Not to [`Stage::Kernel`].
    pub(super) fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, SeqCst);
    }

    /// From now on it is the end `fd` of the pipe `inode`, which has carried so much. Signals are held back.
    pub(super) fn adopt(&self, fd: c_int, inode: u64, passed: u64, try_at: u64) {
        for (word, value) in [(&self.inode, inode), (&self.passed, passed), (&self.try_at, try_at)] {
            word.store(value, Relaxed);
        }
        self.tries.store(0, Relaxed);
        self.turns.store(0, Relaxed);
        self.checked_thread.store(0, Relaxed);
        // A call that was left by a jump is not coming back.
        self.is_in_kernel.set(false);
        self.holds_both.store(false, Relaxed);
        self.fd.store(fd, Relaxed);
        self.set_stage(Stage::Counted);
    }

    /// There is no such end any more, or it is not looked at for now.
    pub(super) fn release(&self) {
        self.stage.store(Stage::Kernel as u8, SeqCst);
        if let Some(memory) = NonNull::new(self.channel.swap(core::ptr::null_mut(), SeqCst)) {
            // SAFETY: a mapping that this end leaves only now.
            if unsafe { memory.as_ref() }.carried() >= PAYS {
                self.vain.store(0, Relaxed);
            }
            self.uses.leave(memory);
        }
    }

    /// After so many bytes its pipe is to be attached: `first`, and twice as many for each attempt in vain. A program that splits a stream
    /// into pieces, each for a process of its own, would pay for each anew.
    pub(super) fn price(&self, first: u64) -> u64 {
        first << self.vain.load(Relaxed).min(VAIN_MOST)
    }

    /// Whether each attempt so far has paid.
    pub(super) fn is_without_vain_attempts(&self) -> bool {
        self.vain.load(Relaxed) == 0
    }

    /// In a forked child: the end of its parent is none of its own.
    pub(super) fn forget(&self) {
        self.stage.store(Stage::Kernel as u8, SeqCst);
        self.channel.store(core::ptr::null_mut(), SeqCst);
        self.uses.forget();
    }

    /// Its pipe stays with the kernel.
    #[inline(never)] // has many callers
    pub(super) fn give_up(&self) {
        if self.stage() != Stage::Kernel {
            let next = self.given_up_next.fetch_add(1, Relaxed) as usize;
            self.given_up[next % GIVEN_UP].store(self.inode(), Relaxed);
        }
        self.release();
    }

    pub(super) fn has_given_up(&self, inode: u64) -> bool {
        self.given_up.iter().any(|pipe| pipe.load(Relaxed) == inode)
    }

    /// Whether its number still stands for the pipe that it stood for when the end was adopted: without guards a program closes what it
    /// likes, unseen.
    pub(super) fn is_still_there(&self) -> bool {
        borrow(&self.fd()).and_then(pipe::identity).is_some_and(|pipe| pipe.inode == self.inode())
    }

    pub(super) fn channel(&self) -> Option<&'static Channel> {
        // SAFETY: null, or a mapping that lasts until the end is released and every call that uses it has ended; every field is
        // an atomic integer.
        unsafe { self.channel.load(Relaxed).as_ref() }
    }

    /// The attempt is in vain until it has paid.
    pub(super) fn set_channel(&self, channel: &'static Channel) {
        self.vain.fetch_add(1, Relaxed);
        self.channel.store(core::ptr::from_ref(channel).cast_mut(), SeqCst);
    }

    /// Whether the pipe has to be detached before it is used under another number. A call for the opposite end must not be going on when
    /// the ring begins, as it would be if a handler that has interrupted it came so far.
    #[inline(always)] // each call of a program comes through here
    pub(super) fn allows_no_other_name(&self) -> bool {
        let stage = self.stage.load(Relaxed);
        stage == Stage::Ring as u8 || stage >= Stage::Wants as u8 && self.holds_both.load(Relaxed)
    }

    /// Whether its stream is in this channel.
    pub(super) fn is_in(&self, channel: &Channel) -> bool {
        self.stage() == Stage::Ring && core::ptr::eq(self.channel.load(Relaxed), channel)
    }

    fn count(&self, moved: isize) {
        if let Ok(moved) = u64::try_from(moved) {
            self.passed.store(self.passed.load(Relaxed) + own_run::worth_of(moved), Relaxed);
        }
    }

    pub(super) fn is_due(&self) -> bool {
        self.passed.load(Relaxed) >= self.try_at.load(Relaxed)
    }

    /// Whether no attempt before was in vain, or enough has passed since.
    pub(super) fn may_try(&self) -> bool {
        self.tries.load(Relaxed) == 0 || self.is_due()
    }

    /// Of the calls since it is ready, every second, fourth, eighth...
    pub(super) fn has_its_turn(&self) -> bool {
        let turn = self.turns.load(Relaxed).saturating_add(1);
        self.turns.store(turn, Relaxed);
        turn.is_power_of_two()
    }

    /// Makes a call of the kernel. A handler that interrupts it must not begin the ring: the call goes on in the backing pipe.
    pub(super) fn in_kernel(&self, call: impl FnOnce() -> isize) -> isize {
        let moved = self.without_beginning(call);
        self.count(moved);
        moved
    }

    /// Calls what a handler that interrupts it must not begin the ring in.
    pub(super) fn without_beginning<T>(&self, call: impl FnOnce() -> T) -> T {
        let before = self.is_in_kernel.is_set();
        self.is_in_kernel.set(true);
        let outcome = call();
        self.is_in_kernel.set(before);
        outcome
    }

    /// Whether this call has interrupted another one, or one was left by a jump.
    pub(super) fn is_in_kernel(&self) -> bool {
        self.is_in_kernel.is_set()
    }
}
