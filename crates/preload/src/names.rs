//! Functions of other libraries, found in their tables of names without the loader: `dlsym` would take its lock, which the caller of
//! our function may be waiting for, and forget the error that the program's own `dlerror` is to report.

use core::ffi::{CStr, c_char};
use core::ptr;

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
    /// The names of the library whose file header is mapped at `base`.
    #[cfg(all(feature = "ring", target_arch = "x86_64"))]
    pub(crate) fn of(base: usize) -> Option<Names> {
        const PT_DYNAMIC: u64 = 2;
        // SAFETY: the file header of a library that is loaded here (`elf(5)`).
        let word = |at: usize| unsafe { (at as *const u64).read_unaligned() };
        let headers = base + word(base + 32) as usize;
        let count = (word(base + 56) & 0xffff) as usize;
        let dynamic = (0..count).map(|i| headers + i * 56).find(|&at| word(at) & 0xffff_ffff == PT_DYNAMIC)?;
        Names::in_section(base, base + word(dynamic + 16) as usize)
    }

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

    /// Calls `found` with the entry of every function of this name: there is one for each version of it.
    #[cfg(all(feature = "ring", target_arch = "x86_64"))]
    pub(crate) fn each(&self, name: &CStr, mut found: impl FnMut(usize)) {
        self.each_symbol(name, |_, symbol| {
            if symbol.is_function() {
                found(self.base + symbol.value as usize);
            }
        });
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
}

/// The function of this name that comes after this library's own in the order of loading, which is that of searching; null where it
/// cannot be told so. The libraries that a program began with stay as they are: glibc is one of them, and the last that is looked at.
pub(crate) fn behind(name: &CStr) -> *mut core::ffi::c_void {
    // SAFETY: null, or the loader's entry for this library, which lasts.
    let mut after = unsafe { own_entry().as_ref() };
    while let Some(own) = after {
        // SAFETY: null, or the next entry.
        after = unsafe { own.next.as_ref() };
        match after.map(|library| Names::in_section(library.base, library.dynamic)) {
            Some(Some(names)) => {
                if let Some(entry) = names.newest(name) {
                    return ptr::with_exposed_provenance_mut(entry);
                }
            }
            // One that is not as we know it.
            _ => break,
        }
    }
    ptr::null_mut()
}

/// The library whose code `address` is in: where its file's header is mapped, and its path as the loader has it. `None`: the loader
/// has left no list.
#[cfg(all(feature = "ring", target_arch = "x86_64"))]
pub(crate) fn library_with(address: usize) -> Option<(usize, &'static CStr)> {
    // SAFETY: null, or the loader's entry for this library, which lasts.
    let mut next = unsafe { own_entry().as_ref() };
    while let Some(library) = next {
        let holds =
            |segment: Segment| (segment.address..segment.address + segment.bytes).contains(&(address - library.base));
        if library.base <= address && code_of(library.base).is_some_and(holds) {
            // SAFETY: the loader's own text, which lasts as long as the library.
            return Some((library.base, unsafe { CStr::from_ptr(library.name) }));
        }
        // SAFETY: null, or the next entry.
        next = unsafe { library.next.as_ref() };
    }
    None
}

/// A part of a file that is mapped.
#[cfg(all(feature = "ring", target_arch = "x86_64"))]
pub(crate) struct Segment {
    /// Where it begins in the file.
    pub(crate) offset: usize,
    /// Where it is mapped, counted from the file's header.
    pub(crate) address: usize,
    pub(crate) bytes: usize,
}

/// The code of the library whose file header is mapped at `base`.
#[cfg(all(feature = "ring", target_arch = "x86_64"))]
pub(crate) fn code_of(base: usize) -> Option<Segment> {
    const EXECUTABLE_LOAD: u64 = 1 << 32 | 1;
    // SAFETY: the file header of a library that is loaded here (`elf(5)`), and the table of its segments.
    let word = |at: usize| unsafe { (at as *const u64).read_unaligned() };
    let headers = base + word(base + 32) as usize;
    let count = (word(base + 56) & 0xffff) as usize;
    // Type in the lower half, access in the upper.
    let segment =
        (0..count).map(|i| headers + i * 56).find(|&at| word(at) & (1 << 32 | 0xffff_ffff) == EXECUTABLE_LOAD)?;
    Some(Segment {
        offset: word(segment + 8) as usize,
        address: word(segment + 16) as usize,
        bytes: word(segment + 32) as usize,
    })
}

/// Whether [`behind`] can look: the loader has left where its list is, as it does for functions that are bound when they are called.
pub(crate) fn can_look_behind() -> bool {
    !own_entry().is_null()
}

/// The second word of the table by which imports are bound lazily. The third is where the loader binds them: without it there is nothing
/// in the second.
#[cfg(target_arch = "x86_64")]
fn own_entry() -> *const Loaded {
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
fn own_entry() -> *const Loaded {
    ptr::null()
}
