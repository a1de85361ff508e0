//! The write monitor: a word in memory that changes before any write to a monitored pipe returns. A process reads the
//! word to learn whether any process has written, without a system call.
//!
//! An `io_uring(7)` whose rings lie in memory of ours (`IORING_SETUP_NO_MMAP`, Linux 6.5) polls an `epoll(7)` that
//! watches the pipe. The kernel wakes all pollers of a pipe within the system call that writes to it, one such call
//! after the other. It defers the work for the ring until the ring's thread asks for it, and only sets a flag of the
//! ring (`IORING_SETUP_DEFER_TASKRUN`, `IORING_SETUP_TASKRUN_FLAG`): that is the word. It can lie in memory that other
//! processes see.
//!
//! - The `epoll` is between the two because it does not keep the pipe open; a poll of the pipe would, as one more
//!   reader.
//! - The ring also polls an `io_uring` that never becomes ready. The kernel cancels only requests of that kind before
//!   it closes the descriptors of a thread that dies. The cancellation counts as a completion, so the write monitor
//!   counts as down before it is.
#![allow(unsafe_code)]

use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64, fence};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFlags, epoll};
use rustix::io_uring::{
    IoringEnterFlags, IoringOp, IoringSetupFlags, io_uring_enter, io_uring_params, io_uring_ptr, io_uring_setup,
    io_uring_sqe,
};

use crate::Errno;
use crate::shared::Shared;

/// Bytes of the rings of a write monitor.
pub const PAGE: usize = 4096;

/// Requests that the ring has room for; the thread submits one at a time.
const ENTRIES: u32 = 2;
const MASK: u32 = ENTRIES - 1;
const SQE_BYTES: usize = 64;

const UP: u64 = 1 << 32;

/// Where in the page the two words lie that show whether it is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// The offset of the flags in bytes: less than [`PAGE`], a multiple of four.
    pub flags: u16,
    /// The offset of the count of completions, likewise.
    pub count: u16,
}

/// A write monitor of one pipe. Only the thread that made it can set it.
#[derive(Debug)]
pub struct Tripwire {
    page: NonNull<u8>,
    requests: Shared,
    ring: OwnedFd,
    watch: OwnedFd,
    words: Words,
    /// The offsets of the other words.
    submitted: u16,
    taken: u16,
    /// The count at which it was last set, with the bit [`UP`] if it was ever set.
    up_at: AtomicU64,
}

// SAFETY: an address, which its maker promises to outlive it; the words are atomic. The kernel refuses calls of threads
// other than the one that made it.
unsafe impl Send for Tripwire {}
// SAFETY: as above; `set` is refused by the kernel in any other thread.
unsafe impl Sync for Tripwire {}

impl Tripwire {
    /// One for `pipe`, a read end, with its words in the page at `page`. It is down at first.
    ///
    /// # Safety
    /// `page` is the start of a page of a shared mapping that outlives the returned value. It is all zeros. No process
    /// keeps anything else there for as long as the memory lives: the kernel may still write to it after the value is
    /// dropped.
    ///
    /// # Errors
    /// `ENOSYS`, `EINVAL`: the kernel has no such rings. `EPERM`: they are forbidden. `EMFILE`, `ENFILE`, `ENOMEM`.
    pub unsafe fn new(page: NonNull<u8>, pipe: BorrowedFd<'_>) -> Result<Tripwire, Errno> {
        let requests = Shared::anonymous(PAGE)?;
        let mut setup = parameters(
            IoringSetupFlags::NO_MMAP
                | IoringSetupFlags::NO_SQARRAY
                | IoringSetupFlags::SINGLE_ISSUER
                | IoringSetupFlags::DEFER_TASKRUN
                | IoringSetupFlags::TASKRUN_FLAG,
        );
        setup.cq_off.user_addr = io_uring_ptr::new(page.as_ptr().cast());
        setup.sq_off.user_addr = io_uring_ptr::new(requests.start().as_ptr().cast());
        // SAFETY: two pages that live as long as the ring is used: the first by promise, the second in what is returned; the
        // kernel holds them for as long as it uses them.
        let ring = unsafe { io_uring_setup(ENTRIES, &mut setup)? };
        let place = |offset: u32| u16::try_from(offset).ok().filter(|&at| usize::from(at) + 4 <= PAGE && at % 4 == 0);
        let words = [setup.sq_off.flags, setup.cq_off.tail, setup.sq_off.tail, setup.cq_off.head].map(place);
        let [Some(flags), Some(count), Some(submitted), Some(taken)] = words else { return Err(Errno::INVAL) };
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&watch, pipe, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        let tripwire = Tripwire {
            page,
            requests,
            ring,
            watch,
            words: Words { flags, count },
            submitted,
            taken,
            up_at: AtomicU64::new(0),
        };
        // SAFETY: a ring that is never used; the poll keeps it open.
        let silent = unsafe { io_uring_setup(1, &mut io_uring_params::default())? };
        tripwire.poll(silent.as_fd(), PollFlags::PRI)?;
        Ok(tripwire)
    }

    /// Where its words are.
    pub fn words(&self) -> Words {
        self.words
    }

    /// Sets it, if it is down, and returns the count at which it is up; `None` if there are bytes in the pipe. No
    /// process may trust the words from before this call until it returns.
    ///
    /// # Errors
    /// `EEXIST`: another thread made it.
    pub fn set(&self) -> Result<Option<u32>, Errno> {
        if let Some(count) = self.up_at() {
            return Ok(Some(count));
        }
        // The caller's store that declares the words untrusted becomes visible before the flag is cleared.
        fence(SeqCst);
        // SAFETY: no request refers to memory.
        unsafe { io_uring_enter(&self.ring, 0, 0, IoringEnterFlags::GETEVENTS)? };
        let count = self.word(self.words.count).load(Acquire);
        self.word(self.taken).store(count, Release);
        self.poll(self.watch.as_fd(), PollFlags::IN)?;
        self.up_at.store(UP | u64::from(count), Relaxed);
        Ok(self.up_at())
    }

    /// The count at which it is up, if it is.
    fn up_at(&self) -> Option<u32> {
        let at = self.up_at.load(Relaxed);
        // SAFETY: the page outlives `self`, by the promise of its maker.
        (at & UP != 0 && unsafe { is_up(self.page, self.words, at as u32) }).then_some(at as u32)
    }

    fn poll(&self, polled: BorrowedFd<'_>, events: PollFlags) -> Result<(), Errno> {
        let submitted = self.word(self.submitted);
        let next = submitted.load(Relaxed);
        let mut request = io_uring_sqe { opcode: IoringOp::PollAdd, fd: polled.as_raw_fd(), ..io_uring_sqe::default() };
        request.op_flags.poll32_events = events.bits().into();
        let place = SQE_BYTES * (next & MASK) as usize;
        // SAFETY: inside the page, which this thread alone uses; the kernel reads it in the call below.
        unsafe { self.requests.start().add(place).cast::<io_uring_sqe>().write(request) };
        submitted.store(next.wrapping_add(1), Release);
        // SAFETY: the request refers to no memory.
        match unsafe { io_uring_enter(&self.ring, 1, 0, IoringEnterFlags::empty())? } {
            1 => Ok(()),
            _ => Err(Errno::AGAIN),
        }
    }

    fn word(&self, at: u16) -> &AtomicU32 {
        // SAFETY: within the page, aligned, which lives as long as `self` by the promise of its maker.
        unsafe { word(self.page, at) }
    }
}

#[allow(clippy::field_reassign_with_default, reason = "its fields may become more, so it cannot be written out")]
fn parameters(flags: IoringSetupFlags) -> io_uring_params {
    let mut parameters = io_uring_params::default();
    parameters.flags = flags;
    parameters
}

/// Whether the write monitor that was set at `count`, and whose `words` lie in `page`, is still up: since it was set,
/// no write to its pipe has returned.
///
/// # Safety
/// `page` is the start of a page of a shared mapping. The words may be anything.
#[inline]
pub unsafe fn is_up(page: NonNull<u8>, words: Words, count: u32) -> bool {
    // SAFETY: by promise.
    let (flags, now) = unsafe { (word(page, words.flags), word(page, words.count)) };
    // Any flag counts: an overflow of completions is no good sign either.
    flags.load(Acquire) == 0 && now.load(Acquire) == count
}

/// # Safety
/// `page` is the start of a page of a shared mapping that outlives what is returned.
#[inline]
unsafe fn word<'a>(page: NonNull<u8>, at: u16) -> &'a AtomicU32 {
    let at = usize::from(at) & (PAGE - size_of::<u32>());
    // SAFETY: within the page and aligned, by the mask; an atomic may be written by others at any time.
    unsafe { AtomicU32::from_ptr(page.add(at).as_ptr().cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::SeqCst;

    /// `None` where the kernel has no such thing, or forbids it.
    fn write_monitor(pipe: BorrowedFd<'_>) -> Option<(Shared, Tripwire)> {
        let memory = Shared::anonymous(PAGE).unwrap();
        // SAFETY: the memory is returned with it.
        match unsafe { Tripwire::new(memory.start(), pipe) } {
            Ok(tripwire) => Some((memory, tripwire)),
            Err(error @ (Errno::NOSYS | Errno::INVAL | Errno::PERM)) => {
                std::eprintln!("NOT TESTED: no io_uring of the kind that a write monitor needs ({error})");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn is_still_up(memory: &Shared, tripwire: &Tripwire, count: u32) -> bool {
        // SAFETY: the page of the write monitor.
        unsafe { is_up(memory.start(), tripwire.words(), count) }
    }

    #[test]
    fn monitor_comes_down_with_first_byte_and_can_be_set_when_all_is_read() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let Some((memory, tripwire)) = write_monitor(reader.as_fd()) else { return };
        for _ in 0..20 {
            let count = tripwire.set().unwrap().unwrap();
            assert_eq!(tripwire.set().unwrap(), Some(count), "it stays up");
            assert!(is_still_up(&memory, &tripwire, count));
            writer.write_all(b"x").unwrap();
            assert!(!is_still_up(&memory, &tripwire, count));
            assert_eq!(tripwire.set().unwrap(), None);
            reader.read_exact(&mut [0]).unwrap();
            assert!(!is_still_up(&memory, &tripwire, count), "it does not go up by itself");
        }
    }

    #[test]
    fn monitor_is_down_when_write_of_another_thread_has_returned() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let Some((memory, tripwire)) = write_monitor(reader.as_fd()) else { return };
        let written = AtomicU32::new(0);
        let round = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for wanted in 1..=2000 {
                    while round.load(SeqCst) < wanted {
                        std::thread::yield_now();
                    }
                    writer.write_all(b"x").unwrap();
                    written.store(wanted, SeqCst);
                }
            });
            for wanted in 1..=2000 {
                let count = tripwire.set().unwrap().unwrap();
                round.store(wanted, SeqCst);
                // Spins outside of the kernel, but yields where it would keep the writer from the CPU.
                for spins in 1_u32.. {
                    if written.load(SeqCst) == wanted {
                        break;
                    }
                    if spins.is_multiple_of(20_000) { std::thread::yield_now() } else { std::hint::spin_loop() }
                }
                assert!(!is_still_up(&memory, &tripwire, count));
                reader.read_exact(&mut [0]).unwrap();
            }
        });
    }

    #[test]
    fn monitor_is_down_when_its_thread_has_ended() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let task = std::thread::spawn({
            let reader = reader.try_clone().unwrap();
            move || {
                write_monitor(reader.as_fd())
                    .map(|(memory, tripwire)| (tripwire.set().unwrap().unwrap(), memory, tripwire))
            }
        });
        let Some((count, memory, tripwire)) = task.join().unwrap() else { return };
        assert!(!is_still_up(&memory, &tripwire, count));
        assert!(tripwire.set().is_err(), "of another thread");
    }

    #[test]
    fn monitor_keeps_no_pipe_open() {
        let _guard = crate::children::none();
        let (reader, mut writer) = std::io::pipe().unwrap();
        let Some((_memory, tripwire)) = write_monitor(reader.as_fd()) else { return };
        tripwire.set().unwrap().unwrap();
        drop(reader);
        assert_eq!(writer.write(b"x").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    }
}
