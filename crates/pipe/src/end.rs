//! What both ends have in common: a descriptor of the backing pipe, the segment, and control.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use millstream_ring::{Geometry, ReadSide, ResizeError, Ring, RingError, Route, WriteSide};
use millstream_sys::transfer::Access;
use millstream_sys::{Errno, cpu, memory, pipe, transfer};

use crate::claim::{self, OpenClaim};
use crate::direct::{self, Direct};
use crate::fifo::{self, Alone, Company, Link};
use crate::mirror::{self, Mirror};
use crate::parking::Parker;
use crate::policy::{Patience, WaitPolicy};
use crate::segment::{Segment, Size, Slot};
use crate::settings;
use crate::statistics::{Counters, Statistics};

/// A pipe, in this process.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// `None` for a pipe that only the kernel carries.
    pub(crate) origin: Option<Origin>,
    /// Mapped when first used: a pipe that is made and closed, or inherited and closed, costs no mapping.
    segment: Slot<Segment>,
    /// Of a FIFO that may have a ring.
    pub(crate) company: Option<Company>,
    pub(crate) direct: Direct,
    /// Bytes that each end works on in place at once.
    pub(crate) loan_max: usize,
}

/// What a segment is mapped from.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) file: OwnedFd,
    /// Whose segment it is. Asked for when the pipe is made, not at an end when it is needed. By then a program may
    /// have closed the descriptor behind our back, and the number may be another pipe's.
    pub(crate) shadow: pipe::Identity,
    pub(crate) size: Size,
    /// The process, and its descriptor of this file, through which it was found, if it came from elsewhere.
    pub(crate) found_at: Option<(u32, u32)>,
}

/// Pipes with shared memory that this process has: its own, inherited and attached ones.
static PIPES: AtomicUsize = AtomicUsize::new(0);

/// Whether this process may have one more of them.
pub(crate) fn is_another_allowed() -> bool {
    PIPES.load(Relaxed) < settings::pipes_max()
}

/// One of them, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Counted(());

impl Counted {
    pub(crate) fn new() -> Counted {
        PIPES.fetch_add(1, Relaxed);
        Counted(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        PIPES.fetch_sub(1, Relaxed);
    }
}

impl Pipe {
    pub(crate) fn of_the_kernel() -> Pipe {
        Pipe { origin: None, segment: Slot::empty(), company: None, direct: Direct::never(), loan_max: 0 }
    }

    pub(crate) fn of_a_fifo(access: Access) -> Pipe {
        Pipe {
            origin: None,
            segment: Slot::empty(),
            company: Some(Company::of(access)),
            direct: Direct::never(),
            loan_max: 0,
        }
    }

    pub(crate) fn unmapped(origin: Origin, direct: Direct, loan_max: usize) -> Pipe {
        PIPES.fetch_add(1, Relaxed);
        Pipe { origin: Some(origin), segment: Slot::empty(), direct, loan_max, company: None }
    }

    pub(crate) fn mapped(origin: Origin, segment: Segment) -> Pipe {
        PIPES.fetch_add(1, Relaxed);
        let direct = Direct::new(settings::direct(), settings::direct_min());
        let loan_max = settings::loan_max();
        Pipe { origin: Some(origin), segment: Slot::of(segment), direct, loan_max, company: None }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if self.origin.is_some() {
            PIPES.fetch_sub(1, Relaxed);
        }
    }
}

/// One end: what [`crate::Reader`] and [`crate::Writer`] are made of.
#[derive(Debug)]
pub(crate) struct End {
    /// Taken only when the end is exported.
    fd: Option<OwnedFd>,
    pub(crate) pipe: Arc<Pipe>,
    pub(crate) counters: Counters,
    pub(crate) patience: Patience,
    pub(crate) claim: OpenClaim,
    was_blocking: AtomicBool,
    has_left: bool,
}

impl End {
    pub(crate) fn new(fd: OwnedFd, pipe: Arc<Pipe>, policy: WaitPolicy) -> End {
        End {
            fd: Some(fd),
            pipe,
            counters: Counters::default(),
            patience: Patience::new(policy),
            claim: OpenClaim::default(),
            was_blocking: AtomicBool::new(false),
            has_left: false,
        }
    }

    #[inline]
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("an end has its descriptor until it is given away").as_fd()
    }

    pub(crate) fn take_fd(mut self) -> OwnedFd {
        self.fd.take().expect("an end has its descriptor until it is given away")
    }

    #[inline]
    pub(crate) fn parker(&self) -> Parker<'_> {
        Parker::at(self.fd(), &self.counters)
    }

    pub(crate) fn readiness_bytes(&self) -> Mirror<'_> {
        Mirror::of(self.fd())
    }

    /// The segment, mapped now if it is not; `None` if the kernel alone carries this pipe.
    #[inline]
    pub(crate) fn segment(&self) -> Result<Option<&Segment>, Errno> {
        match self.pipe.segment.get() {
            Some(segment) => Ok(Some(segment)),
            None if self.pipe.origin.is_none() => Ok(None),
            None => self.map_segment(),
        }
    }

    #[cold]
    fn map_segment(&self) -> Result<Option<&Segment>, Errno> {
        let Some(Origin { file, shadow, size, .. }) = &self.pipe.origin else { return Ok(None) };
        let segment = Segment::of_own(file.as_fd(), *shadow, *size)?;
        Ok(Some(self.pipe.segment.fill(segment)))
    }

    /// The ring of a FIFO, if it has one or this end may make one. Otherwise an [`Alone`], which stands for using the
    /// kernel's pipe, if there could be a ring.
    #[inline]
    pub(crate) fn link(&self) -> Result<&Link, Option<Alone<'_>>> {
        let company = self.pipe.company.as_ref().ok_or(None)?;
        company.link(self).map_err(Some)
    }

    /// From now on the FIFO's end is nothing but a descriptor of the kernel's pipe.
    pub(crate) fn keep_to_kernel(&self) -> io::Result<()> {
        if let Some(company) = &self.pipe.company
            && let Some(link) = company.be_plain(self)
        {
            fifo::routes::keep_to_kernel(self, link, company.access())?;
        }
        Ok(())
    }

    /// Exports the descriptor of a pipe that the kernel carries, or of a FIFO.
    pub(crate) fn into_plain_fd(mut self) -> io::Result<OwnedFd> {
        if let Some(company) = &self.pipe.company
            && let Some(link) = company.link_so_far()
        {
            fifo::routes::becomes_plain(&self, link, company.access())?;
        }
        // The new owner of the descriptor can do nothing about it.
        let _ = self.leave_company();
        Ok(self.fd.take().expect("an end has its descriptor until it is given away"))
    }

    /// Clones go on; so does a child process, which attaches again.
    fn leave_company(&self) -> io::Result<()> {
        if let Some(company) = &self.pipe.company
            && company.end_goes()
            && let Some(link) = company.link_so_far()
        {
            return fifo::routes::leave(self, link, company.access());
        }
        Ok(())
    }

    /// As dropping it, and reports whether the last bytes were lost.
    pub(crate) fn close(mut self) -> io::Result<()> {
        claim::give_back(&self);
        let outcome = self.leave_company();
        self.has_left = true;
        outcome
    }

    /// Whether this process or another has mapped the segment: until then its file is empty.
    fn is_ring_used(&self) -> bool {
        let is_used = |origin: &Origin| memory::length(&origin.file).is_ok_and(|length| length > 0);
        self.pipe.segment.get().is_some() || self.pipe.origin.as_ref().is_some_and(is_used)
    }

    /// Whether this end was blocking when the kernel was last asked. Good enough for a spin; before it sleeps the
    /// kernel is asked again.
    #[inline]
    pub(crate) fn was_blocking(&self) -> Result<bool, Errno> {
        if self.was_blocking.load(Relaxed) { Ok(true) } else { self.is_blocking() }
    }

    /// Whether this end is blocking.
    pub(crate) fn is_blocking(&self) -> Result<bool, Errno> {
        let is_blocking = !transfer::is_nonblocking(self.fd())?;
        self.was_blocking.store(is_blocking, Relaxed);
        Ok(is_blocking)
    }

    pub(crate) fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        self.was_blocking.store(false, Relaxed);
        Ok(transfer::set_nonblocking(self.fd(), yes)?)
    }

    pub(crate) fn try_clone(&self) -> io::Result<End> {
        let fd = self.fd().try_clone_to_owned()?;
        if let Some(company) = &self.pipe.company {
            company.end_comes();
        }
        Ok(End::new(fd, self.pipe.clone(), self.patience.policy()))
    }

    pub(crate) fn has_ring(&self) -> bool {
        self.pipe.origin.is_some() || self.pipe.company.as_ref().is_some_and(|company| company.link_so_far().is_some())
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.counters.snapshot()
    }

    pub(crate) fn bytes_readable(&self) -> io::Result<usize> {
        if let Some(link) = self.pipe.company.as_ref().and_then(|company| company.link_if_any(self)) {
            return fifo::routes::bytes_readable(self, link);
        }
        let Some(segment) = self.segment()? else { return Ok(transfer::bytes_waiting(self.fd())?) };
        let ring = segment.ring();
        if ring.route() == Route::Ring {
            let waiting = self.readable_and_offered(ring)?;
            // Otherwise they may have been moved in between, and are not gone.
            if ring.route() == Route::Ring {
                return Ok(waiting);
            }
        }
        // What is just being moved is in both places: not while the readers are locked.
        let parker = self.parker();
        let _readers = ring.lock_readers(&parker).map_err(broken)?;
        let in_ring = ring.readable().map_err(broken)?;
        let in_shadow = if ring.route() == Route::Shadow { transfer::bytes_waiting(self.fd())? } else { 0 };
        Ok(in_ring + in_shadow)
    }

    /// Bytes in the ring and the rest of a single-copy transfer, but not more than the ring holds. A kernel's pipe,
    /// which a blocked writer fills again at once, would show as much.
    fn readable_and_offered(&self, ring: &Ring<'_>) -> io::Result<usize> {
        let waiting = ring.readable().map_err(broken)?;
        if !ring.is_offered() {
            return Ok(waiting);
        }
        if direct::drop_if_dead(ring).map_err(broken)? {
            direct::tell_that_nothing_is_offered(self, ring);
        }
        let rest = ring.offer().map_err(broken)?.map_or(0, |offer| offer.rest());
        Ok((waiting + rest).min(ring.capacity().map_err(broken)?).max(waiting))
    }

    pub(crate) fn capacity(&self) -> io::Result<usize> {
        match self.segment()?.map(|segment| (segment.ring(), segment.ring().route())) {
            Some((ring, route)) if is_of_the_ring(ring, route) => ring.capacity().map_err(broken),
            _ => Ok(pipe::capacity(self.fd())?),
        }
    }

    pub(crate) fn set_capacity(&self, bytes: usize) -> io::Result<usize> {
        self.keep_to_kernel()?;
        let Some(segment) = self.segment()? else { return Ok(pipe::set_capacity(self.fd(), bytes)?) };
        let ring = segment.ring();
        let somebody_waits = || ring.readers_wait() || ring.writers_wait();
        let both_ends = || transfer::reopened(self.fd(), transfer::Access::Both, true);
        claim::give_back(self);
        if claim::is_anywhere(self, ring) {
            return Err(Errno::BUSY.into());
        }
        let (granted, both) = {
            let parker = self.parker();
            let sides = lock_both(ring, &parker)?;
            if !is_of_the_ring(ring, ring.route()) {
                return Ok(pipe::set_capacity(self.fd(), bytes)?);
            }
            if sides.are_claimed() {
                return Err(Errno::BUSY.into());
            }
            let now = ring.capacity().map_err(broken)?;
            let wished = permitted_capacity(bytes, now)?;
            // There may be room for it now. If not, the writer starts the transfer again.
            sides.writers.return_offers(&sides.readers).map_err(broken)?;
            // What can fail is done first: an error says that nothing has happened.
            let both = somebody_waits().then(both_ends).transpose()?;
            if ring.is_quiet() {
                shrink_backing_pipe(self.fd(), wished)?;
            }
            mirror::make_room(self.fd(), wished)?;
            if wished != now {
                resize(segment, &sides, wished)?;
            }
            if ring.writers_wait() || ring.bell().is_watched_for_room() {
                enlarge_idle_backing_pipe(self.fd(), ring);
            }
            (wished, both)
        };
        // A waiter may find that there is room now, or none. One that began to wait since the first look, and cannot
        // be notified, checks by itself at its timeout.
        if somebody_waits()
            && let Some(both) = both.or_else(|| both_ends().ok())
        {
            let (parker, mirror) = (self.parker(), Mirror::of(both.as_fd()));
            let _ = ring.bell().raise(&parker, &mirror).and_then(|_| ring.bell().lower(&parker, &mirror));
        }
        Ok(granted)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        claim::give_back(self);
        if self.fd.is_some() && !self.has_left {
            // `close` reports it; a drop cannot.
            let _ = self.leave_company();
        }
        if let Some(fd) = self.fd.take() {
            // First closed, then told: a process that is told asks the kernel.
            drop(fd);
            if self.is_ring_used()
                && let Ok(Some(segment)) = self.segment()
            {
                segment.ring().note_close();
            }
        }
    }
}

/// Both sides of a ring, locked. Fields are dropped in this order: the lock that was taken last is released first.
pub(crate) struct BothSides<'a> {
    pub(crate) readers: ReadSide<'a, Parker<'a>>,
    pub(crate) writers: WriteSide<'a, Parker<'a>>,
}

impl BothSides<'_> {
    /// Whether a process works in place, so that the ring must stay where it is.
    pub(crate) fn are_claimed(&self) -> bool {
        self.readers.is_claimed() || self.writers.is_claimed()
    }
}

/// Locks both sides in the order in which every process takes them.
pub(crate) fn lock_both<'a>(ring: &'a Ring<'a>, parker: &'a Parker<'a>) -> io::Result<BothSides<'a>> {
    let writers = ring.lock_writers(parker).map_err(broken)?;
    let readers = ring.lock_readers(parker).map_err(broken)?;
    Ok(BothSides { readers, writers })
}

/// Whether the ring says how much the pipe holds: also in idle mode.
fn is_of_the_ring(ring: &Ring<'_>, route: Route) -> bool {
    route == Route::Ring || ring.is_quiet()
}

/// Shrinks the backing pipe of a pipe in idle mode to `bytes`, unless more than that waits in it.
fn shrink_backing_pipe(shadow: BorrowedFd<'_>, bytes: usize) -> Result<(), Errno> {
    if transfer::bytes_waiting(shadow)? > bytes {
        return Err(Errno::BUSY);
    }
    if pipe::capacity(shadow)? > bytes { pipe::set_capacity(shadow, bytes).map(drop) } else { Ok(()) }
}

/// With the writers locked. In idle mode the backing pipe is smaller than the ring: makes it as large. That wakes the
/// writers that wait for room there, and those that poll. Returns whether it is larger now; it is not where the
/// kernel refuses its user the pages.
pub(crate) fn enlarge_idle_backing_pipe(shadow: BorrowedFd<'_>, ring: &Ring<'_>) -> bool {
    let (Ok(capacity), Ok(now)) = (ring.capacity(), pipe::capacity(shadow)) else { return false };
    ring.is_quiet() && now < capacity && pipe::set_capacity(shadow, capacity).is_ok()
}

fn resize(segment: &Segment, sides: &BothSides<'_>, bytes: usize) -> io::Result<()> {
    if let Some(extent) = sides.writers.extent_of(bytes).map_err(broken)? {
        segment.populate(extent)?;
    }
    sides.writers.resize(&sides.readers, bytes).map_err(|error| match error {
        ResizeError::Busy => Errno::BUSY.into(),
        ResizeError::TooLarge => Errno::PERM.into(),
        ResizeError::Broken => broken(RingError),
    })
}

/// What the kernel would grant for this capacity (`F_SETPIPE_SZ` in `fcntl(2)`).
pub(crate) fn permitted_capacity(bytes: usize, now: usize) -> Result<usize, Errno> {
    let of_the_kernel = || if cpu::may_exceed_pipe_max_size() { usize::MAX } else { settings::pipe_max_size() };
    capacity_within(bytes, now, || of_the_kernel().min(settings::capacity_limit()))
}

fn capacity_within(bytes: usize, now: usize, limit: impl FnOnce() -> usize) -> Result<usize, Errno> {
    if bytes > 1 << 31 {
        return Err(Errno::INVAL);
    }
    let rounded = bytes.next_power_of_two().max(millstream_ring::MIN_BYTES);
    // As there: a call that only shrinks needs no permission.
    if rounded > now && rounded > limit() { Err(Errno::PERM) } else { Ok(rounded) }
}

/// The size of a segment whose ring holds `capacity`, a power of two, at first. It can grow as far as the settings
/// allow.
pub(crate) fn size_for(capacity: usize) -> Result<Size, Errno> {
    // Above 1 GiB, which the kernel would allow root: refused as the kernel refuses what it does not allow.
    let initial = Geometry::of(capacity).ok_or(Errno::PERM)?;
    Ok(Size { bank_bytes: capacity.max(settings::capacity_max()), initial })
}

/// The stream cannot go on. The error names no culprit.
#[cold]
pub(crate) fn broken(_: RingError) -> io::Error {
    io::Error::other(RingError)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_capacity_is_rounded_up_and_then_measured_against_the_limit() {
        let with_limit = |limit| move |bytes, now| capacity_within(bytes, now, || limit);
        let unprivileged = with_limit(MIB);
        assert_eq!(unprivileged(0, 4096), Ok(4096));
        assert_eq!(unprivileged(4097, 4096), Ok(8192));
        assert_eq!(unprivileged(MIB, 4096), Ok(MIB));
        assert_eq!(unprivileged(MIB + 1, 4096), Err(Errno::PERM));
        assert_eq!(unprivileged(1 << 31, 4096), Err(Errno::PERM));
        assert_eq!(unprivileged((1 << 31) + 1, 4096), Err(Errno::INVAL));
        let privileged = with_limit(usize::MAX);
        assert_eq!(privileged(1 << 31, 4096), Ok(1 << 31));
        assert_eq!(privileged((1 << 31) + 1, 4096), Err(Errno::INVAL));
        assert_eq!(privileged(usize::MAX, 4096), Err(Errno::INVAL));
    }

    #[test]
    fn capacity_needs_no_permission_unless_it_grows() {
        let to = |bytes| capacity_within(bytes, 4 * MIB, || MIB);
        assert_eq!(to(4 * MIB), Ok(4 * MIB));
        assert_eq!(to(3 * MIB), Ok(4 * MIB));
        assert_eq!(to(2 * MIB), Ok(2 * MIB));
        assert_eq!(to(4 * MIB + 1), Err(Errno::PERM));
    }
}
