//! What happens once, as the program starts: the settings are read and handed to the modules that act on them.

use core::ffi::{CStr, c_char};

use millstream_sys::settings::{self, Settings};

use crate::text::rest_of;
use crate::{counters, glibc, joined, lines, names, pipes};

// SAFETY: the loader calls the functions of this section once, before the program's own code. The function takes no
// arguments, because only glibc passes any.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = start;

#[unsafe(link_section = ".text.hot.millstream")]
extern "C" fn start() {
    // SAFETY: the C library keeps its environment a null-terminated list of C strings, and nothing runs that could
    // change it.
    let Some(settings) = (unsafe { settings_in(glibc::environment()) }) else { return };
    names::start();
    if settings.ledger.is_some() {
        joined::start_counting();
    }
    counters::start(&settings);
    lines::start(&settings);
    pipes::start(&settings.sizing);
    joined::start(&settings);
}

/// # Safety
/// `environment` is null or a null-terminated list of C strings that outlive the result.
unsafe fn settings_in<'a>(mut environment: *const *const c_char) -> Option<Settings<'a>> {
    if environment.is_null() {
        return None;
    }
    loop {
        // SAFETY: the list has not ended yet.
        let entry = unsafe { *environment };
        if entry.is_null() {
            return None;
        }
        // SAFETY: a C string, by the caller's promise.
        if let Some(value) = unsafe { rest_of(entry, settings::ENTRY) } {
            // SAFETY: what remains of a C string is one.
            return Settings::parse(unsafe { CStr::from_ptr(value) });
        }
        // SAFETY: not past the end, because the null that ends the list has not been seen.
        environment = unsafe { environment.add(1) };
    }
}
