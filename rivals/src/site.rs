//! Where a stream's names live, and who removes them.
//!
//! ```text
//! connect() ──spawn──▶ janitor, asleep in read
//!    │  lease (the write end of a pipe) ─────────▲
//!    ├─fork─▶ writer, has a copy of the lease ───┤  the last copy is closed, or dies with its process
//!    └─fork─▶ reader, has a copy of the lease ───┘
//! ```
//!
//! These libraries name files, sockets and shared memory, and a process that is killed takes none of it away. So each
//! stream has names of its own, and a process of its own that sleeps until nobody is left who could use them, whichever
//! way they ended, then removes them.
#![allow(unsafe_code)]

use std::hash::{BuildHasher, RandomState};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use millstream_sys::fork::{self, Side};

/// Where `shm_open` puts its names, and memory for everything else.
const SHARED_MEMORY: &str = "/dev/shm";

/// Sleeps until the lease is over, then removes $1, which is a directory, and whatever beside it has a name that starts so.
const JANITOR: &str = r#"read -r _; rm -rf -- "$1" "$1"*"#;

/// Processes that this one has started and not reaped.
static JANITORS: Mutex<Vec<process::Child>> = Mutex::new(Vec::new());
static HELPERS: Mutex<Vec<fork::Child>> = Mutex::new(Vec::new());

/// Names for one stream, or for several that need the same helper. They are removed when the last process that has a
/// copy of this value has dropped it or ended.
pub struct Site {
    id: String,
    directory: PathBuf,
    /// Held, not used: what counts is that they are open.
    leases: Vec<PipeWriter>,
}

impl Site {
    /// A new directory and a new prefix of names in shared memory.
    ///
    /// # Errors
    /// A sentence: why there can be none.
    pub fn new() -> Result<Site, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (count, random) = (COUNT.fetch_add(1, Relaxed), RandomState::new().hash_one(0));
        let id = format!("millstream-rivals-{}-{count}-{random:016x}", std::process::id());
        let directory = Path::new(SHARED_MEMORY).join(&id);
        let cannot = |what: &str, error: io::Error| format!("cannot {what}: {error}");
        let (lease_end, lease) = io::pipe().map_err(|error| cannot("make a pipe", error))?;
        hire(lease_end, &directory).map_err(|error| cannot("start /bin/sh to clean up", error))?;
        let made = std::fs::DirBuilder::new().mode(0o700).create(&directory);
        made.map_err(|error| cannot(&format!("make a directory in {SHARED_MEMORY}"), error))?;
        Ok(Site { id, directory, leases: vec![lease] })
    }

    /// Forks a process that runs `role` for as long as the site is there, and not longer than this one.
    ///
    /// # Errors
    /// A sentence.
    pub fn add_helper(&mut self, role: impl FnOnce(&Path)) -> Result<(), String> {
        let (lease_end, lease) = io::pipe().map_err(|error| format!("cannot make a pipe: {error}"))?;
        // SAFETY: the child ends in `serve`. What it needs of other threads is the allocator, which survives a fork.
        match unsafe { fork::fork() }.map_err(|error| format!("cannot start a helper: {error}"))? {
            Side::Child => serve(lease_end, || role(&self.directory)),
            Side::Parent(child) => lock(&HELPERS).push(child),
        }
        self.leases.push(lease);
        Ok(())
    }

    /// What the names of shared memory must start with.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where files and sockets go.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// What a helper does: `role`, until the lease is over.
fn serve(mut lease_end: PipeReader, role: impl FnOnce()) -> ! {
    // Copies of leases are among the descriptors that came with the fork, and would keep their sites for ever.
    let kept = lease_end.as_raw_fd().unsigned_abs();
    for (first, last) in [(3, kept.saturating_sub(1)), (kept + 1, u32::MAX)] {
        if first <= last {
            // SAFETY: whatever owns these descriptors is never used again in this process.
            unsafe { libc::close_range(first, last, 0) };
        }
    }
    let watch = std::thread::Builder::new().spawn(move || {
        let _ = lease_end.read(&mut [0]);
        fork::exit_at_once(0)
    });
    if watch.is_ok() {
        role();
    }
    fork::exit_at_once(1)
}

/// Starts the janitor before there is anything to remove, in a group of its own: an interrupt at the terminal is not for
/// it.
fn hire(lease_end: PipeReader, directory: &Path) -> io::Result<()> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", JANITOR, "millstream-rivals-janitor"]).arg(directory);
    let janitor = shell.stdin(lease_end).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()?;
    let mut janitors = lock(&JANITORS);
    janitors.retain_mut(|janitor| !matches!(janitor.try_wait(), Ok(Some(_))));
    janitors.push(janitor);
    Ok(())
}

/// Sleeps until the helpers of sites that are over have ended, and everything is removed. Does not return while a stream
/// is in use.
pub fn settle() {
    settle_helpers();
    for mut janitor in std::mem::take(&mut *lock(&JANITORS)) {
        // One that cannot be waited for was reaped by somebody else.
        let _ = janitor.wait();
    }
}

/// Sleeps until the helpers of sites that are over have ended.
pub(crate) fn settle_helpers() {
    for helper in std::mem::take(&mut *lock(&HELPERS)) {
        let _ = helper.wait();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
