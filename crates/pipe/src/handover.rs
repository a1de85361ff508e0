//! Exporting ends to processes that may not know millstream, and attaching ends that come back.
//!
//! **Exporting.** The stream moves to the backing pipe. The exported end is a new open file description of that pipe,
//! with a mark: a locked byte range. The position of the mark says where the segment is: a process and its
//! descriptor. These are this process's own. If this end came from another process, they are that process's, as long
//! as it has the segment open. The kernel removes the mark with the last descriptor of the description. A program may
//! open its end once more by itself (`/dev/stdin`), without a mark: so the header also counts the ends that were
//! exported and those that came back.
//!
//! **Attaching.** A process that gets an end looks for a mark and opens the segment through `/proc`, which checks
//! that both processes have the same user. It checks that the segment belongs to this very pipe. Then it opens the
//! pipe once more for itself, without a mark, and closes what it was given.
//!
//! **Returning to the ring** is tried by a process that attaches, and by writers now and then. It needs both sides
//! locked, and all of these: as many ends have come back as were exported, there is no mark, the backing pipe is
//! empty, and no reader sleeps in it. If an exported end was closed instead of attached, that never holds again, and
//! the pipe stays with the kernel.
//!
//! **Moving the content.** When an end is exported, what waits in the ring is first copied to the backing pipe, under
//! both locks, with the route set to [`Route::Moving`]. A process that dies on the way leaves as many bytes in the
//! backing pipe as it had copied; the next one sees the route and goes on from there.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use millstream_ring::{ReadSide, Ring, Route};
use millstream_sys::pipe;
use millstream_sys::transfer::{self, Access};

use crate::broadcast;
use crate::claim;
use crate::end::size::enlarge_idle_backing_pipe;
use crate::end::{BothSides, End, Origin, Pipe, lock_both};
use crate::error::{PipeErrorKind, broken};
use crate::mirror::{self, Mirror};
use crate::parking::Parker;
use crate::pipe_count::is_another_allowed;
use crate::place::{Place, mark_with_place, place_of};
use crate::segment::Segment;
use crate::settings;

/// A write of this size takes a page of its own in a kernel pipe.
const PAGE: usize = 4096;

/// Times that a writer yields so that the backing pipe becomes empty, before it writes on into it.
const OFFERS_BEFORE_RETURN: u32 = 64;

/// Exports an end as a plain descriptor; the end is then closed.
pub(crate) fn give_away(end: End, access: Access) -> io::Result<OwnedFd> {
    let Some(segment) = end.segment()? else { return end.into_plain_fd() };
    let origin = end.pipe.origin.as_ref().expect("a pipe with a segment has its file");
    let given = transfer::reopened(end.fd(), access, transfer::is_nonblocking(end.fd())?)?;
    mark_with_place(&given, access, place_of(&origin.file, origin.found_at))?;
    move_to_backing_pipe(&end, segment, Some(access))?;
    Ok(given)
}

/// Attaches an end from another process: to its ring if that can be found, otherwise to the kernel's pipe.
pub(crate) fn attach(fd: OwnedFd, access: Access) -> io::Result<End> {
    let identity = pipe::identity(&fd).ok_or(PipeErrorKind::NotAPipe)?;
    if !transfer::is_open_for(&fd, access)? {
        let refusal = if access == Access::Read { PipeErrorKind::NotReadable } else { PipeErrorKind::NotWritable };
        return Err(refusal.into());
    }
    // The search for the segment opens the pipe. At a FIFO that would let in processes that wait for the other side
    // to open.
    let may_share = pipe::is_anonymous(&fd)? && is_another_allowed();
    let found = if may_share { find_segment(&fd, identity) } else { None };
    let Some((origin, segment)) = found else {
        if may_share && broadcast::is_reader(&fd, identity.inode) {
            return Err(PipeErrorKind::IsABroadcast.into());
        }
        return Ok(End::new(fd, Arc::new(Pipe::of_the_kernel()), settings::wait()));
    };
    let own = transfer::reopened(&fd, access, transfer::is_nonblocking(&fd)?)?;
    drop(fd);
    let end = End::new(own, Arc::new(Pipe::mapped(origin, segment)), settings::wait());
    if let Some(segment) = end.segment()? {
        segment.ring().note_returned();
        return_to_ring(&end, segment)?;
    }
    Ok(end)
}

/// Returns to the ring if no end is in other hands and nothing waits in the backing pipe.
pub(crate) fn return_to_ring(end: &End, segment: &Segment) -> io::Result<()> {
    let ring = segment.ring();
    for _ in 0..OFFERS_BEFORE_RETURN {
        let all_are_ours = ring.all_have_returned() && transfer::any_mark(end.fd())?.is_none();
        if ring.route() != Route::Shadow || !all_are_ours {
            return Ok(());
        }
        if transfer::bytes_waiting(end.fd())? == 0 {
            let parker = end.parker();
            // Only an attempt: a process that is stopped with a lock held must block no other for what only saves
            // time.
            if let Some((writers, readers)) = ring.try_lock_both(&parker) {
                // Again, now that no participant can write in between.
                let is_clear = ring.waiter().is_none()
                    && ring.all_have_returned()
                    && transfer::any_mark(end.fd())?.is_none()
                    && transfer::bytes_waiting(end.fd())? == 0
                    && mirror::make_room(end.fd(), ring.capacity().map_err(broken)?).is_ok();
                if ring.route() == Route::Shadow && is_clear {
                    // Not while a reader sleeps in the backing pipe: it may have begun since.
                    writers.return_to_ring(&readers);
                }
                return Ok(());
            }
        }
        millstream_sys::cpu::give_way();
    }
    Ok(())
}

/// Completes the flush of a process that died on the way.
pub(crate) fn finish_moving(end: &End, segment: &Segment) -> io::Result<()> {
    move_to_backing_pipe(end, segment, None)
}

/// From now on the readiness bytes tell programs that poll this end, beginning with the present state of the ring.
pub(crate) fn show_readiness(end: &End, access: Access) -> io::Result<()> {
    match end.segment()? {
        Some(segment) => show_readiness_of_ring(end, segment, access),
        None => end.keep_to_kernel(),
    }
}

fn show_readiness_of_ring(end: &End, segment: &Segment, access: Access) -> io::Result<()> {
    let (ring, parker, reads) = (segment.ring(), end.parker(), access == Access::Read);
    let bell = ring.bell();
    let is_watched = if reads { bell.is_watched_for_bytes() } else { bell.is_watched_for_room() };
    if is_watched {
        return Ok(());
    }
    // Before the ring notes the poll: if this fails, the next attempt has to begin like this one.
    let both = transfer::reopened(end.fd(), Access::Both, true)?;
    let is_new = if reads { bell.watch_for_bytes(&parker) } else { bell.watch_for_room(&parker) };
    // With the lock held: a process that notified under it without knowing of the poll has done so by now.
    let writers = ring.lock_writers(&parker).map_err(broken)?;
    if !reads {
        // Only here: a pipe that is polled does not enter idle mode.
        enlarge_idle_backing_pipe(end.fd(), ring);
    }
    drop(writers);
    if is_new && ring.route() == Route::Ring {
        let mirror = Mirror::of(both.as_fd());
        bell.raise(&parker, &mirror).map_err(broken)?;
        bell.lower(&parker, &mirror).map_err(broken)?;
    }
    Ok(())
}

/// Sends the stream through the backing pipe. All that waits in the ring goes with it, if the kernel lets the backing
/// pipe be large enough. If an end is `given` away, that is counted once nothing can fail any more. A reader is not
/// given away while something still waits in the ring.
fn move_to_backing_pipe(end: &End, segment: &Segment, given: Option<Access>) -> io::Result<()> {
    let (ring, parker) = (segment.ring(), end.parker());
    let sides = loop {
        let sides = lock_both(ring, &parker)?;
        if !sides.are_claimed() {
            break sides;
        }
        drop(sides);
        for access in [Access::Read, Access::Write] {
            claim::wait(end, ring, access, true)?;
        }
    };
    // Only now: while it is open no process sees the other end gone. Then no process gives up waiting for a lock that
    // is never released.
    let both = transfer::reopened(end.fd(), Access::Both, true)?;
    let BothSides { readers, writers } = &sides;
    // Not moved: its writer goes on through the backing pipe. If it waits for room in the readiness bytes, `silence`
    // wakes it.
    writers.return_offers(readers).map_err(broken)?;
    let waiting = ring.readable().map_err(broken)?;
    let already_moved = match ring.route() {
        Route::Shadow => None,
        Route::Moving => Some(transfer::bytes_waiting(&both)?),
        Route::Ring => {
            let mirror = Mirror::of(both.as_fd());
            ring.bell().silence(&parker, &mirror, Route::Moving).map_err(broken)?;
            Some(0)
        }
    };
    let is_all_moved = match already_moved {
        None => waiting == 0,
        Some(already_moved) => {
            // Copied by whole pages, the content needs no more of them than it has.
            let wished = waiting.max(pipe::DEFAULT_CAPACITY);
            let fits = pipe::set_capacity(&both, wished).or_else(|_| pipe::capacity(&both))? >= waiting;
            if fits {
                copy_to_backing_pipe(readers, segment, both.as_fd(), already_moved)?;
            }
            fits
        }
    };
    let is_refused = given == Some(Access::Read) && !is_all_moved;
    if given.is_some() && !is_refused {
        ring.note_given();
    }
    writers.set_route(readers, Route::Shadow);
    if is_refused { Err(PipeErrorKind::TooManyBytesWait.into()) } else { Ok(()) }
}

fn copy_to_backing_pipe(
    readers: &ReadSide<'_, Parker<'_>>,
    segment: &Segment,
    shadow: BorrowedFd<'_>,
    already_moved: usize,
) -> io::Result<()> {
    let waiting = readers.waiting(usize::MAX).map_err(broken)?;
    segment.populate(waiting.touches(waiting.len()))?;
    let (mut done, mut piece) = (already_moved, [0; PAGE]);
    while done < waiting.len() {
        let len = readers.peek(waiting, done, &mut piece);
        done += transfer::write_now(shadow, &[IoSlice::new(&piece[..len])])?;
    }
    readers.discard(waiting);
    Ok(())
}

/// Takes bytes out of the backing pipe that no process should have written there.
pub(crate) fn clear_strange_bytes(end: &End, ring: &Ring<'_>) -> io::Result<()> {
    ring.bell().expel(&end.parker(), &end.readiness_bytes()).map_err(broken)
}

/// The segment that some mark leads to, if it is one, is this pipe's, and is this user's.
fn find_segment(fd: &OwnedFd, shadow: pipe::Identity) -> Option<(Origin, Segment)> {
    let place = Place::marked_on(fd, Access::Both)?;
    let file = place.open_memory()?;
    let (segment, size) = Segment::of_peer(&file, shadow).ok()?;
    Some((Origin { file, shadow, size, found_at: Some((place.process, place.descriptor)) }, segment))
}
