//! In place of `joined` on processors for which there is none: every pipe stays in the kernel.

use core::ffi::{CStr, c_int};

use millstream_sys::fate::Fate;
use millstream_sys::settings::Settings;

pub(crate) fn start(_: &Settings<'_>) {}

pub(crate) fn is_wanted() -> bool {
    false
}

pub(crate) fn has_pipe() {}

pub(crate) fn expect_starts() {}

pub(crate) fn is_brief(_: &CStr) -> bool {
    false
}

pub(crate) fn know(_: &CStr) {}

pub(crate) fn start_counting() {}

pub(crate) fn has_some_bytes(_: c_int) -> bool {
    false
}

pub(crate) fn is_worth(_: u64) -> bool {
    false
}

pub(crate) fn leave() -> bool {
    true
}

pub(crate) fn next_by_name(_: &CStr, _: usize, _: usize) -> Option<usize> {
    None
}

pub(crate) fn reason_of_other_use(_: c_int) -> Option<Fate> {
    None
}
