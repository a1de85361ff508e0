//! Where this program is, and with it the whole program and the library.

use core::ffi::CStr;
use core::mem::MaybeUninit;

use millstream_sys::machine;

use crate::list::Line;

/// Installed (`bin` beside `lib`), or in the build tree.
pub(crate) const CANDIDATES: usize = 2;

/// The longest path that the kernel takes, its zero included.
const PATH_MAX: usize = 4096;

/// Room for a path, or for an entry of the environment with one.
pub(crate) type PathLine = Line<{ PATH_MAX + 64 }>;

/// Room for the path of this program.
pub(crate) type Room = [MaybeUninit<u8>; PATH_MAX];

pub(crate) struct Place<'r> {
    /// The directory that this program is in, with a slash.
    pub(crate) directory: &'r [u8],
}

impl Place<'_> {
    /// `None`: the kernel does not say.
    pub(crate) fn look(room: &mut Room) -> Option<Place<'_>> {
        let path = machine::own_file(room).ok()?;
        let directory = path.get(..=path.iter().rposition(|&byte| byte == b'/')?)?;
        Some(Place { directory })
    }

    /// Adds the path that a file of ours has if it is in this place; `None` if there is no room, or no such place.
    pub(crate) fn of(&self, candidate: usize, file: &str, line: &mut PathLine) -> Option<()> {
        let (_slash, directory) = self.directory.split_last()?;
        let prefix = match candidate {
            0 => directory.get(..=directory.iter().rposition(|&byte| byte == b'/')?)?,
            _ => self.directory,
        };
        [prefix, b"lib/millstream/", file.as_bytes()].into_iter().try_for_each(|piece| line.push(piece))
    }

    /// The same as a C string of its own, if the file is there.
    pub(crate) fn existing<'l>(&self, candidate: usize, file: &str, line: &'l mut PathLine) -> Option<&'l CStr> {
        self.of(candidate, file, line)?;
        line.c_str().filter(|path| machine::is_there(path))
    }
}
