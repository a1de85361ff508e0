//! `millstream fifo stat`.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;

use super::advice::cannot;
use millstream_command::failure::{self, Failure};

/// What the file system knows of a FIFO. Which processes have it open only the kernel knows, and it does not say.
#[derive(Serialize)]
struct Status {
    path: String,
    mode: String,
    user: u32,
    group: u32,
    device: u64,
    inode: u64,
    links: u64,
}

/// Prints it.
pub(super) fn run(path: &Path, json: bool) -> Result<ExitCode, Failure> {
    let metadata = fs::metadata(path).map_err(|error| cannot("look at", path, &error))?;
    if !metadata.file_type().is_fifo() {
        return Err(Failure::own(format!("'{}' is no FIFO", path.display())));
    }
    let status = Status {
        path: path.display().to_string(),
        mode: format!("{:04o}", metadata.mode() & 0o7777),
        user: metadata.uid(),
        group: metadata.gid(),
        device: metadata.dev(),
        inode: metadata.ino(),
        links: metadata.nlink(),
    };
    let text = if json {
        serde_json::to_string_pretty(&status).map_err(|error| Failure::own(error.to_string()))? + "\n"
    } else {
        format!(
            "FIFO    {}\nmode    {}\nuser    {}\ngroup   {}\ndevice  {}\ninode   {}\nlinks   {}\n",
            status.path, status.mode, status.user, status.group, status.device, status.inode, status.links
        )
    };
    failure::print(&text)
}
