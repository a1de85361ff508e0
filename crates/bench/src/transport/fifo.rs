//! A pipe found by its name, as unrelated programs find it (`mkfifo(3)`): the kernel's, and the same with both ends
//! opened by millstream.

use std::fs::{File, remove_dir_all};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millstream_pipe::{Fifo as OurFifo, FifoOptions};
use millstream_sys::{clock, fifo};

use super::ends::{Ends, Transport, WriteEnd};
use crate::engine::placement::Placement;

/// A FIFO in a directory of its own, which is gone before the first byte moves.
pub struct Fifo;

/// The only one.
pub static FIFO: Fifo = Fifo;

impl Transport for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn connect(&self, _: Placement) -> Result<Ends, String> {
        let directory = PrivateDirectory::new()?;
        let (reader, writer) = fifo::create(&directory.0.join("fifo"))
            .map_err(|error| format!("cannot make a FIFO in '{}': {error}", directory.0.display()))?;
        Ok(Ends { writer: Box::new(File::from(writer)), reader: Box::new(File::from(reader)) })
    }
}

/// A FIFO that millstream opens: the bytes go through the ring once its ends have found each other.
pub struct Ours;

/// The only one.
pub static OURS: Ours = Ours;

impl Transport for Ours {
    fn name(&self) -> &'static str {
        "millstream-fifo"
    }

    fn connect(&self, _: Placement) -> Result<Ends, String> {
        let directory = PrivateDirectory::new()?;
        let path = directory.0.join("fifo");
        let made = OurFifo::create(&path, 0o600).and_then(|()| {
            // An end that blocks would wait for the other to be opened.
            let reader = FifoOptions::new().ring(true).nonblocking(true).open_reader(&path)?;
            let writer = FifoOptions::new().ring(true).open_writer(&path)?;
            reader.set_nonblocking(false)?;
            Ok(Ends { writer: Box::new(writer), reader: Box::new(reader) })
        });
        made.map_err(|error| format!("cannot make a FIFO in '{}': {error}", directory.0.display()))
    }
}

impl WriteEnd for File {
    fn finish(self: Box<Self>) {}
}

/// Removed with what is in it when dropped.
struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    fn new() -> Result<PrivateDirectory, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = (std::process::id(), COUNT.fetch_add(1, Relaxed), clock::raw_nanoseconds());
        let path = std::env::temp_dir().join(format!("millstream-{}-{}-{:x}", unique.0, unique.1, unique.2));
        // Fails if it is there already, so no other program has it.
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => Ok(PrivateDirectory(path)),
            Err(error) => Err(format!("cannot make the directory '{}': {error}; is TMPDIR right?", path.display())),
        }
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // A directory that another program has removed is gone too.
        let _ = remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_in_the_file_system() {
        let directory = PrivateDirectory::new().unwrap();
        let path = directory.0.clone();
        fifo::create(&path.join("fifo")).unwrap();
        drop(directory);
        assert!(!path.exists());
    }
}
