//! Files whose bytes stay where they are: any piece is read and written in the source itself.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use millstream_net::NetworkError;

use crate::blocks::{Piece, spare};
use crate::calls::{errno, len_of, read_at};
use crate::common::Common;
use crate::source::Result;
use crate::view::{Member, View};

/// Bytes of a hole that are written at once.
const PIECE: usize = 64 << 10;

/// How the bytes of one file are transformed where they lie.
pub(crate) struct Transformed {
    view: Arc<View>,
    common: Arc<Common>,
    /// Made for an earlier call, and free.
    readers: Mutex<Vec<Vec<Member>>>,
    writers: Mutex<Vec<Vec<Member>>>,
    /// A writer beyond the end fills the gap first: no other may write into it meanwhile.
    growing: RwLock<()>,
}

impl Transformed {
    pub(crate) fn new(view: Arc<View>, common: Arc<Common>) -> Transformed {
        let (readers, writers) = (Mutex::default(), Mutex::default());
        Transformed { view, common, readers, writers, growing: RwLock::default() }
    }

    /// Reads at most `len` bytes; fewer only at the end.
    pub(crate) fn read(&self, file: &File, name: &Path, offset: u64, len: usize) -> Result<Piece> {
        let mut bytes = spare(len);
        let count = read_at(file, &mut bytes[..len], offset)?;
        let made = || self.view.readers();
        self.apply(&self.readers, made, name, offset, &mut bytes[..count])?;
        Ok(Piece::of_start(bytes, count))
    }

    pub(crate) fn write(&self, file: &File, name: &Path, offset: u64, bytes: &[u8]) -> Result<()> {
        if offset > len_of(file)? {
            let _alone = self.growing.write().unwrap_or_else(PoisonError::into_inner);
            self.fill(file, name, offset)?;
            return self.write_transformed(file, name, offset, bytes.to_vec());
        }
        let _beside_others = self.growing.read().unwrap_or_else(PoisonError::into_inner);
        self.write_transformed(file, name, offset, bytes.to_vec())
    }

    pub(crate) fn set_len(&self, file: &File, name: &Path, len: u64) -> Result<()> {
        let _alone = self.growing.write().unwrap_or_else(PoisonError::into_inner);
        if len > len_of(file)? {
            return self.fill(file, name, len);
        }
        file.set_len(len).map_err(|error| errno(&error))
    }

    /// Writes zeros, as programs see them, from the end to `end`. The source has no holes there: they would be read as
    /// transformed zeros.
    fn fill(&self, file: &File, name: &Path, end: u64) -> Result<()> {
        let mut offset = len_of(file)?;
        while offset < end {
            let count = (end - offset).min(PIECE as u64) as usize;
            self.write_transformed(file, name, offset, vec![0; count])?;
            offset += count as u64;
        }
        Ok(())
    }

    fn write_transformed(&self, file: &File, name: &Path, offset: u64, mut bytes: Vec<u8>) -> Result<()> {
        let made = || self.view.writers();
        self.apply(&self.writers, made, name, offset, &mut bytes)?;
        file.write_all_at(&bytes, offset).map_err(|error| errno(&error))
    }

    fn apply(
        &self,
        free: &Mutex<Vec<Vec<Member>>>,
        made: impl FnOnce() -> std::result::Result<Vec<Member>, NetworkError>,
        name: &Path,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<()> {
        let group = free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut group = group.map_or_else(made, Ok).map_err(|failure| self.common.failed(name, &failure))?;
        apply(&mut group, offset, bytes).map_err(|failure| self.common.failed(name, &failure))?;
        free.lock().unwrap_or_else(PoisonError::into_inner).push(group);
        Ok(())
    }
}

/// Applies transforms in place, one after the other.
pub(crate) fn apply(group: &mut [Member], offset: u64, bytes: &mut [u8]) -> std::result::Result<(), NetworkError> {
    for Member { text, transform } in group {
        let applied = transform.apply(offset, bytes);
        applied.map_err(|fault| NetworkError::Stage { stage: text.clone(), offset, fault })?;
    }
    Ok(())
}
