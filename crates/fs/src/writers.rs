//! Which threads have written to a file since it was last put into its source.
//!
//! The kernel says that a descriptor is closed (`FUSE_FLUSH`) for every copy of it, also for one that a child has inherited and
//! closes as it is started. If that put a new version in place, a program that starts another one while it writes would leave a
//! part of its file. So only a process that has written closes it in that sense. What no such process closes is put in place
//! when the last copy is gone.

use std::path::Path;

/// Threads, by number. 0 stands for those of other namespaces.
#[derive(Debug, Default)]
pub(crate) struct Writers(Vec<u32>);

/// Of more threads than these it is not told which have written.
const MOST: usize = 64;

impl Writers {
    /// A thread has written.
    pub(crate) fn add(&mut self, thread: u32) {
        if !self.0.contains(&thread) && self.0.len() <= MOST {
            self.0.push(thread);
        }
    }

    /// What they wrote is in the source.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether the process of a thread that closes a descriptor may have written. A writer that has ended may have been one of
    /// its threads.
    pub(crate) fn may_include_process_of(&self, closer: u32) -> bool {
        let is_in_process = |writer: &u32| *writer == closer || is_thread_of(*writer, closer) || !is_alive(*writer);
        self.0.is_empty() || self.0.len() > MOST || closer == 0 || self.0.iter().any(is_in_process)
    }
}

fn is_alive(thread: u32) -> bool {
    thread != 0 && Path::new(&format!("/proc/{thread}")).exists()
}

/// Any thread's directory lists the threads of its process.
fn is_thread_of(thread: u32, other: u32) -> bool {
    Path::new(&format!("/proc/{other}/task/{thread}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processes_that_wrote_close_a_file() {
        let own = std::process::id();
        let mut writers = Writers::default();
        // Nothing was written: a file that was only made, or cut.
        assert!(writers.may_include_process_of(1));
        writers.add(own);
        assert!(writers.may_include_process_of(own));
        // The first process of the machine is alive, and another one.
        assert!(!writers.may_include_process_of(1));
        let other = std::thread::spawn(rustix::thread::gettid).join().unwrap();
        assert!(!writers.may_include_process_of(1), "thread {other:?} has not written");
        writers.add(u32::MAX - 1);
        assert!(writers.may_include_process_of(1), "a writer has ended");
        writers.clear();
        assert!(writers.may_include_process_of(1));
    }
}
