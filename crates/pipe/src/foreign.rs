//! The other side of a splice: a descriptor of whatever kind, and how bytes get there without blocking.
//!
//! A side's lock is held while bytes move between the ring and such a descriptor, so that what the descriptor did not
//! take stays where it is. So no call made here may wait for another process:
//!
//! ```text
//! file, /dev/null   writev, readv: wait for a disk at most
//! socket            sendmsg, recvmsg with MSG_DONTWAIT
//! pipe, FIFO        pwritev2, preadv2 with RWF_NOWAIT; where there is none, as for a terminal
//! terminal          a description of its own that does not block, opened through /proc
//! anything else     only when poll says that it is ready, and no more than a page
//! ```
//!
//! The waiting is done by [`Foreign::sleep`], without a lock. A descriptor that does not block needs none of it.
#![allow(unsafe_code)]

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use millstream_ring::{PIPE_BUF, Parking, ReadSide, Room, Waiting, WriteSide};
use millstream_sys::foreign::{self, Call, Kind, Memory};
use millstream_sys::transfer::{self, Access};
use millstream_sys::{Errno, pipe};

/// What one attempt to move bytes from one place to another came to.
pub(crate) enum Step {
    /// Some were moved, and counted; or it is worth trying again at once.
    Moved,
    /// Nothing waits where they come from.
    Empty,
    /// There is no room where they go.
    Full,
    /// Where they come from has ended.
    End,
}

/// Bytes in one call: so many that the call itself costs little, and so few that the other side of the pipe goes on
/// meanwhile.
pub(crate) const PIECE: usize = 128 << 10;

/// Bytes that go into a backing pipe, or out of it, through this process's memory at once: what a new kernel pipe
/// holds.
const THROUGH_MEMORY: usize = pipe::DEFAULT_CAPACITY;

/// A page: no pipe or device with room for anything has less.
const SPARINGLY: usize = PIPE_BUF;

/// A descriptor that the caller handed us.
pub(crate) struct Foreign<'a> {
    fd: BorrowedFd<'a>,
    access: Access,
    kind: Kind,
    is_blocking: bool,
    way: Cell<Way>,
    own: OnceCell<OwnedFd>,
    cannot_splice: Cell<bool>,
    /// The kernel has sent SIGPIPE.
    has_signalled: Cell<bool>,
    detour: RefCell<Detour>,
}

/// How it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// As it is.
    Directly(Call),
    /// Through a description of our own.
    ByOwnDescription,
    /// Only when it is ready, a page at a time.
    Sparingly,
}

/// Memory, and a private pipe, for what can be had in no other way. Made when first needed.
#[derive(Default)]
pub(crate) struct Detour {
    buffer: Vec<u8>,
    pipe: Option<(OwnedFd, OwnedFd)>,
}

impl<'a> Foreign<'a> {
    /// What `fd` is, and how to call it. `end` is the backing pipe that is spliced with.
    ///
    /// # Errors
    /// `EINVAL`: it is an end of the same pipe. `EBADF`: not open for `access`.
    pub(crate) fn new(fd: BorrowedFd<'a>, access: Access, end: BorrowedFd<'_>) -> Result<Foreign<'a>, Errno> {
        if !transfer::is_open_for(fd, access)? {
            return Err(Errno::BADF);
        }
        let (kind, is_blocking) = (foreign::kind(fd)?, !transfer::is_nonblocking(fd)?);
        if kind == Kind::Pipe && pipe::identity(fd) == pipe::identity(end) {
            return Err(Errno::INVAL);
        }
        let way = match kind {
            Kind::Socket => Way::Directly(Call::Message),
            Kind::File => Way::Directly(Call::Plain),
            _ if !is_blocking => Way::Directly(Call::Plain),
            Kind::Pipe => Way::Directly(Call::NoWait),
            Kind::Terminal => Way::ByOwnDescription,
            Kind::Other => Way::Sparingly,
        };
        let foreign = Foreign {
            fd,
            access,
            kind,
            is_blocking,
            way: Cell::new(way),
            own: OnceCell::new(),
            cannot_splice: Cell::new(false),
            has_signalled: Cell::new(false),
            detour: RefCell::default(),
        };
        if way == Way::ByOwnDescription {
            foreign.open_own();
        }
        Ok(foreign)
    }

    fn open_own(&self) {
        self.way.set(match foreign::reopened_nonblocking(self.fd, self.access) {
            Ok(own) => {
                let _ = self.own.set(own);
                Way::ByOwnDescription
            }
            Err(_) => Way::Sparingly,
        });
    }

    /// Makes `call` in the way that does not wait.
    fn attempt(&self, call: impl Fn(BorrowedFd<'_>, Call, usize) -> Result<usize, Errno>) -> Result<usize, Errno> {
        if let Way::Directly(how) = self.way.get() {
            match call(self.fd, how, usize::MAX) {
                Err(Errno::OPNOTSUPP) if how == Call::NoWait => self.open_own(),
                outcome => return outcome,
            }
        }
        match (self.way.get(), self.own.get()) {
            (Way::ByOwnDescription, Some(own)) => call(own.as_fd(), Call::Plain, usize::MAX),
            _ if foreign::is_ready(self.fd, self.access)? => call(self.fd, Call::Plain, SPARINGLY),
            _ => Err(Errno::AGAIN),
        }
    }

    /// Writes the first `len` bytes that wait in the ring; returns how many were taken. Consumes none.
    pub(crate) fn write_from(
        &self,
        readers: &ReadSide<'_, impl Parking>,
        waiting: Waiting,
        len: usize,
    ) -> Result<usize, Errno> {
        let memory = readers.stretches(waiting, len);
        self.attempt(|fd, call, most| {
            // SAFETY: within the buffers of the ring, which are mapped as long as it lives (`Bytes::new`).
            unsafe { foreign::write_from(fd, beginning(memory, most), call) }
        })
    }

    /// Reads at most `len` bytes into the room of the ring; returns how many came: 0 at the end. Commits none.
    pub(crate) fn read_to(
        &self,
        writers: &WriteSide<'_, impl Parking>,
        room: Room,
        len: usize,
    ) -> Result<usize, Errno> {
        let memory = writers.stretches(room, len);
        self.attempt(|fd, call, most| {
            // SAFETY: within the buffers of the ring, which are mapped as long as it lives (`Bytes::new`), for both
            // reading and writing; there are no references to them.
            unsafe { foreign::read_to(fd, beginning(memory, most), call) }
        })
    }

    /// Moves at most `len` bytes from the backing pipe to here by `splice(2)`; 0 at the end of the stream. Where that
    /// is impossible, it copies them through memory, and takes off the backing pipe what was written. Not through
    /// memory while another reader `may_interfere` and take the bytes in between: `None`.
    pub(crate) fn take_from_backing_pipe(
        &self,
        shadow: BorrowedFd<'_>,
        len: usize,
        may_interfere: impl FnOnce() -> bool,
    ) -> Result<Option<usize>, Errno> {
        if !self.cannot_splice.get() {
            match self.splice(len, |fd, len| foreign::splice_now(shadow, fd, len)) {
                Err(Errno::INVAL) => self.cannot_splice.set(true),
                outcome => {
                    self.has_signalled.set(outcome == Err(Errno::PIPE));
                    return outcome.map(Some);
                }
            }
        }
        // Asked first: a reader that has taken the bytes peeked at here may interfere no longer.
        let may_vanish = may_interfere();
        let mut detour = self.detour.borrow_mut();
        let peeked = detour.peek(shadow, len)?;
        if peeked == 0 {
            return Ok(Some(0));
        }
        if may_vanish {
            return Ok(None);
        }
        let memory = memory_of(&mut detour.buffer[..peeked]);
        let count = self.attempt(|fd, call, most| {
            // SAFETY: a buffer of this process's own, which no other code uses meanwhile.
            unsafe { foreign::write_from(fd, beginning(memory, most), call) }
        })?;
        let mut taken = 0;
        while taken < count {
            match transfer::read_now(shadow, &mut [IoSliceMut::new(&mut detour.buffer[..count - taken])])? {
                0 => break,
                more => taken += more,
            }
        }
        Ok(Some(count))
    }

    /// Moves at most `len` bytes from here to the backing pipe. 0 at the end of what is here.
    ///
    /// The bytes of a file are copied and not spliced. `splice(2)` would put the pages of the file itself into the
    /// pipe. A later reader would see what the file holds by then.
    pub(crate) fn give_to_backing_pipe(&self, shadow: BorrowedFd<'_>, len: usize) -> Result<usize, Errno> {
        if self.kind == Kind::File {
            let buffer = &mut self.detour.borrow_mut().buffer;
            buffer.resize(THROUGH_MEMORY, 0);
            let count = foreign::peek(self.fd, &mut buffer[..len.min(THROUGH_MEMORY)])?;
            if count == 0 {
                return Ok(0);
            }
            let taken = transfer::write_now(shadow, &[IoSlice::new(&buffer[..count])])?;
            foreign::skip(self.fd, taken)?;
            return Ok(taken);
        }
        if !self.cannot_splice.get() {
            match self.splice(len, |fd, len| foreign::splice_now(fd, shadow, len)) {
                Err(Errno::INVAL) => self.cannot_splice.set(true),
                outcome => return outcome,
            }
        }
        // There is room for a page before one is read, and only a foreign process can take it away.
        if !transfer::readiness(shadow)?.writable {
            return Err(Errno::AGAIN);
        }
        let mut page = [0; SPARINGLY];
        let memory = memory_of(&mut page[..len.min(SPARINGLY)]);
        let count = self.attempt(|fd, call, most| {
            // SAFETY: an array of this function, to which there is no other reference during the call.
            unsafe { foreign::read_to(fd, beginning(memory, most), call) }
        })?;
        if count == 0 {
            return Ok(0);
        }
        loop {
            match transfer::write_now(shadow, &[IoSlice::new(&page[..count])]) {
                Err(Errno::AGAIN) => _ = foreign::sleep_until_ready(shadow, Access::Write, None, None),
                outcome => return outcome,
            }
        }
    }

    /// A splice that does not wait for what is here.
    fn splice(&self, len: usize, call: impl Fn(BorrowedFd<'_>, usize) -> Result<usize, Errno>) -> Result<usize, Errno> {
        let is_ready = || foreign::is_ready(self.fd, self.access);
        match (self.way.get(), self.own.get()) {
            (Way::ByOwnDescription, Some(own)) => call(own.as_fd(), len),
            (Way::Directly(Call::Plain | Call::NoWait), _) => call(self.fd, len),
            _ if self.is_blocking && !is_ready()? => Err(Errno::AGAIN),
            // `splice(2)` knows no MSG_DONTWAIT.
            (Way::Directly(_), _) if self.is_blocking && self.access == Access::Write => {
                call(self.fd, len.min(foreign::sendable_without_waiting(self.fd)?))
            }
            (Way::Directly(_), _) => call(self.fd, len),
            _ => call(self.fd, len.min(SPARINGLY)),
        }
    }

    /// Sleeps until it is worth trying again. If the pipe of `watched` loses its other side meanwhile: `EPIPE`.
    ///
    /// # Errors
    /// `EAGAIN`: the descriptor does not block. `EINTR`.
    pub(crate) fn sleep(&self, watched: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        if !self.is_blocking {
            return Err(Errno::AGAIN);
        }
        let woken = foreign::sleep_until_ready(self.fd, self.access, watched, None)?;
        if woken.peer_gone { Err(Errno::PIPE) } else { Ok(()) }
    }

    /// Whether the kernel leaves it to us to send SIGPIPE.
    pub(crate) fn is_silent_about_broken_pipes(&self) -> bool {
        self.way.get() == Way::Directly(Call::Message) && !self.has_signalled.get()
    }
}

impl Detour {
    /// Copies what waits in the backing pipe to the buffer, and leaves it there; returns how much: 0 at the end of
    /// the stream.
    pub(crate) fn peek(&mut self, shadow: BorrowedFd<'_>, len: usize) -> Result<usize, Errno> {
        let (read_end, write_end) = match self.pipe.take() {
            Some(pipe) => pipe,
            None => pipe::create()?,
        };
        self.buffer.resize(THROUGH_MEMORY, 0);
        let count = foreign::tee_now(shadow, &write_end, len.min(THROUGH_MEMORY))?;
        let mut done = 0;
        while done < count {
            done += transfer::read(&read_end, &mut [IoSliceMut::new(&mut self.buffer[done..count])])?;
        }
        // Only if it is empty: otherwise it goes, with what is left in it.
        self.pipe = Some((read_end, write_end));
        Ok(count)
    }

    /// What was peeked at.
    pub(crate) fn bytes(&self, count: usize) -> &[u8] {
        &self.buffer[..count]
    }
}

fn memory_of(bytes: &mut [u8]) -> Memory {
    [(NonNull::from(&mut *bytes).cast(), bytes.len()), (NonNull::dangling(), 0)]
}

/// At most so many bytes from the beginning of `memory`.
fn beginning([(first, first_len), (second, second_len)]: Memory, most: usize) -> Memory {
    let first_len = first_len.min(most);
    [(first, first_len), (second, second_len.min(most - first_len))]
}
