//! Mounts a directory and serves it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::mount::UnmountFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::blocks::BLOCK;
use crate::common::{Common, Log};
use crate::filesystem::Served;
use crate::index::kept::KeptIndexes;
use crate::mounted::Mounted;
use crate::rules::Rules;

/// What stands before the source where mounts are listed.
pub(crate) const DEVICE: &str = "millstream:";

/// What a daemon and the kernel talk through.
const DEVICE_FILE: &str = "/dev/fuse";

/// Says whether others than root may let other users in.
const FUSE_CONF: &str = "/etc/fuse.conf";

/// How a directory is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    /// No program can write.
    pub read_only: bool,
    /// Other users may use the mount too, as far as permissions let them.
    pub allow_other: bool,
    /// The kernel reads and writes files itself that are not transformed, where it can (Linux 6.9, as root).
    pub passthrough: bool,
    /// Bytes of transformed files that are kept for further reads.
    pub cache_bytes: usize,
    /// A directory in which indexes of gzip files are kept for the next mount, instead of that which the rules name.
    pub index_cache: Option<PathBuf>,
    /// Bytes of it, at most.
    pub index_cache_bytes: u64,
    /// Threads that serve programs.
    pub threads: usize,
    /// Where messages go.
    pub log: Log,
}

impl Default for Options {
    /// As the owner, for the owner; 32 MiB; more threads than CPUs, because some wait for transforms.
    fn default() -> Options {
        Options {
            read_only: false,
            allow_other: false,
            passthrough: true,
            cache_bytes: 32 << 20,
            index_cache: None,
            index_cache_bytes: 1 << 30,
            threads: 32,
            log: Log::Stderr,
        }
    }
}

/// A mount that is not served yet.
pub struct Mount {
    session: Session<Served>,
    mounted: Arc<Mounted>,
    mount_point: PathBuf,
}

impl Mount {
    /// Mounts `source` on `mount_point`. Programs that use it wait until it is [served](Mount::serve).
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn new(source: &Path, mount_point: &Path, rules: Rules, options: &Options) -> Result<Mount, String> {
        let source_path = directory(source)?;
        let mount_point = directory(mount_point)?;
        if mount_point.starts_with(&source_path) || source_path.starts_with(&mount_point) {
            return Err(format!(
                "'{}' and '{}' are one in the other: mount it on a directory elsewhere",
                mount_point.display(),
                source_path.display()
            ));
        }
        let index_cache = options.index_cache.as_ref().or(rules.index_cache.as_ref());
        let kept = index_cache.map(|path| kept_indexes(path, &mount_point, options.index_cache_bytes)).transpose()?;
        let files = allow_many_files();
        let common = Common::new(options.cache_bytes, kept, options.log);
        let mounted = Mounted::new(&source_path, rules, common, files / 4, options.read_only);
        let mounted = Arc::new(mounted.map_err(|error| format!("cannot open '{}': {error}", source.display()))?);
        let served = Served { mounted: Arc::clone(&mounted), passes_through: options.passthrough };
        let session = Session::new(served, &mount_point, &config(&source_path, options));
        let session = session.map_err(|error| why_not(&mount_point, options, &error))?;
        let _ = mounted.notifier.set(session.notifier());
        read_further_ahead(&mount_point);
        Ok(Mount { session, mounted, mount_point })
    }

    /// What ends the mount, from another thread.
    pub fn unmounter(&mut self) -> Unmounter {
        let mounted = Arc::clone(&self.mounted);
        Unmounter { session: self.session.unmount_callable(), mounted, mount_point: self.mount_point.clone() }
    }

    /// Serves programs until the directory is unmounted.
    ///
    /// # Errors
    /// The connection to the kernel is lost.
    pub fn serve(self) -> Result<(), String> {
        let served = self.session.run();
        self.mounted.close_all();
        served.map_err(|error| format!("lost the connection to the kernel: {error}"))
    }
}

impl std::fmt::Debug for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mount").field("mount_point", &self.mount_point).finish_non_exhaustive()
    }
}

/// Ends a mount.
pub struct Unmounter {
    session: SessionUnmounter,
    mounted: Arc<Mounted>,
    mount_point: PathBuf,
}

impl Unmounter {
    /// Unmounts the directory. Programs that have files open keep them until they close them.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn unmount(&mut self) -> Result<(), String> {
        let Err(error) = self.session.unmount() else { return Ok(()) };
        let detached = rustix::mount::unmount(&self.mount_point, UnmountFlags::DETACH);
        detached.map_err(|_| format!("cannot unmount '{}': {error}", self.mount_point.display()))
    }

    /// Puts what programs have written into the sources, and ends this process: they get errors from now on.
    pub fn abandon(&mut self) -> ! {
        self.mounted.commit_all();
        std::process::exit(0)
    }
}

impl std::fmt::Debug for Unmounter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unmounter").field("mount_point", &self.mount_point).finish_non_exhaustive()
    }
}

fn directory(path: &Path) -> Result<PathBuf, String> {
    let canonical = std::fs::canonicalize(path);
    let canonical = canonical.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOTCONN) => {
            format!("'{0}' is still mounted by a daemon that has died; unmount it first: umount '{0}'", path.display())
        }
        _ => format!("cannot open '{}': {error}", path.display()),
    })?;
    if canonical.is_dir() { Ok(canonical) } else { Err(format!("'{}' is no directory", path.display())) }
}

/// The directory of indexes, which must not be where only this process could serve it.
fn kept_indexes(path: &Path, mount_point: &Path, most: u64) -> Result<KeptIndexes, String> {
    let unusable = |error| format!("cannot keep indexes in '{}': {error}", path.display());
    let kept = KeptIndexes::open(path, most).map_err(unusable)?;
    if std::fs::canonicalize(path).map_err(unusable)?.starts_with(mount_point) {
        return Err(format!(
            "'{}' is in '{}', where the files will be: keep indexes elsewhere",
            path.display(),
            mount_point.display()
        ));
    }
    Ok(kept)
}

/// Bytes that the kernel asks for at once, at most: two blocks. Half of it wakes twice as many threads; with four times as much
/// transforms in place leave the second-level cache of a CPU.
const READ_MOST: usize = 2 * BLOCK;

/// KiB that the kernel reads ahead of a program that reads in order. With its own 128 it waits for each piece.
const READ_AHEAD: usize = 2 * (READ_MOST >> 10);

/// The protocol lets a daemon lower what the kernel reads ahead, and only root raise it, elsewhere. Others do without.
fn read_further_ahead(mount_point: &Path) {
    // The daemon does not answer yet, so the kernel must not ask it.
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let Ok(stat) = statx(CWD, mount_point, flags, StatxFlags::empty()) else { return };
    let setting = format!("/sys/class/bdi/{}:{}/read_ahead_kb", stat.stx_dev_major, stat.stx_dev_minor);
    let _ = std::fs::write(setting, READ_AHEAD.to_string());
}

fn config(source: &Path, options: &Options) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(format!("{DEVICE}{}", source.to_string_lossy().replace(',', "\\054"))),
        MountOption::DefaultPermissions,
        MountOption::CUSTOM(format!("max_read={READ_MOST}")),
        MountOption::NoDev,
        MountOption::NoSuid,
    ];
    if options.read_only {
        config.mount_options.push(MountOption::RO);
    }
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads.max(2));
    config.clone_fd = true;
    config
}

fn why_not(mount_point: &Path, options: &Options, error: &io::Error) -> String {
    let mount_point = mount_point.display();
    let told = error.to_string();
    let told = told.trim_end().trim_start_matches("fusermount3: ");
    match error.kind() {
        io::ErrorKind::NotFound if !Path::new(DEVICE_FILE).exists() => format!(
            "there is no {DEVICE_FILE}: load the kernel's module 'fuse', or have the container be given the device"
        ),
        io::ErrorKind::NotFound => {
            format!("cannot mount on '{mount_point}': only root can without 'fusermount3' (package fuse3)")
        }
        io::ErrorKind::PermissionDenied if options.allow_other && told.contains("user_allow_other") => format!(
            "cannot let other users in: {FUSE_CONF} has no line 'user_allow_other' (have root add it, or mount without --allow-other)"
        ),
        io::ErrorKind::PermissionDenied if !can_open_device() => format!(
            "cannot mount on '{mount_point}': this user may not open {DEVICE_FILE} (mount as root, or have root run: chmod 666 {DEVICE_FILE})"
        ),
        _ => format!("cannot mount on '{mount_point}': {told}"),
    }
}

fn can_open_device() -> bool {
    std::fs::OpenOptions::new().read(true).write(true).open(DEVICE_FILE).is_ok()
}

/// Descriptors that a mount has use for, at most.
const FILES: u64 = 1 << 20;

/// Each file that the kernel remembers takes a descriptor. Returns how many there may be.
fn allow_many_files() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Root may have more than it was given; others as many as they were.
    for most in [Some(FILES.max(maximum.unwrap_or(FILES))), maximum] {
        if setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).is_ok() {
            return most.unwrap_or(FILES) as usize;
        }
    }
    current.unwrap_or(FILES) as usize
}
