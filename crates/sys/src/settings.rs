//! What `millstream run` tells every program of its tree, in one environment variable.
//!
//! The library inside each program reads the variable as it starts, so its form is part of the agreement between the
//! two: `4:SIZE:CHOSEN:RESERVE:EXEMPT:LINES`; then `:TOKEN:LEDGER` in a run that counts; then
//! `:AFTER:FIRST:NAMESPACE:TICKS:BIRTH:FILTERS` and six times `:OLDER` in a run whose pipes may attach, see [`Ring`]
//! (it counts if `LEDGER` is not empty). The token is in hexadecimal, `LEDGER` is the path of the counters, all else
//! are decimal numbers. The first field is the version; a library that does not know it leaves every pipe alone.
//!
//! These are the only switches: the library counts if there is a `LEDGER`, and attaches pipes if there are the fields
//! of [`Ring`]. A library of another build may be able to do only one of these, and ignores the fields of the other.

use core::ffi::CStr;
use core::fmt;

/// The environment variable that carries [`Settings`].
pub const VARIABLE: &str = "MILLSTREAM_RUN";
/// How its entry begins.
pub const ENTRY: &[u8] = b"MILLSTREAM_RUN=";

/// The file name of the library that a run preloads.
pub const LIBRARY: &str = "libmillstream_preload.so";

const VERSION: u64 = 4;

/// Whether a path ends in the name of a library of ours. Other builds, which an outer run may have, call theirs
/// `libmillstream_ring.so` and the like.
pub fn is_library(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    name.starts_with(b"libmillstream_") && name.ends_with(b".so")
}

/// How the programs of one run treat the pipes that they make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings<'a> {
    /// How large they are.
    pub sizing: Sizing,
    /// Streams of stdio are flushed at line ends.
    pub flushes_lines: bool,
    /// The counters, if the run counts.
    pub ledger: Option<LedgerAddress<'a>>,
    /// What programs must know to move the bytes of pipes through shared memory, if the run does that. With counters,
    /// both have the same token.
    pub ring: Option<Ring>,
}

/// How large pipes are, and what others keep of their user's quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizing {
    /// Bytes that a pipe is to hold. 0 leaves pipes as the kernel makes them.
    pub bytes: u64,
    /// The user chose this size, so the pipes of programs with threads have it too.
    pub is_chosen: bool,
    /// A pipe is enlarged only while so much of the user's quota is left (see [`quota`](crate::quota)). 0: there is no quota.
    pub reserve: u64,
    /// Only processes that gave up their rights have the quota.
    pub is_exempt: bool,
}

/// How many pipes a run may inherit and still know that it did not make them.
pub const OLDER_PIPES: usize = 6;

/// What tells the processes and pipes of one run from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The memory of each pipe has it too.
    pub token: u64,
    /// Bytes after which a pipe attaches; 0: when it is worth it.
    pub after: u64,
    /// The number of the process that began the run. Its descendants have higher ones, until numbers are used again.
    pub first: u64,
    /// Inode of the namespace in which it has that number.
    pub namespace: u64,
    /// TSC cycles when it began.
    pub ticks: u64,
    /// Its birth (see [`births`](crate::births)); 0: not known.
    pub birth: u64,
    /// The number of seccomp filters that its processes are under. These allow them to attach pipes; others may kill
    /// for it.
    pub filters: u32,
    /// Inodes of pipes that it inherited, 0 for none; all ones in the first: there are more.
    pub older: [u64; OLDER_PIPES],
}

/// Where the counters of a run are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerAddress<'a> {
    /// The counters begin with it too. In another process-number namespace the path may lead to an unrelated file; the
    /// token shows that.
    pub token: u64,
    /// `/proc/PID/fd/FD`: an open descriptor of the supervising process. No zero and no colon in it.
    pub path: &'a [u8],
}

/// Longer than the path of any descriptor.
pub(crate) type PathRoom = [u8; 64];

impl LedgerAddress<'_> {
    /// The path as the kernel wants it, in `room` of zeros; `None` if it is too long to be one of ours.
    pub(crate) fn c_path<'r>(&self, room: &'r mut PathRoom) -> Option<&'r CStr> {
        room.get_mut(..self.path.len())?.copy_from_slice(self.path);
        // Without its zero where there was too little room.
        CStr::from_bytes_until_nul(room).ok()
    }
}

impl<'a> Settings<'a> {
    /// Reads what [`Display`](fmt::Display) wrote; `None` if it is anything else.
    pub fn parse(value: &'a CStr) -> Option<Settings<'a>> {
        let (version, rest) = number(value.to_bytes(), 10)?;
        let ([bytes, is_chosen, reserve, is_exempt, flushes_lines], rest) = numbers(rest)?;
        let sizing = Sizing { bytes, is_chosen: is_chosen != 0, reserve, is_exempt: is_exempt != 0 };
        let mut settings = Settings { sizing, flushes_lines: flushes_lines != 0, ledger: None, ring: None };
        if !rest.is_empty() {
            let (token, rest) = number(after_colon(rest)?, 16)?;
            let rest = after_colon(rest)?;
            let end = rest.iter().position(|&byte| byte == b':').unwrap_or(rest.len());
            let (path, rest) = rest.split_at_checked(end)?;
            settings.ledger = (!path.is_empty()).then_some(LedgerAddress { token, path });
            settings.ring = ring(token, rest)?;
        }
        (version == VERSION).then_some(settings)
    }
}

impl fmt::Display for Settings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sizing { bytes, is_chosen, reserve, is_exempt } = self.sizing;
        let [is_chosen, is_exempt, flushes_lines] = [is_chosen, is_exempt, self.flushes_lines].map(u8::from);
        write!(f, "{VERSION}:{bytes}:{is_chosen}:{reserve}:{is_exempt}:{flushes_lines}")?;
        let token = self.ledger.map(|ledger| ledger.token).or(self.ring.map(|ring| ring.token));
        let Some(token) = token else { return Ok(()) };
        write!(f, ":{token:x}:")?;
        if let Some(ledger) = self.ledger {
            f.write_str(core::str::from_utf8(ledger.path).map_err(|_| fmt::Error)?)?;
        }
        if let Some(Ring { after, first, namespace, ticks, birth, filters, older, .. }) = self.ring {
            write!(f, ":{after}:{first}:{namespace}:{ticks}:{birth}:{filters}")?;
            older.iter().try_for_each(|inode| write!(f, ":{inode}"))?;
        }
        Ok(())
    }
}

/// Nothing, or `:AFTER:FIRST:NAMESPACE:TICKS:BIRTH:FILTERS` and the older pipes.
#[expect(clippy::option_option, reason = "what is not there, and what is not understood")]
fn ring(token: u64, text: &[u8]) -> Option<Option<Ring>> {
    if text.is_empty() {
        return Some(None);
    }
    let ([after, first, namespace, ticks, birth, filters], rest) = numbers(text)?;
    let (older, rest) = numbers(rest)?;
    let filters = u32::try_from(filters).ok()?;
    rest.is_empty().then_some(Some(Ring { token, after, first, namespace, ticks, birth, filters, older }))
}

/// So many numbers, a colon before each, and what follows them.
fn numbers<const COUNT: usize>(mut text: &[u8]) -> Option<([u64; COUNT], &[u8])> {
    let mut numbers = [0; COUNT];
    for place in &mut numbers {
        (*place, text) = number(after_colon(text)?, 10)?;
    }
    Some((numbers, text))
}

/// The number that `text` begins with, and what follows it. Written out because the library that runs this carries
/// none of the standard library's parsing and formatting.
#[inline(never)]
fn number(text: &[u8], radix: u32) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    let mut rest = text;
    while let Some((digit, after)) =
        rest.split_first().and_then(|(&byte, after)| Some((char::from(byte).to_digit(radix)?, after)))
    {
        value = value.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))?;
        rest = after;
    }
    (rest.len() < text.len()).then_some((value, rest))
}

fn after_colon(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::string::ToString;

    const SIZING: Sizing = Sizing { bytes: 262_144, is_chosen: true, reserve: 8 << 20, is_exempt: false };
    const RING: Ring = Ring {
        token: 0xabc,
        after: 1,
        first: 12,
        namespace: 4_026_531_836,
        ticks: 99,
        birth: 4321,
        filters: 3,
        older: [0, 7, u64::MAX, 0, 0, 1],
    };

    #[test]
    fn the_entry_of_the_variable_begins_with_its_name() {
        assert_eq!(ENTRY, std::format!("{VARIABLE}=").as_bytes());
    }

    #[test]
    fn parse_reads_back_displayed_settings() {
        for settings in [
            Settings { sizing: SIZING, flushes_lines: false, ledger: None, ring: None },
            Settings {
                sizing: Sizing { is_exempt: true, reserve: u64::MAX, ..SIZING },
                flushes_lines: true,
                ledger: None,
                ring: None,
            },
            Settings {
                sizing: Sizing::default(),
                flushes_lines: false,
                ledger: Some(LedgerAddress { token: u64::MAX, path: b"/proc/1/fd/3" }),
                ring: None,
            },
            Settings { sizing: SIZING, flushes_lines: true, ledger: None, ring: Some(RING) },
            Settings {
                sizing: SIZING,
                flushes_lines: false,
                ledger: Some(LedgerAddress { token: 0xabc, path: b"/proc/12/fd/3" }),
                ring: Some(RING),
            },
        ] {
            let value = CString::new(settings.to_string()).unwrap();
            assert_eq!(Settings::parse(&value), Some(settings));
        }
    }

    #[test]
    fn libraries_are_known_by_their_names() {
        for name in [LIBRARY, "libmillstream_ring.so", "libmillstream_ring_count.so"] {
            assert!(is_library(name.as_bytes()) && is_library(std::format!("/a/b/{name}").as_bytes()));
        }
        for other in [
            "",
            "/usr/lib/libc.so",
            "/libmillstream_ring.so/a",
            "/a/libmillstream_ring.so.1",
            "/a/xlibmillstream_ring.so",
        ] {
            assert!(!is_library(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            c"",
            c"2",
            c"3:5:0:6:0",
            c"4:",
            c"4:5",
            c"4:5:0:6",
            c"4:5:0:6:0",
            c"1:5:0:6:0",
            c"1:5:6",
            c"4:5:0:6:0:1:",
            c"4:5:0:6:0:1:7",
            c"4:5:0:6:0:1:x:/p",
            c"4:5:0:6:0:1:r",
            c"4:5:0:6:0:1:r:",
            c"4:5:0:6:0:1:r7:/p",
            c"4:5:0:6:0:1:7:/p:1:2:3",
            c"4:5:0:6:0:1:7:/p:1:2:3:4:5:6:7:8:9:10:x",
            c"4:5:0:6:0:1:7:/p:1:2:3:4:99999999999:6:7:8:9:10:11",
            c"4:-5:0:6:0:1",
            c"4:5:0:6:0:1 ",
            c"4::0:6:0",
            c"4:5:0:6:0:1:11111111111111111:/p",
            c"4:99999999999999999999:0:6:0",
        ] {
            assert_eq!(Settings::parse(text), None, "{text:?}");
        }
    }
}
