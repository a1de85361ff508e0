//! What both ends have in common: a descriptor of the backing pipe, the segment, and control.

pub(crate) mod leaving;
pub(crate) mod size;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millstream_ring::{ReadSide, Ring, WriteSide};
use millstream_sys::transfer::{self, Access};
use millstream_sys::{Errno, pipe};

use crate::claim::open::OpenClaim;
use crate::direct::descriptor::Direct;
use crate::error::broken;
use crate::fifo::company::{Alone, Company, Link};
use crate::mirror::Mirror;
use crate::parking::Parker;
use crate::pipe_count::Counted;
use crate::policy::{Effort, Patience, WaitPolicy};
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
    _counted: Option<Counted>,
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

impl Pipe {
    pub(crate) fn of_the_kernel() -> Pipe {
        Pipe {
            origin: None,
            segment: Slot::empty(),
            company: None,
            direct: Direct::never(),
            loan_max: 0,
            _counted: None,
        }
    }

    pub(crate) fn of_a_fifo(access: Access) -> Pipe {
        Pipe { company: Some(Company::of(access)), ..Pipe::of_the_kernel() }
    }

    pub(crate) fn unmapped(origin: Origin, direct: Direct, loan_max: usize) -> Pipe {
        let counted = Some(Counted::new());
        Pipe { origin: Some(origin), segment: Slot::empty(), company: None, direct, loan_max, _counted: counted }
    }

    pub(crate) fn mapped(origin: Origin, segment: Segment) -> Pipe {
        let direct = Direct::new(settings::direct(), settings::direct_min());
        Pipe { segment: Slot::of(segment), ..Pipe::unmapped(origin, direct, settings::loan_max()) }
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
        company.link(self.fd()).map_err(Some)
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

    /// Lets more bytes gather, where that pays: after a look that found some.
    pub(crate) fn let_gather(&self, ring: &Ring<'_>, effort: &mut Effort) {
        let (waiting, half) = (|| ring.readable().unwrap_or(0), ring.capacity().unwrap_or(0) / 2);
        self.patience.let_gather(ring.writers_cpu(), waiting, half, effort);
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
