//! Where the user keeps what can be made again.

use std::path::PathBuf;

/// `$XDG_CACHE_HOME`, or `~/.cache`; `None` if neither is named.
pub(crate) fn directory() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
}
