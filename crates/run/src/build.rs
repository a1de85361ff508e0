//! The builds of the library, and who gets one.

use millstream_sys::executable::Kind;
use millstream_sys::{machine, pipe, settings};

/// A build of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// Makes pipes large.
    Plain,
    /// Counts what passes as well.
    Counting,
    /// Moves bytes through shared memory as well.
    Joining,
    /// Both.
    JoiningAndCounting,
}

impl Build {
    /// The one for a run that counts or does not, and whose pipes may be joined or may not.
    pub fn for_run(counts: bool, joins: bool) -> Build {
        match (counts, joins) {
            (false, false) => Build::Plain,
            (true, false) => Build::Counting,
            (false, true) => Build::Joining,
            (true, true) => Build::JoiningAndCounting,
        }
    }

    /// The name of its file.
    pub fn file_name(self) -> &'static str {
        let [plain, counting, joining, both] = settings::LIBRARIES;
        match self {
            Build::Plain => plain,
            Build::Counting => counting,
            Build::Joining => joining,
            Build::JoiningAndCounting => both,
        }
    }

    /// Whether a program of this kind that takes over this process's standard input and output gets the library: not where
    /// it would be harmful or no use. Inside programs the library decides likewise about those that they start.
    pub fn is_for(self, kind: Kind) -> bool {
        match (kind, self) {
            (Kind::Foreign, _) | (Kind::Leaf, Build::Plain) => false,
            (Kind::Leaf, Build::Joining) => {
                machine::standing_ends().into_iter().any(|end| pipe::identity(end).is_some())
            }
            (Kind::Leaf | Kind::Threaded | Kind::Other, _) => true,
        }
    }
}
