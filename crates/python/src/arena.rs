//! Memory beside a pipe, in which the large buffers of its messages lie: copied once, by the sender, and used there by
//! the receiver.
//!
//! The file has no name and goes with its last process. It has a page of words and then [`BLOCKS`] blocks. A message
//! takes a run of blocks, the lowest that is free, and its receiver frees them: a bit for each block says whether it is
//! in use, so one atomic step takes a run and one frees it, in any order and in any process. A process that is killed
//! in between leaves bits set. Its blocks are lost to the arena, and messages that find no room go through the pipe, as
//! do those that are larger than the arena.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use millstream_sys::memory::{self, SharedMapping};
use millstream_sys::{Errno, futex};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::call::{error, wait};

const PAGE: usize = 4096;
/// As many as a word has bits.
const BLOCKS: usize = 64;
/// Of each buffer in its run.
const ALIGNMENT: usize = 64;

/// How long a sender waits for a run, and how much longer for each byte of it: less than the copy out of the pipe takes
/// that it saves. After that the message goes through the pipe, which also says if the receiver has died.
const PATIENCE: Duration = Duration::from_millis(100);
const PATIENCE_OF_A_BYTE: Duration = Duration::from_nanos(1);

/// The words of the first page.
#[repr(C)]
struct Words {
    /// A bit for each block that is in use.
    used: AtomicU64,
    /// Counts runs that were freed: what a sender sleeps on.
    freed: AtomicU32,
    /// Senders that sleep, or are about to. One that was killed stays counted, which costs a system call for each run
    /// that is freed.
    waiters: AtomicU32,
}

/// Memory for large buffers of messages.
#[pyclass(frozen, module = "millstream._native")]
pub(crate) struct Arena {
    mapping: SharedMapping,
    file: OwnedFd,
    block_bytes: usize,
    /// A bit for each block whose pages exist, as this process has seen to.
    populated: AtomicU64,
}

/// Blocks of a message, in use by the caller.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// Of the first byte, counted from the first block.
    pub(crate) offset: usize,
    /// Bytes.
    pub(crate) len: usize,
}

#[pymethods]
impl Arena {
    /// Room for `size` bytes, rounded up.
    #[new]
    fn new(size: usize) -> PyResult<Arena> {
        let block_bytes = size.div_ceil(BLOCKS).checked_next_multiple_of(PAGE).filter(|&bytes| bytes > 0);
        let too_large = || PyValueError::new_err(format!("an arena of {size} bytes is out of range"));
        let block_bytes =
            block_bytes.filter(|bytes| bytes.checked_mul(BLOCKS + 1).is_some_and(|all| all < isize::MAX as usize));
        let block_bytes = block_bytes.ok_or_else(too_large)?;
        let file = memory::sealable_file_of_arena().map_err(refused)?;
        memory::seal_at(&file, (PAGE + BLOCKS * block_bytes) as u64).map_err(refused)?;
        Arena::of(file, block_bytes)
    }

    /// The arena of a descriptor, as `fileno` of another process has it. It takes the descriptor over.
    #[staticmethod]
    fn attach(fd: i32) -> PyResult<Arena> {
        if fd < 0 {
            return Err(PyValueError::new_err("a descriptor is not negative"));
        }
        // SAFETY: not -1. The caller gives it up, as with `os.fdopen`.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let blocks = memory::length(&file).map_err(refused)?.saturating_sub(PAGE as u64) as usize;
        let block_bytes = blocks / BLOCKS;
        if block_bytes == 0 || !blocks.is_multiple_of(BLOCKS * PAGE) {
            return Err(PyValueError::new_err("the descriptor is that of no arena"));
        }
        Arena::of(file, block_bytes)
    }

    /// A new descriptor of its memory, for another process.
    fn dup(&self) -> PyResult<i32> {
        Ok(self.file.try_clone().map_err(error)?.into_raw_fd())
    }

    /// Bytes for messages.
    #[getter]
    fn capacity(&self) -> usize {
        BLOCKS * self.block_bytes
    }

    /// Bytes that messages have taken, in whole blocks.
    #[getter]
    fn used(&self) -> usize {
        self.words().used.load(Relaxed).count_ones() as usize * self.block_bytes
    }

    /// Of the memory: to tell arenas apart, not to be read or closed.
    fn fileno(&self) -> i32 {
        self.file.as_raw_fd()
    }
}

impl Arena {
    fn of(file: OwnedFd, block_bytes: usize) -> PyResult<Arena> {
        let mapping = SharedMapping::of_sealed(&file, PAGE + BLOCKS * block_bytes).map_err(refused)?;
        mapping.populate(0, PAGE).map_err(refused)?;
        Ok(Arena { mapping, file, block_bytes, populated: AtomicU64::new(0) })
    }

    fn words(&self) -> &Words {
        // SAFETY: at the start of a mapping that is a page at least, exists, and lives as long as `self`. Any value is
        // valid for atomic integers.
        unsafe { self.mapping.start().cast().as_ref() }
    }

    /// Copies buffers into a run. `None`: there is no room, now or ever, or no memory.
    pub(crate) fn put(&self, py: Python<'_>, buffers: &[&[u8]]) -> PyResult<Option<Run>> {
        let Some(len) = size_of(buffers.iter().map(|buffer| buffer.len())) else { return Ok(None) };
        let Some(run) = self.take(py, len)? else { return Ok(None) };
        if self.populate(run).is_err() {
            self.free(run);
            return Ok(None);
        }
        py.detach(|| {
            let mut at = self.address(run.offset);
            for buffer in buffers {
                // SAFETY: inside of the run, as `size_of` has added up the same lengths. Its blocks are in use by this
                // call only, and the memory of Python's objects lies elsewhere.
                unsafe { ptr::copy_nonoverlapping(buffer.as_ptr(), at as *mut u8, buffer.len()) };
                at += buffer.len().next_multiple_of(ALIGNMENT);
            }
        });
        Ok(Some(run))
    }

    /// The run that a message says its buffers are in. Its pages exist.
    pub(crate) fn run_of_message(&self, offset: usize, lens: &[usize]) -> PyResult<Run> {
        let len = size_of(lens.iter().copied());
        let len = len.filter(|&len| {
            len > 0
                && offset.is_multiple_of(self.block_bytes)
                && offset.checked_add(len).is_some_and(|end| end <= self.capacity())
        });
        let run = Run {
            offset,
            len: len.ok_or_else(|| PyOSError::new_err("bad message: its buffers are outside of the arena"))?,
        };
        // The sender has made them, so this only saves the faults.
        self.populate(run).map_err(refused)?;
        Ok(run)
    }

    /// Where the byte at `offset` lies.
    pub(crate) fn address(&self, offset: usize) -> usize {
        self.mapping.start().as_ptr() as usize + PAGE + offset
    }

    /// The bytes of a run, which stay as they are until it is freed.
    ///
    /// # Safety
    /// They are not used after that.
    pub(crate) unsafe fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: inside of the arena, as `run_of_message` has found. The sender writes no more to a run that it has
        // sent, nor does any other process: that is the promise of `trust`.
        unsafe { std::slice::from_raw_parts(self.address(offset) as *const u8, len) }
    }

    pub(crate) fn free(&self, run: Run) {
        let words = self.words();
        words.used.fetch_and(!self.mask(run), Release);
        words.freed.fetch_add(1, SeqCst);
        if words.waiters.load(SeqCst) > 0 {
            futex::wake_all(&words.freed);
        }
    }

    fn take(&self, py: Python<'_>, len: usize) -> PyResult<Option<Run>> {
        let count = len.div_ceil(self.block_bytes);
        if count == 0 || count > BLOCKS {
            return Ok(None);
        }
        if let Some(first) = self.take_now(count) {
            return Ok(Some(Run { offset: first * self.block_bytes, len }));
        }
        let until =
            Instant::now() + PATIENCE + PATIENCE_OF_A_BYTE.saturating_mul(u32::try_from(len).unwrap_or(u32::MAX));
        let taken = wait(py, || self.take_until(count, until))?;
        Ok(taken.map(|first| Run { offset: first * self.block_bytes, len }))
    }

    fn take_until(&self, count: usize, until: Instant) -> io::Result<Option<usize>> {
        let words = self.words();
        words.waiters.fetch_add(1, SeqCst);
        let taken = loop {
            // Before the blocks: a run that is freed after they were seen changes it.
            let seen = words.freed.load(SeqCst);
            if let Some(first) = self.take_now(count) {
                break Ok(Some(first));
            }
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break Ok(None);
            }
            if futex::wait_or_be_interrupted(&words.freed, seen, rest) {
                break Err(io::ErrorKind::Interrupted.into());
            }
        };
        words.waiters.fetch_sub(1, SeqCst);
        taken
    }

    /// The first block of the lowest run of so many that are free.
    fn take_now(&self, count: usize) -> Option<usize> {
        let used = &self.words().used;
        let mut seen = used.load(Relaxed);
        loop {
            let first = (0..=BLOCKS - count).find(|&first| seen & mask_of(first, count) == 0)?;
            // What was read from the blocks before they were freed is read before they are written.
            match used.compare_exchange_weak(seen, seen | mask_of(first, count), Acquire, Relaxed) {
                Ok(_) => return Some(first),
                Err(now) => seen = now,
            }
        }
    }

    fn mask(&self, run: Run) -> u64 {
        mask_of(run.offset / self.block_bytes, run.len.div_ceil(self.block_bytes))
    }

    /// Makes the pages of a run exist, for this process: a page that the kernel could not make when it is touched would
    /// be SIGBUS.
    fn populate(&self, run: Run) -> Result<(), Errno> {
        let mask = self.mask(run);
        if self.populated.load(Relaxed) & mask == mask {
            return Ok(());
        }
        self.mapping.populate(PAGE + run.offset, run.len.next_multiple_of(self.block_bytes))?;
        self.populated.fetch_or(mask, Relaxed);
        Ok(())
    }
}

/// Bits of `count` blocks, at least one, from `first` on.
fn mask_of(first: usize, count: usize) -> u64 {
    u64::MAX >> (BLOCKS - count) << first
}

/// Bytes of a run with buffers of these lengths.
fn size_of(mut lens: impl Iterator<Item = usize>) -> Option<usize> {
    lens.try_fold(0usize, |sum, len| sum.checked_add(len.checked_next_multiple_of(ALIGNMENT)?))
}

/// Where each buffer of a run lies in it.
pub(crate) fn places(lens: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
    lens.iter().scan(0, |at, &len| {
        let place = (*at, len);
        *at += len.next_multiple_of(ALIGNMENT);
        Some(place)
    })
}

fn refused(errno: Errno) -> PyErr {
    error(errno.into())
}
