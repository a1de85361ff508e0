//! New content for files that cannot be written in place.
//!
//! ```text
//!            first write at the end                    write elsewhere, or read
//!   Clean ────────────────────────▶ Stream ─────────────────────────────────────▶ Spool
//!     ▲   the new version is made     │   the new version is decompressed into a    │
//!     │   while the program writes    │   file without a name and written there     │
//!     ╰───────────── close or fsync: the new version takes the place of the old ────╯
//! ```
//!
//! Until then the old version is in the source, whole; after it, the new one. A version that could not be made is dropped, and
//! the program gets EIO.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use millstream_net::NetworkError;
use millstream_net::run::Pour;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::calls::{errno, read_at};
use crate::common::{Common, add};
use crate::reading::Reading;
use crate::source::{Object, Result};
use crate::version::Version;
use crate::view::View;
use crate::writers::Writers;

/// What programs have written, and the source does not have yet.
#[derive(Default)]
pub(crate) struct Writing {
    state: State,
    /// When a program last wrote.
    pub(crate) written: Option<SystemTime>,
    writers: Writers,
}

#[derive(Default)]
enum State {
    #[default]
    Clean,
    Stream(Stream),
    Spool(Spool),
    /// The new version could not be made. Nothing more can be written until all have closed the file.
    Failed,
}

/// A new version that grows at its end.
struct Stream {
    pour: Pour,
    version: Arc<Mutex<Version>>,
    /// As programs see it.
    len: u64,
}

/// The content as programs see it, in a file without a name.
struct Spool {
    file: File,
    len: u64,
    is_dirty: bool,
}

/// What the functions here need to know of a file.
pub(crate) struct Target<'a> {
    pub(crate) view: &'a View,
    pub(crate) common: &'a Common,
    pub(crate) object: &'a Object,
    pub(crate) reading: &'a Reading,
    /// For messages.
    pub(crate) name: &'a Path,
}

/// Bytes that are moved at once.
const PIECE: usize = 256 << 10;

impl Writing {
    /// The size as programs see it, if it is not that of the source.
    pub(crate) fn len(&self) -> Option<u64> {
        match &self.state {
            State::Clean | State::Failed => None,
            State::Stream(stream) => Some(stream.len),
            State::Spool(spool) => Some(spool.len),
        }
    }

    /// Whether the source is older than what programs have written.
    pub(crate) fn is_dirty(&self) -> bool {
        match &self.state {
            State::Clean | State::Failed => false,
            State::Stream(_) => true,
            State::Spool(spool) => spool.is_dirty,
        }
    }

    /// Reads what programs have written; `None` if the source has it.
    pub(crate) fn read(&mut self, target: &Target<'_>, offset: u64, len: usize) -> Result<Option<Vec<u8>>> {
        if let State::Stream(_) = self.state {
            self.spool(target)?;
        }
        let State::Spool(spool) = &self.state else { return Ok(None) };
        let len = len.min(usize::try_from(spool.len.saturating_sub(offset)).unwrap_or(usize::MAX));
        let mut bytes = vec![0; len];
        let count = read_at(&spool.file, &mut bytes, offset)?;
        bytes.truncate(count);
        Ok(Some(bytes))
    }

    /// `thread`: that of the program.
    pub(crate) fn write(&mut self, target: &Target<'_>, offset: u64, bytes: &[u8], thread: u32) -> Result<()> {
        self.writers.add(thread);
        if let State::Clean = self.state {
            self.begin(target, offset)?;
        }
        self.written = Some(SystemTime::now());
        if let State::Stream(stream) = &mut self.state
            && stream.len == offset
        {
            if let Err(failure) = stream.pour.write_all(bytes) {
                return Err(self.fail(target, &failure));
            }
            stream.len += bytes.len() as u64;
            return Ok(());
        }
        let spool = self.spool(target)?;
        spool.file.write_all_at(bytes, offset).map_err(|error| errno(&error))?;
        spool.len = spool.len.max(offset + bytes.len() as u64);
        spool.is_dirty = true;
        Ok(())
    }

    /// `thread`: that of the program.
    pub(crate) fn set_len(&mut self, target: &Target<'_>, len: u64, thread: u32) -> Result<()> {
        self.writers.add(thread);
        self.written = Some(SystemTime::now());
        if len == 0 {
            // Whatever was there, and whether it could be made or not.
            return self.begin_new(target);
        }
        let spool = self.spool(target)?;
        spool.file.set_len(len).map_err(|error| errno(&error))?;
        (spool.len, spool.is_dirty) = (len, true);
        Ok(())
    }

    /// Whether a thread that closes a descriptor ends the writing of its process.
    pub(crate) fn ends_with(&self, closer: u32) -> bool {
        self.writers.may_include_process_of(closer)
    }

    /// Puts the new version in the place of the old one, and on disk if `is_synced`. Returns whether there was a new one.
    pub(crate) fn commit(&mut self, target: &Target<'_>, is_synced: bool) -> Result<bool> {
        if let State::Failed = self.state {
            return Err(Errno::IO);
        }
        // Without a name there is no place to put it: what is written is gone when the last program closes the file.
        if !self.is_dirty() || target.object.stat()?.st_nlink == 0 {
            return Ok(false);
        }
        let version = match std::mem::take(&mut self.state) {
            State::Stream(Stream { pour, version, .. }) => pour.finish().map(|()| version),
            State::Spool(spool) => {
                let made = spool.version(target);
                self.state = State::Spool(Spool { is_dirty: false, ..spool });
                made
            }
            State::Clean | State::Failed => return Ok(false),
        };
        let version = version.map_err(|failure| self.fail(target, &failure))?;
        self.writers.clear();
        self.place(target, version, is_synced)?;
        add(&target.common.counts.versions, 1);
        Ok(true)
    }

    /// All have closed the file, and what they wrote is in the source or lost.
    pub(crate) fn rest(&mut self) {
        self.state = State::Clean;
        self.written = None;
        self.writers.clear();
    }

    fn place(&mut self, target: &Target<'_>, version: Arc<Mutex<Version>>, is_synced: bool) -> Result<()> {
        let lost = |what: &dyn std::fmt::Display| {
            target.common.report(target.name, format_args!("the new version was dropped: {what}"));
            Errno::IO
        };
        let version = Arc::into_inner(version).ok_or_else(|| lost(&"it is still being written"))?;
        let version = version.into_inner().unwrap_or_else(PoisonError::into_inner);
        version.place(target.object, is_synced).map_err(|error| {
            self.state = State::Failed;
            lost(&error)
        })
    }

    /// Begins to write at `offset` into a file that is as its source says.
    fn begin(&mut self, target: &Target<'_>, offset: u64) -> Result<()> {
        let told = target.reading.size_told(target.object, target.name)?;
        if offset == 0 && told == Some(0) {
            return self.begin_new(target);
        }
        if target.view.is_concatenable() && target.reading.size(target.object, target.name)? == Some(offset) {
            return self.begin_behind(target, offset);
        }
        self.spool(target).map(drop)
    }

    /// Begins a version from nothing.
    fn begin_new(&mut self, target: &Target<'_>) -> Result<()> {
        self.state = State::Clean;
        let version = new_version(target)?;
        self.stream(target, version, 0)
    }

    /// Begins a version with the old one, compressed as it is.
    fn begin_behind(&mut self, target: &Target<'_>, len: u64) -> Result<()> {
        let mut version = new_version(target)?;
        let mut old = target.object.open(OFlags::RDONLY)?;
        std::io::copy(&mut old, &mut version).map_err(|error| errno(&error))?;
        self.stream(target, version, len)
    }

    fn stream(&mut self, target: &Target<'_>, version: Version, len: u64) -> Result<()> {
        let version = Arc::new(Mutex::new(version));
        let pour = target.view.pour(version.clone()).map_err(|failure| self.fail(target, &failure))?;
        self.state = State::Stream(Stream { pour, version, len });
        Ok(())
    }

    /// Has the content in a file without a name.
    fn spool(&mut self, target: &Target<'_>) -> Result<&mut Spool> {
        match std::mem::take(&mut self.state) {
            State::Failed => {
                self.state = State::Failed;
                return Err(Errno::IO);
            }
            State::Spool(spool) => self.state = State::Spool(spool),
            State::Clean => {
                let spool = Spool::of_source(target)?;
                self.state = State::Spool(spool);
            }
            State::Stream(Stream { pour, version, len }) => {
                let file = pour.finish().and_then(|()| unpacked(target, &version));
                let file = file.map_err(|failure| self.fail(target, &failure))?;
                self.state = State::Spool(Spool { file, len, is_dirty: true });
            }
        }
        match &mut self.state {
            State::Spool(spool) => Ok(spool),
            _ => Err(Errno::IO),
        }
    }

    fn fail(&mut self, target: &Target<'_>, failure: &NetworkError) -> Errno {
        self.state = State::Failed;
        target.common.failed(target.name, failure)
    }
}

impl Spool {
    fn of_source(target: &Target<'_>) -> Result<Spool> {
        let file = nameless(target)?;
        let mut len = 0;
        loop {
            let bytes = target.reading.read(target.object, target.name, len, PIECE)?;
            if bytes.is_empty() {
                return Ok(Spool { file, len, is_dirty: false });
            }
            file.write_all_at(&bytes, len).map_err(|error| errno(&error))?;
            len += bytes.len() as u64;
        }
    }

    /// The content, through the write network.
    fn version(&self, target: &Target<'_>) -> std::result::Result<Arc<Mutex<Version>>, NetworkError> {
        let made = new_version(target).map_err(|error| unreadable(error.into()))?;
        let version = Arc::new(Mutex::new(made));
        let mut pour = target.view.pour(version.clone())?;
        let (mut offset, mut piece) = (0, vec![0; PIECE]);
        while offset < self.len {
            let count = read_at(&self.file, &mut piece, offset).map_err(|error| unreadable(error.into()))?;
            let count = count.min(usize::try_from(self.len - offset).unwrap_or(usize::MAX));
            if count == 0 {
                return Err(unreadable(std::io::ErrorKind::UnexpectedEof.into()));
            }
            pour.write_all(&piece[..count])?;
            offset += count as u64;
        }
        pour.finish()?;
        Ok(version)
    }
}

fn unreadable(error: std::io::Error) -> NetworkError {
    NetworkError::Source { name: "what was written".into(), offset: 0, error }
}

/// The content of a version that was not put in place.
fn unpacked(target: &Target<'_>, version: &Mutex<Version>) -> std::result::Result<File, NetworkError> {
    let mut packed = version.lock().unwrap_or_else(PoisonError::into_inner).reopen().map_err(unreadable)?;
    packed.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    let is_empty = packed.metadata().map_err(unreadable)?.len() == 0;
    let mut file = nameless(target).map_err(|error| unreadable(error.into()))?;
    if is_empty {
        return Ok(file);
    }
    let name = "what was written".to_owned();
    let bytes: Box<dyn Read + Send> = Box::new(packed);
    let mut pull = target.view.pull(millstream_net::Input { bytes, name, offset: 0 })?;
    let mut piece = vec![0; PIECE];
    loop {
        let count = pull.fill(&mut piece)?;
        file.write_all(&piece[..count]).map_err(unreadable)?;
        if count < piece.len() {
            return Ok(file);
        }
    }
}

fn new_version(target: &Target<'_>) -> Result<Version> {
    Version::new(target.object).inspect_err(|error| {
        target.common.report(target.name, format_args!("a new version cannot be begun: {error}"));
    })
}

/// A file without a name, on the file system of the source where that can make one.
fn nameless(target: &Target<'_>) -> Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let owners_alone = Mode::RUSR | Mode::WUSR;
    let (directory, _) = target.object.directory()?;
    let made = rustix::fs::openat(directory, ".", flags, owners_alone);
    made.or_else(|_| rustix::fs::open(std::env::temp_dir(), flags, owners_alone)).map(File::from)
}
