//! What kind of program a file is, as far as it matters to whoever is about to start it.
//!
//! Reads a few hundred bytes of the ELF file (System V ABI, chapters 4 and 5): the header, the dynamic section and its
//! strings. It allocates nothing and uses 2 KiB of stack, because it runs between fork and exec.

use core::ffi::{CStr, c_char};
use core::mem::MaybeUninit;

use rustix::fd::{AsFd, BorrowedFd};

/// What a file is when it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It must not be given a library to preload: it is for another architecture, whose loader prints an error for each
    /// library that it cannot use, or of another C library, or built with AddressSanitizer, whose runtime refuses to start
    /// behind another library.
    Foreign,
    /// It makes no pipes and starts no programs: it imports none of the functions for that and no library that might.
    Leaf,
    /// Anything else: dynamic programs, static ones, scripts, and what could not be read.
    Other,
}

/// Functions of which a program must import one to make pipes, start programs or load more code.
const FUNCTIONS: [&[u8]; 12] = [
    b"pipe", b"pipe2", b"__pipe", b"popen", b"fork", b"vfork", b"clone", b"system", b"syscall", b"dlopen", b"dlmopen",
    b"fexecve",
];
/// The same for whole families.
const PREFIXES: [&[u8]; 2] = [b"exec", b"posix_spawn"];

/// Whether one of these may begin with the two letters. A `match`, because it is a few instructions for each name of a program.
fn may_begin(first: u8, second: u8) -> bool {
    matches!(
        (first, second),
        (b'p', b'i' | b'o')
            | (b'_', b'_')
            | (b'f', b'o' | b'e')
            | (b'v', b'f')
            | (b'c', b'l')
            | (b's', b'y')
            | (b'd', b'l')
            | (b'e', b'x')
    )
}
/// The libraries of small tools that do none of it for them, whatever else they might do for others.
const INERT_LIBRARIES: [&[u8]; 8] = [
    b"libc.so.6",
    b"libm.so.6",
    b"libacl.so.1",
    b"libattr.so.1",
    b"libcap.so.2",
    b"libgmp.so.10",
    b"libpcre2-8.so.0",
    b"libselinux.so.1",
];

/// The beginning of the name of a library that puts up with none before it.
const MUST_COME_FIRST: &[u8] = b"libasan.so";

/// Enough for the headers of any program, and for the strings of a small one; a larger one is no leaf.
const ROOM: usize = 2048;

const CLASS_64: u8 = 2;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;

/// Looks at an open file. What cannot be read or understood is [`Kind::Other`].
pub fn look(file: impl AsFd) -> Kind {
    look_at(file.as_fd())
}

#[inline(never)] // gives its stack back before the caller needs its own
fn look_at(file: BorrowedFd<'_>) -> Kind {
    // One buffer for all that is read: each further page of stack is copied when a forked child touches it.
    let mut room = [MaybeUninit::uninit(); ROOM];
    let Ok((head, _)) = rustix::io::pread(file, &mut room, 0) else { return Kind::Other };
    if !head.starts_with(b"\x7fELF") {
        return Kind::Other;
    }
    if head.get(4) != Some(&CLASS_64) || word::<2>(head, 18) != Some(u64::from(MACHINE)) {
        return Kind::Foreign;
    }
    match Outline::of(head) {
        Some(Outline { loader: Loader::None, .. }) | None => Kind::Other,
        Some(Outline { loader: Loader::Foreign, .. }) => Kind::Foreign,
        Some(outline) => kind_by_links(file, &outline, &mut room).unwrap_or(Kind::Other),
    }
}

/// Looks at the file at `path`, as far as it can be opened.
///
/// # Safety
/// `path` is a C string, or memory that the kernel refuses to read.
#[allow(unsafe_code)]
pub unsafe fn look_at_raw_path(path: *const c_char) -> Kind {
    // SAFETY: the caller's promise.
    unsafe { crate::raw::open_regular(path) }.map_or(Kind::Other, look)
}

/// Looks at the file at `path`, as far as it can be opened.
#[allow(unsafe_code)]
pub fn look_at_path(path: &CStr) -> Kind {
    // SAFETY: a C string.
    unsafe { look_at_raw_path(path.as_ptr()) }
}

/// Looks at the first file called `name` that can be opened in the directories of `path`, a list as in `PATH`.
pub fn look_in_path(path: &CStr, name: &CStr) -> Kind {
    let mut room = [0; 512];
    for directory in path.to_bytes().split(|&byte| byte == b':') {
        let Some(candidate) = join(&mut room, directory, name.to_bytes()) else { return Kind::Other };
        if rustix::fs::access(candidate, rustix::fs::Access::EXEC_OK).is_ok() {
            return look_at_path(candidate);
        }
    }
    Kind::Other
}

/// `directory/name` in `room`, if it fits; an empty directory is the current one.
fn join<'a>(room: &'a mut [u8], directory: &[u8], name: &[u8]) -> Option<&'a CStr> {
    let parts = [if directory.is_empty() { b"." } else { directory }, b"/", name, b"\0"];
    let mut len = 0;
    for part in parts {
        for &byte in part {
            *room.get_mut(len)? = byte;
            len += 1;
        }
    }
    CStr::from_bytes_until_nul(room).ok()
}

/// What the program headers say.
struct Outline {
    loader: Loader,
    dynamic: Option<Segment>,
    /// The first loaded parts; the strings of the dynamic section are in one of them.
    loaded: [Option<Segment>; 4],
}

#[derive(PartialEq, Eq)]
enum Loader {
    None,
    Glibc,
    Foreign,
}

impl Outline {
    fn of(head: &[u8]) -> Option<Outline> {
        let loader = match segments(head, PT_INTERP)?.next() {
            None => Loader::None,
            Some(Segment { offset, size, .. }) => {
                let name = head.get(usize::try_from(offset).ok()?..)?.get(..usize::try_from(size).ok()?)?;
                if is_glibc_loader(name) { Loader::Glibc } else { Loader::Foreign }
            }
        };
        let mut loaded = segments(head, PT_LOAD)?;
        Some(Outline {
            loader,
            dynamic: segments(head, PT_DYNAMIC)?.next(),
            loaded: core::array::from_fn(|_| loaded.next()),
        })
    }

    fn offset_of(&self, address: u64) -> Option<u64> {
        self.loaded.iter().flatten().find_map(|segment| segment.offset_of(address))
    }
}

/// `/lib64/ld-linux-x86-64.so.2`, wherever it stands; musl's is `/lib/ld-musl-x86_64.so.1`.
fn is_glibc_loader(path: &[u8]) -> bool {
    path.rsplit(|&byte| byte == b'/').next().is_some_and(|name| name.starts_with(b"ld-linux"))
}

fn kind_by_links(file: BorrowedFd<'_>, outline: &Outline, room: &mut [MaybeUninit<u8>; ROOM]) -> Option<Kind> {
    let dynamic = outline.dynamic?;
    let links = Links::of(read_at(file, room, dynamic.offset, dynamic.size)?)?;
    let strings = outline.offset_of(links.strings_address)?;
    if links.strings_size > ROOM as u64 {
        // Too large for a leaf; what is needed first is still of interest.
        let first = read_at(file, room, strings.checked_add(links.needed[0]?)?, MUST_COME_FIRST.len() as u64)?;
        return Some(if first == MUST_COME_FIRST { Kind::Foreign } else { Kind::Other });
    }
    let strings = read_at(file, room, strings, links.strings_size)?;
    let first = links.needed[0].and_then(|offset| strings.get(offset as usize..));
    Some(match () {
        () if first.is_some_and(|first| first.starts_with(MUST_COME_FIRST)) => Kind::Foreign,
        () if links.needs_only_inert(strings) && imports_nothing_of_interest(strings) => Kind::Leaf,
        () => Kind::Other,
    })
}

/// Goes over the names once, and compares those that begin as one of ours does: a shell's child does this before each tool.
fn imports_nothing_of_interest(strings: &[u8]) -> bool {
    let mut rest = strings;
    loop {
        let (name, after) = rest.split_at(first_zero(rest));
        if is_of_interest(name) {
            return false;
        }
        match after {
            [] => return true,
            [_zero, others @ ..] => rest = others,
        }
    }
}

fn is_of_interest(name: &[u8]) -> bool {
    let [first, second, ..] = name else { return false };
    may_begin(*first, *second) && (FUNCTIONS.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

/// Where the first zero is, or the end. Eight bytes at a time: subtracting one from each borrows where there is a zero.
fn first_zero(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let (words, rest) = bytes.as_chunks::<8>();
    for (word, at) in words.iter().zip((0..).step_by(8)) {
        let word = u64::from_le_bytes(*word);
        let zeros = word.wrapping_sub(ONES) & !word & ONES << 7;
        if zeros != 0 {
            return at + zeros.trailing_zeros() as usize / 8;
        }
    }
    let whole = bytes.len() - rest.len();
    whole + rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len())
}

/// What the dynamic section says about other files.
struct Links {
    strings_address: u64,
    strings_size: u64,
    /// Where in the strings the names of the first libraries are.
    needed: [Option<u64>; 4],
    needs_more: bool,
}

impl Links {
    fn of(entries: &[u8]) -> Option<Links> {
        let values = |tag| {
            let entries = entries.chunks_exact(16).filter(move |entry| word::<8>(entry, 0) == Some(tag));
            entries.filter_map(|entry| word::<8>(entry, 8))
        };
        let mut names = values(DT_NEEDED);
        Some(Links {
            strings_address: values(DT_STRTAB).next()?,
            strings_size: values(DT_STRSZ).next()?,
            needed: core::array::from_fn(|_| names.next()),
            needs_more: names.next().is_some(),
        })
    }

    fn needs_only_inert(&self, strings: &[u8]) -> bool {
        !self.needs_more
            && self.needed.into_iter().flatten().all(|offset| {
                let name = strings.get(offset as usize..).and_then(|rest| rest.split(|&byte| byte == 0).next());
                name.is_some_and(|name| INERT_LIBRARIES.contains(&name))
            })
    }
}

#[derive(Clone, Copy)]
struct Segment {
    offset: u64,
    address: u64,
    size: u64,
}

impl Segment {
    /// Where in the file the byte is that is loaded at `address`.
    fn offset_of(self, address: u64) -> Option<u64> {
        let within = address.checked_sub(self.address).filter(|&within| within < self.size)?;
        self.offset.checked_add(within)
    }
}

/// The program headers of one type, as many as the first bytes of the file hold.
fn segments(head: &[u8], kind: u32) -> Option<impl Iterator<Item = Segment>> {
    let start = word::<8>(head, 32)? as usize;
    let (each, count) = (word::<2>(head, 54)? as usize, word::<2>(head, 56)? as usize);
    let headers = head.get(start..)?.chunks_exact(each.max(56)).take(count);
    let of_this_kind = headers.filter(move |header| word::<4>(header, 0) == Some(u64::from(kind)));
    Some(of_this_kind.filter_map(|header| {
        Some(Segment { offset: word::<8>(header, 8)?, address: word::<8>(header, 16)?, size: word::<8>(header, 32)? })
    }))
}

/// All `size` bytes at `offset` of the file, if there is room and they are there.
fn read_at<'r>(
    file: BorrowedFd<'_>,
    room: &'r mut [MaybeUninit<u8>; ROOM],
    offset: u64,
    size: u64,
) -> Option<&'r [u8]> {
    let room = room.get_mut(..usize::try_from(size).ok()?)?;
    let (read, rest) = rustix::io::pread(file, room, offset).ok()?;
    rest.is_empty().then_some(read)
}

/// A little-endian number of `N` bytes.
fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.get(..N)?;
    Some(bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::fs::File;
    use std::io::Write;
    use std::vec::Vec;

    fn kind_of(path: &str) -> Kind {
        look_at_path(&CString::new(path).unwrap())
    }

    fn kind_of_bytes(bytes: &[u8]) -> Kind {
        let mut file = crate::memory::anonymous_file().unwrap();
        file.write_all(bytes).unwrap();
        look(&file)
    }

    #[test]
    fn small_tools_are_leaves_and_shells_are_not() {
        assert_eq!(kind_of("/bin/true"), Kind::Leaf);
        assert_eq!(kind_of("/bin/cat"), Kind::Leaf);
        assert_eq!(kind_of("/bin/ls"), Kind::Leaf);
        assert_eq!(kind_of("/bin/sh"), Kind::Other);
        assert_eq!(kind_of("/bin/bash"), Kind::Other);
        assert_eq!(kind_of("/usr/bin/env"), Kind::Other, "it executes");
        assert_eq!(kind_of("/usr/bin/sort"), Kind::Other, "it starts a compressor");
    }

    #[test]
    fn a_name_is_looked_for_in_order() {
        assert_eq!(look_in_path(c"/nonexistent:/usr/bin:/bin", c"true"), Kind::Leaf);
        assert_eq!(look_in_path(c"/bin", c"sh"), Kind::Other);
        assert_eq!(look_in_path(c"", c"no such program"), Kind::Other);
        let long = CString::new([b'x'; 5000]).unwrap();
        assert_eq!(look_in_path(c"/bin", &long), Kind::Other);
    }

    #[test]
    fn names_of_interest_are_found_wherever_they_stand() {
        for name in FUNCTIONS.iter().chain(&[b"execl".as_slice(), b"posix_spawnp"]) {
            assert!(may_begin(name[0], name[1]));
            for before in [b"".as_slice(), b"\0", b"\0printf\0exit\0"] {
                for after in [b"".as_slice(), b"\0", b"\0read\0"] {
                    assert!(!imports_nothing_of_interest(&[before, name, after].concat()));
                    assert!(imports_nothing_of_interest(&[before, b"x", name, after].concat()));
                }
            }
            if !PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
                assert!(imports_nothing_of_interest(&[name, b"_".as_slice()].concat()));
            }
        }
        assert!(imports_nothing_of_interest(b"") && imports_nothing_of_interest(b"\0\0"));
    }

    #[test]
    fn the_first_zero_is_found_at_every_place() {
        for len in 0..40 {
            for zero in 0..len {
                let mut bytes = std::vec![0xff_u8; len];
                bytes[zero] = 0;
                assert_eq!(first_zero(&bytes), zero);
                bytes[zero..].fill(0);
                assert_eq!(first_zero(&bytes), zero);
                bytes[..zero].fill(1);
                assert_eq!(first_zero(&bytes), zero);
            }
            assert_eq!(first_zero(&std::vec![0x80_u8; len]), len);
        }
    }

    #[test]
    fn what_is_no_program_is_other() {
        for path in ["/etc/passwd", "/nonexistent", "/", "/dev/null"] {
            assert_eq!(kind_of(path), Kind::Other, "{path}");
        }
        assert_eq!(kind_of_bytes(b"#!/bin/sh\n"), Kind::Other);
    }

    #[test]
    fn another_class_machine_or_loader_is_foreign() {
        let native = std::fs::read("/bin/true").unwrap();
        let mut class_32 = native.clone();
        class_32[4] = 1;
        assert_eq!(kind_of_bytes(&class_32), Kind::Foreign);
        let mut other_machine = native.clone();
        other_machine[18] = 8;
        assert_eq!(kind_of_bytes(&other_machine), Kind::Foreign);
        let at = native.windows(8).position(|bytes| bytes == b"ld-linux").unwrap();
        let mut musl = native.clone();
        musl[at..at + 8].copy_from_slice(b"ld-musl-");
        assert_eq!(kind_of_bytes(&musl), Kind::Foreign);
    }

    /// A damaged file must never crash the program that is about to execute it.
    #[test]
    fn every_truncation_and_every_damaged_byte_of_the_headers_is_survived() {
        let native = std::fs::read("/bin/true").unwrap();
        for len in 0..2048 {
            kind_of_bytes(&native[..len]);
        }
        let mut damaged = native.clone();
        for at in 0..1024 {
            for value in [0, 0x7f, 0xff] {
                let before = std::mem::replace(&mut damaged[at], value);
                kind_of_bytes(&damaged);
                damaged[at] = before;
            }
        }
        let looked: Vec<Kind> = [File::open("/bin/true")].into_iter().flatten().map(look).collect();
        assert_eq!(looked, [Kind::Leaf]);
    }
}
