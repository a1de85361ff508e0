//! One memory file, read from outside.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use millstream_ring::{ForeignError, HEADER_BYTES, Look, RingError};
use millstream_sys::memory;

use crate::segment::Size;

/// Looks for an instant in which no reader consumed. A busy reader passes a megabyte in the time of about a hundred.
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

/// What a [`SegmentError`](super::SegmentError) is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SegmentErrorKind {
    /// It cannot be read.
    Unreadable,
    /// It has not the size, the seals or the first words of a segment.
    NotASegment,
    /// Another version of millstream has made it.
    OtherVersion,
    /// It says something impossible.
    Corrupt,
    /// Its pipe does not exist on this machine.
    NoPipe,
}

/// What is wrong with a file that should be a segment.
#[derive(Debug)]
pub(super) struct Flaw {
    pub(super) kind: SegmentErrorKind,
    /// A clause.
    pub(super) why: String,
}

impl Flaw {
    fn unreadable(error: impl ToString) -> Flaw {
        Flaw { kind: SegmentErrorKind::Unreadable, why: error.to_string() }
    }

    fn corrupt(why: impl ToString) -> Flaw {
        Flaw { kind: SegmentErrorKind::Corrupt, why: why.to_string() }
    }

    fn not_a_segment(why: &str) -> Flaw {
        Flaw { kind: SegmentErrorKind::NotASegment, why: why.to_owned() }
    }
}

/// Reads a file that should be a segment; `None` if its pipe was never used. Maps nothing: where a page is missing and
/// there is no memory for it, a mapping would end this process.
///
/// # Errors
/// What is wrong with it.
pub(super) fn examine(file: &OwnedFd) -> Result<Option<Seen>, Flaw> {
    let length = memory::length(file).map_err(Flaw::unreadable)?;
    if length == 0 {
        return Ok(None);
    }
    let is_sealed = memory::is_sealed_at(file, length).map_err(Flaw::unreadable)?;
    let bank_bytes = Size::bank_bytes_of(length).filter(|_| is_sealed);
    let bank_bytes = bank_bytes.ok_or_else(|| Flaw::not_a_segment("it has no size that a segment has"))?;
    let file = File::from(file.as_fd().try_clone_to_owned().map_err(Flaw::unreadable)?);
    let copy = || {
        let mut page = [0; HEADER_BYTES];
        file.read_exact_at(&mut page, 0).map_err(Flaw::unreadable)?;
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
    seen.map(Some).ok_or_else(|| Flaw::corrupt(RingError))
}

fn described(difference: ForeignError) -> Flaw {
    match difference {
        ForeignError::Magic => Flaw::not_a_segment("it is no segment of millstream, or not one yet"),
        ForeignError::Version(version) => Flaw {
            kind: SegmentErrorKind::OtherVersion,
            why: format!(
                "it is of another version of millstream: its layout is {version}, that of this program {}",
                millstream_ring::VERSION
            ),
        },
        ForeignError::Size => Flaw::corrupt("another process has broken it: it names an impossible size"),
        ForeignError::Pipe => Flaw { kind: SegmentErrorKind::NoPipe, why: "it belongs to another pipe".to_owned() },
    }
}
