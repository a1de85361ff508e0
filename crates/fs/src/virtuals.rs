//! Files and directories that are not in the source: members of archives, and files whose bytes a network makes of nothing.
//!
//! They have numbers of their own, above those of all other nodes.
//!
//! The bytes of a **generated** file come out of its network while a program reads it. Each open file runs the network once, from
//! the first read on. A read that is not where the last one ended runs it anew, and skips what comes before, as files of `/proc` do.
//! Its size is not known, and told as 0.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::INodeNo;
use millstream_net::{Input, Pull};
use rustix::io::Errno;

use crate::archive::{Archive, InUse, Tree};
use crate::blocks::{BLOCK, Piece, spare};
use crate::names::Entry;
use crate::source::Result;
use crate::view::View;

/// Numbers from here on are those of this file.
const FIRST: u64 = 1 << 60;

/// Bytes that are skipped at once.
const SKIPPED: usize = BLOCK;

pub(crate) fn is_virtual(ino: INodeNo) -> bool {
    ino.0 >= FIRST
}

/// A file or directory without a source.
pub(crate) struct Virtual {
    pub(crate) id: u64,
    pub(crate) what: What,
}

pub(crate) enum What {
    Member(Member),
    Generated {
        view: Arc<View>,
        /// For messages.
        path: PathBuf,
    },
}

#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) archive: Arc<Archive>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) place: u32,
}

/// The same thing has the same number, for as long as the kernel remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The address of the tree, and the place in it.
    Member(usize, u32),
    /// The number of the directory, and the name.
    Generated(u64, OsString),
}

/// All that the kernel remembers of them.
#[derive(Default)]
pub(crate) struct Virtuals {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    known: HashMap<u64, Known>,
    by_key: HashMap<Key, u64>,
    made: u64,
}

struct Known {
    node: Arc<Virtual>,
    key: Key,
    /// How often the kernel was told of it, less what it has forgotten.
    lookups: u64,
}

impl Virtuals {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, ino: INodeNo) -> Result<Arc<Virtual>> {
        self.table().known.get(&ino.0).map(|known| Arc::clone(&known.node)).ok_or(Errno::STALE)
    }

    pub(crate) fn len(&self) -> usize {
        self.table().known.len()
    }

    /// The kernel is told of it once more.
    pub(crate) fn found(&self, key: Key, what: What) -> Arc<Virtual> {
        let mut table = self.table();
        let id = match table.by_key.get(&key) {
            Some(&id) => id,
            None => {
                let id = FIRST + table.made;
                table.made += 1;
                table.by_key.insert(key.clone(), id);
                let node = Arc::new(Virtual { id, what });
                table.known.insert(id, Known { node, key, lookups: 0 });
                id
            }
        };
        let known = table.known.get_mut(&id).expect("what is known by its key is known by its number");
        known.lookups += 1;
        Arc::clone(&known.node)
    }

    /// The kernel has forgotten so many of the times that it was told of it.
    pub(crate) fn forget(&self, id: u64, lookups: u64) {
        let mut table = self.table();
        let Some(known) = table.known.get_mut(&id) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0
            && let Some(Known { key, .. }) = table.known.remove(&id)
        {
            table.by_key.remove(&key);
        }
    }
}

impl Virtual {
    pub(crate) fn member(&self) -> Result<&Member> {
        match &self.what {
            What::Member(member) => Ok(member),
            What::Generated { .. } => Err(Errno::NOTDIR),
        }
    }
}

impl Member {
    /// The kernel looks a path up anew if this says that a directory or file of it is of an old version of the archive.
    pub(crate) fn current(&self) -> Result<&Member> {
        if self.archive.is_current(&self.tree)? { Ok(self) } else { Err(Errno::STALE) }
    }

    pub(crate) fn entries(&self) -> Result<Vec<Entry>> {
        let names = self.tree.names(self.place).ok_or(Errno::NOTDIR)?;
        let listed = names.iter().map(|(name, &place)| Entry {
            name: OsString::from_vec(name.to_vec()),
            kind: self.tree.entry(place).kind.file_type(),
            inode: FIRST + u64::from(place),
        });
        Ok(listed.collect())
    }
}

/// A virtual file that a program has open.
pub(crate) struct OpenVirtual {
    pub(crate) node: Arc<Virtual>,
    pub(crate) how: How,
}

pub(crate) enum How {
    Member(InUse),
    Generated(Mutex<Running>),
}

/// A network that is read from.
#[derive(Default)]
pub(crate) struct Running {
    /// `None`: not yet, or it has failed.
    pub(crate) pull: Option<Pull>,
    /// Where the next byte of it stands.
    position: u64,
}

impl OpenVirtual {
    /// Whether the kernel must not stop at the size, which says nothing.
    pub(crate) fn is_of_unknown_size(&self) -> bool {
        matches!(self.how, How::Generated(_))
    }
}

impl Running {
    /// Reads some bytes; none at the end.
    pub(crate) fn read(
        &mut self,
        view: &View,
        offset: u64,
        len: usize,
    ) -> std::result::Result<Piece, millstream_net::NetworkError> {
        let pull = match &mut self.pull {
            Some(pull) if self.position <= offset => pull,
            other => {
                self.position = 0;
                let nothing = Input { bytes: Box::new(std::io::empty()), name: "nothing".into(), offset: 0 };
                other.insert(view.pull(nothing)?)
            }
        };
        let mut bytes = spare(len.max(SKIPPED));
        while self.position < offset {
            let most = (offset - self.position).min(SKIPPED as u64) as usize;
            match pull.read(&mut bytes[..most])? {
                0 => return Ok(Piece::of_start(bytes, 0)),
                count => self.position += count as u64,
            }
        }
        let count = pull.read(&mut bytes[..len])?;
        self.position += count as u64;
        Ok(Piece::of_start(bytes, count))
    }
}
