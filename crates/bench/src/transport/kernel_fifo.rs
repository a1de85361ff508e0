//! The kernel's FIFO: a pipe that has a name until both ends are open.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use millstream_sys::{clock, fifo, pipe};

use super::{Ends, Transport, WriteEnd};
use crate::engine::placement::Placement;

/// How often a name may be taken already.
const ATTEMPTS: usize = 16;

/// A FIFO of the size that the kernel gives it.
pub struct KernelFifo;

/// The only one.
pub static FIFO: KernelFifo = KernelFifo;

impl Transport for KernelFifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn connect(&self, _: Placement) -> Result<Ends, String> {
        let (reader, writer) = open_in(&std::env::temp_dir())?;
        match pipe::capacity(&reader) {
            Ok(pipe::DEFAULT_CAPACITY) => {
                Ok(Ends { writer: Box::new(FifoWriter(writer.into())), reader: Box::new(File::from(reader)) })
            }
            granted => Err(format!(
                "the FIFO holds {} bytes instead of {}; is the user's quota used up?",
                granted.unwrap_or(0),
                pipe::DEFAULT_CAPACITY
            )),
        }
    }
}

/// Both ends of a new FIFO, read end first. Its name, and the directory around it that keeps others out, are gone when
/// this returns.
fn open_in(directory: &Path) -> Result<(OwnedFd, OwnedFd), String> {
    let failed = |what: &str, error: io::Error| {
        format!("cannot {what} in '{}': {error}; TMPDIR names another directory", directory.display())
    };
    let home = Home::new(directory).map_err(|error| failed("make a directory", error))?;
    let path = home.0.join("fifo");
    fifo::make(&path).map_err(|error| failed("make a FIFO", error.into()))?;
    fifo::open_both(&path).map_err(|error| failed("open a FIFO", error.into()))
}

/// A directory that nobody else can enter; dropped with what is in it.
struct Home(PathBuf);

impl Home {
    fn new(parent: &Path) -> io::Result<Home> {
        let mut attempt = 0;
        loop {
            let path = parent.join(format!("millstream-{}-{:x}", std::process::id(), clock::raw_nanoseconds()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Home(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What cannot be removed is a name without bytes.
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct FifoWriter(File);

impl Write for FifoWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteEnd for FifoWriter {
    fn finish(self: Box<Self>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_through_and_end_with_the_writer() {
        let Ends { mut writer, mut reader } = FIFO.connect(Placement::OneCpu).unwrap();
        writer.write_all(b"mill").unwrap();
        writer.finish();
        assert_eq!(io::read_to_string(&mut reader).unwrap(), "mill");
    }

    #[test]
    fn no_name_is_left() {
        let parent = Home::new(&std::env::temp_dir()).unwrap();
        let ends = open_in(&parent.0).unwrap();
        assert_eq!(fs::read_dir(&parent.0).unwrap().count(), 0);
        drop(ends);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let why = open_in(Path::new("/nonexistent")).unwrap_err();
        assert!(why.contains("cannot make a directory in '/nonexistent'") && why.contains("TMPDIR"), "{why}");
    }
}
