//! What all files of a mount share: the log, the counters, the cache.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use millstream_net::NetworkError;
use rustix::io::Errno;

use crate::blocks::Blocks;
use crate::index::gzip::Checkpoints;
use crate::index::kept::KeptIndexes;

/// Where a daemon's messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Log {
    /// The standard error: it runs in the foreground.
    Stderr,
    /// The system's log.
    Syslog,
}

/// Shared by all files of a mount.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) blocks: Blocks,
    pub(crate) counts: Counts,
    /// Where indexes are kept for the next mount.
    pub(crate) kept: Option<KeptIndexes>,
    /// Whether it was told that they cannot be.
    is_kept_in_vain: AtomicBool,
    log: Log,
    syslog: Mutex<Option<UnixDatagram>>,
}

/// What happened since the mount began.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) opens: AtomicU64,
    pub(crate) open_files: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    /// Blocks of transformed bytes that were there, and those that had to be made.
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    /// New versions of files that were put in place.
    pub(crate) versions: AtomicU64,
    pub(crate) errors: AtomicU64,
}

impl Counts {
    /// As JSON, with the names that `millstream mounts` shows.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let read = |count: &AtomicU64| count.load(Relaxed);
        serde_json::json!({
            "opens": read(&self.opens),
            "open_files": read(&self.open_files),
            "bytes_read": read(&self.bytes_read),
            "bytes_written": read(&self.bytes_written),
            "cache_hits": read(&self.hits),
            "cache_misses": read(&self.misses),
            "versions_written": read(&self.versions),
            "errors": read(&self.errors),
        })
    }
}

pub(crate) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Relaxed);
}

/// `LOG_DAEMON | LOG_ERR`, RFC 3164.
const PRIORITY: &str = "<27>";

impl Common {
    pub(crate) fn new(cache_bytes: usize, kept: Option<KeptIndexes>, log: Log) -> Common {
        Common {
            blocks: Blocks::of(cache_bytes),
            counts: Counts::default(),
            kept,
            is_kept_in_vain: AtomicBool::new(false),
            log,
            syslog: Mutex::default(),
        }
    }

    /// Keeps checkpoints of a source for the next mount. That they cannot be is told once, and does no harm.
    pub(crate) fn keep(&self, source: &File, name: &Path, checkpoints: &Checkpoints) {
        let Some(kept) = &self.kept else { return };
        if checkpoints.take_new()
            && let Err(error) = kept.save(source, checkpoints)
            && !self.is_kept_in_vain.swap(true, Relaxed)
        {
            self.note(name, format_args!("cannot keep its index in the directory of 'index_cache': {error}"));
        }
    }

    /// A network could not do its work on a file: one line in the log, and EIO for the program.
    pub(crate) fn failed(&self, file: &Path, failure: &NetworkError) -> Errno {
        self.report(file, failure);
        Errno::IO
    }

    /// The same for whatever else goes wrong with a file.
    pub(crate) fn report(&self, file: &Path, what: impl Display) {
        add(&self.counts.errors, 1);
        self.write(&format!("{}: {what}", file.display()));
    }

    /// Says what is to be known of a file, and no error.
    pub(crate) fn note(&self, file: &Path, what: impl Display) {
        self.write(&format!("{}: {what}", file.display()));
    }

    /// Writes a line to the log.
    pub(crate) fn write(&self, line: &str) {
        match self.log {
            // Nothing is left to tell where even this fails.
            Log::Stderr => drop(writeln!(std::io::stderr(), "millstream mount: {line}")),
            Log::Syslog => self.write_to_syslog(line),
        }
    }

    fn write_to_syslog(&self, line: &str) {
        let Ok(mut socket) = self.syslog.lock() else { return };
        if socket.is_none() {
            *socket = UnixDatagram::unbound().ok().filter(|socket| socket.connect("/dev/log").is_ok());
        }
        let message = format!("{PRIORITY}millstream[{}]: {line}", std::process::id());
        // The logger may have been restarted: the next line connects again.
        if socket.as_ref().is_some_and(|socket| socket.send(message.as_bytes()).is_err()) {
            *socket = None;
        }
    }
}
