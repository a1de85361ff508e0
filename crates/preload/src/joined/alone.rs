//! The exclusivity check: no other process holds this end, and no code of this process calls the kernel past glibc.

use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use millstream_sys::{descriptors, directory};

use super::end::End;
use super::own_process::has_one_thread;
use super::{decoded, fenced, kernel, offer, own_process};
use crate::descriptor::borrow;
use crate::names;

pub(super) const PAGE: usize = 4096;

/// More links than this are not looked at: on a machine with that many open files the look would cost more than is gained.
const LINKS_MAX: u32 = 20_000;
/// The same for the numbers of descriptors of this process.
const DESCRIPTORS_MAX: u32 = 20_000;

/// What `/proc` shows of the holders of a pipe.
pub(super) struct Holders<'a> {
    /// `pipe:[INODE]`
    pipe: &'a [u8],
    links: u32,
}

impl<'a> Holders<'a> {
    pub(super) fn of(pipe: &'a [u8]) -> Holders<'a> {
        Holders { pipe, links: 0 }
    }

    /// Whether every process that can be looked at and has at least the number `lowest` holds nothing of the pipe, but process
    /// `peer`.
    pub(super) fn elsewhere_is_only(&mut self, peer: u32, lowest: u32) -> bool {
        let processes = kernel::open(c"/proc", kernel::O_RDONLY | kernel::O_DIRECTORY | kernel::O_CLOEXEC);
        if processes < 0 {
            return false;
        }
        let (mut positions, mut is_only) = (Positions::Strange, false);
        if lowest > 0 && kernel::seek(processes as i32, position_of(lowest)) {
            positions = Positions::Unseen;
            is_only = self.listed_is_only(processes as i32, peer, &mut positions);
        }
        if positions == Positions::Strange && kernel::seek(processes as i32, 0) {
            is_only = self.listed_is_only(processes as i32, peer, &mut Positions::Any);
        }
        kernel::close(processes as i32);
        is_only
    }

    /// The same for the processes that are still to be listed.
    fn listed_is_only(&mut self, processes: i32, peer: u32, positions: &mut Positions) -> bool {
        let own = millstream_sys::own_pid();
        let mut has_seen_peer = false;
        let outcome = each_entry(processes, |name, next| {
            let Some(pid) = directory::number(name) else { return true };
            if !positions.are_as_expected(pid, next) {
                return false;
            }
            if pid == own {
                return true;
            }
            let mut room = [0; 32];
            let Some(path) = descriptors_of(name, &mut room) else { return false };
            match self.descriptors(path) {
                // Gone, or not ours to look at; then it shares no open file with us, which the mark proves.
                None | Some(Found::Nothing) => true,
                // Which they are, that process has seen for itself, and its guards are up.
                Some(_) if pid == peer => {
                    has_seen_peer = true;
                    true
                }
                Some(_) => false,
            }
        });
        outcome && has_seen_peer
    }

    fn descriptors(&mut self, directory: &CStr) -> Option<Found> {
        let opened = kernel::open(directory, kernel::O_RDONLY | kernel::O_DIRECTORY | kernel::O_CLOEXEC);
        if opened < 0 {
            return None;
        }
        let mut found = Found::Nothing;
        let is_complete = each_entry(opened as i32, |name, _| {
            let mut target = [0; 64];
            let len = kernel::link(opened as i32, name, &mut target);
            let target = target.get(..len.max(0) as usize).unwrap_or(&[]);
            self.links += 1;
            if target == self.pipe {
                found = if found == Found::Nothing { Found::Only } else { Found::Others };
            }
            self.links < LINKS_MAX && found != Found::Others
        });
        kernel::close(opened as i32);
        Some(if is_complete { found } else { Found::Others })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Only,
    Others,
}

/// Where processes stand in `/proc`, as long as those with low numbers are left out: that is no promise of the kernel, so it is
/// checked with each.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Positions {
    /// All processes are listed.
    Any,
    Unseen,
    /// The next stands here, as the one before it said.
    Next(i64),
    Strange,
}

impl Positions {
    fn are_as_expected(&mut self, pid: u32, next: i64) -> bool {
        *self = match *self {
            Positions::Any => Positions::Any,
            Positions::Next(expected) if expected != position_of(pid) => Positions::Strange,
            _ => Positions::Next(next),
        };
        *self != Positions::Strange
    }
}

fn descriptors_of<'a>(process: &CStr, room: &'a mut [u8; 32]) -> Option<&'a CStr> {
    let path = b"/proc/".iter().chain(process.to_bytes()).chain(b"/fd\0");
    room.iter_mut().zip(path).for_each(|(place, &byte)| *place = byte);
    // Without its zero where there was too little room.
    CStr::from_bytes_until_nul(room).ok().filter(|path| path.to_bytes().ends_with(b"/fd"))
}

/// Whether a mapping is the kernel's own: `[vdso]`, `[vsyscall]`, and `[uprobes]`, where it executes instructions that have a probe.
fn is_of_kernel(path: &[u8]) -> bool {
    path.starts_with(b"[v") || path == b"[uprobes]"
}

/// Where a process stands in `/proc` (`TGID_OFFSET` of Linux).
fn position_of(process: u32) -> i64 {
    258 + i64::from(process)
}

/// Calls `visit` for each entry until it says no; whether it never did and the directory could be read.
fn each_entry(list: i32, mut visit: impl FnMut(&CStr, i64) -> bool) -> bool {
    borrow(&list).and_then(|list| directory::each_entry(list, &mut |name, next| visit(name, next as i64))) == Some(true)
}

/// What is done with a descriptor of this process for the opposite end of the pipe. A program that has made a pipe and forked
/// often leaves both ends open on both sides, as Python's `multiprocessing` does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Opposite {
    /// It is another name of the pipe.
    Counts,
    /// The process may have it. Its use detaches the pipe ([`other_names`](super::other_names)).
    Stays,
    /// The same. It gets an open file that no other process shares.
    Renewed,
}

/// Whether this process has the pipe of `end` under no other number, and nothing in it watches descriptors by their open file (epoll,
/// io_uring and their like).
pub(super) fn here_is_only(end: &End, opposite: Opposite) -> bool {
    each_other(end, opposite) == Some(true)
}

/// Before an attached end is closed: whether this process has the pipe under another number as well, as a path under `/proc` or
/// `/dev` gives one. The pipe then goes on when the end is gone.
pub(super) fn has_other_name(end: &End) -> bool {
    // Where they cannot be told, no further file could be opened before either.
    each_other(end, Opposite::Counts) == Some(false)
}

/// Whether no other descriptor of this process is for the pipe of `end`, or watches; `None` if that cannot be told.
fn each_other(end: &End, opposite: Opposite) -> Option<bool> {
    let own = descriptors::status_of(end.fd().unsigned_abs())?;
    let is_harmless = |number: u32, other: &descriptors::Stat| {
        if number == end.fd().unsigned_abs() {
            return true;
        }
        if (other.st_dev, other.st_ino) == (own.st_dev, own.st_ino) {
            return number <= DESCRIPTORS_MAX && may_stay(end, number.cast_signed(), opposite);
        }
        number <= DESCRIPTORS_MAX && (!descriptors::is_no_file(other) || watches_nothing(number))
    };
    descriptors::each(has_one_thread(), offer::descriptor(), is_harmless)
}

/// Whether `fd`, another number of the pipe of `end`, is for its opposite end and may stay. Where there are several threads, one may be
/// in the middle of a call for it while another begins the ring.
fn may_stay(end: &End, fd: i32, opposite: Opposite) -> bool {
    let access = if end.is_reader() { kernel::O_WRONLY } else { kernel::O_RDONLY };
    if opposite == Opposite::Counts || !has_one_thread() || !kernel::is_plain(fd, access) {
        return false;
    }
    end.holds_both.store(true, Relaxed);
    opposite == Opposite::Stays || renew(fd, access)
}

/// Whether a descriptor that stands for no file is of a kind that watches no other descriptor.
fn watches_nothing(number: u32) -> bool {
    let mut room = [0; 64];
    let name = usize::try_from(kernel::link_of(number.cast_signed(), &mut room)).ok().and_then(|len| room.get(..len));
    name.and_then(|name| name.strip_prefix(b"anon_inode:"))
        .is_some_and(|kind| matches!(kind, b"[eventfd]" | b"[timerfd]" | b"[signalfd]" | b"inotify"))
}

/// Makes sure that no other descriptor shares the open file of `fd`, an end of a pipe, whether that was inherited, sent, or is on its
/// way: the end gets a new open file, and the old one must be gone, which its mark shows. Only the kernel could be asked
/// for this, and that is how.
///
/// If it is not gone the end works as before, but has a file of its own: later changes of its flags by others do not
/// reach it.
pub(super) fn has_own_file(fd: i32, is_writer: bool) -> bool {
    let (kind, access, at) = match is_writer {
        true => (kernel::WRITE_LOCK, kernel::O_WRONLY, offer::MARK + 1),
        false => (kernel::READ_LOCK, kernel::O_RDONLY, offer::MARK),
    };
    // The pipe has marks of another owner: a pipe of millstream's library, for one.
    if kernel::is_marked(fd, 0, offer::MARK) != Some(false) || !kernel::mark(fd, kind, at) {
        return false;
    }
    renew(fd, access) && kernel::is_marked(fd, at, 1) == Some(false)
}

/// Gives `fd`, an end of a pipe, a new open file.
#[inline(never)] // for one end or the other
fn renew(fd: i32, access: usize) -> bool {
    const F_GETFD: u32 = 1;
    const F_SETFL: u32 = 4;
    let size_is_chosen = crate::pipes::size_is_chosen(fd);
    let new = kernel::reopen(fd, access | kernel::O_NONBLOCK);
    if new < 0 {
        return false;
    }
    let closes_on_exec = kernel::fcntl(fd, F_GETFD, 0) & 1 != 0;
    let is_replaced = kernel::fcntl(new as i32, F_SETFL, 0) == 0
        && kernel::dup3(new as i32, fd, if closes_on_exec { kernel::O_CLOEXEC } else { 0 }) >= 0;
    kernel::close(new as i32);
    if size_is_chosen {
        crate::pipes::choose_size(fd);
    }
    is_replaced
}

/// A part of this process's memory that can be executed.
struct Mapping<'a> {
    start: usize,
    end: usize,
    is_readable: bool,
    is_writable: bool,
    path: &'a [u8],
}

/// Looks through the code of this process for instructions that call the kernel; a library that holds one could do anything
/// with a descriptor behind glibc's back. Memory that holds code but belongs to no file may as well. Not looked at are
/// glibc, whose code is given, its loader, and this library.
///
/// `None`: there are some that can be neither trapped nor fenced. Otherwise the addresses outside of which calls are to be
/// [trapped](super::trapped); none, where only glibc makes any. What inside of them may be a call is [fenced].
pub(super) fn range_of_calls(glibc: &Range<usize>, own_code: usize) -> Option<Option<Range<usize>>> {
    fenced::begin_search();
    if only_glibc_calls_the_kernel(glibc, own_code, &(0..usize::MAX), |_| false) {
        return Some(None);
    }
    let allowed = allowed_range(glibc, &names::own_code()?);
    only_glibc_calls_the_kernel(glibc, own_code, &allowed, fenced::add).then_some(Some(allowed))
}

/// The shortest range that holds glibc and this library, whose own calls are never to be trapped.
pub(super) fn allowed_range(glibc: &Range<usize>, own: &Range<usize>) -> Range<usize> {
    glibc.start.min(own.start)..glibc.end.max(own.end).next_multiple_of(PAGE)
}

/// The same for code in these addresses, but for calls that may be there.
#[inline(never)] // as above
fn only_glibc_calls_the_kernel(
    glibc: &Range<usize>,
    own_code: usize,
    among: &Range<usize>,
    may_be: fn(usize) -> bool,
) -> bool {
    let mut module = Module::none();
    each_mapping(&mut |mapping, access| {
        if access != b'x' && mapping.path.is_empty() {
            return true;
        }
        module.go_on(mapping);
        let holds = |address: usize| (mapping.start..mapping.end).contains(&address);
        let name = mapping.path.rsplit(|&byte| byte == b'/').next().unwrap_or(&[]);
        access != b'x'
            || mapping.end <= among.start
            || mapping.start >= among.end
            || (mapping.start >= glibc.start && mapping.end <= glibc.end.next_multiple_of(PAGE))
            || holds(own_code)
            || name.starts_with(b"ld-linux")
            || is_of_kernel(mapping.path)
            || (mapping.path.starts_with(b"/")
                // What can be written is code of which nothing is known in a moment.
                && !calls_the_kernel(mapping, &module, if mapping.is_writable { |_| false } else { may_be }))
    })
}

/// The file whose mappings are being listed.
struct Module {
    name: [u8; 256],
    len: usize,
    start: usize,
    is_readable: bool,
}

impl Module {
    fn none() -> Module {
        Module { name: [0; 256], len: 0, start: 0, is_readable: false }
    }

    /// Goes on to the file of this mapping.
    fn go_on(&mut self, mapping: &Mapping<'_>) {
        if !self.is(mapping.path) {
            *self = Module::new(mapping);
        }
    }

    fn new(mapping: &Mapping<'_>) -> Module {
        let mut module = Module { start: mapping.start, is_readable: mapping.is_readable, ..Module::none() };
        module.len = mapping.path.len().min(256);
        module.name[..module.len].copy_from_slice(&mapping.path[..module.len]);
        module
    }

    /// Where its code and data end, as the header of its file says, which is mapped first. No program that we know has more
    /// than the most that is believed: the further away a place may be, the less a distance to it tells.
    #[inline(never)] // as above
    fn end(&self) -> Option<usize> {
        const PT_LOAD: u64 = 1;
        const LARGEST: usize = 17 << 20;
        let mut page = [0_u64; PAGE / 8];
        if !self.is_readable || !read_code(self.start, page.as_mut_ptr().cast(), PAGE) {
            return None;
        }
        // The header of the file, and the table of its segments in its first page (`elf(5)`).
        let word = |at: usize| page.get(at / 8).copied().unwrap_or(0);
        if word(0) & 0xffff_ffff != u64::from(u32::from_le_bytes(*b"\x7fELF")) {
            return None;
        }
        let (headers, count) = (word(32) as usize, (word(56) & 0xffff) as usize);
        if headers + count * 56 > PAGE {
            return None;
        }
        let headers = (0..count).map(|index| headers + index * 56);
        let segments = headers.filter(|&at| word(at) & 0xffff_ffff == PT_LOAD);
        let (first, last) = segments.fold((usize::MAX, 0), |(first, last), at| {
            let address = word(at + 16) as usize;
            (first.min(address & !4095), last.max(address + word(at + 40) as usize))
        });
        Some(self.start + last.checked_sub(first)?.min(LARGEST))
    }

    fn is(&self, path: &[u8]) -> bool {
        self.len == path.len() && self.name.get(..self.len) == Some(path)
    }
}

/// Whether the bytes of `syscall` (0f 05) or `sysenter` (0f 34) stand anywhere in the mapping, at any offset, where none may be. They may also be
/// part of a distance to somewhere else in the same module; then the four bytes that begin with them, or one before them, are a
/// small number, which after an instruction they never were. And the return from a signal handler does nothing with a descriptor:
/// libgcc looks for the code of that, so it is in its own, and every program in C++ and Rust has libgcc.
fn calls_the_kernel(mapping: &Mapping<'_>, module: &Module, may_be: fn(usize) -> bool) -> bool {
    let places = module.start..module.end().unwrap_or(mapping.end);
    if !own_process::has_threads() {
        return has_calls(&(mapping.start..mapping.end), &places, may_be);
    }
    // Another thread may take the mapping away at any moment, so a copy is searched, as if it lay where the code does.
    let len = mapping.end - mapping.start;
    let Some(copy) = kernel::copy_of_own_memory(mapping.start, len) else { return true };
    let moved = |at: usize| at.wrapping_sub(mapping.start).wrapping_add(copy);
    let may_be = |at: usize| may_be(at.wrapping_sub(copy).wrapping_add(mapping.start));
    let has_calls = has_calls(&(copy..copy + len), &(moved(places.start)..moved(places.end)), may_be);
    kernel::unmap(copy, len);
    has_calls
}

/// Copies code of the program. `false`: it is not there any more.
fn read_code(from: usize, to: *mut u8, len: usize) -> bool {
    if own_process::has_threads() {
        return kernel::read_own_memory(from as *const u8, to, len);
    }
    // SAFETY: code that is mapped here and readable, which no other thread can take away; the caller's room.
    unsafe { (from as *const u8).copy_to_nonoverlapping(to, len) };
    true
}

/// The same for code that can be read, of which distances lead to these places.
fn has_calls(mapping: &Range<usize>, places: &Range<usize>, may_be: impl Fn(usize) -> bool) -> bool {
    // SAFETY: the four bytes are inside the mapping, which is readable (checked by the caller's parsing) and does not
    // change: code of a file, or a copy.
    let distance = |at: usize| unsafe { (at as *const i32).read_unaligned() } as isize;
    let points_inside = |from: usize| {
        from >= mapping.start
            && from + 4 <= mapping.end
            && places.contains(&(from + 4).wrapping_add_signed(distance(from)))
    };
    let mut at = mapping.start;
    // Pages, so both ends are multiples of a block. What begins in the last byte of a block is seen from there, for which the
    // block behind the last one is not read.
    while at < mapping.end {
        let mut found = calls_in_block(at, at + BLOCK < mapping.end);
        while found != 0 {
            let here = at + found.trailing_zeros() as usize;
            let is_decoded_other =
                || here + decoded::LONGEST < mapping.end && decoded::is_inside_another(mapping.start, here);
            let is_other = points_inside(here)
                || points_inside(here - 1)
                || returns_from_handler(mapping.start, here)
                || is_decoded_other();
            if !is_other && !may_be(here) {
                return true;
            }
            found &= found - 1;
        }
        at += BLOCK;
    }
    false
}

/// Whether a call in the code that begins at `start` is of `rt_sigreturn`: `mov eax, 15` stands before it.
fn returns_from_handler(start: usize, call: usize) -> bool {
    const BEFORE: [u8; 6] = [0xc7, 0xc0, 15, 0, 0, 0];
    // SAFETY: inside the mapping, as in the caller.
    call - start >= BEFORE.len() && unsafe { ((call - BEFORE.len()) as *const [u8; 6]).read() } == BEFORE
}

const BLOCK: usize = 16;

/// A bit for each of the 16 bytes from `at` with which `0f 05` or `0f 34` begins; for the last of them only if there are more.
/// Programs have megabytes of code, and byte by byte this was most of what joining cost.
fn calls_in_block(at: usize, has_more: bool) -> u32 {
    use core::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
        _mm_srli_si128,
    };
    // SAFETY: every x86-64 processor has SSE2. The block is inside a mapping that can be read, and so is the byte behind it
    // where there is more.
    unsafe {
        let block = _mm_loadu_si128(at as *const __m128i);
        let behind = match has_more {
            true => _mm_loadu_si128((at + 1) as *const __m128i),
            false => _mm_srli_si128::<1>(block),
        };
        let first = _mm_cmpeq_epi8(block, _mm_set1_epi8(0x0f));
        let second =
            _mm_or_si128(_mm_cmpeq_epi8(behind, _mm_set1_epi8(0x05)), _mm_cmpeq_epi8(behind, _mm_set1_epi8(0x34)));
        _mm_movemask_epi8(_mm_and_si128(first, second)).cast_unsigned()
    }
}

/// Calls `visit` with every mapping that has a path or can be executed, and `x` or another letter for that, until it says no.
#[inline(never)] // its room is in no frame in which handlers are looked for
fn each_mapping(visit: &mut dyn FnMut(&Mapping<'_>, u8) -> bool) -> bool {
    let file = kernel::open(c"/proc/self/maps", kernel::O_RDONLY | kernel::O_CLOEXEC);
    if file < 0 {
        return false;
    }
    let (mut buffer, mut kept) = ([0; 4096], 0);
    let is_clean = loop {
        let Some(room) = buffer.get_mut(kept..) else { break false };
        let len = kernel::read(file as i32, room.as_mut_ptr(), room.len());
        if len <= 0 {
            break len == 0 && kept == 0;
        }
        let filled = kept + len as usize;
        let mut start = 0;
        let mut goes_on = true;
        while let Some(text) = buffer.get(start..filled)
            && let Some(line_len) = text.iter().position(|&byte| byte == b'\n')
            && goes_on
        {
            goes_on = visit_line(&text[..line_len], visit);
            start += line_len + 1;
        }
        if !goes_on {
            break false;
        }
        buffer.copy_within(start..filled, 0);
        kept = filled - start;
        if kept == buffer.len() {
            break false;
        }
    };
    kernel::close(file as i32);
    is_clean
}

/// Where the mapping ends that this address is in.
#[inline(never)] // as above
pub(super) fn end_of_mapping(address: usize) -> Option<usize> {
    let mut end = None;
    each_mapping(&mut |mapping, _| {
        if (mapping.start..mapping.end).contains(&address) {
            end = Some(mapping.end);
        }
        end.is_none()
    });
    end
}

/// `START-END rwxp OFFSET DEVICE INODE   PATH`
fn visit_line(line: &[u8], visit: &mut dyn FnMut(&Mapping<'_>, u8) -> bool) -> bool {
    let Some((start, rest)) = hexadecimal(line) else { return false };
    let Some((end, rest)) = rest.get(1..).and_then(hexadecimal) else { return false };
    let Some(&[_, readable, writable, executable]) = rest.get(..4) else { return false };
    let path = rest.iter().position(|&byte| byte == b'/' || byte == b'[').and_then(|at| rest.get(at..)).unwrap_or(&[]);
    // Code that can be executed and not read cannot be judged.
    if executable == b'x' && readable != b'r' && !is_of_kernel(path) {
        return false;
    }
    visit(&Mapping { start, end, is_readable: readable == b'r', is_writable: writable == b'w', path }, executable)
}

fn hexadecimal(text: &[u8]) -> Option<(usize, &[u8])> {
    let len = text.iter().position(|byte| !byte.is_ascii_hexdigit())?;
    let value = text[..len].iter().try_fold(0_usize, |value, &byte| {
        value.checked_mul(16)?.checked_add(char::from(byte).to_digit(16)? as usize)
    })?;
    Some((value, &text[len..]))
}
