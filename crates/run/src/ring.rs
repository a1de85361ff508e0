//! What tells the processes and pipes of one run from others, for pipes in shared memory.

use millstream_sys::settings::{OLDER_PIPES, Ring};
use millstream_sys::{births, clock, confinement, machine, own_pid, own_pid_namespace};

/// Why a run is one whose pipes stay with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It knows x86-64 only.
    Processor,
    /// It is under filters of system calls (seccomp) that do not allow what joining takes.
    Seccomp,
    /// The kernel is older than files in memory, Linux 3.17.
    Kernel,
}

/// The run that this process begins, whose pipes are attached after so many bytes; 0: when it is worth it.
///
/// # Errors
/// What is in the way.
pub fn of_this_run(after: u64) -> Result<Ring, Obstacle> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Obstacle::Processor);
    }
    // A run makes rarer calls than the one that this takes.
    let filters = if confinement::is_sandboxed() { confinement::filters() } else { 0 };
    if filters > 0 && (filters == u32::MAX || !confinement::allow_joining()) {
        return Err(Obstacle::Seccomp);
    }
    Ok(Ring {
        // As old as files in memory.
        token: machine::random().map_err(|_| Obstacle::Kernel)?,
        after,
        first: u64::from(own_pid()),
        // 0 is no namespace: every process will be looked at.
        namespace: own_pid_namespace().unwrap_or(0),
        ticks: clock::ticks(),
        // A filter may kill for the call that tells.
        birth: if filters == 0 { births::of(own_pid()).unwrap_or(0) } else { 0 },
        filters,
        older: older_pipes(),
    })
}

/// The pipes that this process was started with.
fn older_pipes() -> [u64; OLDER_PIPES] {
    let mut older = Older { inodes: [0; OLDER_PIPES], len: 0 };
    machine::each_open_pipe(|inode| older.add(inode));
    older.inodes
}

struct Older {
    inodes: [u64; OLDER_PIPES],
    len: usize,
}

impl Older {
    /// Once there are too many, the first says so for good.
    fn add(&mut self, inode: u64) {
        if self.inodes.contains(&inode) || self.inodes[0] == u64::MAX {
            return;
        }
        match self.inodes.get_mut(self.len) {
            Some(place) => {
                *place = inode;
                self.len += 1;
            }
            None => self.inodes = core::array::from_fn(|at| if at == 0 { u64::MAX } else { 0 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn older(inodes: &[u64]) -> [u64; OLDER_PIPES] {
        let mut older = Older { inodes: [0; OLDER_PIPES], len: 0 };
        inodes.iter().for_each(|&inode| older.add(inode));
        older.inodes
    }

    #[test]
    fn each_pipe_once_and_too_many_are_said() {
        assert_eq!(older(&[]), [0; OLDER_PIPES]);
        assert_eq!(older(&[7, 9, 7, 9, 9, 7, 7]), [7, 9, 0, 0, 0, 0]);
        assert_eq!(older(&[1, 2, 3, 4, 5, 6, 1, 6]), [1, 2, 3, 4, 5, 6]);
        assert_eq!(older(&[1, 2, 3, 4, 5, 6, 7, 8]), [u64::MAX, 0, 0, 0, 0, 0]);
    }
}
