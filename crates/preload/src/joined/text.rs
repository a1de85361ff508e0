//! Hooks: jumps in this process's copy of glibc's code.
//!
//! Interposing names reaches the calls of the program, but not those inside glibc: `printf`, `fread` and all of stdio call
//! `read` and `write` by address. So the first instructions of a function are replaced by a jump to this library. A hook stays
//! for good: the hooked function is called through a [`Stub`], which holds the displaced instructions.
//!
//! ```text
//!   glibc's page, anonymous                      stub
//!   read:   jmp hook      ──▶  hook ──▶ ...  ──▶  mov $0, %eax       displaced
//!   read+5: syscall       ◀──────────────────────  jmp read+5
//! ```
//!
//! A changed page is an anonymous copy in the place of the file's page, and so are pages between two of them. The kernel puts
//! breakpoints (uprobes) into pages of files only, and takes them out by writing the file's first byte back: on a page of the
//! file that would tear a jump apart. What is mapped must be what the file has, so a breakpoint that a tracer or a debugger
//! has set before is seen: then no hook is set. Code is changed while the process has one thread, and is
//! never changed back, so a debugger's own note of what stood at a place stays true.
//!
//! Only system calls that a loader makes: the program may have been confined to those before it began.

use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::displaced::{self, Displaced};
use super::{alone, kernel};
use crate::names;

const PAGE: usize = 4096;
/// `jmp` with a displacement of 32 bits.
const JUMP: u8 = 0xe9;
const JUMP_BYTES: usize = 5;
/// `endbr64`, which stays where it is.
const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// Longest path of a library.
const PATH_BYTES: usize = 256;

/// glibc as it is mapped here, and its file.
pub(super) struct Library {
    /// Where the file's header is mapped.
    pub(super) base: usize,
    /// Its code in memory.
    pub(super) code: core::ops::Range<usize>,
    /// Where that begins in the file.
    offset: usize,
    path: [u8; PATH_BYTES],
}

impl Library {
    /// The library that `address`, a place in its code, belongs to.
    pub(super) fn with(address: usize) -> Option<Library> {
        let mut path = [0; PATH_BYTES];
        let base = match names::library_with(address) {
            Some((base, name)) => {
                let name = name.to_bytes();
                path.get_mut(..name.len())?.copy_from_slice(name);
                base
            }
            None => alone::module_of(address, &mut path)?,
        };
        let segment = names::code_of(base)?;
        let start = base + segment.address;
        (path[PATH_BYTES - 1] == 0).then_some(Library {
            base,
            code: start..start + segment.bytes,
            offset: segment.offset,
            path,
        })
    }

    fn open(&self) -> Option<i32> {
        let path = CStr::from_bytes_until_nul(&self.path).ok()?;
        let file = kernel::open(path, kernel::O_RDONLY | kernel::O_CLOEXEC);
        (file >= 0).then_some(file as i32)
    }
}

/// Hooks that are collected, and then set all at once.
pub(super) struct Patch<'a> {
    glibc: &'a Library,
    file: i32,
    jumps: [Jump; Patch::JUMPS],
    used: usize,
    /// The pages that they are on, a bit each.
    pages: [u64; Patch::PAGES / 64],
    /// Pages that the kernel says are the file's, a bit each.
    of_file: [u64; Patch::PAGES / 64],
}

/// From here five bytes are a jump, as far as this.
#[derive(Clone, Copy)]
struct Jump {
    from: usize,
    distance: i32,
}

impl Patch<'_> {
    /// More than there are functions to hook.
    const JUMPS: usize = 128;
    /// Pages of code that a library has at most (341 in glibc 2.36).
    const PAGES: usize = 1024;
    /// Pages that are no further apart are replaced together with what is between them: another page takes 2 us, another mapping 9, and
    /// some of that again at each fork.
    const NEAR: usize = 4;

    pub(super) fn of(library: &Library) -> Option<Patch<'_>> {
        if library.code.len() > Patch::PAGES * PAGE {
            return None;
        }
        let jumps = [Jump { from: 0, distance: 0 }; Patch::JUMPS];
        let none = [0; Patch::PAGES / 64];
        Some(Patch { glibc: library, file: library.open()?, jumps, used: 0, pages: none, of_file: none })
    }

    /// Asks the kernel which pages are the file's: for many hooks that is cheaper than to compare each page with the file. What it
    /// does not say is compared.
    pub(super) fn ask_which_are_of_file(&mut self) {
        let first = self.glibc.code.start / PAGE;
        let pages = kernel::open(c"/proc/self/pagemap", kernel::O_RDONLY | kernel::O_CLOEXEC);
        if pages < 0 {
            return;
        }
        let words = self.glibc.code.len().div_ceil(PAGE * 64);
        for (index, word) in self.of_file.iter_mut().take(words).enumerate() {
            let mut entries = [0_u64; 64];
            let (bytes, at) = (size_of_val(&entries), (first + index * 64) * size_of::<u64>());
            let len = kernel::read_at(pages as i32, entries.as_mut_ptr().cast(), bytes, at);
            let told = entries.iter().take(len.max(0) as usize / size_of::<u64>()).enumerate();
            *word = told.map(|(bit, &entry)| u64::from(is_of_file(entry)) << bit).sum();
        }
        kernel::close(pages as i32);
    }

    /// Makes the function at `entry` begin with a jump to `to`. Returns the code that it begins with, if it is as in the file.
    pub(super) fn hook(&mut self, entry: usize, to: usize) -> Option<Displaced> {
        self.jump(entry, to)?;
        let from = behind_landing(entry);
        // SAFETY: code of the library, see `jump`.
        displaced::at((from, unsafe { (from as *const [u8; displaced::WINDOW]).read() }))
    }

    /// The same for a function that is never called by what it began with. `None`: it is not in the code, its page does not hold all of
    /// what is displaced, or what is mapped there is not what the file has.
    pub(super) fn jump(&mut self, entry: usize, to: usize) -> Option<()> {
        let from = behind_landing(entry);
        if !self.glibc.code.contains(&from) || from % PAGE + displaced::WINDOW > PAGE {
            return None;
        }
        let index = (from - self.glibc.code.start) / PAGE;
        if !self.has(index) && !self.add(index) {
            return None;
        }
        *self.jumps.get_mut(self.used)? = Jump { from, distance: jump_distance(from, to)? };
        self.used += 1;
        Some(())
    }

    fn has(&self, index: usize) -> bool {
        has_bit(&self.pages, index)
    }

    /// A page is to be replaced. `false`: it is not what the file has, or there is no such page.
    fn add(&mut self, index: usize) -> bool {
        let page = self.glibc.code.start + index * PAGE;
        let can_be = is_changed(page)
            || has_bit(&self.of_file, index)
            || is_as_in_file(page, self.file, self.glibc.offset + index * PAGE);
        if can_be {
            self.pages[index / 64] |= 1 << (index % 64);
        }
        can_be
    }

    /// Sets the hooks. No signal may be handled meanwhile: for a moment a page is not there. `false`: not all of them are set; those
    /// that are work.
    pub(super) fn finish(mut self) -> bool {
        let count = self.glibc.code.len().div_ceil(PAGE);
        let mut index = 0;
        while index < count {
            let first = index;
            while self.has(index) {
                index += 1;
                self.reach_next(index);
            }
            if first == index {
                index += 1;
            } else if !self.are_replaced(first, index) {
                return false;
            }
        }
        true
    }

    /// Adds what is between the page before `index` and the next, if that is near. Without one of them the next is a mapping of its own.
    fn reach_next(&mut self, index: usize) {
        if let Some(next) = (index..index + Patch::NEAR).find(|&next| self.has(next)) {
            let _ = (index..next).all(|between| self.add(between));
        }
    }

    /// Replaces the pages from `first` to `end`. `false`: they are the file's again.
    fn are_replaced(&self, first: usize, end: usize) -> bool {
        let (start, len) = (self.glibc.code.start + first * PAGE, (end - first) * PAGE);
        let offset = self.glibc.offset + first * PAGE;
        let is_read = kernel::map_anonymous_at(start, len)
            && kernel::read_at(self.file, start as *mut u8, len, offset) == len as isize;
        if is_read {
            self.jumps[..self.used].iter().filter(|jump| (start..start + len).contains(&jump.from)).for_each(Jump::set);
            if kernel::make_executable(start, len) {
                return true;
            }
        }
        kernel::map_code(self.file, offset, start, len);
        false
    }
}

impl Drop for Patch<'_> {
    fn drop(&mut self) {
        kernel::close(self.file);
    }
}

impl Jump {
    fn set(&self) {
        note_changed(self.from & !(PAGE - 1));
        // SAFETY: five bytes of a page that this process has to itself now.
        unsafe {
            (self.from as *mut u8).write(JUMP);
            ((self.from + 1) as *mut i32).write_unaligned(self.distance);
        }
    }
}

fn has_bit(words: &[u64], index: usize) -> bool {
    words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 != 0)
}

/// Whether a page of a private mapping is its file's, by its entry in `/proc/PID/pagemap` (`proc_pid_pagemap(5)`): a page that was
/// changed, as by a breakpoint, is anonymous memory. One that is nowhere will come from the file.
fn is_of_file(entry: u64) -> bool {
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const FILE: u64 = 1 << 61;
    entry & SWAPPED == 0 && (entry & PRESENT == 0 || entry & FILE != 0)
}

/// Whether a page of code is what its file has at `offset`.
#[inline(never)] // gives its stack back
fn is_as_in_file(page: usize, file: i32, offset: usize) -> bool {
    let mut content = [0_u64; PAGE / 8];
    kernel::read_at(file, content.as_mut_ptr().cast(), PAGE, offset) == PAGE as isize
        // SAFETY: a page of the library's code, which is readable and which no other thread changes.
        && content.iter().enumerate().all(|(at, word)| unsafe { *(page as *const u64).add(at) } == *word)
}

/// The first pages that were changed: those of `read` and `write`, as the process began. Who sets hooks later sets these once more.
static FIRST_PAGES: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

fn is_changed(page: usize) -> bool {
    FIRST_PAGES.iter().any(|first| first.load(Relaxed) == page)
}

fn note_changed(page: usize) {
    if !is_changed(page)
        && let Some(free) = FIRST_PAGES.iter().find(|first| first.load(Relaxed) == 0)
    {
        free.store(page, Relaxed);
    }
}

/// Calls of hooked functions: for each the instructions that its hook has displaced, and a jump behind them.
pub(super) struct Stubs {
    area: usize,
}

impl Stubs {
    /// Bytes of one: [`displaced::WINDOW`] bytes of code, some of them longer than they were, and a jump.
    pub(super) const BYTES: usize = 32;
    /// A page has so many.
    pub(super) const MOST: usize = PAGE / Stubs::BYTES;

    pub(super) fn new() -> Option<Stubs> {
        Some(Stubs { area: kernel::map_anonymous(PAGE)? })
    }

    /// Writes the stub of one function. `None`: the code can stand nowhere else.
    pub(super) fn add(&mut self, index: usize, displaced: &Displaced) -> Option<()> {
        let at = self.at(index)?;
        let (code, len) = displaced.moved_to(at)?;
        let back = jump_distance(at + len, displaced.end())?.to_le_bytes();
        let bytes = code[..len].iter().copied().chain([JUMP]).chain(back);
        for (place, byte) in (at..at + Stubs::BYTES).zip(bytes) {
            // SAFETY: inside the area, which is written by this function only until it is made executable.
            unsafe { (place as *mut u8).write(byte) };
        }
        (len + JUMP_BYTES <= Stubs::BYTES).then_some(())
    }

    pub(super) fn at(&self, index: usize) -> Option<usize> {
        (index < Stubs::MOST).then_some(self.area + index * Stubs::BYTES)
    }

    /// From now on they can be called, for good. Returns where the first one is.
    pub(super) fn finish(self) -> Option<usize> {
        kernel::make_executable(self.area, PAGE).then_some(self.area)
    }
}

/// Where the code of stubs lies that begin at `first`.
pub(super) fn stubs_from(first: usize) -> core::ops::Range<usize> {
    first..first + PAGE
}

fn jump_distance(from: usize, to: usize) -> Option<i32> {
    i32::try_from((to as i64).wrapping_sub((from + JUMP_BYTES) as i64)).ok()
}

/// Where the first instruction of a function is that may be replaced.
fn behind_landing(entry: usize) -> usize {
    // SAFETY: code of glibc.
    let first = unsafe { (entry as *const [u8; 4]).read_unaligned() };
    if first == LANDING { entry + LANDING.len() } else { entry }
}

/// What a function of glibc does that is a point of cancellation, if it begins as those do.
pub(super) struct Cancellable {
    /// glibc's note that there is one thread.
    pub(super) single_threaded: *const u8,
    /// Where the function goes when there are several.
    pub(super) several: usize,
}

/// Understands `cmpb $0, flag(%rip); je several`.
pub(super) fn cancellable(entry: usize) -> Option<Cancellable> {
    let at = behind_landing(entry);
    // SAFETY: code of glibc.
    let bytes = unsafe { (at as *const [u8; 9]).read_unaligned() };
    let [0x80, 0x3d, a, b, c, d, 0x00, 0x74, several] = bytes else { return None };
    let flag = (at + 7).wrapping_add_signed(i32::from_le_bytes([a, b, c, d]) as isize);
    let several = (at + 9).wrapping_add_signed(isize::from(several.cast_signed()));
    Some(Cancellable { single_threaded: flag as *const u8, several })
}

/// Whether a function begins as a bare system call of this number does: no point of cancellation.
pub(super) fn is_bare_call(entry: usize, number: u8) -> bool {
    let at = behind_landing(entry);
    // SAFETY: code of glibc.
    let bytes = unsafe { (at as *const [u8; 7]).read_unaligned() };
    match bytes {
        [0x31, 0xc0, 0x0f, 0x05, ..] => number == 0,
        [0xb8, n, 0, 0, 0, 0x0f, 0x05] => n == number,
        _ => false,
    }
}
