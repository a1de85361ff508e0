//! The C library's functions that ours hide.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::names;

/// A function of the C library that ours hides.
pub(crate) struct Behind {
    /// Null until it is looked up.
    address: AtomicPtr<c_void>,
    /// In place: the loader relocates every address in the data as a program starts.
    name: [u8; Behind::NAME_BYTES],
}

impl Behind {
    const NAME_BYTES: usize = 16;

    pub(crate) const fn new(name: &str) -> Behind {
        assert!(name.len() < Behind::NAME_BYTES);
        let mut bytes = [0; Behind::NAME_BYTES];
        bytes.split_at_mut(name.len()).0.copy_from_slice(name.as_bytes());
        Behind { address: AtomicPtr::new(core::ptr::null_mut()), name: bytes }
    }

    pub(crate) fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.name).unwrap_or_default()
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let address = names::behind(self.name());
        self.address.store(address, Relaxed);
        address
    }

    /// The function, whatever is attached.
    ///
    /// # Safety
    /// As for [`function`](Self::function).
    pub(crate) unsafe fn glibcs<F: Copy>(&self) -> F {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let mut address = self.address.load(Relaxed);
        if address.is_null() {
            address = self.find();
        }
        // SAFETY: the same size, as checked above; the caller vouches for the type.
        unsafe { core::mem::transmute_copy::<*mut c_void, F>(&address) }
    }
}
