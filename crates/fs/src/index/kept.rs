//! Checkpoints of gzip files on disk, so that the next mount need not decompress them from the beginning.
//!
//! Each source has a file of its own in a directory that the user has named, called by device and inode. It says of which version of
//! the source it is, and ends with its SHA-256. One that does not fit, is damaged, or belongs to another user is ignored, and replaced
//! when there is something better. What fits is not believed yet: a checkpoint says what the bytes before it were, and these are
//! compared before it is used. So a source that was changed without a new time is decompressed from its beginning.
//!
//! ```text
//!   magic  version of the source  distance  count  checkpoints ...  SHA-256
//! ```

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use millstream_sys::whole_file::{Replacement, remove_abandoned};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, fstat, futimens, open, openat, statat,
    unlinkat,
};
use sha2::{Digest, Sha256};

use super::found::u32_at;
use super::gzip::{Checkpoint, Checkpoints, MOST, proof};
use super::inflate::WINDOW;
use crate::source::Version;

const MAGIC: &[u8; 8] = b"MSckpts1";
const END: &str = ".checkpoints";
const SUM: usize = 32;

/// Bytes of a file, at most: as many checkpoints as there may be, with windows that cannot be compressed.
const FILE_MOST: u64 = (MOST as u64 + 1) * (WINDOW as u64 + 1024);

/// For the user alone: windows are contents of files.
const OWNERS_ALONE: u32 = 0o600;

/// A directory of checkpoints.
#[derive(Debug)]
pub(crate) struct KeptIndexes {
    directory: OwnedFd,
    /// Bytes of all files together.
    most: u64,
}

impl KeptIndexes {
    /// Makes the directory if it is not there.
    pub(crate) fn open(path: &Path, most: u64) -> io::Result<KeptIndexes> {
        use std::os::unix::fs::DirBuilderExt;

        match std::fs::DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let directory = open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(KeptIndexes { directory, most })
    }

    /// What was kept of a source as it is now.
    pub(crate) fn load(&self, source: &File) -> Option<Checkpoints> {
        let key = Key::of(source).ok()?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.directory, key.name(), flags, Mode::empty()).ok()?);
        let stat = fstat(&file).ok()?;
        let is_own = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_own || !is_file || stat.st_size as u64 > FILE_MOST {
            return None;
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let checkpoints = parse(&bytes, &key)?;
        // Those that were used longest ago go first.
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW as _ };
        let _ = futimens(&file, &Timestamps { last_access: now, last_modification: now });
        Some(checkpoints)
    }

    /// Keeps what is known of a source, and drops what is too much.
    pub(crate) fn save(&self, source: &File, checkpoints: &Checkpoints) -> io::Result<()> {
        let key = Key::of(source)?;
        let bytes = written(source, &key, checkpoints)?;
        if bytes.len() as u64 > self.most {
            return Ok(());
        }
        self.make_room(self.most - bytes.len() as u64, &key.name())?;
        let mut file = Replacement::create(self.directory.try_clone()?)?;
        file.write_all(&bytes)?;
        // After a crash of the system the file may be damaged, which is found out.
        file.place(self.directory.as_fd(), &key.name(), &Permissions::from_mode(OWNERS_ALONE), false)
    }

    /// Removes the files that were used longest ago until the others have at most so many bytes.
    fn make_room(&self, most: u64, except: &OsStr) -> io::Result<()> {
        let mut files = Vec::new();
        let opened = openat(&self.directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for entry in Dir::new(opened)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            if name.as_bytes().ends_with(END.as_bytes()) && name != except {
                // It may have gone meanwhile.
                let Ok(stat) = statat(&self.directory, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                files.push(((stat.st_mtime, stat.st_mtime_nsec), stat.st_size as u64, name));
            } else {
                remove_abandoned(self.directory.as_fd(), &name);
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, name) in files {
            if total <= most {
                break;
            }
            let _ = unlinkat(&self.directory, &name, AtFlags::empty());
            total -= size;
        }
        Ok(())
    }
}

/// The version of a source, among all of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    device: u64,
    version: Version,
}

impl Key {
    fn of(source: &File) -> io::Result<Key> {
        let stat = fstat(source)?;
        Ok(Key { device: stat.st_dev, version: Version::of(&stat) })
    }

    fn name(&self) -> OsString {
        format!("{:x}-{:x}{END}", self.device, self.version.inode).into()
    }

    fn to_bytes(self) -> [u8; 40] {
        let Version { inode, size, seconds, nanoseconds } = self.version;
        let mut bytes = [0; 40];
        let numbers = [self.device, inode, size, seconds.cast_unsigned(), nanoseconds];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}

fn written(source: &File, key: &Key, checkpoints: &Checkpoints) -> io::Result<Vec<u8>> {
    let (apart, list) = checkpoints.all();
    let mut bytes = [&MAGIC[..], &key.to_bytes(), &apart.to_le_bytes(), &(list.len() as u32).to_le_bytes()].concat();
    for checkpoint in &list {
        let Checkpoint { plain, source: offset, bits, window, sum, len, members, .. } = checkpoint;
        [*plain, *offset, *members].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        let proof = proof(source, *offset)?;
        let numbers = [u32::from(*bits), sum.clone().finalize(), *len, proof, window.len() as u32];
        numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend_from_slice(window);
    }
    let sum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&sum);
    Ok(bytes)
}

fn parse(bytes: &[u8], key: &Key) -> Option<Checkpoints> {
    let (content, sum) = bytes.split_at(bytes.len().checked_sub(SUM)?);
    if Sha256::digest(content)[..] != *sum {
        return None;
    }
    let mut rest = content.strip_prefix(MAGIC)?.strip_prefix(&key.to_bytes()[..])?;
    let apart = u64::from_le_bytes(taken(&mut rest)?);
    let count = u32::from_le_bytes(taken(&mut rest)?) as usize;
    let mut list: Vec<Checkpoint> = Vec::new();
    for _ in 0..count {
        let [plain, source, members] =
            [taken(&mut rest)?, taken(&mut rest)?, taken(&mut rest)?].map(u64::from_le_bytes);
        let mut number = || taken(&mut rest).map(u32::from_le_bytes);
        let (bits, sum, len, proof, size) = (number()?, number()?, number()?, number()?, number()?);
        let (window, behind) = rest.split_at_checked(size as usize)?;
        rest = behind;
        let is_in_order = list.last().is_none_or(|last| last.plain < plain && last.source <= source);
        let fits = bits < 8 && source <= key.version.size && window.len() >= 4 && u32_at(window, 0) as usize <= WINDOW;
        if !is_in_order || !fits {
            return None;
        }
        let sum = crc32fast::Hasher::new_with_initial(sum);
        let (bits, window) = (bits as u8, window.into());
        list.push(Checkpoint { plain, source, bits, window, sum, len, members, proof: Some(proof) });
    }
    (rest.is_empty() && list.len() <= MOST).then(|| Checkpoints::kept(apart, list))
}

fn taken<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Scratch {
            static MADE: AtomicU64 = AtomicU64::new(0);
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("millstream-test-kept-{}-{number}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Scratch(path)
        }

        fn source(&self, name: &str) -> File {
            std::fs::write(self.0.join(name), vec![7; 100_000]).unwrap();
            File::open(self.0.join(name)).unwrap()
        }

        fn kept(&self, most: u64) -> KeptIndexes {
            KeptIndexes::open(&self.0.join("kept"), most).unwrap()
        }

        /// The files in the directory, with their names.
        fn files(&self) -> Vec<PathBuf> {
            std::fs::read_dir(self.0.join("kept")).unwrap().map(|entry| entry.unwrap().path()).collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn checkpoints(count: u64) -> Checkpoints {
        let list = (1..=count).map(|place| Checkpoint {
            plain: place << 20,
            source: place * 1000,
            bits: place as u8 % 8,
            window: lz4_flex::block::compress_prepend_size(&[place as u8; WINDOW]).into(),
            sum: crc32fast::Hasher::new_with_initial(place as u32 * 77),
            len: place as u32,
            members: place / 3,
            proof: None,
        });
        Checkpoints::kept(1 << 20, list.collect())
    }

    fn shown(checkpoints: &Checkpoints) -> Vec<String> {
        let list = checkpoints.all().1.into_iter();
        list.map(|Checkpoint { plain, source, bits, window, sum, len, members, .. }| {
            format!("{plain} {source} {bits} {} {} {len} {members}", crc32fast::hash(&window), sum.finalize())
        })
        .collect()
    }

    #[test]
    fn saved_checkpoints_are_loaded_for_the_same_version_alone() {
        let scratch = Scratch::new();
        let (source, kept) = (scratch.source("a"), scratch.kept(1 << 20));
        assert!(kept.load(&source).is_none());
        kept.save(&source, &checkpoints(20)).unwrap();
        let loaded = kept.load(&source).unwrap();
        assert_eq!(shown(&loaded), shown(&checkpoints(20)));
        assert_eq!(loaded.all().1[4].proof, Some(crc32fast::hash(&[7; 4096])));
        assert_eq!(std::fs::metadata(&scratch.files()[0]).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(scratch.0.join("a"), vec![8; 100_001]).unwrap();
        assert!(kept.load(&source).is_none());
        kept.save(&source, &checkpoints(3)).unwrap();
        assert_eq!(shown(&kept.load(&source).unwrap()).len(), 3);
        assert_eq!(scratch.files().len(), 1);
    }

    #[test]
    fn damaged_and_foreign_files_are_ignored() {
        let scratch = Scratch::new();
        let (source, kept) = (scratch.source("a"), scratch.kept(1 << 20));
        kept.save(&source, &checkpoints(5)).unwrap();
        let path = scratch.files().remove(0);
        let good = std::fs::read(&path).unwrap();
        for place in 0..good.len() {
            let mut bytes = good.clone();
            bytes[place] ^= 1 << (place % 8);
            assert!(parse(&bytes, &Key::of(&source).unwrap()).is_none(), "at {place}");
        }
        for len in [0, 8, 31, 32, 60, good.len() - 1] {
            std::fs::write(&path, &good[..len]).unwrap();
            assert!(kept.load(&source).is_none(), "{len} bytes");
        }
        std::fs::write(&path, &good).unwrap();
        assert!(kept.load(&source).is_some());
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(kept.load(&source).is_none());
        std::fs::rename(&path, scratch.0.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(scratch.0.join("elsewhere"), &path).unwrap();
        assert!(kept.load(&source).is_none());
        kept.save(&source, &checkpoints(5)).unwrap();
        assert!(kept.load(&source).is_some());
    }

    #[test]
    fn files_that_do_not_fit_themselves_are_ignored_whatever_their_sum() {
        let scratch = Scratch::new();
        let source = scratch.source("a");
        let key = Key::of(&source).unwrap();
        let with = |change: &dyn Fn(&mut Checkpoint)| {
            let (apart, mut list) = checkpoints(3).all();
            change(&mut list[1]);
            parse(&written(&source, &key, &Checkpoints::kept(apart, list)).unwrap(), &key)
        };
        assert!(with(&|_| {}).is_some());
        assert!(with(&|checkpoint| checkpoint.bits = 8).is_none());
        assert!(with(&|checkpoint| checkpoint.plain = 1).is_none());
        assert!(with(&|checkpoint| checkpoint.source = 99_999).is_none());
        assert!(with(&|checkpoint| checkpoint.window = [0xff; 8].into()).is_none());
    }

    #[test]
    fn oldest_files_go_when_there_is_no_room() {
        let scratch = Scratch::new();
        let sources: Vec<File> = (0..4).map(|number| scratch.source(&number.to_string())).collect();
        scratch.kept(u64::MAX).save(&sources[0], &checkpoints(10)).unwrap();
        let size = std::fs::metadata(&scratch.files()[0]).unwrap().len();
        let kept = scratch.kept(3 * size);
        let pause = || std::thread::sleep(std::time::Duration::from_millis(20));
        for source in &sources[1..3] {
            pause();
            kept.save(source, &checkpoints(10)).unwrap();
        }
        pause();
        assert!(kept.load(&sources[0]).is_some());
        pause();
        kept.save(&sources[3], &checkpoints(10)).unwrap();
        let there: Vec<bool> = sources.iter().map(|source| kept.load(source).is_some()).collect();
        assert_eq!(there, [true, false, true, true]);
        assert_eq!(scratch.files().len(), 3);
        // What has no room at all is not kept.
        scratch.kept(100).save(&sources[0], &checkpoints(20)).unwrap();
        assert_eq!(scratch.files().len(), 3);
    }
}
