//! The members of an archive as a tree of directories, as `tar -x` would make them.

use std::collections::BTreeMap;

use rustix::fs::FileType;

use super::bytes::Extent;
use super::tar::{self, Kind as Written};
use crate::source::Version;

/// The directory that the archive appears as.
pub(crate) const TOP: u32 = 0;

/// Bytes of memory for the members of one archive, at most. Compressed, an archive with too many of them may be small.
pub(super) const MEMORY_MOST: usize = 1 << 30;

/// What a name takes besides its bytes, about.
const NAME_MEMORY: usize = 64;

/// Limits of the kernel.
const NAME_MOST: usize = 255;
const TARGET_MOST: usize = 4095;

/// A longer path would be as many directories as anyone likes.
const PATH_MOST: usize = 64 << 10;

/// Of a directory of which the archive does not tell.
const IMPLIED_MODE: u32 = 0o755;

/// The members of one version of an archive.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) version: Version,
    entries: Vec<Entry>,
}

/// A file, directory or anything else.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u32,
    /// How many names lead to it.
    pub(crate) names: u32,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Directory(BTreeMap<Box<[u8]>, u32>),
    File { size: u64, extents: Box<[Extent]> },
    Symlink(Box<[u8]>),
    Special(FileType, (u32, u32)),
}

impl Kind {
    pub(crate) fn file_type(&self) -> FileType {
        match self {
            Kind::Directory(_) => FileType::Directory,
            Kind::File { .. } => FileType::RegularFile,
            Kind::Symlink(_) => FileType::Symlink,
            Kind::Special(kind, _) => *kind,
        }
    }
}

impl Tree {
    pub(crate) fn entry(&self, place: u32) -> &Entry {
        &self.entries[place as usize]
    }

    /// What has a name in a directory.
    pub(crate) fn child(&self, directory: u32, name: &[u8]) -> Option<u32> {
        self.names(directory)?.get(name).copied()
    }

    /// The names in a directory; `None`: it is none.
    pub(crate) fn names(&self, directory: u32) -> Option<&BTreeMap<Box<[u8]>, u32>> {
        match &self.entry(directory).kind {
            Kind::Directory(names) => Some(names),
            _ => None,
        }
    }
}

/// A tree to which members are added, in the order of the archive.
pub(super) struct Builder {
    entries: Vec<Entry>,
    /// Why members are not there as they are written: how many, and the name of the first.
    remarks: BTreeMap<&'static str, (u64, Vec<u8>)>,
    memory: usize,
    memory_most: usize,
}

impl Builder {
    /// Of members that take this much memory, at most.
    pub(super) fn new(memory_most: usize) -> Builder {
        let top = Entry {
            kind: Kind::Directory(BTreeMap::new()),
            mode: IMPLIED_MODE,
            user: 0,
            group: 0,
            seconds: 0,
            nanoseconds: 0,
            names: 1,
        };
        Builder { entries: vec![top], remarks: BTreeMap::new(), memory: 0, memory_most }
    }

    pub(super) fn finish(self, version: Version) -> Tree {
        Tree { version, entries: self.entries }
    }

    /// What the log is to say, a line each.
    pub(super) fn remarks(&self) -> impl Iterator<Item = String> {
        self.remarks.iter().map(|(what, (count, first))| {
            let first = String::from_utf8_lossy(first);
            let members = if *count == 1 { "member" } else { "members" };
            format!("tar: {count} {members} {what}; the first is '{}'", first.escape_debug())
        })
    }

    /// Adds a member. One that cannot be shown is left out, with a remark.
    pub(super) fn add(&mut self, member: tar::Member) -> Result<(), String> {
        if let Err(what) = self.placed(&member) {
            self.remark(what, &member.name);
        }
        if self.memory > self.memory_most {
            let most = self.memory_most;
            return Err(format!("the archive has too many members: they take more than {most} bytes of memory"));
        }
        Ok(())
    }

    fn remark(&mut self, what: &'static str, name: &[u8]) {
        self.remarks.entry(what).or_insert_with(|| (0, name.to_vec())).0 += 1;
    }

    fn placed(&mut self, member: &tar::Member) -> Result<(), &'static str> {
        let path = components(&member.name)?;
        if member.name.starts_with(b"/") {
            self.remark("with absolute names shown inside the directory", &member.name);
        }
        let Some((&name, above)) = path.split_last() else {
            // The attributes of the top are those of the archive itself.
            let is_directory = matches!(member.kind, Written::Directory);
            return if is_directory { Ok(()) } else { Err("left out: without a name") };
        };
        let kind = match &member.kind {
            Written::HardLink(target) => {
                let target = self.linked(target)?;
                return self.bind(above, name, member, target);
            }
            Written::Directory => Kind::Directory(BTreeMap::new()),
            Written::File { size, extents } => Kind::File { size: *size, extents: extents.as_slice().into() },
            Written::Symlink(target) if target.is_empty() || target.len() > TARGET_MOST || target.contains(&0) => {
                return Err("left out: a symbolic link without a target, or with one that is too long");
            }
            Written::Symlink(target) => Kind::Symlink(target.as_slice().into()),
            Written::Special(kind, device) => Kind::Special(*kind, *device),
            Written::Unknown(_) => return Err("left out: of a type that is not known"),
        };
        let entry = entry(member, kind, member.mode);
        let directory = self.directory(above, member)?;
        let known = self.names(directory).and_then(|names| names.get(name).copied());
        let known_is_directory = known.filter(|&known| self.names(known).is_some());
        match (known_is_directory, &entry.kind) {
            (Some(known), Kind::Directory(_)) => {
                let Entry { mode, user, group, seconds, nanoseconds, .. } = entry;
                let known = &mut self.entries[known as usize];
                (known.mode, known.user, known.group) = (mode, user, group);
                (known.seconds, known.nanoseconds) = (seconds, nanoseconds);
                Ok(())
            }
            (Some(_), _) => Err("left out: a directory has that name"),
            (None, _) => {
                let place = self.push(entry);
                self.set(directory, name, place);
                Ok(())
            }
        }
    }

    /// A further name for a member that is there.
    fn bind(&mut self, above: &[&[u8]], name: &[u8], member: &tar::Member, place: u32) -> Result<(), &'static str> {
        let directory = self.directory(above, member)?;
        let known = self.names(directory).and_then(|names| names.get(name).copied());
        if known == Some(place) {
            return Ok(());
        }
        if known.is_some_and(|known| self.names(known).is_some()) {
            return Err("left out: a directory has that name");
        }
        self.set(directory, name, place);
        Ok(())
    }

    fn linked(&self, target: &[u8]) -> Result<u32, &'static str> {
        let missing = "left out: hard links of what is not there";
        let mut place = TOP;
        for name in components(target).map_err(|_| missing)? {
            place = self.names(place).and_then(|names| names.get(name).copied()).ok_or(missing)?;
        }
        if self.names(place).is_some() { Err(missing) } else { Ok(place) }
    }

    /// A directory, which is made if the archive has not told of it.
    fn directory(&mut self, path: &[&[u8]], member: &tar::Member) -> Result<u32, &'static str> {
        let mut place = TOP;
        for &name in path {
            let names = self.names(place).ok_or("left out: in what is no directory")?;
            place = match names.get(name) {
                Some(&known) => known,
                None => {
                    let made = self.push(entry(member, Kind::Directory(BTreeMap::new()), IMPLIED_MODE));
                    self.set(place, name, made);
                    made
                }
            };
        }
        if self.names(place).is_some() { Ok(place) } else { Err("left out: in what is no directory") }
    }

    fn names(&self, place: u32) -> Option<&BTreeMap<Box<[u8]>, u32>> {
        match &self.entries[place as usize].kind {
            Kind::Directory(names) => Some(names),
            _ => None,
        }
    }

    fn push(&mut self, entry: Entry) -> u32 {
        self.memory += size_of::<Entry>()
            + match &entry.kind {
                Kind::File { extents, .. } => size_of_val(&**extents),
                Kind::Symlink(target) => target.len(),
                Kind::Directory(_) | Kind::Special(..) => 0,
            };
        self.entries.push(entry);
        (self.entries.len() - 1) as u32
    }

    /// A name leads to an entry now. What it has led to before keeps its other names.
    fn set(&mut self, directory: u32, name: &[u8], place: u32) {
        self.memory += name.len() + NAME_MEMORY;
        self.entries[place as usize].names += 1;
        let Kind::Directory(names) = &mut self.entries[directory as usize].kind else { return };
        if let Some(before) = names.insert(name.into(), place) {
            self.entries[before as usize].names -= 1;
        }
    }
}

fn entry(member: &tar::Member, kind: Kind, mode: u32) -> Entry {
    let tar::Member { user, group, seconds, nanoseconds, .. } = *member;
    Entry { kind, mode, user, group, seconds, nanoseconds, names: 0 }
}

/// The names of a path, from the top. No path leads out of the directory.
fn components(path: &[u8]) -> Result<Vec<&[u8]>, &'static str> {
    if path.len() > PATH_MOST {
        return Err("left out: the path is too long");
    }
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    let names: Vec<&[u8]> = names.collect();
    if names.contains(&&b".."[..]) {
        return Err("left out: '..' leads out of the directory");
    }
    if names.iter().any(|name| name.len() > NAME_MOST || name.contains(&0)) {
        return Err("left out: a name is longer than 255 bytes, or has a zero in it");
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, kind: Written) -> tar::Member {
        let name = name.as_bytes().to_vec();
        tar::Member { name, kind, mode: 0o640, user: 1, group: 2, seconds: 3, nanoseconds: 4 }
    }

    fn file(name: &str, size: u64) -> tar::Member {
        member(name, Written::File { size, extents: Vec::new() })
    }

    fn tree(members: &[tar::Member]) -> (Tree, Vec<String>) {
        let mut builder = Builder::new(MEMORY_MOST);
        members.iter().for_each(|member| builder.add(member.clone()).unwrap());
        let remarks = builder.remarks().collect();
        (builder.finish(Version::default()), remarks)
    }

    fn found<'a>(tree: &'a Tree, path: &str) -> Option<&'a Entry> {
        let place = path.split('/').try_fold(TOP, |place, name| tree.child(place, name.as_bytes()))?;
        Some(tree.entry(place))
    }

    #[test]
    fn directories_are_made_where_the_archive_has_none() {
        let (tree, remarks) = tree(&[file("./a/b/c", 5), member("a", Written::Directory), file("d", 1)]);
        assert_eq!(remarks, [""; 0]);
        assert!(matches!(found(&tree, "a/b/c").unwrap().kind, Kind::File { size: 5, .. }));
        assert_eq!((found(&tree, "a/b").unwrap().mode, found(&tree, "a").unwrap().mode), (0o755, 0o640));
        assert_eq!(tree.names(TOP).unwrap().len(), 2);
    }

    #[test]
    fn no_name_leads_out_of_the_directory() {
        let (tree, remarks) = tree(&[file("../x", 1), file("a/../../y", 1), file("/etc/passwd", 1), file("\n/..", 1)]);
        assert_eq!(remarks.len(), 2, "{remarks:?}");
        assert!(remarks[0].starts_with("tar: 3 members left out: '..'") && remarks[0].ends_with("'../x'"));
        assert!(remarks[1].starts_with("tar: 1 member with absolute names shown inside"), "{}", remarks[1]);
        assert!(found(&tree, "etc/passwd").is_some());
        assert_eq!(tree.names(TOP).unwrap().len(), 1);
    }

    #[test]
    fn later_member_of_a_name_wins_and_links_keep_the_earlier() {
        let link = |name: &str, target: &str| member(name, Written::HardLink(target.as_bytes().to_vec()));
        let (tree, remarks) = tree(&[
            file("a", 1),
            link("b", "./a"),
            link("c", "nothing"),
            file("a", 2),
            file("a/x", 3),
            member("s", Written::Symlink(b"/tmp".to_vec())),
            file("s/x", 3),
            member("d", Written::Directory),
            file("d", 4),
            link("e", "d"),
        ]);
        let size = |path: &str| match found(&tree, path).unwrap().kind {
            Kind::File { size, .. } => size,
            _ => panic!("{path}"),
        };
        assert_eq!((size("a"), size("b"), found(&tree, "b").unwrap().names), (2, 1, 1));
        assert!(found(&tree, "c").is_none() && found(&tree, "e").is_none());
        assert!(matches!(found(&tree, "d").unwrap().kind, Kind::Directory(_)));
        assert_eq!(remarks.len(), 3, "{remarks:?}");
        assert!(remarks.iter().any(|remark| remark.contains("2 members left out: in what is no directory")));
    }

    #[test]
    fn members_that_take_too_much_memory_are_refused() {
        let mut builder = Builder::new(1 << 20);
        let name = "x/".repeat(100);
        let mut add = |number: usize| builder.add(file(&format!("{number}/{name}"), 1));
        let refused = (0..1000).find_map(|number| add(number).err()).unwrap();
        assert!(refused.contains("too many members"), "{refused}");
    }

    #[test]
    fn names_that_the_kernel_cannot_have_are_left_out() {
        let long = "x".repeat(256);
        let (tree, remarks) = tree(&[file(&long, 1), file("a\0b", 1), file("", 1), file(&"y/".repeat(40_000), 1)]);
        assert_eq!(tree.names(TOP).unwrap().len(), 0);
        assert_eq!(remarks.len(), 3, "{remarks:?}");
    }
}
