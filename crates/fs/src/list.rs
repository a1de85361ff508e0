//! What is mounted on this machine.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use serde::Serialize;

use crate::mount::DEVICE;
use crate::mounted::STATISTICS;

/// A directory that is mounted.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// Where.
    pub mount_point: PathBuf,
    /// What.
    pub source: String,
    /// Its counters; `None` if its daemon does not answer, or not to this user.
    pub statistics: Option<serde_json::Value>,
}

/// How long a daemon is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// All mounts of this program that this process sees.
///
/// # Errors
/// What is wrong, as a sentence.
pub fn mounts() -> Result<Vec<Listed>, String> {
    let text =
        std::fs::read("/proc/self/mountinfo").map_err(|error| format!("cannot read /proc/self/mountinfo: {error}"))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(text.lines().filter_map(listed).collect())
}

/// A line of `/proc/PID/mountinfo` (`proc_pid_mountinfo(5)`).
fn listed(line: &str) -> Option<Listed> {
    let (mount, kind) = line.split_once(" - ")?;
    let device = kind.strip_prefix("fuse ").or_else(|| kind.strip_prefix("fuse.millstream "))?.split(' ').next()?;
    let source = unescaped(device.strip_prefix(DEVICE)?).to_string_lossy().into_owned();
    let mount_point = PathBuf::from(unescaped(mount.split(' ').nth(4)?));
    let statistics = statistics(&mount_point);
    Some(Listed { mount_point, source, statistics })
}

fn statistics(mount_point: &Path) -> Option<serde_json::Value> {
    let (tell, told) = channel();
    let mount_point = mount_point.to_path_buf();
    let ask = move || {
        let mut value = vec![0; 64 << 10];
        let count = rustix::fs::getxattr(&mount_point, STATISTICS, &mut value).ok()?;
        // The other end waits no longer.
        tell.send(value[..count].to_vec()).ok()
    };
    // A daemon that hangs would keep this thread for ever.
    std::thread::Builder::new().spawn(ask).ok()?;
    serde_json::from_slice(&told.recv_timeout(PATIENCE).ok()?).ok()
}

/// Spaces and their like are written as octal numbers.
fn unescaped(text: &str) -> OsString {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let number = text.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        match number.and_then(|number| u8::from_str_radix(number, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 4;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    OsString::from_vec(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_mountinfo_is_understood() {
        let line = "98 29 0:55 / /mnt/a\\040b rw,nosuid,nodev - fuse millstream:/data rw,user_id=0";
        let listed = listed(line).unwrap();
        assert_eq!((listed.mount_point.to_str(), listed.source.as_str()), (Some("/mnt/a b"), "/data"));
        assert!(listed.statistics.is_none());
        assert!(super::listed("28 1 8:1 / / rw - ext4 /dev/sda1 rw").is_none());
    }
}
