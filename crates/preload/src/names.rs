//! Functions of other libraries, found in their tables of names without the loader: `dlsym` would take its lock, which the caller of
//! our function may be waiting for, and forget the error that the program's own `dlerror` is to report.

use core::ffi::{CStr, c_char};
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::glibc;

/// One table of names (System V ABI, chapter 5, and GNU's hash section).
pub(crate) struct Names {
    base: usize,
    symbols: usize,
    strings: usize,
    hash: usize,
    /// The versions of the symbols; 0 where they have none.
    versions: usize,
}

/// `Elf64_Sym`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

impl Symbol {
    const FUNCTION: u8 = 2;

    fn is_function(&self) -> bool {
        self.info & 15 == Symbol::FUNCTION
    }
}

impl Names {
    /// Those that the dynamic section at `at` tells of.
    fn in_section(base: usize, mut at: usize) -> Option<Names> {
        const DT_STRTAB: u64 = 5;
        const DT_SYMTAB: u64 = 6;
        const DT_GNU_HASH: u64 = 0x6fff_fef5;
        const DT_VERSYM: u64 = 0x6fff_fff0;
        // SAFETY: the dynamic section of a library that is loaded here, which an entry of zero ends.
        let word = |at: usize| unsafe { (at as *const u64).read_unaligned() };
        let mut names = Names { base, symbols: 0, strings: 0, hash: 0, versions: 0 };
        // glibc's loader has made these addresses absolute.
        let absolute = |value: u64| if (value as usize) < base { base + value as usize } else { value as usize };
        while word(at) != 0 {
            match word(at) {
                DT_STRTAB => names.strings = absolute(word(at + 8)),
                DT_SYMTAB => names.symbols = absolute(word(at + 8)),
                DT_GNU_HASH => names.hash = absolute(word(at + 8)),
                DT_VERSYM => names.versions = absolute(word(at + 8)),
                _ => {}
            }
            at += 16;
        }
        (names.symbols != 0 && names.strings != 0 && names.hash != 0).then_some(names)
    }

    /// What `dlsym` would take from this library. `None`: there is nothing of this name; 0: only the loader could tell, because it
    /// is no function, or one that is chosen by another.
    fn newest(&self, name: &CStr) -> Option<usize> {
        /// Of a version: it is there for programs that were linked when it was the newest.
        const HIDDEN: u16 = 1 << 15;
        let mut newest = None;
        self.each_symbol(name, |index, symbol| {
            // SAFETY: a table with a word of 16 bits for each symbol.
            let version = || unsafe { ((self.versions + index as usize * 2) as *const u16).read_unaligned() };
            if newest.is_none() && (self.versions == 0 || version() & HIDDEN == 0) {
                newest = Some(if symbol.is_function() { self.base + symbol.value as usize } else { 0 });
            }
        });
        newest
    }

    /// Where what has this name is, of whatever kind.
    fn place(&self, name: &CStr) -> Option<usize> {
        let mut place = None;
        self.each_symbol(name, |_, symbol| place = Some(self.base + symbol.value as usize));
        place
    }

    /// Calls `found` with every definition of this name, and where it stands in the table of symbols.
    fn each_symbol(&self, name: &CStr, mut found: impl FnMut(u32, &Symbol)) {
        // SAFETY: the tables of a loaded library.
        let half = |at: usize| unsafe { (at as *const u32).read_unaligned() };
        let hash = name.to_bytes().iter().fold(5381_u32, |hash, &b| hash.wrapping_mul(33).wrapping_add(u32::from(b)));
        let (buckets, first, filter) = (half(self.hash), half(self.hash + 4), half(self.hash + 8));
        let bucket_at = self.hash + 16 + filter as usize * 8;
        let chain_at = bucket_at + buckets as usize * 4;
        let mut index = half(bucket_at + (hash % buckets.max(1)) as usize * 4);
        if index < first {
            return;
        }
        loop {
            let here = half(chain_at + (index - first) as usize * 4);
            if here | 1 == hash | 1 {
                // SAFETY: an entry of the table of symbols, and the name that it refers to.
                let (symbol, text) = unsafe {
                    let symbol = ((self.symbols + index as usize * 24) as *const Symbol).read_unaligned();
                    (symbol, CStr::from_ptr((self.strings + symbol.name as usize) as *const _))
                };
                if text == name && symbol.section != 0 {
                    found(index, &symbol);
                }
            }
            if here & 1 != 0 {
                return;
            }
            index += 1;
        }
    }
}

/// What the loader tells debuggers of a library (`link.h`).
#[repr(C)]
struct Loaded {
    base: usize,
    name: *const c_char,
    dynamic: usize,
    next: *const Loaded,
    previous: *const Loaded,
}

/// The function of this name that comes after this library's own in the order of loading, which is that of searching; null where it
/// cannot be told so. The libraries that a program began with stay as they are: glibc is one of them, and the last that is looked at.
pub(crate) fn behind(name: &CStr) -> *mut core::ffi::c_void {
    let found = own_entry().and_then(|own| libraries_from(own.next).find_map(|names| names.newest(name)));
    ptr::with_exposed_provenance_mut(found.unwrap_or(0))
}

/// This library's own function of this name; 0: it has none.
#[cfg(target_arch = "x86_64")]
pub(crate) fn own(name: &CStr) -> usize {
    own_entry().and_then(|own| Names::in_section(own.base, own.dynamic)?.newest(name)).unwrap_or(0)
}

/// Whether the list of libraries was found.
#[cfg(target_arch = "x86_64")]
pub(crate) fn can_look() -> bool {
    own_entry().is_some()
}

/// Whether the program, or a library that comes before this one, has a function of this name.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_before(name: &CStr) -> bool {
    own_entry().is_none_or(|own| {
        libraries_from(first(own)).take_while(|names| names.base != own.base).any(|names| names.newest(name).is_some())
    })
}

/// A variable of the C library; 0 where it has none of this name. A program may have a copy of its own, which the C library uses then,
/// so the program is asked first.
pub(crate) fn variable(name: &CStr) -> usize {
    let of = |names: Names| names.place(name);
    own_entry().and_then(|own| libraries_from(first(own)).find_map(of)).unwrap_or(0)
}

/// What is known of the C library: its table of functions for streams of files, what the loader has made read-only around it, and its
/// code.
#[cfg(target_arch = "x86_64")]
pub(crate) struct CLibrary {
    pub(crate) table: usize,
    pub(crate) protected: Range<usize>,
    pub(crate) code: Range<usize>,
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn c_library() -> Option<CLibrary> {
    const PT_GNU_RELRO: u64 = 0x6474_e552;
    const PAGE: usize = 4096;
    // A program may have a copy, which glibc does not use: only the libraries behind this one are looked at.
    let (base, table) =
        libraries_from(own_entry()?.next).find_map(|names| Some((names.base, names.place(c"_IO_file_jumps")?)))?;
    let (protected, code) = (segment(base, PT_GNU_RELRO)?, segment(base, CODE)?);
    // As the loader rounds it.
    let protected = protected.start & !(PAGE - 1)..protected.end & !(PAGE - 1);
    protected.contains(&table).then_some(CLibrary { table, protected, code })
}

/// Where the code of this library is.
#[cfg(target_arch = "x86_64")]
pub(crate) fn own_code() -> Option<Range<usize>> {
    segment(own_entry()?.base, CODE)
}

/// Kind and access of a segment: `PT_LOAD`, executable.
#[cfg(target_arch = "x86_64")]
const CODE: u64 = 1 | 1 << 32;

/// A segment of the library at `base`; access in the upper half of the kind.
#[cfg(target_arch = "x86_64")]
fn segment(base: usize, kind: u64) -> Option<Range<usize>> {
    // SAFETY: the file header of a library, which is mapped at its beginning, and the table of its segments (`elf(5)`).
    let word = |at: usize| unsafe { (at as *const u64).read_unaligned() };
    let (headers, count) = (base + word(base + 32) as usize, (word(base + 56) & 0xffff) as usize);
    let at = (0..count)
        .map(|index| headers + index * 56)
        .find(|&at| word(at) & kind == kind && word(at) as u32 == kind as u32)?;
    let start = base + word(at + 16) as usize;
    Some(start..start + word(at + 40) as usize)
}

/// Whether an address is in the program itself, and in no library.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_in_program(address: usize) -> bool {
    const PT_LOAD: u64 = 1;
    Program::of_this_process().segments(PT_LOAD).any(|segment| segment.contains(&address))
}

/// The last library of those that the program began with: later ones come and go. Null before the program begins.
static LAST: AtomicPtr<Loaded> = AtomicPtr::new(ptr::null_mut());

/// As the program begins.
pub(crate) fn start() {
    let mut last = own_entry();
    // SAFETY: null, or the next entry; no library has been unloaded yet.
    while let Some(next) = last.and_then(|last| unsafe { last.next.as_ref() }) {
        last = Some(next);
    }
    LAST.store(last.map_or(ptr::null_mut(), |last| ptr::from_ref(last).cast_mut()), Relaxed);
}

/// The names of each library from an entry of the loader's list to the last with which the program began, without those that have no
/// table of GNU's kind.
fn libraries_from(first: *const Loaded) -> impl Iterator<Item = Names> {
    let last = LAST.load(Relaxed).cast_const();
    let mut next = first;
    core::iter::from_fn(move || {
        loop {
            // SAFETY: null, or an entry of the list, which lasts for what the program began with.
            let library = unsafe { next.as_ref() }?;
            next = if ptr::eq(next, last) { ptr::null() } else { library.next };
            if let Some(names) = Names::in_section(library.base, library.dynamic) {
                return Some(names);
            }
        }
    })
}

/// The first entry of the list that `entry` is in: the program.
fn first(entry: &Loaded) -> *const Loaded {
    let mut first = entry;
    // SAFETY: null, or the entry before.
    while let Some(before) = unsafe { first.previous.as_ref() } {
        first = before;
    }
    first
}

/// The loader's entry for this library, or `None` where the loader has left no list. It is there before any code of this library runs.
fn own_entry() -> Option<&'static Loaded> {
    let is_own = |library: &&Loaded| library.dynamic == own_dynamic();
    // SAFETY: null, or the entry of this library, which lasts.
    let bound_lazily = unsafe { own_entry_of_binder().as_ref() }.filter(is_own);
    bound_lazily.or_else(|| {
        // SAFETY: null, or an entry of the list. Those of what the program began with last.
        let list = |entry: *const Loaded| unsafe { entry.as_ref() };
        core::iter::successors(list(list_of_program()), |library| list(library.next)).find(is_own)
    })
}

/// The second word of the table by which imports are bound lazily, as far as they are. The third is where the loader binds them: without
/// it there is nothing in the second.
#[cfg(target_arch = "x86_64")]
fn own_entry_of_binder() -> *const Loaded {
    let table: *const [*const Loaded; 3];
    // SAFETY: computes an address.
    unsafe {
        core::arch::asm!("lea {}, [rip + _GLOBAL_OFFSET_TABLE_]", out(reg) table, options(nomem, nostack, preserves_flags));
    }
    // SAFETY: the table has these words, which the loader wrote before any code of this library ran.
    let [_, entry, binder] = unsafe { table.read_volatile() };
    if binder.is_null() { ptr::null() } else { entry }
}

#[cfg(not(target_arch = "x86_64"))]
fn own_entry_of_binder() -> *const Loaded {
    ptr::null()
}

/// The list that the loader keeps for debuggers: the dynamic section of every program has a word for where it is (`DT_DEBUG`).
fn list_of_program() -> *const Loaded {
    const PT_DYNAMIC: u64 = 2;
    const DT_DEBUG: u64 = 21;
    let Some(dynamic) = Program::of_this_process().segments(PT_DYNAMIC).next() else { return ptr::null() };
    // SAFETY: the dynamic section of the program, which an entry of zero ends.
    let word = |at: usize| unsafe { (at as *const u64).read_unaligned() };
    let mut at = dynamic.start;
    while word(at) != 0 && word(at) != DT_DEBUG {
        at += 16;
    }
    let debug = word(at + 8) as usize;
    // `struct r_debug`: a version, then the list.
    if word(at) == 0 || debug == 0 { ptr::null() } else { ptr::with_exposed_provenance(word(debug + 8) as usize) }
}

/// The program's table of segments.
struct Program {
    headers: usize,
    count: usize,
}

impl Program {
    fn of_this_process() -> Program {
        let (headers, count) = glibc::program_headers();
        Program { headers, count }
    }

    fn with_type(&self, kind: u64) -> impl Iterator<Item = (usize, usize)> {
        let (headers, count) = (self.headers, self.count);
        // SAFETY: where the kernel has put the table, and so many entries of it.
        let word = |at: usize| unsafe { (at as *const u64).read_unaligned() };
        let entries =
            (0..count).map(move |index| headers + index * 56).filter(move |&at| word(at) as u32 == kind as u32);
        entries.map(move |at| (word(at + 16) as usize, word(at + 40) as usize))
    }

    /// Where its segments of this type are. A program whose table does not tell where that is itself is where it was linked to be, as
    /// for the loader.
    fn segments(&self, kind: u64) -> impl Iterator<Item = Range<usize>> {
        const PT_PHDR: u64 = 6;
        let moved = self.with_type(PT_PHDR).next().map_or(0, |(address, _)| self.headers.wrapping_sub(address));
        self.with_type(kind).map(move |(address, bytes)| {
            let start = moved.wrapping_add(address);
            start..start + bytes
        })
    }
}

fn own_dynamic() -> usize {
    let at: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: computes an address.
    unsafe {
        core::arch::asm!("lea {}, [rip + _DYNAMIC]", out(reg) at, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("adrp {0}, _DYNAMIC", "add {0}, {0}, :lo12:_DYNAMIC", out(reg) at, options(nomem, nostack, preserves_flags));
    }
    at
}
