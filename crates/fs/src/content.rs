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
use crate::line::SizeFrom;
use crate::reading::Reading;
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
    /// `changes`: see [`Content::changes`].
    pub(crate) fn new(view: Arc<View>, common: Arc<Common>, name: PathBuf, changes: u64) -> Content {
        let how = match view.shape() {
            Shape::InPlace => How::InPlace {
                bytes: Transformed::new(Arc::clone(&view), Arc::clone(&common)),
                file: Mutex::default(),
                seen: Mutex::default(),
            },
            _ => How::Converted {
                reading: Reading::new(Arc::clone(&view), Arc::clone(&common), changes),
                writing: Mutex::default(),
            },
        };
        Content { view, common, name, how }
    }

    pub(crate) fn view(&self) -> &Arc<View> {
        &self.view
    }

    pub(crate) fn common(&self) -> &Arc<Common> {
        &self.common
    }

    /// How often others have changed the source. A program that has opened it before gets no more bytes.
    pub(crate) fn changes(&self) -> u64 {
        match &self.how {
            How::InPlace { .. } => 0,
            How::Converted { reading, .. } => reading.changes(),
        }
    }

    /// A program opens it. Returns whether what the kernel may have kept of it is old.
    pub(crate) fn opened(&self, object: &Object) -> Result<bool> {
        match &self.how {
            How::InPlace { seen, .. } => {
                let now = Version::of(&object.stat()?);
                let before = seen.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
                Ok(before != Some(now))
            }
            How::Converted { reading, .. } => reading.look_at(object),
        }
    }

    /// The last program has closed it. What nothing has committed by now is committed.
    pub(crate) fn closed(&self, object: &Object) -> Result<Option<Object>> {
        match &self.how {
            How::InPlace { file, .. } => {
                *file.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Ok(None)
            }
            How::Converted { reading, writing } => {
                let mut writing = locked(writing);
                let committed = self.commit_locked(&mut writing, reading, object, false);
                writing.rest();
                reading.rest(&self.name);
                committed
            }
        }
    }

    /// Closes the source while no program reads it: it is opened again when one does. Returns whether that freed a descriptor.
    pub(crate) fn rest(&self) -> bool {
        match &self.how {
            How::InPlace { file, .. } => file.try_lock().is_ok_and(|mut file| file.take().is_some()),
            How::Converted { reading, .. } => reading.rest_unless_busy(),
        }
    }

    /// Where the next byte at the end goes.
    pub(crate) fn end(&self, object: &Object) -> Result<u64> {
        if let How::Converted { reading, writing } = &self.how {
            let written = locked(writing).len();
            return written.map_or_else(|| reading.scan(object, &self.name), Ok);
        }
        Ok(self.shown(object)?.size)
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

    /// `changes`: those when the program has opened it.
    pub(crate) fn read(&self, object: &Object, offset: u64, len: usize, changes: u64) -> Result<Piece> {
        match &self.how {
            How::InPlace { bytes, file, .. } => bytes.read(&*opened_source(file, object)?, &self.name, offset, len),
            How::Converted { reading, writing } => {
                let written = locked(writing).read(&self.target(object, reading), offset, len)?;
                match written {
                    Some(bytes) => Ok(bytes.into()),
                    None if reading.changes() != changes => {
                        self.common.report(&self.name, "the source was changed by another program; open it again");
                        Err(Errno::IO)
                    }
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
    pub(crate) fn set_len(&self, object: &Object, len: u64, thread: u32, is_open: bool) -> Result<Option<Object>> {
        self.check_writable(object)?;
        match &self.how {
            How::InPlace { bytes, .. } => {
                bytes.set_len(&object.open(OFlags::RDWR)?, &self.name, len)?;
                Ok(None)
            }
            How::Converted { reading, writing } => {
                let mut writing = locked(writing);
                writing.set_len(&self.target(object, reading), len, thread)?;
                if is_open {
                    return Ok(None);
                }
                let committed = self.commit_locked(&mut writing, reading, object, false);
                writing.rest();
                reading.rest(&self.name);
                committed
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
                    opened_source(file, object)?.sync_all().map_err(|error| crate::calls::errno(&error))?;
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
        let before = object.stat()?;
        let entry = object.entry();
        let len = writing.len();
        if !writing.commit(&self.target(object, reading), is_synced)? || before.st_nlink == 0 {
            return Ok(None);
        }
        let (directory, name) = entry?;
        let new = Object::within(&directory, &name)?;
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
