//! The content of a transformed file: one for all programs that have it open.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rustix::fs::{OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use crate::blocks::Piece;
use crate::common::Common;
use crate::in_place::Transformed;
use crate::reading::Reading;
use crate::rules::SizeFrom;
use crate::source::{Object, Result, Version};
use crate::view::{Shape, View};
use crate::writing::{Target, Writing};

/// A source as a view shows it.
pub(crate) struct Content {
    view: Arc<View>,
    common: Arc<Common>,
    /// For messages.
    name: PathBuf,
    how: How,
    /// Programs that have it open.
    openers: Mutex<usize>,
}

enum How {
    InPlace {
        bytes: Transformed,
        /// While any program has it open.
        file: Mutex<Option<Arc<File>>>,
        /// Of the source, when a program last opened it.
        seen: Mutex<Option<Version>>,
    },
    Converted {
        reading: Reading,
        writing: Mutex<Writing>,
    },
}

/// What the attributes of a transformed file are, where they are not those of its source.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) size: u64,
    /// Since when programs have written what is not in the source yet.
    pub(crate) written: Option<SystemTime>,
    /// Whether the size says nothing.
    pub(crate) is_unknown: bool,
}

impl Content {
    /// `openers`: programs that have the file open already, in another view.
    pub(crate) fn new(view: Arc<View>, common: Arc<Common>, name: PathBuf, openers: usize) -> Content {
        let how = match view.shape() {
            Shape::InPlace => How::InPlace {
                bytes: Transformed::new(Arc::clone(&view), Arc::clone(&common)),
                file: Mutex::default(),
                seen: Mutex::default(),
            },
            _ => How::Converted {
                reading: Reading::new(Arc::clone(&view), Arc::clone(&common)),
                writing: Mutex::default(),
            },
        };
        Content { view, common, name, how, openers: Mutex::new(openers) }
    }

    pub(crate) fn view(&self) -> &Arc<View> {
        &self.view
    }

    fn openers(&self) -> MutexGuard<'_, usize> {
        self.openers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many programs have it open.
    pub(crate) fn opener_count(&self) -> usize {
        *self.openers()
    }

    /// A program opens it. Returns whether what the kernel may have kept of it is old.
    pub(crate) fn opened(&self, object: &Object) -> Result<bool> {
        let mut openers = self.openers();
        let is_changed = match &self.how {
            How::InPlace { seen, .. } => {
                let now = Version::of(&object.stat()?);
                let before = seen.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
                before != Some(now)
            }
            How::Converted { reading, .. } => reading.look_at(object)?,
        };
        *openers += 1;
        Ok(is_changed)
    }

    /// A program has closed it for good. What nothing has committed by now is committed.
    pub(crate) fn closed(&self, object: &Object) -> Result<Option<Object>> {
        let mut openers = self.openers();
        *openers = openers.saturating_sub(1);
        if *openers > 0 {
            return Ok(None);
        }
        match &self.how {
            How::InPlace { file, .. } => {
                *file.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Ok(None)
            }
            How::Converted { reading, writing } => {
                let mut writing = locked(writing);
                let committed = self.commit_locked(&mut writing, reading, object, false);
                writing.rest();
                reading.rest();
                committed
            }
        }
    }

    pub(crate) fn shown(&self, object: &Object) -> Result<Shown> {
        match &self.how {
            How::InPlace { .. } => Ok(Shown { size: object.stat()?.st_size as u64, written: None, is_unknown: false }),
            How::Converted { reading, writing } => {
                let (size, written) = {
                    let writing = locked(writing);
                    (writing.len(), writing.written.filter(|_| writing.is_dirty()))
                };
                let size = match size {
                    Some(size) => Some(size),
                    None => reading.size(object, &self.name)?,
                };
                Ok(Shown { size: size.unwrap_or(0), written, is_unknown: size.is_none() })
            }
        }
    }

    /// The same without reading the source through; `None` if that would be needed.
    pub(crate) fn shown_at_once(&self, object: &Object) -> Result<Option<Shown>> {
        let How::Converted { reading, writing } = &self.how else { return self.shown(object).map(Some) };
        if locked(writing).len().is_none() && self.view.size_from() == SizeFrom::Scan {
            reading.look_at(object)?;
            if reading.size_told(object, &self.name)?.is_none() {
                return Ok(None);
            }
        }
        self.shown(object).map(Some)
    }

    pub(crate) fn read(&self, object: &Object, offset: u64, len: usize) -> Result<Piece> {
        match &self.how {
            How::InPlace { bytes, file, .. } => {
                bytes.read(&*opened_source(file, object)?, &self.name, offset, len).map(Piece::from)
            }
            How::Converted { reading, writing } => {
                let written = locked(writing).read(&self.target(object, reading), offset, len)?;
                match written {
                    Some(bytes) => Ok(bytes.into()),
                    None => reading.read(object, &self.name, offset, len),
                }
            }
        }
    }

    pub(crate) fn write(&self, object: &Object, offset: u64, bytes: &[u8], thread: u32) -> Result<()> {
        self.check_writable(object)?;
        match &self.how {
            How::InPlace { bytes: transformed, file, .. } => {
                transformed.write(&*opened_source(file, object)?, &self.name, offset, bytes)
            }
            How::Converted { reading, writing } => {
                locked(writing).write(&self.target(object, reading), offset, bytes, thread)
            }
        }
    }

    /// Changes the size. Returns the new source, if there is one at once: no program has the file open.
    pub(crate) fn set_len(&self, object: &Object, len: u64, thread: u32) -> Result<Option<Object>> {
        self.check_writable(object)?;
        match &self.how {
            How::InPlace { bytes, .. } => {
                bytes.set_len(&object.open(OFlags::RDWR)?, &self.name, len)?;
                Ok(None)
            }
            How::Converted { reading, writing } => {
                let openers = self.openers();
                let mut writing = locked(writing);
                writing.set_len(&self.target(object, reading), len, thread)?;
                match *openers {
                    0 => self.commit_locked(&mut writing, reading, object, false),
                    _ => Ok(None),
                }
            }
        }
    }

    /// A thread closes a descriptor: what its process has written is put into the source.
    pub(crate) fn flush(&self, object: &Object, closer: u32) -> Result<Option<Object>> {
        let How::Converted { writing, .. } = &self.how else { return Ok(None) };
        if !locked(writing).ends_with(closer) {
            return Ok(None);
        }
        self.commit(object, false)
    }

    /// Puts what was written into the source, and on disk if `is_synced`. Returns the new source, if another file has taken its
    /// place.
    pub(crate) fn commit(&self, object: &Object, is_synced: bool) -> Result<Option<Object>> {
        match &self.how {
            How::InPlace { file, .. } => {
                if is_synced {
                    opened_source(file, object)?.sync_all().map_err(|error| crate::in_place::errno(&error))?;
                }
                Ok(None)
            }
            How::Converted { reading, writing } => self.commit_locked(&mut locked(writing), reading, object, is_synced),
        }
    }

    /// A program has set the times of the source: a new version gets them too.
    pub(crate) fn times_were_set(&self) {
        if let How::Converted { writing, .. } = &self.how {
            locked(writing).written = None;
        }
    }

    fn commit_locked(
        &self,
        writing: &mut Writing,
        reading: &Reading,
        object: &Object,
        is_synced: bool,
    ) -> Result<Option<Object>> {
        let (before, path) = (object.stat()?, object.path()?);
        let len = writing.len();
        if !writing.commit(&self.target(object, reading), is_synced)? || before.st_nlink == 0 {
            return Ok(None);
        }
        let new = Object::at(&path)?;
        if writing.written.is_none() {
            let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds as _ };
            new.set_times(&Timestamps {
                last_access: time(before.st_atime, before.st_atime_nsec),
                last_modification: time(before.st_mtime, before.st_mtime_nsec),
            })?;
        }
        reading.replaced(&new, len)?;
        Ok(Some(new))
    }

    /// Whether it can be written at all.
    pub(crate) fn check_writable(&self, object: &Object) -> Result<()> {
        if !self.view.can_be_written() {
            return Err(Errno::OPNOTSUPP);
        }
        if matches!(self.how, How::Converted { .. }) && object.stat()?.st_nlink > 1 {
            self.common.report(&self.name, "it has several names (hard links), and only one would be replaced");
            return Err(Errno::OPNOTSUPP);
        }
        Ok(())
    }

    /// Whether programs are told no size.
    pub(crate) fn is_size_unknown(&self, object: &Object) -> Result<bool> {
        Ok(self.view.size_from() == SizeFrom::Unknown && self.shown(object)?.is_unknown)
    }

    fn target<'a>(&'a self, object: &'a Object, reading: &'a Reading) -> Target<'a> {
        Target { view: &self.view, common: &self.common, object, reading, name: &self.name }
    }
}

fn locked(writing: &Mutex<Writing>) -> MutexGuard<'_, Writing> {
    writing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The source, open for what the daemon may do with it.
fn opened_source(file: &Mutex<Option<Arc<File>>>, object: &Object) -> Result<Arc<File>> {
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = &*file {
        return Ok(Arc::clone(file));
    }
    let opened = match object.open(OFlags::RDWR) {
        Err(Errno::ACCESS | Errno::ROFS | Errno::PERM | Errno::TXTBSY) => object.open(OFlags::RDONLY)?,
        opened => opened?,
    };
    Ok(Arc::clone(file.insert(Arc::new(opened))))
}
