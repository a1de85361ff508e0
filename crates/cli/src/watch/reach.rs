//! Whether the library of a run is in a program, and if not, why.

use std::ffi::CString;
use std::fs;

use millstream_sys::executable::{self, Kind};
use millstream_sys::settings;
use serde::{Serialize, Serializer};

/// Why the library is not in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotReached {
    /// It is linked statically: there is no loader.
    Static,
    /// The loader ignores preloads, because the program has more rights than its user.
    Setuid,
    /// It is for another architecture or C library, or built with AddressSanitizer.
    Foreign,
    /// It was started without the run's variables in its environment.
    Environment,
    /// It may not be looked at, or was just being loaded, or none of the above.
    Unknown,
}

impl NotReached {
    /// As in JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            NotReached::Static => "static",
            NotReached::Setuid => "setuid",
            NotReached::Foreign => "foreign",
            NotReached::Environment => "environment",
            NotReached::Unknown => "unknown",
        }
    }

    pub(crate) fn sentence(self) -> &'static str {
        match self {
            NotReached::Static => "static",
            NotReached::Setuid => "setuid",
            NotReached::Foreign => "another architecture or C library",
            NotReached::Environment => "started without the run's environment",
            NotReached::Unknown => "not known why",
        }
    }
}

impl Serialize for NotReached {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// `None`: it is there. What is [`NotReached::Unknown`] may be known a moment later.
pub(crate) fn why_not(pid: u32) -> Option<NotReached> {
    let read = |name| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    // Of a new program the kernel makes the command line known last: with it, all that follows is complete.
    let is_loaded_by_the_kernel = !read("cmdline").is_empty();
    let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else { return Some(NotReached::Unknown) };
    if maps.contains(settings::LIBRARY) {
        return None;
    }
    let kind = CString::new(format!("/proc/{pid}/exe")).map(|path| executable::look_at_path(&path));
    Some(match () {
        () if !is_loaded_by_the_kernel => NotReached::Unknown,
        // Before what the kernel told the loader, which has another form for programs of 32 bits.
        () if kind == Ok(Kind::Foreign) => NotReached::Foreign,
        () if has_more_rights_than_its_user(pid) => NotReached::Setuid,
        () if !maps.contains("/ld-linux") => NotReached::Static,
        () if !has_entry(&read("environ"), settings::VARIABLE) => NotReached::Environment,
        () => NotReached::Unknown,
    })
}

fn has_entry(environment: &[u8], name: &str) -> bool {
    let mut entries = environment.split(|&byte| byte == 0);
    entries.any(|entry| entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
}

/// What the kernel told the loader (`AT_SECURE` in `getauxval(3)`).
fn has_more_rights_than_its_user(pid: u32) -> bool {
    const AT_SECURE: u64 = 23;
    let words = fs::read(format!("/proc/{pid}/auxv")).unwrap_or_default();
    words.chunks_exact(16).any(|pair| {
        let (name, value) = pair.split_at(8);
        name == AT_SECURE.to_ne_bytes() && value != [0; 8]
    })
}
