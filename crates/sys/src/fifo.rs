//! Pipes with a name.

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags};

use crate::Errno;

/// Makes a FIFO at `path` and opens it, read end first; both ends block and are closed on exec. The name stays and may
/// be removed at once.
///
/// # Errors
/// Those of `mkfifo(3)` and `open(2)`: `EEXIST`, `EACCES`, `ENOENT`, `ENOSPC`, `EROFS`, `EMFILE`.
pub fn create(path: &Path) -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    // An end that blocks would wait for the other to be opened.
    let reader = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let writer = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::fs::fcntl_setfl(&reader, OFlags::empty())?;
    Ok((reader, writer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_carries_bytes_when_its_name_is_gone() {
        let path = std::env::temp_dir().join(std::format!("millstream-fifo-{}", std::process::id()));
        let (reader, writer) = create(&path).unwrap();
        assert_eq!(create(&path).err(), Some(Errno::EXIST));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(rustix::io::write(&writer, b"mill"), Ok(4));
        let mut bytes = [0; 10];
        assert_eq!(rustix::io::read(&reader, &mut bytes), Ok(4));
        assert!(!rustix::fs::fcntl_getfl(&reader).unwrap().contains(OFlags::NONBLOCK));
        drop(writer);
        assert_eq!(rustix::io::read(&reader, &mut bytes), Ok(0), "the end");
    }
}
