//! What kind of program a file is, as far as a process that is about to start it needs to know.
//!
//! Reads a few hundred bytes of the ELF file (System V ABI, chapters 4 and 5): the header, the dynamic section and its
//! strings. It allocates nothing and uses 2 KiB of stack, because it runs between fork and exec.

use core::ffi::{CStr, c_char};
use core::mem::MaybeUninit;

use rustix::fd::{AsFd, BorrowedFd};

/// What a file is when it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It must not get a preloaded library. It is for another architecture, whose loader prints an error for each
    /// library that it cannot use, or for another C library. Or it was built with AddressSanitizer, whose runtime
    /// refuses to start behind another library.
    Foreign,
    /// It makes no pipes and starts no programs: it imports none of the functions for that and no library that might.
    Leaf,
    /// It imports `pthread_create`, and its list of names is short. Threads of a large program, or of a library, are
    /// not recognised.
    Threaded,
    /// Anything else: dynamic programs, static ones, scripts, and what could not be read.
    Other,
}

/// Functions of which a program must import one to make pipes, start programs or load more code. They are numbers: a
/// list of texts is a list of addresses, which the loader would have to write at the start of every program.
const FUNCTIONS: [u64; 12] = [
    name("pipe"),
    name("pipe2"),
    name("__pipe"),
    name("popen"),
    name("fork"),
    name("vfork"),
    name("clone"),
    name("system"),
    name("syscall"),
    name("dlopen"),
    name("dlmopen"),
    name("fexecve"),
];
/// The same for whole families: `posix_spawn` has the longest name, and nothing else begins so.
const PREFIXES: [u64; 2] = [name("exec"), name("posix_sp")];

/// The function that makes threads, with the zero before its name.
const MAKES_THREADS: &[u8; 15] = b"\0pthread_create";
/// Its first letters, which are compared first.
const MAKES_THREADS_BEGINS: u64 = name("pthread_");

/// A name of up to eight letters as a number: zeros behind them.
pub const fn name(text: &str) -> u64 {
    u64::from_le_bytes(padded(text))
}

const fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut padded = [0; N];
    padded.split_at_mut(text.len()).0.copy_from_slice(text.as_bytes());
    padded
}

/// For each first letter of these names, by its distance from `_`: the set of their second letters, a bit for each.
/// This alone rules out most names, without a branch that the processor could mispredict.
const PAIRS: [u32; 32] = {
    let mut pairs = [0; 32];
    let mut at = 0;
    while at <= FUNCTIONS.len() + PREFIXES.len() {
        let name = match at {
            _ if at < FUNCTIONS.len() => FUNCTIONS[at],
            _ if at < FUNCTIONS.len() + PREFIXES.len() => PREFIXES[at - FUNCTIONS.len()],
            _ => MAKES_THREADS_BEGINS,
        };
        let [first, second, ..] = name.to_le_bytes();
        pairs[(first - b'_') as usize] |= 1 << (second - b'_');
        at += 1;
    }
    pairs
};

/// Whether one of them may begin with these two letters.
fn may_begin(first: u8, second: u8) -> bool {
    let (first, second) = (first.wrapping_sub(b'_'), second.wrapping_sub(b'_'));
    PAIRS.get(usize::from(first)).is_some_and(|seconds| second < 32 && seconds >> second & 1 != 0)
}

/// Libraries that do none of this for the small tools that need them.
const INERT_LIBRARIES: [[u8; LIBRARY_ROOM]; 8] = [
    padded("libc.so.6"),
    padded("libm.so.6"),
    padded("libacl.so.1"),
    padded("libattr.so.1"),
    padded("libcap.so.2"),
    padded("libgmp.so.10"),
    padded("libpcre2-8.so.0"),
    padded("libselinux.so.1"),
];
/// The longest of them and a zero.
const LIBRARY_ROOM: usize = 16;

/// The beginning of the name of a library that refuses to have another before it.
const MUST_COME_FIRST: &[u8] = b"libasan.so";

/// Bytes that are enough for the headers of any program, and for the strings of a small one; a larger one is no leaf.
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

/// The kind of an open file; [`Kind::Other`] if it cannot be read or parsed.
pub fn look(file: impl AsFd) -> Kind {
    look_at(file.as_fd())
}

#[inline(never)] // gives its stack back before the caller needs its own
fn look_at(file: BorrowedFd<'_>) -> Kind {
    // One buffer for all reads: the kernel copies each further page of the stack that a forked child touches.
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

/// The kind of the file at `path`; [`Kind::Other`] if it cannot be opened.
///
/// # Safety
/// `path` is a C string, or memory that the kernel refuses to read.
#[allow(unsafe_code)]
pub unsafe fn look_at_raw_path(path: *const c_char) -> Kind {
    // SAFETY: the caller's promise.
    unsafe { crate::raw::open_regular(path) }.map_or(Kind::Other, look)
}

/// The kind of the file at `path`; [`Kind::Other`] if it cannot be opened.
#[allow(unsafe_code)]
pub fn look_at_path(path: &CStr) -> Kind {
    // SAFETY: a C string.
    unsafe { look_at_raw_path(path.as_ptr()) }
}

/// The kind of the first executable file called `name` in the directories of `path`, a list as in `PATH`.
pub fn look_in_path(path: &CStr, name: &CStr) -> Kind {
    find_in_path(path, name, &mut [0; 512]).map_or(Kind::Other, look_at_path)
}

/// The first executable file called `name` in the directories of `path`, a list as in `PATH`. `None` also if a path
/// that was tried does not fit into `room`.
pub fn find_in_path<'r>(path: &CStr, name: &CStr, room: &'r mut [u8]) -> Option<&'r CStr> {
    let mut directories = path.to_bytes().split(|&byte| byte == b':');
    let directory = directories.find(|directory| {
        let candidate = join(room, directory, name.to_bytes());
        let is_it = |path| rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
        candidate.is_none_or(is_it)
    })?;
    join(room, directory, name.to_bytes())
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
        // Too large for a leaf; only the first needed library is still checked.
        let first = read_at(file, room, strings.checked_add(links.needed[0]?)?, MUST_COME_FIRST.len() as u64)?;
        return Some(if first == MUST_COME_FIRST { Kind::Foreign } else { Kind::Other });
    }
    let strings = read_at(file, room, strings, links.strings_size)?;
    let first = links.needed[0].and_then(|offset| strings.get(offset as usize..));
    Some(match () {
        () if first.is_some_and(|first| first.starts_with(MUST_COME_FIRST)) => Kind::Foreign,
        () if links.needs_only_inert(strings) && imports_nothing_of_interest(strings) => Kind::Leaf,
        () if strings.windows(MAKES_THREADS.len()).any(|text| text == MAKES_THREADS) => Kind::Threaded,
        () => Kind::Other,
    })
}

/// Whether the names contain none of the functions above. It scans the names once, and compares only those whose first
/// letters match: the child of a shell does this before each tool.
fn imports_nothing_of_interest(strings: &[u8]) -> bool {
    let (words, rest) = strings.as_chunks::<8>();
    let is_of_interest = |at: usize| is_of_interest(strings.get(at..).unwrap_or(&[]));
    let mut is_some = is_of_interest(0);
    for (word, start) in words.iter().zip((0..).step_by(8)) {
        let mut zeros = zeros_in(*word);
        while zeros != 0 && !is_some {
            is_some = is_of_interest(start + zeros.trailing_zeros() as usize / 8 + 1);
            zeros &= zeros - 1;
        }
    }
    let whole = strings.len() - rest.len();
    is_some |= (whole..strings.len()).any(|at| strings[at] == 0 && is_of_interest(at + 1));
    !is_some
}

/// The highest bit of each byte that is zero.
fn zeros_in(word: [u8; 8]) -> u64 {
    const LOWER: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let word = u64::from_le_bytes(word);
    !(((word & LOWER) + LOWER) | word | LOWER)
}

/// Whether `text` begins with one of the names, followed by a zero or the end of the text.
fn is_of_interest(text: &[u8]) -> bool {
    let [first, second, ..] = text else { return false };
    may_begin(*first, *second) && begins_with_one(text)
}

#[inline(never)] // rarely called, from three places
fn begins_with_one(text: &[u8]) -> bool {
    let letters = text.first_chunk::<8>().copied().unwrap_or_else(|| up_to(text));
    let zeros = zeros_in(letters);
    // All bits below those of the first zero, or all.
    let name = u64::from_le_bytes(letters) & ((zeros & zeros.wrapping_neg()) >> 7).wrapping_sub(1);
    let begins_with = |prefix: &u64| {
        let unused = prefix.leading_zeros() / 8 * 8;
        name << unused == prefix << unused
    };
    FUNCTIONS.contains(&name)
        || PREFIXES.iter().any(begins_with)
        || (name == MAKES_THREADS_BEGINS && text.starts_with(&MAKES_THREADS[1..]))
}

/// The first `N` bytes of `text`, padded with zeros.
fn up_to<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut padded = [0; N];
    padded.iter_mut().zip(text).for_each(|(place, &byte)| *place = byte);
    padded
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
                name.is_some_and(|name| name.len() < LIBRARY_ROOM && INERT_LIBRARIES.contains(&up_to(name)))
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
    let mut word = [0; 8];
    word[..N].copy_from_slice(bytes.get(at..)?.first_chunk::<N>()?);
    Some(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::fs::File;
    use std::io::Write;
    use std::string::String;
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
        assert_eq!(kind_of("/usr/bin/expr"), Kind::Leaf, "it has locks for threads, and makes none");
        assert_eq!(kind_of("/usr/bin/sort"), Kind::Threaded);
    }

    #[test]
    fn directories_are_searched_in_order() {
        assert_eq!(look_in_path(c"/nonexistent:/usr/bin:/bin", c"true"), Kind::Leaf);
        assert_eq!(look_in_path(c"/bin", c"sh"), Kind::Other);
        assert_eq!(look_in_path(c"", c"no such program"), Kind::Other);
        let long = CString::new([b'x'; 5000]).unwrap();
        assert_eq!(look_in_path(c"/bin", &long), Kind::Other);
    }

    #[test]
    fn names_of_interest_are_found_wherever_they_stand() {
        let names = "pipe pipe2 __pipe popen fork vfork clone system syscall dlopen dlmopen fexecve";
        let families = "exec execl execvpe posix_spawn posix_spawnp pthread_create";
        for name in names.split(' ').chain(families.split(' ')) {
            let is_prefix = families.contains(name);
            let name = name.as_bytes();
            assert!(may_begin(name[0], name[1]));
            let places = (0..20).map(|len| [&[b'x'; 20][..len], b"\0"].concat());
            for before in [b"".to_vec(), b"\0printf\0exit\0".to_vec()].into_iter().chain(places) {
                for after in [b"".as_slice(), b"\0", b"\0read\0"] {
                    let text = String::from_utf8_lossy(name);
                    assert!(!imports_nothing_of_interest(&[&before, name, after].concat()), "{text}");
                    assert!(imports_nothing_of_interest(&[&before, b"x".as_slice(), name, after].concat()), "{text}");
                    let longer = [&before, name, b"_", after].concat();
                    assert_eq!(imports_nothing_of_interest(&longer), !is_prefix, "{text}");
                    let shorter = [&before, &name[..3], after].concat();
                    assert!(imports_nothing_of_interest(&shorter), "{text}");
                }
            }
        }
        assert!(imports_nothing_of_interest(b"") && imports_nothing_of_interest(b"\0\0"));
    }

    #[test]
    fn few_pairs_of_letters_may_begin_a_name() {
        let pairs = (0..=u8::MAX).flat_map(|first| (0..=u8::MAX).map(move |second| [first, second]));
        let begun: Vec<[u8; 2]> = pairs.filter(|&[first, second]| may_begin(first, second)).collect();
        let wanted = [b"__", b"cl", b"dl", b"ex", b"fe", b"fo", b"pi", b"po", b"pt", b"sy", b"vf"];
        assert_eq!(begun, wanted.map(|pair| *pair));
    }

    #[test]
    fn every_zero_of_a_word_is_found_and_nothing_else() {
        for zeros in 0..=u8::MAX {
            for other in [1, 0x7f, 0x80, 0x81, 0xff] {
                let is_zero = |at: usize| zeros >> at & 1 != 0;
                let found = zeros_in(core::array::from_fn(|at| if is_zero(at) { 0 } else { other })).to_le_bytes();
                assert_eq!(found, core::array::from_fn(|at| if is_zero(at) { 0x80 } else { 0 }));
            }
        }
    }

    #[test]
    fn file_that_is_no_program_is_other() {
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
