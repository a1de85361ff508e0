//! How a call of a function here goes on in the one behind it: as any guarded call does, if there may be pipes that it
//! matters to.

use core::ffi::c_void;

use crate::behind::Behind;
use crate::joined;

impl Behind {
    /// The function, as the type it has.
    ///
    /// # Safety
    /// `F` must be the function pointer type of the C function of this name.
    pub(crate) unsafe fn function<F: Copy>(&self) -> F {
        // SAFETY: the caller's promise. No descriptor has this number.
        unsafe { self.function_for(usize::MAX, 0) }
    }

    /// The same for a call whose first two arguments are these, by which it may matter to attached pipes.
    ///
    /// # Safety
    /// As for [`function`](Self::function).
    pub(crate) unsafe fn function_for<F: Copy>(&self, first: usize, second: usize) -> F {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        if let Some(next) = joined::next_by_name(self.name(), first, second) {
            // SAFETY: the same size, as checked above; what is there instead has the same type.
            return unsafe { core::mem::transmute_copy::<usize, F>(&next) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.glibcs() }
    }
}
