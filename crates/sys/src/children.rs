//! Tests share a process, and some of them fork: what is open at that moment the child has open too, for as long as it lives. Who
//! looks at what the last close does runs beside none of those.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static CHILDREN: RwLock<()> = RwLock::new(());

/// For a test that has children, from before the first one until the last one has ended.
pub(crate) fn some() -> RwLockWriteGuard<'static, ()> {
    CHILDREN.write().unwrap_or_else(PoisonError::into_inner)
}

/// For a test that closes what nobody else may have open.
pub(crate) fn none() -> RwLockReadGuard<'static, ()> {
    CHILDREN.read().unwrap_or_else(PoisonError::into_inner)
}
