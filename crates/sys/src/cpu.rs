//! Which CPUs a thread may run on, and what they are like.
#![allow(unsafe_code)]

use std::vec::Vec;

use rustix::thread::CpuSet;

use crate::Errno;

/// The CPUs that this thread may run on, in order.
///
/// # Errors
/// `EINVAL`: the machine has more CPUs than the fixed set of 1024 holds.
pub fn allowed() -> Result<Vec<usize>, Errno> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Lets this thread, and what it starts from now on, run on `cpus` only.
///
/// # Errors
/// `EINVAL`: none of them exists or is allowed here.
pub fn restrict_to(cpus: &[usize]) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    rustix::thread::sched_setaffinity(None, &set)
}

/// Whether this thread may run on one CPU only.
pub fn is_bound_to_one() -> bool {
    rustix::thread::sched_getaffinity(None).is_ok_and(|set| set.count() == 1)
}

/// The CPU that the calling thread runs on now.
#[inline]
pub fn current() -> u32 {
    // SAFETY: takes nothing, returns a number; a kernel without the call gives -1, which is no CPU either.
    unsafe { libc::sched_getcpu() }.cast_unsigned()
}

/// How many threads of the whole machine are runnable now, this one among them (`/proc/loadavg`). `None` if the file cannot
/// be read.
pub fn running_threads() -> Option<u32> {
    use rustix::fs::{Mode, OFlags, open};
    let file = open("/proc/loadavg", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    // Not on the heap: a signal handler may read from a pipe.
    let mut line = [0; 64];
    let count = rustix::io::read(file, &mut line).ok()?;
    let line = core::str::from_utf8(&line[..count]).ok()?;
    line.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

/// How many CPUs are online, as the C library says; some count only the CPUs that this thread may use.
pub fn online() -> u32 {
    // SAFETY: takes a number, returns one; -1 if the kernel does not say.
    u32::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Yields the CPU to another runnable thread, if there is one.
pub fn give_way() {
    rustix::thread::sched_yield();
}

/// Whether the kernel lets this process make a pipe larger than `/proc/sys/fs/pipe-max-size`: with `CAP_SYS_RESOURCE`,
/// which, other than for the quotas, nothing replaces, and not inside a user namespace.
pub fn may_exceed_pipe_max_size() -> bool {
    use rustix::thread::CapabilitySet;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE))
        && crate::machine::is_in_initial_user_namespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restricted_thread_is_allowed_only_that_cpu() {
        std::thread::spawn(|| {
            let last = *allowed().unwrap().last().unwrap();
            restrict_to(&[last]).unwrap();
            assert_eq!(allowed(), Ok(std::vec![last]));
            assert!(is_bound_to_one());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn one_thread_runs_at_least() {
        assert!(running_threads().unwrap() >= 1);
    }

    #[test]
    fn no_cpu_at_all_is_refused() {
        assert_eq!(restrict_to(&[]), Err(Errno::INVAL));
    }
}
