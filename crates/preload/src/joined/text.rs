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
//! A changed page is an anonymous copy in the place of the file's page. The kernel puts
//! breakpoints (uprobes) into pages of files only, and takes them out by writing the file's first byte back: on a page of the
//! file that would tear a jump apart. The copy is made from the file and compared with what is mapped, so a breakpoint that a
//! tracer or a debugger has set before is seen: then no hook is set. Code is changed while the process has one thread, and is
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

/// Pages of a library's code that are changed aside, and then take the place of the mapped ones.
pub(super) struct Patch<'a> {
    glibc: &'a Library,
    file: i32,
    area: usize,
    /// Where each page of the area belongs.
    pages: [usize; Patch::MOST],
    used: usize,
    room: usize,
}

impl Patch<'_> {
    /// More pages than hold all that is hooked (33 in glibc 2.36).
    pub(super) const MOST: usize = 64;

    /// For at most `room` pages.
    pub(super) fn of(library: &Library, room: usize) -> Option<Patch<'_>> {
        let file = library.open()?;
        let area = kernel::map_anonymous(room * PAGE);
        if area.is_none() {
            kernel::close(file);
        }
        Some(Patch { glibc: library, file, area: area?, pages: [0; Patch::MOST], used: 0, room })
    }

    /// Makes the function at `entry` begin with a jump to `to`. Returns the code that it began with, if it is as in the file.
    pub(super) fn hook(&mut self, entry: usize, to: usize) -> Option<Displaced> {
        let displaced = displaced::at(self.pristine(behind_landing(entry))?)?;
        self.jump(entry, to)?;
        Some(displaced)
    }

    /// The same for a function that is never called by what it began with.
    pub(super) fn jump(&mut self, entry: usize, to: usize) -> Option<()> {
        let from = behind_landing(entry);
        let place = self.copy_of(from)?;
        let distance = jump_distance(from, to)?;
        // SAFETY: five bytes inside the area's copy of the page, see `copy_of`.
        unsafe {
            (place as *mut u8).write(JUMP);
            ((place + 1) as *mut i32).write_unaligned(distance);
        }
        Some(())
    }

    /// The code at `from` and its address.
    fn pristine(&mut self, from: usize) -> Option<(usize, [u8; displaced::WINDOW])> {
        let place = self.copy_of(from)?;
        // SAFETY: inside the copy of the page, see `copy_of`.
        Some((from, unsafe { (place as *const [u8; displaced::WINDOW]).read() }))
    }

    /// Where `address` is in the area, with [`displaced::WINDOW`] bytes behind it. `None`: it is not in the code, the page does not
    /// hold all of that, or what is mapped there is not what the file has.
    fn copy_of(&mut self, address: usize) -> Option<usize> {
        let (page, inside) = (address & !(PAGE - 1), address & (PAGE - 1));
        if !self.glibc.code.contains(&address) || inside + displaced::WINDOW > PAGE {
            return None;
        }
        let known = self.pages[..self.used].iter().position(|&known| known == page);
        let at = match known {
            Some(at) => at,
            None => self.fetch(page)?,
        };
        Some(self.area + at * PAGE + inside)
    }

    fn fetch(&mut self, page: usize) -> Option<usize> {
        let at = self.used;
        if at == self.room {
            return None;
        }
        let copy = self.area + at * PAGE;
        // SAFETY: a page of the area, and one of the library's code, which is readable and which no other thread changes.
        let words =
            (0..PAGE / 8).map(|word| unsafe { ((copy as *mut u64).add(word), *(page as *const u64).add(word)) });
        if is_ours(page) {
            // SAFETY: as above.
            words.for_each(|(place, word)| unsafe { *place = word });
        } else {
            let offset = page.checked_sub(self.glibc.code.start)? + self.glibc.offset;
            let has_all = kernel::read_at(self.file, copy as *mut u8, PAGE, offset) == PAGE as isize;
            // SAFETY: as above.
            let is_same = |(place, word): (*mut u64, u64)| unsafe { *place == word };
            if !has_all || !words.into_iter().all(is_same) {
                return None;
            }
        }
        *self.pages.get_mut(at)? = page;
        self.used += 1;
        Some(at)
    }

    /// Puts the pages in their places. No signal may be handled meanwhile: for a moment a page is not there. `false`: not all of
    /// them are in place; what is there works.
    pub(super) fn finish(self) -> bool {
        (0..self.used).all(|at| {
            let page = self.pages[at];
            if let Some(first) = FIRST_PAGES.iter().find(|first| first.load(Relaxed) == 0) {
                first.store(page, Relaxed);
            }
            is_replaced(page, self.area + at * PAGE) || {
                self.put_back(page);
                false
            }
        })
    }

    /// The page is the file's again.
    fn put_back(&self, page: usize) {
        kernel::map_code(self.file, page - self.glibc.code.start + self.glibc.offset, page, PAGE);
    }
}

/// Replaces a page of code. `false`: the page is not there any more.
fn is_replaced(page: usize, copy: usize) -> bool {
    if !kernel::map_anonymous_at(page, PAGE) {
        return false;
    }
    for word in 0..PAGE / 8 {
        // SAFETY: a page of the area, and the new one.
        unsafe { *(page as *mut u64).add(word) = *(copy as *const u64).add(word) };
    }
    kernel::make_executable(page, PAGE)
}

impl Drop for Patch<'_> {
    fn drop(&mut self) {
        kernel::close(self.file);
        kernel::unmap(self.area, self.room * PAGE);
    }
}

/// The first pages that were replaced: those of `read` and `write`, as the process began. Hooks that come later may be on them.
static FIRST_PAGES: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

fn is_ours(page: usize) -> bool {
    FIRST_PAGES.iter().any(|first| first.load(Relaxed) == page)
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
