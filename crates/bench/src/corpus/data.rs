//! What pipelines read: made on first use, the same on every machine, and kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::generators::{GENERATED, generate};
use super::list::Corpus;
use crate::cache;

/// Raised when what is made changes.
const EDITION: u32 = 1;

/// A directory in which data are kept: `corpus-EDITION-SIZE` in the user's cache directory.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    size: u64,
}

impl Store {
    /// In `$XDG_CACHE_HOME/millstream` or `~/.cache/millstream`, for texts of `size` bytes.
    ///
    /// # Errors
    /// A sentence: there is no such directory, or it cannot be made.
    pub fn open(size: u64) -> Result<Store, String> {
        let directory = cache::directory()
            .ok_or("neither XDG_CACHE_HOME nor HOME names a directory to keep the data in")?
            .join(format!("millstream/corpus-{EDITION}-{size}"));
        fs::create_dir_all(&directory).map_err(|error| format!("cannot make '{}': {error}", directory.display()))?;
        Ok(Store { directory, size })
    }

    /// `$DATA` of the scripts.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Bytes of the text.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Sees to it that everything of these names is there. A file or directory appears whole or not at all.
    ///
    /// # Errors
    /// A sentence: what could not be made, and why.
    pub fn provide(&self, corpus: &Corpus, names: &[String]) -> Result<(), String> {
        for name in names {
            let path = self.directory.join(name);
            if path.exists() {
                continue;
            }
            if let Some(recipe) = corpus.recipe(name) {
                self.provide(corpus, &recipe.data)?;
            }
            let unfinished = self.directory.join(format!("{name}.{}.unfinished", std::process::id()));
            let made = self.make(corpus, name, &unfinished).and_then(|()| {
                fs::rename(&unfinished, &path)
                    .or_else(|error| if path.exists() { Ok(()) } else { Err(error.to_string()) })
            });
            let _ = fs::remove_file(&unfinished).or_else(|_| fs::remove_dir_all(&unfinished));
            made.map_err(|error| format!("cannot make '{}': {error}", path.display()))?;
        }
        Ok(())
    }

    fn make(&self, corpus: &Corpus, name: &str, path: &Path) -> Result<(), String> {
        if let Some((_, generator)) = GENERATED.iter().find(|(generated, _)| *generated == name) {
            return generate(*generator, path, self.size).map_err(|error| error.to_string());
        }
        let recipe = corpus.recipe(name).ok_or("nothing makes it")?;
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &recipe.script])
            .env("DATA", &self.directory)
            .env("OUT", path)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot start bash: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.trim().lines().last().unwrap_or_default();
        if output.status.success() { Ok(()) } else { Err(format!("its script failed ({}): {last}", output.status)) }
    }
}
