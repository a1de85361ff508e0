//! One memory file, read from outside.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use millstream_ring::{Broken, Foreign, HEADER_BYTES, Look};
use millstream_sys::memory;

use crate::segment::Size;

/// Looks for an instant in which nobody read. A busy reader passes a megabyte in the time of about a hundred.
const LOOKS: usize = 100;

/// What a segment says, as far as it can be true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) look: Look,
    pub(crate) waiting: usize,
    /// Whether so many waited at one instant.
    pub(crate) is_exact: bool,
    pub(crate) at: Instant,
}

/// Reads a file that should be a segment; `None` if its pipe was never used. Maps nothing: where a page is missing and
/// there is no memory for it, a mapping would end this process.
///
/// # Errors
/// What is wrong with it: a clause.
pub(crate) fn examine(file: &OwnedFd) -> Result<Option<Seen>, String> {
    let length = memory::length(file).map_err(|error| error.to_string())?;
    if length == 0 {
        return Ok(None);
    }
    let is_sealed = memory::is_sealed_at(file, length).map_err(|error| error.to_string())?;
    let bank_bytes = Size::bank_bytes_of(length).filter(|_| is_sealed).ok_or("it has no size that a segment has")?;
    let file = File::from(file.as_fd().try_clone_to_owned().map_err(|error| error.to_string())?);
    let copy = || {
        let mut page = [0; HEADER_BYTES];
        file.read_exact_at(&mut page, 0).map_err(|error| error.to_string())?;
        Look::of(&page, bank_bytes).map_err(described)
    };
    let mut before = copy()?;
    let mut seen = None;
    for _ in 0..LOOKS {
        let look = copy()?;
        if let Some((waiting, is_exact)) = look.waiting_since(&before) {
            seen = Some(Seen { look, waiting, is_exact, at: Instant::now() });
            if is_exact {
                break;
            }
        }
        before = look;
    }
    seen.map(Some).ok_or_else(|| Broken.to_string())
}

fn described(difference: Foreign) -> String {
    match difference {
        Foreign::Magic => "it is no segment of millstream, or not one yet".to_owned(),
        Foreign::Version(version) => format!(
            "it is of another version of millstream: its layout is {version}, that of this program {}",
            millstream_ring::VERSION
        ),
        Foreign::Size => "another process has broken it: it names an impossible size".to_owned(),
        Foreign::Pipe => "it belongs to another pipe".to_owned(),
    }
}
