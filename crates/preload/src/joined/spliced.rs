//! `splice` and `sendfile` at an attached end: as a program would read and write, through a buffer, and with what the kernel would have
//! said.
//!
//! What was read must arrive, so the other file is one that takes everything in the end: a pipe, a socket, `/dev/null`. Everything else
//! is the kernel's business, and so are calls that are not to wait; an end goes back to it first.

use core::ffi::c_int;

use linux_raw_sys::general as k;
use millstream_sys::fate::Fate;
use millstream_sys::ledger::Direction;

use super::attached::{advance_reader, advance_writer, announces, read_input, write_output};
use super::calls::{read_from_kernel, write_to_kernel};
use super::end::{End, READER, Stage, WRITER};
use super::outlook::OUTPUT;
use super::own_run::after;
use super::{kernel, meet, notice, other_names, retreat};
use crate::counted;

/// A call moves so much at most, and may be made again.
const PIECE: usize = 16 << 10;

/// What a call moves, and how the kernel would.
pub(super) struct Call {
    pub(super) from: c_int,
    pub(super) to: c_int,
    pub(super) len: usize,
    pub(super) kernel: Kernel,
}

/// The system call, with what only the kernel knows to do with.
pub(super) enum Kernel {
    Splice { from_at: *mut i64, to_at: *mut i64, flags: u32 },
    Sendfile { at: *mut i64 },
}

impl Call {
    /// Between any two files.
    pub(super) fn answer(&self) -> isize {
        let &Call { from, to, .. } = self;
        let (reads, writes) = (READER.is_at(from), WRITER.is_at(to));
        let is_odd = WRITER.is_at(from) || READER.is_at(to);
        if is_odd || ((reads || writes) && self.asks_kernel()) {
            return self.as_kernel_has_it();
        }
        if !(reads || other_names::leave_if_one(from)) || !(writes || other_names::leave_if_one(to)) {
            return kernel::EMFILE;
        }
        // These are glibc's where there are several threads.
        READER.uses.during(|| WRITER.uses.during(|| self.answer_at(reads, writes))).flatten().unwrap_or(kernel::EINTR)
    }

    fn answer_at(&self, reads: bool, writes: bool) -> isize {
        let &Call { from, to, .. } = self;
        if reads {
            advance_reader();
        }
        if writes {
            advance_writer(self.len);
        }
        let is_attached = (reads && READER.stage() == Stage::Ring) || (writes && WRITER.stage() == Stage::Ring);
        if is_attached {
            return if can_take_all(to) { self.through_buffer(reads, writes) } else { self.as_kernel_has_it() };
        }
        let announced = WRITER.channel().filter(|&channel| writes && announces(channel));
        let call = || self.in_kernel(if announced.is_some() { self.len.min(meet::LAST_BYTES) } else { self.len });
        let moved = match (reads, writes) {
            (true, true) => READER.in_kernel(|| WRITER.in_kernel(call)),
            (true, false) => READER.in_kernel(call),
            (false, true) => WRITER.in_kernel(call),
            (false, false) => call(),
        };
        if let Some(channel) = announced {
            meet::await_reader(channel, moved > 0);
        }
        // The kernel hands pages on without a copy, where memory would take two. The output may attach after its input; a pipe at
        // another number is the program's own, from which it splices further. `--ring-after` attaches all the same.
        let attaches_all = after().is_some();
        if !reads && (attaches_all || to == OUTPUT) {
            passed(&READER, from, moved);
        }
        if !writes && attaches_all {
            passed(&WRITER, to, moved);
        }
        moved
    }

    /// Before anything was read a signal ends the call; afterwards its handler runs, and the bytes arrive.
    fn through_buffer(&self, reads: bool, writes: bool) -> isize {
        let mut buffer = [0_u8; PIECE];
        let (start, len) = (buffer.as_mut_ptr(), self.len.min(PIECE));
        let read = match reads {
            true => read_input(self.from, start, len, None),
            false => passed(&READER, self.from, read_from_kernel(self.from, start, len)),
        };
        let Ok(all) = usize::try_from(read) else { return read };
        let mut done = 0;
        while done < all {
            let (rest, left) = (start.wrapping_add(done).cast_const(), all - done);
            let wrote = match writes {
                true => write_output(self.to, rest, left),
                false => passed(&WRITER, self.to, write_to_kernel(self.to, rest, left)),
            };
            match usize::try_from(wrote) {
                Ok(wrote) => done += wrote,
                Err(_) if wrote == kernel::EINTR || wrote == kernel::ENOMEM => {}
                // A signal handler has set `O_NONBLOCK`, and the bytes are in hand.
                Err(_) if wrote == kernel::EAGAIN => kernel::give_the_cpu_away(),
                Err(_) => return wrote,
            }
        }
        read
    }

    /// Positions, flags and files that do not wait; and files of which the kernel says whether it splices from them.
    fn asks_kernel(&self) -> bool {
        /// `SPLICE_F_MOVE`, `SPLICE_F_MORE`, `SPLICE_F_GIFT`.
        const OF_NO_MEANING: u32 = 1 | 4 | 8;
        const F_GETFL: u32 = 3;
        let has_meaning = match self.kernel {
            Kernel::Splice { from_at, to_at, flags } => {
                !from_at.is_null() || !to_at.is_null() || flags & !OF_NO_MEANING != 0
            }
            // The kernel takes nothing from a pipe here.
            Kernel::Sendfile { at } => !at.is_null() || !is_file(self.from),
        };
        let is_special = |fd| {
            let flags = kernel::fcntl(fd, F_GETFL, 0);
            flags < 0 || flags as u32 & (k::O_NONBLOCK | k::O_APPEND) != 0
        };
        has_meaning || self.len == 0 || is_special(self.from) || is_special(self.to) || !can_be_read(self.from)
    }

    /// As the kernel does it, at most so many bytes.
    #[inline(never)]
    fn in_kernel(&self, len: usize) -> isize {
        let moved = match self.kernel {
            Kernel::Splice { from_at, to_at, flags } => kernel::splice(self.from, from_at, self.to, to_at, len, flags),
            Kernel::Sendfile { at } => kernel::sendfile(self.to, self.from, at, len),
        };
        counted::note(self.from, Direction::Read, moved);
        counted::note(self.to, Direction::Written, moved)
    }

    fn as_kernel_has_it(&self) -> isize {
        let name = if matches!(self.kernel, Kernel::Sendfile { .. }) { c"sendfile" } else { c"splice" };
        if retreat::before_a_call(Fate::called(name)) { self.in_kernel(self.len) } else { kernel::EMFILE }
    }
}

/// Once in the library's memory, which is small: these calls move much each.
#[inline(never)]
fn passed(end: &End, fd: c_int, moved: isize) -> isize {
    notice::passed(end, fd, moved)
}

fn is_file(fd: c_int) -> bool {
    kernel::kind_of(fd).is_some_and(|(kind, _)| kind == k::S_IFREG || kind == k::S_IFBLK)
}

/// Files that the kernel splices from.
fn can_be_read(fd: c_int) -> bool {
    is_file(fd) || can_take_all(fd)
}

/// Files that fail only when the other side is gone.
fn can_take_all(fd: c_int) -> bool {
    const NULL: u64 = 1 << 8 | 3;
    kernel::kind_of(fd).is_some_and(|(kind, device)| {
        kind == k::S_IFIFO || kind == k::S_IFSOCK || (kind == k::S_IFCHR && device == NULL)
    })
}
