//! Jumps in this process's own copy of glibc's code.
//!
//! Interposing names reaches the calls of the program, but not those inside glibc: `printf`, `fread` and all of stdio call
//! `read` and `write` by address. So the first instruction of a function is replaced by a jump. Only a process with one
//! thread changes its code, and never from a signal handler, so nobody can be in the middle of what is replaced.
//!
//! ```text
//! read:  cmpb $0, __libc_single_threaded     ──▶   jmp ours
//!        je   <the way of several threads>          (rest never reached, but for that way)
//! ```

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::kernel;

const PAGE: usize = 4096;
/// `jmp` with a displacement of 32 bits.
const JUMP_BYTES: usize = 5;
/// `endbr64`, which stays where it is.
const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// A place in glibc's code and what stood there.
pub(super) struct Place {
    at: AtomicUsize,
    before: AtomicU64,
}

impl Place {
    pub(super) const fn new() -> Place {
        Place { at: AtomicUsize::new(0), before: AtomicU64::new(0) }
    }

    /// Replaces the beginning of the function at `entry`. Its page is writable.
    pub(super) fn redirect(&self, entry: usize, to: usize) -> bool {
        let at = behind_landing(entry);
        let distance = (to as i64).wrapping_sub((at + JUMP_BYTES) as i64);
        let Ok(distance) = i32::try_from(distance) else { return false };
        // SAFETY: code of glibc, at least 16 bytes long because functions are aligned to that.
        let before = unsafe { (at as *const u64).read_unaligned() };
        let mut bytes = before.to_le_bytes();
        bytes[0] = 0xe9;
        bytes[1..JUMP_BYTES].copy_from_slice(&distance.to_le_bytes());
        self.before.store(before, Relaxed);
        self.at.store(at, Relaxed);
        // SAFETY: as above; the caller has made the page writable, and nobody executes this place now.
        unsafe { (at as *mut u64).write_unaligned(u64::from_le_bytes(bytes)) };
        true
    }

    /// Puts back what stood there. Its page is writable.
    pub(super) fn restore(&self) {
        let at = self.at.load(Relaxed);
        if at != 0 {
            // SAFETY: the place that `redirect` wrote to.
            unsafe { (at as *mut u64).write_unaligned(self.before.load(Relaxed)) };
        }
    }

    /// Where the function goes on when it is its own again; 0: it was never redirected.
    pub(super) fn entry(&self) -> usize {
        self.at.load(Relaxed)
    }
}

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

/// Makes code writable, or only executable again.
pub(super) fn open(start: usize, end: usize, is_writable: bool) -> bool {
    let (start, end) = (start & !(PAGE - 1), (end + PAGE - 1) & !(PAGE - 1));
    kernel::protect(start, end - start, is_writable)
}

/// glibc's table of names, found in its mapping. `dlsym` would take the loader's lock and clear the program's `dlerror`.
pub(super) struct Names {
    base: usize,
    symbols: usize,
    strings: usize,
    hash: usize,
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

impl Names {
    /// The names of the library whose file header is mapped at `base`.
    pub(super) fn of(base: usize) -> Option<Names> {
        const PT_DYNAMIC: u64 = 2;
        const DT_STRTAB: u64 = 5;
        const DT_SYMTAB: u64 = 6;
        const DT_GNU_HASH: u64 = 0x6fff_fef5;
        // SAFETY: the file header of a library that is loaded here (`elf(5)`).
        let word = |at: usize| unsafe { (at as *const u64).read_unaligned() };
        let headers = base + word(base + 32) as usize;
        let count = (word(base + 56) & 0xffff) as usize;
        let dynamic = (0..count).map(|i| headers + i * 56).find(|&at| word(at) & 0xffff_ffff == PT_DYNAMIC)?;
        let mut at = base + word(dynamic + 16) as usize;
        let mut names = Names { base, symbols: 0, strings: 0, hash: 0 };
        // glibc's loader has made these addresses absolute.
        let absolute = |value: u64| if (value as usize) < base { base + value as usize } else { value as usize };
        while word(at) != 0 {
            match word(at) {
                DT_STRTAB => names.strings = absolute(word(at + 8)),
                DT_SYMTAB => names.symbols = absolute(word(at + 8)),
                DT_GNU_HASH => names.hash = absolute(word(at + 8)),
                _ => {}
            }
            at += 16;
        }
        (names.symbols != 0 && names.strings != 0 && names.hash != 0).then_some(names)
    }

    /// Calls `found` with the entry of every function of this name: there is one for each version of it.
    pub(super) fn each(&self, name: &CStr, mut found: impl FnMut(usize)) {
        // SAFETY: the tables of a loaded library, as the System V ABI and GNU's hash section have them.
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
                // A function (2), defined here.
                if text == name && symbol.info & 15 == 2 && symbol.section != 0 {
                    found(self.base + symbol.value as usize);
                }
            }
            if here & 1 != 0 {
                return;
            }
            index += 1;
        }
    }
}
