//! Finding the library that goes into the programs, and naming it to the loader.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use millstream_sys::settings::{self, LIBRARY};

use millstream_command::failure::Failure;

/// The loader's variable.
pub(super) const LD_PRELOAD: &str = "LD_PRELOAD";

/// Where the library is, seen from the directory of the program: installed without the small program that starts this one
/// (`bin` beside `lib`), the same in the build tree, or both in one directory.
const PLACES: [&str; 3] = ["../lib/millstream", "lib/millstream", "."];

/// The value of `LD_PRELOAD` for the run: what the user has there, then our library.
pub(super) fn preload_value() -> Result<OsString, Failure> {
    let ours = path()?.into_os_string();
    Ok(match preloads_of_others() {
        None => ours,
        Some(others) => [others.as_os_str(), OsStr::new(":"), &ours].into_iter().collect(),
    })
}

/// A file that is installed beside the library.
pub(super) fn beside(name: &str) -> Option<PathBuf> {
    let file = path().ok()?.with_file_name(name);
    file.is_file().then_some(file)
}

/// What is in `LD_PRELOAD` now, without a library of ours: this may be a run inside a run.
pub(super) fn preloads_of_others() -> Option<OsString> {
    let present = std::env::var_os(LD_PRELOAD)?;
    let entries = present.as_bytes().split(|byte| b" :".contains(byte));
    let others: Vec<&[u8]> = entries.filter(|entry| !entry.is_empty() && !settings::is_library(entry)).collect();
    (!others.is_empty()).then(|| OsStr::from_bytes(&others.join(&b':')).to_owned())
}

fn path() -> Result<PathBuf, Failure> {
    let program =
        std::env::current_exe().map_err(|error| Failure::own(format!("cannot find its own file: {error}")))?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    let mut candidates = PLACES.iter().map(|place| beside.join(place).join(LIBRARY));
    let found = candidates.find_map(|candidate| candidate.canonicalize().ok()).ok_or_else(|| {
        Failure::own(format!(
            "its library is missing: there is no {LIBRARY} beside {}; install millstream with 'make install', or build it \
             with 'make build'",
            program.display()
        ))
    })?;
    match found.as_os_str().as_bytes().iter().any(|byte| b" :$".contains(byte)) {
        false => Ok(found),
        true => Err(Failure::own(format!(
            "its library is at '{}', and the loader cannot load one from a path with a space, colon or dollar sign; \
             install millstream elsewhere",
            found.display()
        ))),
    }
}
