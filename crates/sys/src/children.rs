//! Tests share a process, and some of them fork. A child keeps open what was open at the fork, for as long as it lives.
//! A test that checks the effect of a last close must therefore not run beside a test that has children.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static CHILDREN: RwLock<()> = RwLock::new(());

/// For a test that has children, from before the first one until the last one has ended.
pub(crate) fn some() -> RwLockWriteGuard<'static, ()> {
    CHILDREN.write().unwrap_or_else(PoisonError::into_inner)
}

/// For a test that closes a descriptor which no child may have open.
pub(crate) fn none() -> RwLockReadGuard<'static, ()> {
    CHILDREN.read().unwrap_or_else(PoisonError::into_inner)
}
