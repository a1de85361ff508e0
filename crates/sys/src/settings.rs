//! What `millstream run` tells every program of its tree, in one environment variable.
//!
//! The variable is read by the library inside each program as it starts, so its form is part of the agreement between
//! the two: `1:SIZE:FDS`, `1:SIZE:FDS:TOKEN:LEDGER` (a run that counts) or `1:SIZE:FDS:TOKEN:LEDGER:ARENA` (a run whose pipes may go
//! through shared memory; it counts if LEDGER is not empty), sizes in decimal, the token in hexadecimal, the rest paths. The first
//! field is the version; a library that does not know it leaves every pipe alone.

use core::ffi::CStr;
use core::fmt;

/// The environment variable that carries [`Settings`].
pub const VARIABLE: &str = "MILLSTREAM_RUN";

/// The file names of the library that a run preloads: the plain one, the one that counts, the one that joins pipes in shared
/// memory, and the one that does both.
pub const LIBRARIES: [&str; 4] =
    ["libmillstream_preload.so", "libmillstream_count.so", "libmillstream_ring.so", "libmillstream_ring_count.so"];

const VERSION: u64 = 1;

/// Whether a path ends in the name of a library of ours.
pub fn is_library(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    name.starts_with(b"libmillstream_") && name.ends_with(b".so")
}

/// How the programs of one run treat the pipes that they make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings<'a> {
    /// Bytes that a pipe is to hold. 0 leaves pipes as the kernel makes them.
    pub pipe_bytes: u64,
    /// Only pipes whose read end gets a lower descriptor than this are enlarged. Descriptors are handed out from the
    /// lowest, so this bounds how many large pipes one process can hold, and with that what it takes of the user's
    /// quota, without counting anything.
    pub descriptor_limit: u64,
    /// Where to count what passes, if the run counts.
    pub ledger: Option<LedgerAddress<'a>>,
    /// Where the shared memory of pipes is, if the run has some. With a ledger both have one token.
    pub arena: Option<LedgerAddress<'a>>,
}

/// Where the ledger or the arena of a run is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerAddress<'a> {
    /// Stands at the head of the ledger too. In another process-number namespace the path may lead to somebody else's
    /// file; this tells.
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
        let (version, rest) = number(value, 10)?;
        let (pipe_bytes, rest) = number(after_colon(rest)?, 10)?;
        let (descriptor_limit, rest) = number(after_colon(rest)?, 10)?;
        let mut settings = Settings { pipe_bytes, descriptor_limit, ledger: None, arena: None };
        if !rest.is_empty() {
            let (token, rest) = number(after_colon(rest)?, 16)?;
            let paths = after_colon(rest)?.to_bytes();
            let end = paths.iter().position(|&byte| byte == b':').unwrap_or(paths.len());
            let (ledger, rest) = paths.split_at_checked(end)?;
            let address = |path: &'a [u8]| (!path.is_empty()).then_some(LedgerAddress { token, path });
            settings.ledger = address(ledger);
            settings.arena = rest.split_first().and_then(|(_, arena)| address(arena));
        }
        (version == VERSION).then_some(settings)
    }
}

impl fmt::Display for Settings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}:{}:{}", self.pipe_bytes, self.descriptor_limit)?;
        let Some(LedgerAddress { token, .. }) = self.ledger.or(self.arena) else { return Ok(()) };
        write!(f, ":{token:x}:")?;
        if let Some(ledger) = self.ledger {
            f.write_str(core::str::from_utf8(ledger.path).map_err(|_| fmt::Error)?)?;
        }
        if let Some(arena) = self.arena {
            write!(f, ":{}", core::str::from_utf8(arena.path).map_err(|_| fmt::Error)?)?;
        }
        Ok(())
    }
}

/// The number that `text` begins with, and what follows it. Written out because the library that runs this carries
/// none of the standard library's parsing and formatting.
fn number(text: &CStr, radix: u32) -> Option<(u64, &CStr)> {
    let mut value = 0_u64;
    let mut rest = text;
    let mut digits = 0;
    while let Some(digit) = first(rest).and_then(|byte| char::from(byte).to_digit(radix)) {
        value = value.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))?;
        rest = without_first(rest)?;
        digits += 1;
    }
    (digits > 0).then_some((value, rest))
}

fn after_colon(text: &CStr) -> Option<&CStr> {
    if first(text) == Some(b':') { without_first(text) } else { None }
}

fn first(text: &CStr) -> Option<u8> {
    text.to_bytes().first().copied()
}

fn without_first(text: &CStr) -> Option<&CStr> {
    CStr::from_bytes_until_nul(text.to_bytes_with_nul().get(1..)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::string::ToString;

    #[test]
    fn what_is_written_is_read_back() {
        for settings in [
            Settings { pipe_bytes: 262_144, descriptor_limit: 128, ledger: None, arena: None },
            Settings {
                pipe_bytes: 0,
                descriptor_limit: u64::MAX,
                ledger: Some(LedgerAddress { token: u64::MAX, path: b"/proc/1/fd/3" }),
                arena: None,
            },
            Settings {
                pipe_bytes: 1,
                descriptor_limit: 2,
                ledger: None,
                arena: Some(LedgerAddress { token: 0xabc, path: b"/proc/12/fd/3" }),
            },
            Settings {
                pipe_bytes: 1,
                descriptor_limit: 2,
                ledger: Some(LedgerAddress { token: 0xabc, path: b"/proc/12/fd/3" }),
                arena: Some(LedgerAddress { token: 0xabc, path: b"/proc/12/fd/4" }),
            },
        ] {
            let value = CString::new(settings.to_string()).unwrap();
            assert_eq!(Settings::parse(&value), Some(settings));
        }
    }

    #[test]
    fn libraries_are_known_by_their_names() {
        for name in LIBRARIES {
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
            c"1",
            c"1:",
            c"1:5",
            c"2:5:6",
            c"1:5:6:",
            c"1:5:6:7",
            c"1:5:6:x:/p",
            c"1:5:6:r",
            c"1:5:6:r:",
            c"1:5:6:r7:/p",
            c"1:-5:6",
            c"1:5:6 ",
            c"1::6",
            c"1:5:6:11111111111111111:/p",
            c"1:99999999999999999999:6",
        ] {
            assert_eq!(Settings::parse(text), None, "{text:?}");
        }
    }
}
