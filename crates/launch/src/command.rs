//! Becoming the command, with the library in its environment.

use core::convert::Infallible;
use core::ffi::CStr;
use core::fmt::Write;

use millstream_run::{Plan, gets_library, ring};
use millstream_sys::executable::{self, Kind};
use millstream_sys::{raw, settings};

use crate::arguments::Request;
use crate::list::{Line, List};
use crate::place::{self, PathLine, Place};
use crate::start::Start;

const PRELOAD: &str = "LD_PRELOAD";

/// Returns only if the whole program is to do it.
pub(crate) fn become_it(request: &Request, start: &Start, place: &Place<'_>) -> Option<Infallible> {
    // A run inside a run, and preloads of the user's own.
    if [settings::VARIABLE, PRELOAD].into_iter().any(|name| variable(start, name).is_some()) {
        return None;
    }
    let mut words = List::new();
    let name = name_and_words(request, start, &mut words)?;
    let path = variable(start, "PATH");
    let plan = Plan::for_this_machine();
    let ring = if request.joins { ring::of_this_run(0).ok() } else { None };
    plan.enlarge_standing_pipes();
    let settings = plan.settings(None, ring);

    let mut environment = List::new();
    environment.push_all(start.environment)?;
    let (mut settings_line, mut preload_line) = (Line::<512>::new(), PathLine::new());
    if gets_library(kind_of(name, path)?, &settings) {
        write!(settings_line, "{}={settings}", settings::VARIABLE).ok()?;
        environment.push(settings_line.c_str()?)?;
        environment.push(preload(place, &mut preload_line)?)?;
    }
    execute(name, path, &mut words, &mut environment);
    None
}

/// The name of the command; all its words are put on the list.
fn name_and_words(request: &Request, start: &Start, words: &mut List<'_>) -> Option<&'static CStr> {
    let name = match (request.script, request.shell) {
        (Some(_), Some(shell)) => shell.c_str(),
        (Some(_), None) => variable(start, "SHELL").filter(|shell| !shell.is_empty()).unwrap_or(c"/bin/sh"),
        (None, _) => request.words.first()?.c_str(),
    };
    if let Some(script) = request.script {
        [name, c"-c", script.c_str()].into_iter().try_for_each(|word| words.push(word))?;
    }
    words.push_all(request.words)?;
    Some(name)
}

/// The value of a variable.
fn variable(start: &Start, name: &str) -> Option<&'static CStr> {
    start.environment.iter().find_map(|entry| entry.value_of(name))
}

/// `None` if the C library would look in places of its own.
fn kind_of(name: &CStr, path: Option<&CStr>) -> Option<Kind> {
    match name.to_bytes().contains(&b'/') {
        true => Some(executable::look_at_path(name)),
        false => Some(executable::look_in_path(path?, name)),
    }
}

/// The entry that names the library to the loader, which cannot take every path.
fn preload<'l>(place: &Place<'_>, line: &'l mut PathLine) -> Option<&'l CStr> {
    let mut path = PathLine::new();
    let candidate = (0..place::CANDIDATES).find(|&candidate| {
        path = PathLine::new();
        place.existing(candidate, settings::LIBRARY, &mut path).is_some()
    })?;
    if place.directory.iter().any(|byte| b" :$".contains(byte)) {
        return None;
    }
    line.push(PRELOAD.as_bytes())?;
    line.push(b"=")?;
    place.of(candidate, settings::LIBRARY, line)?;
    line.c_str()
}

/// Returns if that failed in whatever way: the whole program tries again, and explains.
fn execute(name: &CStr, path: Option<&CStr>, words: &mut List<'_>, environment: &mut List<'_>) -> Option<()> {
    let (words, environment) = (words.terminated(), environment.terminated());
    // SAFETY: C strings and null-terminated lists of such.
    let try_it = |path: &CStr| unsafe { raw::execve(path.as_ptr(), words, environment) };
    if name.to_bytes().contains(&b'/') {
        return try_it(name).ok();
    }
    for directory in path?.to_bytes().split(|&byte| byte == b':') {
        let mut candidate = PathLine::new();
        candidate.push(if directory.is_empty() { b"." } else { directory })?;
        candidate.push(b"/")?;
        candidate.push(name.to_bytes())?;
        match try_it(candidate.c_str()?) {
            Err(millstream_sys::Errno::NOENT | millstream_sys::Errno::NOTDIR | millstream_sys::Errno::ACCESS) => {}
            _ => return None,
        }
    }
    None
}
