//! What programs have open.

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock};

use fuser::BackingId;

use crate::names::Entry;
use crate::nodes::Node;
use crate::virtuals::OpenVirtual;

/// One open file or directory.
pub(crate) enum Handle {
    File(OpenFile),
    Virtual(OpenVirtual),
    Directory(Vec<Entry>),
}

/// A file that a program has open.
pub(crate) struct OpenFile {
    pub(crate) node: Arc<Node>,
    /// The source, where programs see it as it is.
    pub(crate) file: Option<File>,
    pub(crate) can_write: bool,
    /// Whether each write goes to the end.
    pub(crate) appends: bool,
    /// How often others had changed the source by then.
    pub(crate) changes: u64,
    /// The kernel reads and writes the source without asking, as long as this is there.
    pub(crate) backing: Option<Arc<BackingId>>,
}

/// All of them, by number.
#[derive(Default)]
pub(crate) struct Handles {
    open: RwLock<HashMap<u64, Arc<Handle>>>,
    last: AtomicU64,
}

impl Handles {
    pub(crate) fn add(&self, handle: Handle) -> u64 {
        let number = self.last.fetch_add(1, Relaxed) + 1;
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(handle));
        number
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<Handle>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    pub(crate) fn remove(&self, number: u64) -> Option<Arc<Handle>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }
}
