//! The shared memory of a broadcast, as this process has mapped it.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use millstream_ring::{BROADCAST_HEADER_BYTES, Broadcast, BroadcastHeader, Bytes};
use millstream_sys::memory::{self, SharedMapping};
use millstream_sys::{Errno, own_pid_namespace};

use crate::pipe_count::{Counted, is_another_allowed};

/// Pages are made and mapped in steps of this size.
const STEP: usize = 64 << 10;

/// Header and bank, and the file that they are mapped from.
#[derive(Debug)]
pub(super) struct Segment {
    /// Of `mapping`, so for no longer than this lives: only [`Segment::shared`] hands it out.
    shared: Broadcast<'static>,
    mapping: SharedMapping,
    pub(super) file: OwnedFd,
    /// The process, and its descriptor of this file, through which it was found, if it came from elsewhere.
    pub(super) found_at: Option<(u32, u32)>,
    /// Bytes of the bank, from its start, that are backed and mapped here.
    populated: AtomicUsize,
    _counted: Counted,
}

// SAFETY: an address that belongs to no thread, and atomics. The bytes there are copied to and from, never borrowed.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// A new one, which holds a power of two bytes.
    pub(super) fn create(capacity: usize, is_lossy: bool) -> io::Result<Segment> {
        if !is_another_allowed() {
            // An ordinary pipe can do without shared memory, a broadcast cannot.
            return Err(Errno::MFILE.into());
        }
        let file = memory::sealable_file_of_broadcast()?;
        let size = BROADCAST_HEADER_BYTES.checked_add(capacity).ok_or(Errno::INVAL)?;
        memory::seal_at(&file, size as u64)?;
        let segment = Segment::map(file, size, is_lossy, None)?;
        segment.shared().found(own_pid_namespace()?);
        Ok(segment)
    }

    /// One that another process has made, if it is one.
    pub(super) fn of_peer(file: OwnedFd, found_at: (u32, u32)) -> Option<Segment> {
        let size = usize::try_from(memory::length(&file).ok()?).ok()?;
        size.checked_sub(BROADCAST_HEADER_BYTES).filter(|bank| bank.is_power_of_two())?;
        let mut segment = Segment::map(file, size, false, Some(found_at)).ok()?;
        segment.shared = segment.shared.check(own_pid_namespace().ok()?).ok()?;
        Some(segment)
    }

    fn map(file: OwnedFd, size: usize, is_lossy: bool, found_at: Option<(u32, u32)>) -> Result<Segment, Errno> {
        let mapping = SharedMapping::of_sealed(file.as_fd(), size)?;
        mapping.populate(0, BROADCAST_HEADER_BYTES)?;
        let start = mapping.start();
        // SAFETY: the header lies at the start of the mapping, which is aligned to a page, longer than a header and lives as
        // long as the segment, beyond which no copy of the reference gets. Every field is an atomic integer, for which any
        // value is valid.
        let header = unsafe { start.cast::<BroadcastHeader>().as_ref() };
        // SAFETY: the rest of the mapping, which lives as long; the file is sealed, so it cannot be cut.
        let bytes = unsafe { Bytes::new(start.add(BROADCAST_HEADER_BYTES), size - BROADCAST_HEADER_BYTES) };
        let shared = Broadcast::new(header, bytes, is_lossy);
        let populated = AtomicUsize::new(0);
        Ok(Segment { shared, mapping, file, found_at, populated, _counted: Counted::new() })
    }

    #[inline]
    pub(super) fn shared(&self) -> &Broadcast<'_> {
        &self.shared
    }

    /// Sees to it that the bytes of the stream below `position` can be touched without a fault and without SIGBUS.
    #[inline]
    pub(super) fn populate(&self, position: u64) -> Result<(), Errno> {
        let capacity = self.shared.capacity();
        let to = usize::try_from(position).unwrap_or(capacity).min(capacity);
        if to <= self.populated.load(Relaxed) { Ok(()) } else { self.populate_more(to) }
    }

    #[cold]
    fn populate_more(&self, to: usize) -> Result<(), Errno> {
        let from = self.populated.load(Relaxed);
        let to = to.next_multiple_of(STEP).min(self.shared.capacity());
        if from < to {
            self.mapping.populate(BROADCAST_HEADER_BYTES + from, to - from)?;
            self.populated.fetch_max(to, Relaxed);
        }
        Ok(())
    }
}
