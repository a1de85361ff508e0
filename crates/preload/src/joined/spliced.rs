//! `splice` and `sendfile` at an attached end: from a file straight into the ring, and from the ring straight into a file, a pipe or a
//! socket. One copy each, and what the kernel would have said.
//!
//! What goes out of the ring is the reader's only once it has arrived elsewhere. Between the two no signal handler may read it as well,
//! so signals are held back, and the call that moves it does not wait. If the stream goes back to the kernel in between, the bytes are
//! among those that come through the backing pipe, where they are taken out again before the next is read ([`nap::owe`]).

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

use millstream_sys::fate::Fate;
use millstream_sys::ledger::Direction;

use super::end::{End, READER, Stage, WRITER};
use super::signals::{Held, copying};
use super::slot::{Moved, Part, READER_GONE, Slot};
use super::{advance_reader, advance_writer, announces};
use super::{kernel, meet, nap, notice, other_names, retreat, stream, tally};

/// A call moves so much at most, and may be made again: the other side can begin meanwhile.
const PIECE: usize = 64 << 10;

/// What a call moves, and how the kernel would.
pub(super) struct Call {
    pub(super) from: c_int,
    pub(super) to: c_int,
    pub(super) len: usize,
    pub(super) waits: bool,
    pub(super) kernel: Kernel,
}

/// The system call, with what only the kernel knows to do with.
pub(super) enum Kernel {
    Splice { from_at: *mut i64, to_at: *mut i64, flags: u32 },
    Sendfile { at: *mut i64 },
}

impl Call {
    /// Between any two files. With `asks_kernel` an end goes back first: the call has positions or flags that are the kernel's business.
    pub(super) fn answer(&self, asks_kernel: bool) -> isize {
        let &Call { from, to, len, .. } = self;
        let (reads, writes) = (READER.is_at(from), WRITER.is_at(to));
        let is_odd = asks_kernel || len == 0 || READER.is_at(to) || WRITER.is_at(from);
        if is_odd && (reads || writes || READER.is_at(to) || WRITER.is_at(from)) {
            return self.as_kernel_has_it();
        }
        if !(reads || other_names::leave_if_one(from)) || !(writes || other_names::leave_if_one(to)) {
            return kernel::EMFILE;
        }
        READER.uses.during(|| WRITER.uses.during(|| self.answer_at(reads, writes)))
    }

    fn answer_at(&self, reads: bool, writes: bool) -> isize {
        let &Call { from, to, .. } = self;
        if reads {
            advance_reader();
        }
        if writes {
            advance_writer(self.len);
        }
        let [source, target] = [(&READER, reads), (&WRITER, writes)]
            .map(|(end, is_used)| end.slot().filter(|_| is_used && end.stage() == Stage::Ring));
        let announced = WRITER.slot().filter(|&slot| writes && target.is_none() && announces(slot));
        let call = || match (source, target) {
            (Some(slot), _) => self.drain(slot),
            (None, Some(slot)) => self.fill(slot),
            _ if reads && nap::keeps() => self.kept_first(),
            _ => self.in_kernel(if announced.is_some() { self.len.min(meet::LAST_BYTES) } else { self.len }),
        };
        let moved = match (reads && source.is_none(), writes && target.is_none()) {
            (true, true) => READER.in_kernel(|| WRITER.in_kernel(call)),
            (true, false) => READER.in_kernel(call),
            (false, true) => WRITER.in_kernel(call),
            _ => call(),
        };
        if let Some(slot) = announced {
            meet::await_reader(slot, moved > 0);
        }
        if source.is_none() {
            tally::count(from, Direction::Read, moved);
        }
        if target.is_none() {
            tally::count(to, Direction::Written, moved);
        }
        if !reads {
            notice::passed(&READER, from, moved);
        }
        if !writes {
            notice::passed(&WRITER, to, moved);
        }
        moved
    }

    /// From a file into the ring.
    fn fill(&self, slot: &Slot) -> isize {
        let &Call { from, to: fd, len, .. } = self;
        loop {
            if slot.space.0.load(Relaxed) & READER_GONE != 0 {
                retreat::because_of(&WRITER, Fate::Untold);
            }
            let Some(free) = slot.free(len.min(PIECE)) else { return self.again(&WRITER) };
            let [(_, first), (_, rest)] = free.stretches;
            if first + rest == 0 {
                if !self.waits {
                    return kernel::EAGAIN;
                }
                stream::ring(slot, fd);
                if stream::wait_for_room(slot, fd, PIECE, false) == kernel::EINTR {
                    return kernel::EINTR;
                }
                continue;
            }
            // A handler that writes finds this and gives the pipe back.
            let read = copying(&WRITER, || kernel::readv(from, &free.stretches));
            let Ok(moved) = usize::try_from(read) else {
                let is_final = read == kernel::EINTR || read == kernel::EAGAIN;
                return if is_final { read } else { self.as_kernel_has_it() };
            };
            if slot.is_filled(&free, moved) {
                WRITER.tally.moved(moved);
                stream::ring(slot, fd);
            } else {
                put_behind(fd, &free, moved);
            }
            return read;
        }
    }

    /// From the ring into something else.
    fn drain(&self, slot: &Slot) -> isize {
        let &Call { from: fd, to, len, .. } = self;
        loop {
            if nap::is_kept(READER.inode()) {
                return first_byte(to);
            }
            let held = Held::all();
            let Some(waiting) = slot.waiting(len.min(PIECE)) else {
                drop(held);
                return self.again(&READER);
            };
            let is_empty = waiting.stretches[0].1 == 0;
            let moved = if is_empty { 0 } else { put(to, &waiting) };
            if moved > 0 {
                take(slot, fd, &waiting, moved.cast_unsigned(), held);
                return moved;
            }
            drop(held);
            let answer = match moved {
                0 | kernel::EAGAIN if !self.waits => kernel::EAGAIN,
                0 => match wait_for_bytes(slot, fd) {
                    Some(answer) => return answer,
                    None => 0,
                },
                kernel::EAGAIN => wait_to_write(to),
                kernel::EPIPE => kernel::EPIPE,
                _ => return self.as_kernel_has_it(),
            };
            if answer != 0 {
                return answer;
            }
        }
    }

    /// As the kernel does it, at most so many bytes.
    #[inline(never)]
    fn in_kernel(&self, len: usize) -> isize {
        match self.kernel {
            Kernel::Splice { from_at, to_at, flags } => kernel::splice(self.from, from_at, self.to, to_at, len, flags),
            Kernel::Sendfile { at } => kernel::sendfile(self.to, self.from, at, len),
        }
    }

    /// The stream of this end has gone back.
    fn again(&self, end: &End) -> isize {
        if retreat::follow(end) { self.in_kernel(self.len) } else { kernel::EMFILE }
    }

    /// The kernel has its own words for what cannot be moved so.
    fn as_kernel_has_it(&self) -> isize {
        let name = if matches!(self.kernel, Kernel::Sendfile { .. }) { c"sendfile" } else { c"splice" };
        if retreat::before_a_call(Fate::called(name)) { self.in_kernel(self.len) } else { kernel::EMFILE }
    }

    /// What an earlier call has left comes first.
    fn kept_first(&self) -> isize {
        nap::pay(self.from, READER.inode());
        if nap::is_kept_by_this_process(READER.inode()) { first_byte(self.to) } else { self.in_kernel(self.len) }
    }
}

/// The ring was frozen when these bytes had come into it, uncounted: they go through the kernel, whoever interrupts.
fn put_behind(fd: c_int, free: &Part, len: usize) {
    let mut stretches = free.stretches.iter().map(|&(base, part)| (base.cast_const(), part));
    let mut left = len;
    while !retreat::follow(&WRITER) {}
    while left > 0
        && let Some((base, part)) = stretches.next()
    {
        let part = part.min(left);
        let mut done = 0;
        while done < part {
            match kernel::write(fd, base.wrapping_add(done), part - done) {
                moved @ 1.. => done += moved.cast_unsigned(),
                kernel::EINTR => {}
                _ => return,
            }
        }
        left -= part;
    }
}

/// The first bytes of those that waited have arrived elsewhere.
fn take(slot: &Slot, fd: c_int, waiting: &Part, moved: usize, held: Held) {
    if slot.is_drained(waiting, moved) {
        READER.tally.moved(moved);
        return stream::let_writer_know(slot);
    }
    nap::owe(READER.inode(), moved);
    drop(held);
    while !retreat::follow(&READER) {}
    nap::pay(fd, READER.inode());
}

/// As much as the other file takes now; `EAGAIN` if that is nothing.
fn put(to: c_int, part: &Part) -> isize {
    let [first, rest] = part.stretches.map(|(base, len)| (base.cast_const(), len));
    let Some(other) = attached_output(to) else {
        return match kernel::write_now(to, [first, rest]) {
            // A file system that has to look for room first. It waits for no other process.
            kernel::EAGAIN if !kernel::is_full(to) => kernel::write(to, first.0, first.1),
            moved => moved,
        };
    };
    let Moved::Bytes(moved) = other.put(first.0, first.1) else { return kernel::EAGAIN };
    WRITER.tally.moved(moved);
    stream::ring(other, to);
    moved.cast_signed()
}

/// The ring of the output, if that is where it goes and its reader is there.
fn attached_output(to: c_int) -> Option<&'static Slot> {
    let slot = WRITER.slot().filter(|_| WRITER.is_at(to) && WRITER.stage() == Stage::Ring)?;
    if slot.space.0.load(Relaxed) & READER_GONE != 0 {
        retreat::because_of(&WRITER, Fate::Untold);
        return None;
    }
    Some(slot)
}

/// 0, or why not.
fn wait_to_write(to: c_int) -> isize {
    let Some(other) = attached_output(to) else { return kernel::wait_until_not_full(to) };
    stream::ring(other, to);
    if other.free(1).is_none() {
        return if retreat::follow(&WRITER) { 0 } else { kernel::EMFILE };
    }
    // What else ends a sleep is looked at by the next attempt.
    match stream::wait_for_room(other, to, PIECE, false) {
        kernel::EINTR => kernel::EINTR,
        _ => 0,
    }
}

/// `None`: look at the ring again. Otherwise what the call returns.
fn wait_for_bytes(slot: &Slot, fd: c_int) -> Option<isize> {
    let mut byte = 0;
    stream::wait_for_bytes(slot, fd, &raw mut byte, None).filter(|&answer| {
        if answer == 1 {
            // Of the stream, which has gone back meanwhile.
            nap::keep(READER.inode(), byte);
        }
        answer != 1
    })
}

/// A byte that an earlier call has left.
fn first_byte(to: c_int) -> isize {
    let mut byte = 0;
    nap::deliver_kept(&raw mut byte);
    let moved = match WRITER.is_at(to) {
        true => super::write_output(to, &raw const byte, 1),
        false => kernel::write(to, &raw const byte, 1),
    };
    if moved != 1 {
        nap::keep(READER.inode(), byte);
    }
    moved
}
