//! The shared memory of one pipe, as this process has mapped it.
#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU64};

use millstream_ring::{Bytes, Extent, ForeignError, Geometry, HEADER_BYTES, Header, Ring, Route, Whose};
use millstream_sys::memory::{self, SharedMapping};
use millstream_sys::pipe::Identity;
use millstream_sys::tripwire::{self, Tripwire, Words};
use millstream_sys::{Errno, fd::BorrowedFd};

use crate::parking::Parker;

/// Pages are made and mapped in steps of at most this size: few calls for a pipe that carries much.
const LARGEST_STEP: usize = 64 << 10;

const PAGE: usize = 4096;

/// A mapped segment: a page of header and two buffers.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Of `mapping`, so for no longer than this lives: only [`Segment::ring`] returns it. A transfer uses it by
    /// reference: copying its words just after they were stored one by one causes a store-forwarding stall. The
    /// processor would then wait for all stores before, which are those into the ring.
    ring: Ring<'static>,
    mapping: SharedMapping,
    /// Bytes of each buffer, from its start, that are known to be backed and mapped here, below the epoch in which
    /// this holds: see [`known`].
    populated: [AtomicU64; 2],
}

impl Segment {
    /// Maps the segment of a pipe that this process, or one that it was forked from, has made. Enters the pipe in the
    /// header, if no process has done so.
    pub(crate) fn of_own(file: BorrowedFd<'_>, shadow: Identity, size: Size) -> Result<Segment, Errno> {
        memory::seal_at(file, size.segment() as u64)?;
        let segment = Segment::map(file, size)?;
        segment.ring().found(whose(shadow)?, size.initial);
        Ok(segment)
    }

    /// Maps the segment of a FIFO for which this process has made one. The wake-up pipe of the ring has the inode
    /// `bell_inode`.
    pub(crate) fn of_fifo(file: BorrowedFd<'_>, fifo: Identity, size: Size, bell_inode: u64) -> Result<Segment, Errno> {
        memory::seal_at(file, size.segment() as u64)?;
        let segment = Segment::map(file, size)?;
        segment.ring().found_for_fifo(whose(fifo)?, size.initial, bell_inode);
        Ok(segment)
    }

    /// Maps the segment of a pipe whose end came from elsewhere, if it is what it should be.
    pub(crate) fn of_peer(file: &OwnedFd, shadow: Identity) -> Result<(Segment, Size), Unfit> {
        let size = Size::bank_bytes_of(memory::length(file)?).and_then(Size::of_banks).ok_or(ForeignError::Size)?;
        let segment = Segment::map(file, size)?;
        segment.ring().check(whose(shadow)?)?;
        Ok((segment, size))
    }

    fn map(file: impl AsFd, size: Size) -> Result<Segment, Errno> {
        let mapping = SharedMapping::of_sealed(file, size.segment())?;
        mapping.populate(0, HEADER_BYTES)?;
        let start = mapping.start();
        // SAFETY: the header lies at the start of the mapping, which is aligned to a page and longer than a header
        // (`Size`). The mapping lives as long as the segment, beyond which no copy of the reference gets. Every field
        // is an atomic integer, for which any value is valid.
        let header = unsafe { start.cast::<Header>().as_ref() };
        // SAFETY: the rest of the mapping, which lives as long; the file is sealed, so it cannot be cut.
        let bytes = unsafe { Bytes::new(start.add(HEADER_BYTES), mapping.len() - HEADER_BYTES) };
        Ok(Segment { ring: Ring::new(header, bytes), mapping, populated: [const { AtomicU64::new(0) }; 2] })
    }

    #[inline]
    pub(crate) fn ring(&self) -> &Ring<'_> {
        &self.ring
    }

    /// A stretch of the two buffers, counted from the start of the first. It is an address, which must never become a
    /// reference while another process may change what is there.
    pub(crate) fn place(&self, range: Range<usize>) -> NonNull<[u8]> {
        let banks = self.mapping.len() - HEADER_BYTES;
        assert!(range.start <= range.end && range.end <= banks);
        // SAFETY: within the mapping, by the line above.
        let start = unsafe { self.mapping.start().add(HEADER_BYTES + range.start) };
        NonNull::slice_from_raw_parts(start, range.len())
    }

    /// A [`Tripwire`] at `pipe`, with its words in the page at `offset`, which was taken for that.
    pub(crate) fn write_monitor(&self, offset: usize, pipe: BorrowedFd<'_>) -> Result<Tripwire, Errno> {
        self.mapping.populate(offset, tripwire::PAGE)?;
        // SAFETY: a page of the mapping, as `populate` has found, which no other code uses. It is kept with the
        // `Tripwire` in a `Link`, in which the segment is dropped later.
        unsafe { Tripwire::new(self.mapping.start().add(offset), pipe) }
    }

    /// Whether the `Tripwire` armed at `count` is still armed. Its `words` lie in the page at `offset`.
    #[inline]
    pub(crate) fn is_monitor_armed(&self, offset: usize, words: Words, count: u32) -> bool {
        // SAFETY: a page of the mapping; words are within it.
        offset.is_multiple_of(tripwire::PAGE)
            && offset < self.mapping.len()
            && unsafe { tripwire::is_up(self.mapping.start().add(offset), words, count) }
    }

    /// Makes sure that these bytes can be touched without a fault and without SIGBUS. Only while the caller holds the
    /// lock of a side, and has asked for the extent under it: until the lock is released no process returns pages to
    /// the system.
    #[inline]
    pub(crate) fn populate(&self, extent: Extent) -> Result<(), Errno> {
        if extent.len <= self.populated_in(extent) { Ok(()) } else { self.populate_more(extent) }
    }

    #[inline]
    fn populated_in(&self, Extent { bank, epoch, .. }: Extent) -> usize {
        let known = self.populated[bank].load(Relaxed);
        if known >> 32 == u64::from(epoch) { known as u32 as usize } else { 0 }
    }

    #[cold]
    fn populate_more(&self, extent: Extent) -> Result<(), Errno> {
        let Extent { bank, len, epoch } = extent;
        let from = self.populated_in(extent);
        let ring = self.ring();
        // A page, two, four and so on at first: little memory for a pipe that carries little.
        let step = len.next_power_of_two().clamp(PAGE, LARGEST_STEP);
        let to = len.next_multiple_of(step).min(ring.bank_bytes());
        if from < to {
            self.mapping.populate(ring.bank_offset(bank) + from, to - from)?;
            self.populated[bank].store(known(epoch, to), Relaxed);
        }
        Ok(())
    }

    /// Pages of the ring that this process has had made and that were not removed since, as far as it knows.
    pub(crate) fn pages_made(&self) -> usize {
        self.populated.iter().map(|known| known.load(Relaxed) as u32 as usize / PAGE).sum()
    }

    /// Gives the pages of the ring back to the system, if the ring is empty and no process uses it at this moment.
    /// Returns whether it did. The capacity stays: the next process that uses the ring has its pages made again.
    pub(crate) fn give_pages_back(&self, parker: &Parker<'_>) -> bool {
        let ring = self.ring();
        if self.populated.iter().all(|known| known.load(Relaxed) as u32 as usize <= PAGE) {
            return false;
        }
        let Some((writers, readers)) = ring.try_lock_both(parker) else { return false };
        if ring.route() != Route::Ring || writers.disown_pages(&readers) != Ok(true) {
            return false;
        }
        self.populated.iter().for_each(|known| known.store(0, Relaxed));
        // Where the kernel refuses the pages stay, and are used again.
        self.mapping.remove(HEADER_BYTES, 2 * ring.bank_bytes()).is_ok()
    }
}

/// What is known of a buffer, as one word: the epoch, and below it how many bytes.
fn known(epoch: u32, bytes: usize) -> u64 {
    u64::from(epoch) << 32 | bytes as u64
}

/// Where the segment of a pipe is kept once it is mapped.
///
/// No `OnceLock`, which has threads wait for the one that came first: in a child that was forked at that moment it does
/// not exist. Here several may map the segment at once, and all but one of the mappings are undone.
#[derive(Debug)]
pub(crate) struct Slot<T>(AtomicPtr<T>);

impl<T> Slot<T> {
    pub(crate) fn empty() -> Slot<T> {
        Slot(AtomicPtr::new(ptr::null_mut()))
    }

    pub(crate) fn of(segment: T) -> Slot<T> {
        Slot(AtomicPtr::new(Box::into_raw(Box::new(segment))))
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: null, or a segment that stays there as long as the slot lives. Threads may share it: an address and
        // atomics.
        unsafe { self.0.load(Acquire).as_ref() }
    }

    /// What is in the slot afterwards: `segment`, or that of another thread, which is as good.
    pub(crate) fn fill(&self, segment: T) -> &T {
        let ours = Box::into_raw(Box::new(segment));
        let kept = match self.0.compare_exchange(ptr::null_mut(), ours, AcqRel, Acquire) {
            Ok(_) => ours,
            Err(first) => {
                // SAFETY: made above and shown to no other thread.
                drop(unsafe { Box::from_raw(ours) });
                first
            }
        };
        // SAFETY: as in `get`.
        unsafe { &*kept }
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        let segment = *self.0.get_mut();
        if !segment.is_null() {
            // SAFETY: it came from a box, and with the slot its last user is gone.
            drop(unsafe { Box::from_raw(segment) });
        }
    }
}

fn whose(shadow: Identity) -> Result<Whose, Errno> {
    let pid_namespace = millstream_sys::own_pid_namespace()?;
    Ok(Whose { device: shadow.device, inode: shadow.inode, pid_namespace })
}

/// How large a segment is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) bank_bytes: usize,
    pub(crate) initial: Geometry,
}

impl Size {
    fn segment(self) -> usize {
        HEADER_BYTES + 2 * self.bank_bytes
    }

    /// Of a segment that was found, whose ring is of the size that it says.
    fn of_banks(bank_bytes: usize) -> Option<Size> {
        Some(Size { bank_bytes, initial: Geometry::of(bank_bytes)? })
    }

    /// Of the buffers in a file of this length, if that can be a segment.
    pub(crate) fn bank_bytes_of(file_bytes: u64) -> Option<usize> {
        let banks = usize::try_from(file_bytes).ok()?.checked_sub(HEADER_BYTES)?;
        Some(banks / 2).filter(|bytes| bytes.is_power_of_two() && banks % 2 == 0)
    }
}

/// Why a segment from elsewhere is not used.
#[derive(Debug)]
pub(crate) enum Unfit {
    Foreign(#[allow(dead_code, reason = "shown by Debug")] ForeignError),
    System(#[allow(dead_code, reason = "shown by Debug")] Errno),
}

impl From<ForeignError> for Unfit {
    fn from(difference: ForeignError) -> Unfit {
        Unfit::Foreign(difference)
    }
}

impl From<Errno> for Unfit {
    fn from(error: Errno) -> Unfit {
        Unfit::System(error)
    }
}
