//! Output files of a run that are not what they will be in the end: this happens when the whole network has done its
//! work.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use millstream_sys::whole_file::WholeFile;

use crate::error::NetworkError;

#[derive(Clone, Default)]
pub(super) struct UnfinishedFiles(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// To append to, and not there yet: they are made when everything else could be opened.
    missing: Vec<Missing>,
    /// Complete, but they have not replaced the old ones yet.
    finished: Vec<Finished>,
}

struct Missing {
    path: PathBuf,
    name: String,
    file: Arc<OnceLock<File>>,
}

struct Finished {
    file: WholeFile,
    name: String,
    bytes: u64,
}

impl UnfinishedFiles {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file to append to that does not exist yet; `name`: what it is called in messages.
    pub(super) fn add_missing(&self, path: PathBuf, name: String) -> Arc<OnceLock<File>> {
        let file = Arc::default();
        self.state().missing.push(Missing { path, name, file: Arc::clone(&file) });
        file
    }

    /// A new file of so many bytes, all of which were written.
    pub(super) fn add_finished(&self, file: WholeFile, name: String, bytes: u64) {
        self.state().finished.push(Finished { file, name, bytes });
    }

    /// Makes those that are missing. If one cannot be made there is none of them.
    pub(super) fn make_missing(&self) -> Result<(), NetworkError> {
        let mut made: Vec<PathBuf> = Vec::new();
        for Missing { path, name, file } in std::mem::take(&mut self.state().missing) {
            let new = OpenOptions::new().append(true).create_new(true).open(&path);
            let is_there = new.as_ref().is_err_and(|error| error.kind() == ErrorKind::AlreadyExists);
            // Another process has made it by now, or it is a link that leads nowhere yet.
            let opened = if is_there { OpenOptions::new().append(true).create(true).open(&path) } else { new };
            match opened {
                Ok(opened) => drop(file.set(opened)),
                Err(error) => {
                    made.iter().for_each(|path| drop(std::fs::remove_file(path)));
                    return Err(NetworkError::Sink { name, offset: 0, error });
                }
            }
            made.extend((!is_there).then_some(path));
        }
        Ok(())
    }

    /// Puts all of them on disk, and then each in its place.
    pub(super) fn keep(&self) -> Result<(), NetworkError> {
        let finished = std::mem::take(&mut self.state().finished);
        let failure = |name: &str, offset, error| NetworkError::Sink { name: name.into(), offset, error };
        for Finished { file, name, bytes } in &finished {
            file.sync().map_err(|error| failure(name, *bytes, error))?;
        }
        for Finished { file, name, bytes } in finished {
            file.keep().map_err(|error| failure(&name, bytes, error))?;
        }
        Ok(())
    }
}
