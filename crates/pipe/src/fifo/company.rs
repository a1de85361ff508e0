//! How ends that were opened independently find one another and share a ring.
//!
//! A reader makes the ring when it first reads; writers look for one. Each participant has a mark on the FIFO. The
//! mark says where its process has the ring's memory and the wake-up pipe, and the kernel removes the mark with the
//! last descriptor. A process that follows a mark opens both through `/proc`, which admits only processes of the same
//! user. It believes nothing that does not name this very FIFO. A process can put a mark there if it may open the
//! FIFO, and no other can.
//!
//! **No writer passes by a ring.** A process may have written into the ring, closed its end and opened it again: its
//! bytes may still be there. So may the bytes of another process that told this one to write. Hence an end attaches
//! before its first write if the FIFO has a mark, and waits for its turn. A participant that leaves removes its mark
//! only when what it leaves behind is the concern of other participants, or lies in the FIFO.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

use millstream_ring::Ring;
use millstream_sys::transfer::{self, Access, Mark};
use millstream_sys::{Errno, clock, cpu, fifo, memory, open_files, own_pid, pipe};

use super::doorbell::Doorbell;
use super::lookout::Watch;
use crate::capacity::size_for;
use crate::parking::Parker;
use crate::pipe_count::{Counted, is_another_allowed};
use crate::place::{FIRST_OF_WRITERS, Place};
use crate::segment::{Segment, Slot};
use crate::statistics::Counters;

/// Marks that are followed at first; in each further round twice as many. A mark may lead nowhere.
const MARKS_MAX: usize = 8;
const ROUNDS: u32 = 5;

/// Times that an attaching process yields to another that is making a ring, which takes some 50 microseconds.
const TURNS: u32 = 200;

/// How long an attaching process waits after that if it must not pass by a ring. The other process may be stopped, or
/// lock FIFOs for reasons of its own.
const LONGEST_TURN: Duration = Duration::from_secs(1);

/// Between two checks whether it is its turn.
const TURN_NAP: Duration = Duration::from_millis(1);

/// Set in [`Company::users`] once the ring is what this process uses, and once it never will be.
const SETTLED: u32 = 1 << 31;
const PLAIN: u32 = 1 << 30;

/// A FIFO that this process has open, and its ring once it has found one.
#[derive(Debug)]
pub(crate) struct Company {
    access: Access,
    link: Slot<Link>,
    /// When it was last looked for, by the coarse clock, and how often it could have been.
    looked_at: AtomicU32,
    chances: AtomicU32,
    /// Whether the look was made for a read or a write. Until then every thread that reads or writes makes it.
    has_looked: AtomicBool,
    /// Handles of this end that this process has.
    ends: AtomicUsize,
    /// How many threads use the FIFO as a plain program would at this moment, and the two bits above. The ring is not
    /// used before these threads are done: a thread that asks whether the ring may be used must find in the FIFO what
    /// it has put there.
    users: AtomicU32,
}

impl Company {
    pub(crate) fn of(access: Access) -> Company {
        Company {
            access,
            link: Slot::empty(),
            looked_at: AtomicU32::new(clock::coarse_milliseconds().wrapping_sub(1)),
            chances: AtomicU32::new(0),
            has_looked: AtomicBool::new(false),
            ends: AtomicUsize::new(1),
            users: AtomicU32::new(0),
        }
    }

    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// The ring. If it is time, looks for it now; a reader makes one if there is none. Otherwise the caller uses the
    /// FIFO as a plain program would, for as long as the returned value lives.
    #[inline]
    pub(crate) fn link(&self, fd: BorrowedFd<'_>) -> Result<&Link, Alone<'_>> {
        // Which is set after the link is there.
        if self.users.load(Acquire) & SETTLED != 0
            && let Some(link) = self.link.get()
        {
            return Ok(link);
        }
        self.look_and_enter(fd)
    }

    #[cold]
    fn look_and_enter(&self, fd: BorrowedFd<'_>) -> Result<&Link, Alone<'_>> {
        if let Some(link) = self.link.get().or_else(|| self.look_before_use(fd))
            && self.users.compare_exchange(0, SETTLED, AcqRel, Acquire).is_ok()
        {
            return Ok(link);
        }
        let mut users = self.users.load(Acquire);
        loop {
            if users & SETTLED != 0
                && let Some(link) = self.link.get()
            {
                return Ok(link);
            }
            match self.users.compare_exchange(users, users + 1, AcqRel, Acquire) {
                Ok(_) => return Err(Alone(&self.users)),
                Err(now) => users = now,
            }
        }
    }

    /// The ring, if there is one.
    pub(crate) fn link_if_any(&self, fd: BorrowedFd<'_>) -> Option<&Link> {
        self.link.get().or_else(|| if self.is_time_to_look() { self.find_or_make(fd, Wish::default()) } else { None })
    }

    /// The ring, if this process shares it already.
    pub(crate) fn link_so_far(&self) -> Option<&Link> {
        self.link.get()
    }

    /// This end never begins to use a ring from now on. Returns the ring that there is, looked for in any case.
    pub(crate) fn be_plain(&self, fd: BorrowedFd<'_>) -> Option<&Link> {
        let link = self.link.get().or_else(|| self.find_or_make(fd, Wish { must_find: true, may_found: false }));
        self.users.fetch_or(PLAIN, AcqRel);
        // Another thread may have been faster.
        link.or_else(|| self.link.get())
    }

    /// Another handle of this end.
    pub(crate) fn end_comes(&self) {
        self.ends.fetch_add(1, Relaxed);
    }

    /// A handle of this end goes; returns whether it was the last.
    pub(crate) fn end_goes(&self) -> bool {
        self.ends.fetch_sub(1, AcqRel) == 1
    }

    #[cold]
    fn look_before_use(&self, fd: BorrowedFd<'_>) -> Option<&Link> {
        let (is_reader, is_first) = (self.access == Access::Read, !self.has_looked.load(Acquire));
        if !self.is_time_to_look() && !is_first {
            return None;
        }
        let found = self.find_or_make(fd, Wish { must_find: is_first && !is_reader, may_found: is_reader });
        self.has_looked.store(true, Release);
        found
    }

    /// The other side often comes a few transfers later. The first transfers are all a chance to look, then every
    /// second, fourth and so on.
    fn is_time_to_look(&self) -> bool {
        let now = clock::coarse_milliseconds();
        let chance = self.chances.fetch_add(1, Relaxed).wrapping_add(1);
        let is_same_tick = self.looked_at.swap(now, Relaxed) == now;
        !is_same_tick || chance.is_power_of_two()
    }

    fn find_or_make(&self, fd: BorrowedFd<'_>, wish: Wish) -> Option<&Link> {
        if self.users.load(Acquire) & PLAIN != 0 {
            return None;
        }
        if !wish.may_found && transfer::any_mark(fd).ok()?.is_none() {
            return None;
        }
        if !is_another_allowed() {
            return None;
        }
        // No failure to share a ring is a reason to fail here: the kernel carries the bytes.
        Some(self.link.fill(join(fd, self.access, wish).ok()?))
    }
}

/// What is wanted of a look for a ring.
#[derive(Clone, Copy, Default)]
struct Wish {
    /// If there is one, it waits for it.
    must_find: bool,
    /// If there is none, it makes one.
    may_found: bool,
}

/// A thread that uses the FIFO as any program would.
#[derive(Debug)]
pub(crate) struct Alone<'a>(&'a AtomicU32);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, AcqRel);
    }
}

/// A ring that this process shares.
#[derive(Debug)]
pub(crate) struct Link {
    /// Before the segment, in which its words lie.
    pub(super) watch: Watch,
    /// The FIFO opened once more, never blocking, with the mark.
    own: OwnedFd,
    bell: OwnedFd,
    segment: Segment,
    /// Open for as long as the mark that names it.
    _file: OwnedFd,
    /// The process that its mark names, and which side that is.
    process: AtomicU32,
    place: Place,
    /// When a writer last asked the kernel whether readers are left, and last tried to return to the ring, in TSC
    /// cycles.
    pub(super) asked_at: AtomicU64,
    pub(super) return_tried_at: AtomicU64,
    /// When it last asked for readers that are participants, in TSC cycles.
    pub(super) readers_asked_at: AtomicU64,
    /// Whether there has been a writer since `own` was opened, as far as its reader has seen. From then on the kernel
    /// reports the end of the stream.
    pub(super) saw_writer: AtomicBool,
    _counted: Counted,
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
    pub(super) fn ring(&self) -> &Ring<'_> {
        self.segment.ring()
    }

    /// Whether no bytes of foreign processes lie in the FIFO; see [`Watch::is_free_of_foreign_bytes`].
    #[inline]
    pub(super) fn is_free_of_foreign_bytes(&self, now: u64) -> Result<bool, Errno> {
        self.watch.is_free_of_foreign_bytes(&self.segment, self.own.as_fd(), now)
    }

    /// A reader with nothing else to do may become the write monitor; see [`Watch::see_to_it`].
    #[inline]
    pub(super) fn see_to_write_monitor(&self) {
        self.watch.see_to_it(&self.segment, self.own.as_fd());
    }

    /// Whether a participant reads, other than through `fifo`. The kernel has removed the marks of killed processes.
    pub(super) fn has_readers(&self) -> bool {
        transfer::any_mark_below(self.fifo(), FIRST_OF_WRITERS).is_ok_and(|mark| mark.is_some())
    }

    /// Which other participants have a mark that can be seen through `end`. The mark of a process that has ended does
    /// not count: a process forked from it keeps the mark there.
    pub(super) fn others(&self, end: BorrowedFd<'_>) -> Others {
        let mine = Place { process: own_pid(), ..self.place };
        let is_there = |mark| {
            let place = Place::of(mark);
            place != mine && open_files::is_process(place.process)
        };
        let any = |first, end_of_range| {
            let marks = transfer::marks_from(end, first, end_of_range, MARKS_MAX);
            marks.unwrap_or_default().into_iter().any(is_there)
        };
        Others { readers: any(Mark(0), Some(FIRST_OF_WRITERS)), writers: any(FIRST_OF_WRITERS, None) }
    }

    /// A process forked from the one that found the ring shares its marks, which go when either closes. From now on
    /// it has one of its own.
    pub(super) fn see_to_mark(&self) {
        let me = own_pid();
        if self.process.load(Relaxed) != me
            && let Some(mark) = (Place { process: me, ..self.place }).mark()
            && transfer::mark(&self.own, mark).is_ok()
        {
            self.process.store(me, Relaxed);
        }
    }

    /// Whether this process has no mark of its own.
    pub(super) fn is_inherited(&self) -> bool {
        self.process.load(Relaxed) != own_pid()
    }

    /// This process is a participant no longer.
    pub(super) fn unmark(&self) {
        if !self.is_inherited()
            && let Some(mark) = (Place { process: self.process.load(Relaxed), ..self.place }).mark()
        {
            let _ = transfer::unmark(&self.own, mark);
        }
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

impl Drop for Link {
    fn drop(&mut self) {
        // Before the descriptor that is monitored is closed.
        self.watch.withdraw(self.ring());
    }
}

/// Which sides other participants have open.
pub(super) struct Others {
    pub(super) readers: bool,
    pub(super) writers: bool,
}

/// Many processes at a time find a ring, and one at a time makes one. So two that arrive together make one ring, not
/// two. A process that finds one blocks no other, however long it is stopped on the way.
fn join(fd: BorrowedFd<'_>, access: Access, wish: Wish) -> io::Result<Link> {
    // A participant must be able to flush bytes to the FIFO, and to take them out of it.
    if !transfer::may_open_both(fd) {
        return Err(Errno::ACCESS.into());
    }
    let identity = pipe::identity(fd).ok_or(Errno::BADF)?;
    let own = transfer::reopened(fd, access, true)?;
    await_turn(&own, wish, || transfer::try_share_whole(&own))?;
    let (file, bell, segment) = match find(&own, identity) {
        Some(found) => found,
        None if !wish.may_found => return Err(Errno::NOENT.into()),
        None => {
            await_turn(&own, wish, || transfer::try_lock_whole(&own))?;
            match find(&own, identity) {
                Some(found) => found,
                None => make(&own, identity)?,
            }
        }
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
    Ok(Link {
        watch: Watch::none(),
        own,
        bell,
        segment,
        _file: file,
        process: AtomicU32::new(place.process),
        place,
        asked_at: never(),
        return_tried_at: never(),
        readers_asked_at: never(),
        saw_writer: AtomicBool::new(false),
        _counted: Counted::new(),
    })
}

/// Waits until `take` no longer finds the lock of `own` taken. It waits long only if the caller must find a ring, and
/// there is a mark.
fn await_turn(own: &OwnedFd, wish: Wish, take: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    for _ in 0..TURNS {
        match take() {
            Err(Errno::AGAIN) => cpu::give_way(),
            outcome => return outcome,
        }
    }
    let began = Instant::now();
    while wish.must_find && began.elapsed() < LONGEST_TURN && transfer::any_mark(own)?.is_some() {
        std::thread::sleep(TURN_NAP);
        match take() {
            Err(Errno::AGAIN) => {}
            outcome => return outcome,
        }
    }
    Err(Errno::AGAIN)
}

/// The ring that some mark leads to, if it is one, is this FIFO's, and is this user's. Tries again if the marks have
/// changed by then: a participant may have left the ring to one that came.
fn find(own: &OwnedFd, identity: pipe::Identity) -> Option<(OwnedFd, OwnedFd, Segment)> {
    let mut before = Vec::new();
    for limit in (0..ROUNDS).map(|round| MARKS_MAX << round) {
        let marks = transfer::marks(own, limit).ok()?;
        if marks == before {
            return None;
        }
        if let Some(found) = marks.iter().find_map(|&mark| follow(mark, identity)) {
            return Some(found);
        }
        before = marks;
    }
    None
}

fn follow(mark: Mark, identity: pipe::Identity) -> Option<(OwnedFd, OwnedFd, Segment)> {
    let place = Place::of(mark);
    let file = place.open_memory()?;
    let (segment, _) = Segment::of_peer(&file, identity).ok()?;
    let bell = fifo::open_unnamed_of_process(place.process, place.serial, segment.ring().bell_inode()).ok()?;
    Some((file, bell, segment))
}

fn make(own: &OwnedFd, identity: pipe::Identity) -> io::Result<(OwnedFd, OwnedFd, Segment)> {
    // As many bytes as the FIFO has room for: they fit when they are flushed to it.
    let size = size_for(pipe::capacity(own)?)?;
    let file = memory::sealable_file()?;
    let (reader, _writer) = pipe::create()?;
    let bell_inode = pipe::identity(&reader).ok_or(Errno::BADF)?.inode;
    let bell = transfer::reopened(&reader, Access::Both, true)?;
    let segment = Segment::of_fifo(file.as_fd(), identity, size, bell_inode)?;
    Ok((file, bell, segment))
}
