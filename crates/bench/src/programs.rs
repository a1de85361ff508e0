//! The programs that measurements start: `millstream`, and this one again.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where both are.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// `millstream`, as users start it.
    pub millstream: PathBuf,
    /// `millstream-bench`, which is also the launcher of pipelines and a stage of some.
    pub bench: PathBuf,
}

impl Programs {
    /// This process's own, and the `millstream` that it was installed with.
    ///
    /// # Errors
    /// A sentence: there is none, or the kernel does not say where this process's own file is.
    pub fn find() -> Result<Programs, String> {
        let bench = std::env::current_exe().map_err(|error| format!("cannot find its own file: {error}"))?;
        let millstream = candidates(&bench).into_iter().find(|path| is_program(path)).ok_or_else(|| {
            format!(
                "there is no 'millstream' that belongs to '{}'; install it with 'make install', or build it with 'make build'",
                bench.display()
            )
        })?;
        Ok(Programs { millstream, bench })
    }
}

/// Where a command is.
pub(crate) fn installed(command: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory| directory.join(command)).find(|path| is_program(path))
}

/// Installed (`bin` beside `lib`), in the build tree, or both in one directory: the small program before the main one.
fn candidates(bench: &Path) -> Vec<PathBuf> {
    let Some(directory) = bench.parent() else { return Vec::new() };
    let prefix = directory.ends_with("lib/millstream").then(|| directory.ancestors().nth(2)).flatten();
    let below_prefix = prefix.map(|prefix| [prefix.join("bin/millstream"), prefix.join("millstream")]);
    below_prefix.into_iter().flatten().chain([directory.join("millstream")]).collect()
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_program_comes_before_the_main_one_beside_it() {
        let of = |path: &str| candidates(Path::new(path));
        assert_eq!(
            of("/usr/lib/millstream/millstream-bench"),
            ["/usr/bin/millstream", "/usr/millstream", "/usr/lib/millstream/millstream"].map(PathBuf::from)
        );
        assert_eq!(of("/home/me/.cargo/bin/millstream-bench"), [PathBuf::from("/home/me/.cargo/bin/millstream")]);
    }
}
