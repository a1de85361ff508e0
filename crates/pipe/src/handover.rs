//! Ends that leave for processes which may not know millstream, and ends that come back.
//!
//! **Giving away.** The stream moves to the shadow, and the end that leaves is a fresh open file description of it, with
//! a mark: a byte range that is locked at a position which says where the segment can be found (this process and its
//! descriptor). The kernel removes the mark with the last descriptor of that description, whoever has it by then. So two
//! questions have exact answers for everybody who holds the pipe, and need nobody to be alive or honest about it: *does
//! anybody hold an end that was given away?* (is there a mark) and *where is the segment?* (the mark's position).
//!
//! **Attaching.** A process that gets an end looks for a mark, opens the segment through `/proc`, which checks that it is
//! the same user's, and checks that the segment belongs to this very pipe. The mark hangs on the pipe itself, not on its
//! number, so a number that the kernel has used again leads nowhere. Then it opens the pipe once more for itself, without
//! a mark, and closes what it was given. If that was the last, there is no mark any more.
//!
//! **Returning to the ring** is done by whoever notices, with both sides locked, when there is no mark and the shadow is
//! empty.
//!
//! **Moving the content.** What waits in the ring when an end is given away is copied to the shadow first, under both
//! locks, with the route set to [`Route::Moving`]. A process that dies on the way leaves so many bytes in the shadow as
//! it had copied; the next one sees the route and goes on from there.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use millstream_ring::{Bell, ReadSide, Ring, Route};
use millstream_sys::transfer::{self, Access, Mark};
use millstream_sys::{Errno, pipe};

use crate::end::{BothSides, End, Pipe, broken, lock_both, size_for};
use crate::mirror::Mirror;
use crate::parking::Parker;
use crate::segment::{Segment, Size};
use crate::wait::WaitPolicy;

/// A write of this size takes a page of its own in a kernel pipe.
const PAGE: usize = 4096;

/// Times that a writer gives way to let the shadow run empty, before it writes on into it.
const OFFERS_BEFORE_RETURN: u32 = 64;

/// Makes a plain descriptor of an end, which is then closed.
pub(crate) fn give_away(end: End, access: Access) -> io::Result<OwnedFd> {
    let Some(segment) = end.segment()? else { return Ok(end.take_fd()) };
    let file = end.pipe.file.as_ref().expect("a pipe with a segment has its file");
    let given = transfer::reopened(end.fd(), access, transfer::is_nonblocking(end.fd())?)?;
    mark_with_place(&given, access, file.as_fd())?;
    segment.ring().note_given();
    let moved = move_to_shadow(&end, segment)?;
    if !moved && access == Access::Read {
        return Err(Errno::NOBUFS.into());
    }
    Ok(given)
}

/// An end from elsewhere: on its ring if that can be found, otherwise the kernel's.
pub(crate) fn attach(fd: OwnedFd, access: Access) -> io::Result<End> {
    let not_a_pipe = || io::Error::new(io::ErrorKind::InvalidInput, "the descriptor is no pipe or FIFO");
    let identity = pipe::identity(&fd).ok_or_else(not_a_pipe)?;
    if !transfer::is_open_for(&fd, access)? {
        return Err(Errno::BADF.into());
    }
    // Looking for the segment opens the pipe, which at a FIFO would let others in who wait for somebody to open it.
    let found = if pipe::is_anonymous(&fd)? { find_segment(&fd, identity) } else { None };
    let Some((file, segment, size)) = found else {
        let kernel_only = Pipe::new(None, size_for(pipe::DEFAULT_CAPACITY)?);
        return Ok(End::new(fd, Arc::new(kernel_only), WaitPolicy::default()));
    };
    let own = transfer::reopened(&fd, access, transfer::is_nonblocking(&fd)?)?;
    drop(fd);
    let end = End::new(own, Arc::new(Pipe::with_segment(file, segment, size)), WaitPolicy::default());
    if let Some(segment) = end.segment()? {
        segment.ring().note_returned();
        return_to_ring(&end, segment)?;
    }
    Ok(end)
}

/// Goes back to the ring if no end is in other hands and nothing waits in the shadow. A mark is not the only evidence: a
/// program may have opened its end once more, without one (`cat /dev/stdin`). So every end that was given away must have
/// come back by being attached; if one was closed instead, the pipe stays with the kernel.
pub(crate) fn return_to_ring(end: &End, segment: &Segment) -> io::Result<()> {
    let ring = segment.ring();
    for _ in 0..OFFERS_BEFORE_RETURN {
        let all_are_ours = ring.all_have_returned() && transfer::any_mark(end.fd())?.is_none();
        if ring.route() != Route::Shadow || !all_are_ours {
            return Ok(());
        }
        if transfer::bytes_waiting(end.fd())? == 0 {
            let parker = end.parker();
            let BothSides { readers, writers } = &lock_both(ring, &parker)?;
            // Again, now that no byte of ours can come in between.
            let is_clear = ring.all_have_returned()
                && transfer::any_mark(end.fd())?.is_none()
                && transfer::bytes_waiting(end.fd())? == 0;
            if ring.route() == Route::Shadow && is_clear {
                writers.set_route(readers, Route::Ring);
            }
            return Ok(());
        }
        millstream_sys::cpu::give_way();
    }
    Ok(())
}

/// Does what a process that died while moving the content had begun.
pub(crate) fn finish_moving(end: &End, segment: &Segment) -> io::Result<()> {
    move_to_shadow(end, segment).map(drop)
}

/// Whoever watches this end from outside is told from now on, beginning with how things stand.
pub(crate) fn mirror_for_watchers(
    end: &End,
    segment: &Segment,
    watch: impl Fn(Bell<'_>, &Parker<'_>) -> bool,
) -> io::Result<()> {
    let (ring, parker) = (segment.ring(), end.parker());
    if watch(ring.bell(), &parker) && ring.route() == Route::Ring {
        let both = transfer::reopened(end.fd(), Access::Both, true)?;
        let mirror = Mirror::of(both.as_fd());
        ring.bell().raise(&parker, &mirror).map_err(broken)?;
        ring.bell().lower(&parker, &mirror).map_err(broken)?;
    }
    Ok(())
}

/// Sends the stream through the shadow, with all that waits in the ring if the kernel lets the shadow be large enough
/// for it; returns whether nothing waits in the ring any more.
fn move_to_shadow(end: &End, segment: &Segment) -> io::Result<bool> {
    let (ring, parker) = (segment.ring(), end.parker());
    let sides = lock_both(ring, &parker)?;
    // Only now: while it is open nobody sees the other end gone, so nobody gives up a lock that is never given back.
    let both = transfer::reopened(end.fd(), Access::Both, true)?;
    let BothSides { readers, writers } = &sides;
    let waiting = ring.readable().map_err(broken)?;
    let already_moved = match ring.route() {
        Route::Shadow => return Ok(waiting == 0),
        Route::Moving => transfer::bytes_waiting(&both)?,
        Route::Ring => {
            let mirror = Mirror::of(both.as_fd());
            ring.bell().silence(&parker, &mirror, Route::Moving).map_err(broken)?;
            0
        }
    };
    // Copied by whole pages, the content needs no more of them than it has.
    let wished = waiting.max(pipe::DEFAULT_CAPACITY);
    let granted = pipe::set_capacity(&both, wished).or_else(|_| pipe::capacity(&both))?;
    let fits = granted >= waiting;
    if fits {
        copy_to_shadow(readers, segment, both.as_fd(), already_moved)?;
    }
    writers.set_route(readers, Route::Shadow);
    Ok(fits)
}

fn copy_to_shadow(
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

/// Takes out of the shadow what nobody should have written there.
pub(crate) fn clear_strange_bytes(end: &End, ring: Ring<'_>) -> io::Result<()> {
    ring.bell().expel(&end.parker(), &end.mirror()).map_err(broken)
}

/// What a mark's position says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    process: u32,
    descriptor: u32,
    /// Tells apart the marks of write ends, of which two may not have the same position.
    serial: u32,
    is_write_end: bool,
}

const PROCESS_BITS: u32 = 22;
const DESCRIPTOR_BITS: u32 = 20;
const SERIAL_BITS: u32 = 19;

impl Place {
    fn mark(self) -> Option<Mark> {
        let fits = |value: u32, bits: u32| (value >> bits == 0).then_some(u64::from(value));
        let process = fits(self.process, PROCESS_BITS)?;
        let descriptor = fits(self.descriptor, DESCRIPTOR_BITS)? << PROCESS_BITS;
        let serial = fits(self.serial, SERIAL_BITS)? << (PROCESS_BITS + DESCRIPTOR_BITS);
        let side = u64::from(self.is_write_end) << (PROCESS_BITS + DESCRIPTOR_BITS + SERIAL_BITS);
        Some(Mark(side | serial | descriptor | process))
    }

    fn of(Mark(position): Mark) -> Place {
        let field = |start: u32, bits: u32| ((position >> start) & ((1 << bits) - 1)) as u32;
        Place {
            process: field(0, PROCESS_BITS),
            descriptor: field(PROCESS_BITS, DESCRIPTOR_BITS),
            serial: field(PROCESS_BITS + DESCRIPTOR_BITS, SERIAL_BITS),
            is_write_end: field(PROCESS_BITS + DESCRIPTOR_BITS + SERIAL_BITS, 1) == 1,
        }
    }
}

fn mark_with_place(given: &OwnedFd, access: Access, file: BorrowedFd<'_>) -> io::Result<()> {
    let (process, descriptor) = (millstream_sys::own_pid(), file.as_raw_fd().unsigned_abs());
    for serial in 0..1 << SERIAL_BITS {
        let place = Place { process, descriptor, serial, is_write_end: access == Access::Write };
        let mark = place.mark().ok_or(Errno::OVERFLOW)?;
        match transfer::mark(given, mark) {
            Err(Errno::AGAIN) => {}
            outcome => return Ok(outcome?),
        }
    }
    Err(Errno::NOLCK.into())
}

/// The segment that some mark leads to, if it is one, is this pipe's, and is this user's.
fn find_segment(fd: &OwnedFd, identity: pipe::Identity) -> Option<(OwnedFd, Segment, Size)> {
    // A description does not see its own mark; another one does.
    let probe = transfer::reopened(fd, Access::Both, true).ok()?;
    let Place { process, descriptor, .. } = Place::of(transfer::any_mark(&probe).ok()??);
    let file = millstream_sys::memory::open_of_process(process, descriptor).ok()?;
    let bank_bytes = Size::bank_bytes_of(millstream_sys::memory::length(&file).ok()?)?;
    let segment = Segment::of_peer(&file, identity, bank_bytes).ok()?;
    Some((file, segment, size_for(bank_bytes).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_being_a_mark() {
        for (process, descriptor, serial, is_write_end) in
            [(1, 0, 0, false), (4_194_303, 1_048_575, 524_287, true), (77, 3, 9, true)]
        {
            let place = Place { process, descriptor, serial, is_write_end };
            assert_eq!(place.mark().map(Place::of), Some(place));
            assert!(place.mark().unwrap().0 < 1 << 63);
        }
        let outsize = Place { process: 1 << 22, descriptor: 0, serial: 0, is_write_end: false };
        assert_eq!(outsize.mark(), None);
    }
}
