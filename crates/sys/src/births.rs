//! The birth of a process: how many processes and threads the kernel made before it. The process descriptor of each gets
//! the next inode in its file system.
//!
//! The kernel reuses process numbers after the highest; it does not reuse these. Before Linux 6.9 all process descriptors
//! have one inode, which tells nothing.

use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The birth of a process of this namespace, counted over the whole system. `None`: no process has this number, or the
/// caller cannot open a file.
pub fn of(process: u32) -> Option<u64> {
    let process = Pid::from_raw(process.cast_signed())?;
    let descriptor = pidfd_open(process, PidfdFlags::empty()).ok()?;
    rustix::fs::fstat(descriptor).ok().map(|status| status.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_process_has_higher_birth_where_linux_counts_them() {
        let births: std::vec::Vec<u64> = (0..3)
            .map(|_| {
                let mut child = std::process::Command::new("sleep").arg("10").spawn().unwrap();
                let birth = of(child.id());
                child.kill().unwrap();
                child.wait().unwrap();
                birth.unwrap()
            })
            .collect();
        let are_counted = crate::own_pid() != 1 && of(crate::own_pid()).unwrap() < births[0];
        assert_eq!(births.is_sorted_by(|one, next| one < next), are_counted, "{births:?}");
        assert!(
            are_counted || births.iter().all(|&birth| birth == births[0]),
            "one inode before Linux 6.9: {births:?}"
        );
    }

    #[test]
    fn process_that_is_not_there_has_no_birth() {
        assert_eq!((of(0), of(i32::MAX.unsigned_abs())), (None, None));
    }
}
