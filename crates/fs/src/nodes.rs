//! What the kernel knows of the mount: files and directories by number.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};

use fuser::BackingId;
use rustix::fs::{FileType, Stat};

use crate::archive::Archive;
use crate::content::Content;
use crate::source::Object;
use crate::view::View;

/// The number of the root, in every mount.
pub(crate) const ROOT: u64 = 1;

/// A file, directory or anything else of the mount.
pub(crate) struct Node {
    /// Its number in the mount, for as long as the kernel remembers it.
    pub(crate) id: u64,
    source: RwLock<Arc<Object>>,
    /// `None`: as its source.
    content: RwLock<Option<Arc<Content>>>,
    /// The open file that the kernel itself reads and writes, while there is one.
    pub(crate) backing: Mutex<Weak<BackingId>>,
    /// How often programs have it open.
    openers: Mutex<usize>,
    /// The views before each stage that was pushed.
    pub(crate) before_pushes: Mutex<Vec<Arc<View>>>,
    /// What its content is shown as a directory of, once a program asks.
    archive: OnceLock<Arc<Archive>>,
}

impl Node {
    pub(crate) fn source(&self) -> Arc<Object> {
        Arc::clone(&self.source.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn content(&self) -> Option<Arc<Content>> {
        self.content.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The archive whose members it is a directory of.
    pub(crate) fn archive(&self) -> Option<Arc<Archive>> {
        let content = self.content().filter(|content| content.view().is_archive())?;
        let archive = self.archive.get_or_init(|| Arc::new(Archive::new(self.source(), content)));
        Some(Arc::clone(archive))
    }

    pub(crate) fn is_archive(&self) -> bool {
        self.content().is_some_and(|content| content.view().is_archive())
    }

    /// How often programs have it open. Held while one opens or closes it.
    pub(crate) fn openers(&self) -> MutexGuard<'_, usize> {
        self.openers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on it is transformed in another way.
    pub(crate) fn set_content(&self, content: Content) {
        *self.content.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(content));
    }
}

/// A source, and the view of it: the same source in another view is another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    device: u64,
    inode: u64,
    view: usize,
}

impl Key {
    fn of(stat: &Stat, view: Option<&Arc<View>>) -> Key {
        Key { device: stat.st_dev, inode: stat.st_ino, view: view.map_or(0, |view| Arc::as_ptr(view).addr()) }
    }
}

/// All nodes that the kernel remembers.
pub(crate) struct Nodes {
    device: u64,
    /// Each takes a descriptor: with more, the kernel is asked to forget some.
    most: usize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    known: HashMap<u64, Known>,
    by_key: HashMap<Key, u64>,
    /// The last number that was made up.
    made_up: u64,
    /// Those that the kernel can be asked to forget, the oldest first. Some are forgotten already.
    by_age: VecDeque<Named>,
    /// Nodes that were made since the kernel was last asked to forget some.
    made: usize,
    is_being_thinned: bool,
}

/// A node that is no directory, and the name by which the kernel has found it.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    id: u64,
    pub(crate) parent: u64,
    pub(crate) name: OsString,
}

struct Known {
    node: Arc<Node>,
    key: Key,
    /// How often the kernel was told of it, less what it has forgotten.
    lookups: u64,
}

/// Numbers from here on are made up. Below are those of inodes of the source.
const MADE_UP: u64 = 1 << 56;

impl Nodes {
    /// The root, which the kernel never forgets.
    pub(crate) fn new(root: Object, stat: &Stat, most: usize) -> Nodes {
        let nodes = Nodes { device: stat.st_dev, most, table: Mutex::default() };
        let mut table = nodes.table();
        let key = Key::of(stat, None);
        let node = Arc::new(new_node(ROOT, root, None));
        table.known.insert(ROOT, Known { node, key, lookups: 1 });
        table.by_key.insert(key, ROOT);
        drop(table);
        nodes
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<Node>> {
        self.table().known.get(&id).map(|known| Arc::clone(&known.node))
    }

    pub(crate) fn len(&self) -> usize {
        self.table().known.len()
    }

    /// The node of a source in a view, under a name; `content` is asked for a new one. The kernel is told of it once more.
    pub(crate) fn found(
        &self,
        (parent, name): (u64, &OsStr),
        source: Object,
        stat: &Stat,
        view: Option<&Arc<View>>,
        content: impl FnOnce(&Object) -> Option<Content>,
    ) -> Arc<Node> {
        let key = Key::of(stat, view);
        let mut table = self.table();
        if let Some(id) = table.by_key.get(&key).copied()
            && let Some(known) = table.known.get_mut(&id)
        {
            known.lookups += 1;
            return Arc::clone(&known.node);
        }
        let is_own = view.is_none() && stat.st_dev == self.device && (2..MADE_UP).contains(&stat.st_ino);
        let id = if is_own && !table.known.contains_key(&stat.st_ino) { stat.st_ino } else { table.make_up() };
        let content = content(&source);
        let node = Arc::new(new_node(id, source, content));
        table.known.insert(id, Known { node: Arc::clone(&node), key, lookups: 1 });
        table.by_key.insert(key, id);
        table.made += 1;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            table.by_age.push_back(Named { id, parent, name: name.to_owned() });
            table.prune();
        }
        node
    }

    /// The oldest nodes, if there are too many, or no descriptor is left for another. Only one thread gets them, until it says that it is
    /// [done](Nodes::thinned).
    ///
    /// The kernel may be asked too early, before it has been told of a node in its list of a directory. So they are asked for again.
    pub(crate) fn surplus(&self, is_none_left: bool) -> Option<Vec<Named>> {
        let mut table = self.table();
        let are_too_many = table.known.len() > self.most && table.made > self.most / 4;
        if !(are_too_many || is_none_left) || std::mem::replace(&mut table.is_being_thinned, true) {
            return None;
        }
        table.made = 0;
        let Table { by_age, known, .. } = &mut *table;
        by_age.retain(|named| known.contains_key(&named.id));
        let count = by_age.len() - by_age.len().min(self.most / 2);
        let surplus: Vec<_> = by_age.drain(..count).collect();
        by_age.extend(surplus.iter().cloned());
        Some(surplus)
    }

    /// Closes the sources that programs have open and do not read now. Returns how many descriptors that freed.
    pub(crate) fn rest(&self) -> usize {
        let nodes: Vec<Arc<Node>> = self.table().known.values().map(|known| Arc::clone(&known.node)).collect();
        nodes.iter().filter(|node| node.content().is_some_and(|content| content.rest())).count()
    }

    /// The kernel was asked to forget the surplus.
    pub(crate) fn thinned(&self) {
        self.table().is_being_thinned = false;
    }

    /// The kernel has forgotten so many of the times that it was told of a node.
    pub(crate) fn forget(&self, id: u64, lookups: u64) {
        let mut table = self.table();
        let Some(known) = table.known.get_mut(&id).filter(|_| id != ROOT) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups > 0 {
            return;
        }
        if let Some(Known { key, .. }) = table.known.remove(&id)
            && table.by_key.get(&key) == Some(&id)
        {
            table.by_key.remove(&key);
        }
    }

    /// Another file has taken the place of a node's source.
    pub(crate) fn replace_source(&self, node: &Node, source: Object) {
        let mut table = self.table();
        let (Ok(stat), Some(key)) = (source.stat(), table.known.get(&node.id).map(|known| known.key)) else { return };
        if table.by_key.get(&key) == Some(&node.id) {
            table.by_key.remove(&key);
        }
        let key = Key { device: stat.st_dev, inode: stat.st_ino, ..key };
        table.by_key.insert(key, node.id);
        if let Some(known) = table.known.get_mut(&node.id) {
            known.key = key;
        }
        *node.source.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(source);
    }
}

impl Table {
    /// Drops what the kernel has forgotten by itself, when it is more than what it has not.
    fn prune(&mut self) {
        let Table { by_age, known, .. } = self;
        if by_age.len() > 2 * known.len() + 1000 {
            by_age.retain(|named| known.contains_key(&named.id));
        }
    }

    fn make_up(&mut self) -> u64 {
        self.made_up += 1;
        MADE_UP + self.made_up
    }
}

fn new_node(id: u64, source: Object, content: Option<Content>) -> Node {
    let content = RwLock::new(content.map(Arc::new));
    Node {
        id,
        source: RwLock::new(Arc::new(source)),
        content,
        backing: Mutex::default(),
        openers: Mutex::default(),
        before_pushes: Mutex::default(),
        archive: OnceLock::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_the_kernel_could_not_forget_are_asked_for_again() {
        let directory = std::env::temp_dir().join(format!("millstream-test-nodes-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let root = Object::root(&directory).unwrap();
        let nodes = Nodes::new(Object::root(&directory).unwrap(), &root.stat().unwrap(), 8);
        let find = |number: u32| {
            let name = number.to_string();
            std::fs::write(directory.join(&name), "").unwrap();
            let file = Object::at(&directory.join(&name)).unwrap();
            let stat = file.stat().unwrap();
            nodes.found((ROOT, OsStr::new(&name)), file, &stat, None, |_| None).id
        };
        let asked = |is_none_left| {
            let surplus = nodes.surplus(is_none_left)?;
            nodes.thinned();
            Some(surplus.into_iter().map(|named| named.name.into_string().unwrap()).collect::<Vec<_>>())
        };
        let ids: Vec<_> = (0..9).map(find).collect();
        assert_eq!(asked(false).unwrap(), ["0", "1", "2", "3", "4"]);
        // Not at once, as forgetting takes time.
        assert_eq!(asked(false), None);
        ids[..2].iter().for_each(|&id| nodes.forget(id, 1));
        let _: Vec<_> = (9..12).map(find).collect();
        assert_eq!(asked(false).unwrap(), ["5", "6", "7", "8", "2", "3"]);
        assert_eq!(asked(true).unwrap(), ["4", "9", "10", "11", "5", "6"]);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
