//! How ends that were opened independently find one another and share a ring.
//!
//! Readers make the ring, when they first read; writers look for one. Whoever is in company has a mark on the FIFO, which
//! says where its process has the ring's memory and its bell, and which the kernel removes with the last descriptor. Who
//! follows a mark is let in by `/proc` only to processes of the same user, and believes nothing that does not name
//! this very FIFO. Marks can be put there by anybody who may open the FIFO, and by nobody else.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use millstream_ring::Ring;
use millstream_sys::transfer::{self, Access};
use millstream_sys::{Errno, clock, cpu, fifo, memory, own_pid, pipe};

use super::doorbell::Doorbell;
use crate::end::{End, is_another_allowed, size_for};
use crate::handover::{FIRST_OF_WRITERS, Place};
use crate::parking::Parker;
use crate::segment::{Segment, Size, Slot};
use crate::statistics::Counters;

/// Others that are asked for their ring at most: more may have left marks that lead nowhere.
const MARKS_MAX: usize = 8;

/// Times that one who wants to join gives way to another who is just doing that, which takes some 50 microseconds.
const TURNS: u32 = 200;

/// A FIFO that this process has open, and its ring once it has found one.
#[derive(Debug)]
pub(crate) struct Company {
    access: Access,
    link: Slot<Link>,
    /// When it was last looked for, by the coarse clock, and how often it could have been.
    looked_at: AtomicU32,
    chances: AtomicU32,
    is_plain: AtomicBool,
}

impl Company {
    pub(crate) fn of(access: Access) -> Company {
        let looked_at = AtomicU32::new(clock::coarse_milliseconds().wrapping_sub(1));
        Company { access, link: Slot::empty(), looked_at, chances: AtomicU32::new(0), is_plain: AtomicBool::new(false) }
    }

    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// The ring; looked for now if it is time. A reader makes one if there is none.
    #[inline]
    pub(crate) fn link(&self, end: &End) -> Option<&Link> {
        self.link.get().or_else(|| self.look(end, self.access == Access::Read))
    }

    /// The ring, if there is one.
    pub(crate) fn link_if_any(&self, end: &End) -> Option<&Link> {
        self.link.get().or_else(|| self.look(end, false))
    }

    /// The ring, if this process shares it already.
    pub(crate) fn link_so_far(&self) -> Option<&Link> {
        self.link.get()
    }

    /// This end is a plain one from now on, unless it has a ring already.
    pub(crate) fn be_plain(&self) {
        self.is_plain.store(true, Relaxed);
    }

    #[cold]
    fn look(&self, end: &End, may_found: bool) -> Option<&Link> {
        let now = clock::coarse_milliseconds();
        // The other side often comes a few transfers later: the first are all a chance, then every second, fourth and so on.
        let chance = self.chances.fetch_add(1, Relaxed).wrapping_add(1);
        let is_same_tick = self.looked_at.swap(now, Relaxed) == now;
        if self.is_plain.load(Relaxed) || (is_same_tick && !chance.is_power_of_two()) {
            return None;
        }
        if !may_found && transfer::any_mark(end.fd()).ok()?.is_none() {
            return None;
        }
        if !is_another_allowed() {
            return None;
        }
        // Whatever keeps it from sharing a ring is no reason to fail: the kernel carries the bytes.
        Some(self.link.fill(join(end.fd(), self.access, may_found).ok()?))
    }
}

/// A ring that this process shares.
#[derive(Debug)]
pub(crate) struct Link {
    /// The FIFO opened once more, never blocking, with the mark.
    own: OwnedFd,
    bell: OwnedFd,
    segment: Segment,
    /// Open for as long as the mark that names it.
    _file: OwnedFd,
    /// When a writer last asked the kernel who is there, and last tried to return to the ring, in ticks.
    pub(super) asked_at: AtomicU64,
    pub(super) return_tried_at: AtomicU64,
    /// When it last asked for other readers in company, in ticks.
    pub(super) readers_asked_at: AtomicU64,
}

impl Link {
    /// The FIFO through a descriptor that never blocks.
    pub(super) fn fifo(&self) -> BorrowedFd<'_> {
        self.own.as_fd()
    }

    #[inline]
    pub(super) fn segment(&self) -> &Segment {
        &self.segment
    }

    #[inline]
    pub(super) fn ring(&self) -> Ring<'_> {
        self.segment.ring()
    }

    /// Whether a reader is in company, other than through `fifo`: those of a process that was killed are gone.
    pub(super) fn has_readers(&self) -> bool {
        transfer::any_mark_below(self.fifo(), FIRST_OF_WRITERS).is_ok_and(|mark| mark.is_some())
    }

    pub(super) fn bell_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(super) fn doorbell(&self) -> Doorbell<'_> {
        Doorbell(self.bell.as_fd())
    }

    #[inline]
    pub(super) fn parker<'a>(&'a self, counters: &'a Counters) -> Parker<'a> {
        Parker::at(self.own.as_fd(), counters)
    }
}

/// One at a time: so two that come together make one ring and not two.
fn join(fd: BorrowedFd<'_>, access: Access, may_found: bool) -> io::Result<Link> {
    let identity = pipe::identity(fd).ok_or(Errno::BADF)?;
    let own = transfer::reopened(fd, access, true)?;
    for _ in 0..TURNS {
        if transfer::try_lock_whole(&own) != Err(Errno::AGAIN) {
            break;
        }
        cpu::give_way();
    }
    // Done again it changes nothing; refused, somebody holds it for something else.
    transfer::try_lock_whole(&own)?;
    let (file, bell, segment) = match find(&own, identity) {
        Some(found) => found,
        None if may_found => make(&own, identity)?,
        None => return Err(Errno::NOENT.into()),
    };
    let descriptor = |fd: &OwnedFd| fd.as_raw_fd().unsigned_abs();
    let place = Place {
        process: own_pid(),
        descriptor: descriptor(&file),
        serial: descriptor(&bell),
        is_write_end: access == Access::Write,
    };
    transfer::mark(&own, place.mark().ok_or(Errno::OVERFLOW)?)?;
    transfer::unlock_whole(&own)?;
    let never = || AtomicU64::new(0);
    Ok(Link { own, bell, segment, _file: file, asked_at: never(), return_tried_at: never(), readers_asked_at: never() })
}

/// The ring that some mark leads to, if it is one, is this FIFO's, and is this user's.
fn find(own: &OwnedFd, identity: pipe::Identity) -> Option<(OwnedFd, OwnedFd, Segment)> {
    transfer::marks(own, MARKS_MAX).ok()?.into_iter().find_map(|mark| {
        let Place { process, descriptor, serial, .. } = Place::of(mark);
        let file = memory::open_of_process(process, descriptor).ok()?;
        // Root is let in everywhere, and shares with nobody else either.
        if !memory::is_of_this_user(&file).ok()? {
            return None;
        }
        let bank_bytes = Size::bank_bytes_of(memory::length(&file).ok()?)?;
        let segment = Segment::of_peer(&file, identity, bank_bytes).ok()?;
        let bell = fifo::open_unnamed_of_process(process, serial, segment.ring().bell_inode()).ok()?;
        Some((file, bell, segment))
    })
}

fn make(own: &OwnedFd, identity: pipe::Identity) -> io::Result<(OwnedFd, OwnedFd, Segment)> {
    // As many bytes as the FIFO has room for: when they are given back they fit.
    let size = size_for(pipe::capacity(own)?)?;
    let file = memory::sealable_file()?;
    let (reader, _writer) = pipe::create()?;
    let bell_inode = pipe::identity(&reader).ok_or(Errno::BADF)?.inode;
    let bell = transfer::reopened(&reader, Access::Both, true)?;
    let segment = Segment::of_fifo(file.as_fd(), identity, size, bell_inode)?;
    Ok((file, bell, segment))
}
