//! The variables that the command gets, as entries `NAME=VALUE`.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Replaces, appends or removes an entry; the others stay as and where they are.
pub(super) fn set(environment: &mut Vec<CString>, name: &str, value: Option<OsString>) {
    let is_it = |entry: &CString| {
        entry.as_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
    };
    let value = value.map(|value| [name.as_bytes(), b"=", value.as_bytes()].concat());
    match (value.and_then(|entry| CString::new(entry).ok()), environment.iter_mut().find(|entry| is_it(entry))) {
        (Some(entry), Some(place)) => *place = entry,
        (Some(entry), None) => environment.push(entry),
        (None, _) => environment.retain(|entry| !is_it(entry)),
    }
}

/// What the variable has, if it is there.
pub(super) fn value(environment: &[CString], name: &str) -> Option<OsString> {
    let of = |entry: &CString| Some(entry.as_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec());
    environment.iter().find_map(of).map(OsString::from_vec)
}
