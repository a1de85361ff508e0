//! Children that are led through a call one instruction at a time, and end or pause where they are told to.
#![allow(unsafe_code)]

use std::fs;
use std::mem::MaybeUninit;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, waitpid};

use crate::process::{Child, end, fork};

/// A child that stands still between two instructions.
#[derive(Debug)]
pub struct Traced(Child);

/// What one more instruction came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next one is due.
    Made,
    /// The child sleeps in the kernel until another process wakes it.
    Asleep,
    /// The traced part is over.
    Finished,
}

/// Forks a child that does `prepare` freely and then stands before `operate`, of which it does one instruction at each
/// [`Traced::step`].
///
/// # Panics
/// When the child cannot be traced, or has failed.
pub fn fork_traced<S, P>(state: S, prepare: impl FnOnce(S) -> P, operate: impl FnOnce(P)) -> (Traced, S) {
    let (child, state) = fork(state, |state| {
        let prepared = prepare(state);
        // SAFETY: no memory is involved.
        let traced = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        assert_eq!(traced, 0, "cannot be traced: {}", std::io::Error::last_os_error());
        stand_still();
        operate(prepared);
        stand_still();
        end(0);
    });
    let traced = Traced(child);
    traced.wait_until_it_stands();
    (traced, state)
}

/// The system calls of `operate`, by their numbers and in order.
///
/// # Panics
/// When the child cannot be traced, or has failed.
pub fn system_calls<P>(prepare: impl FnOnce() -> P, operate: impl FnOnce(P)) -> Vec<i64> {
    // Standing still takes some, too.
    let none = all_system_calls(|| (), |()| ());
    let mut calls = all_system_calls(prepare, operate);
    assert!(calls.ends_with(&none), "{calls:?} do not end with {none:?}");
    calls.truncate(calls.len() - none.len());
    calls
}

fn all_system_calls<P>(prepare: impl FnOnce() -> P, operate: impl FnOnce(P)) -> Vec<i64> {
    let (child, ()) = fork_traced((), |()| prepare(), operate);
    let mut calls = Vec::new();
    while let Some(call) = child.next_system_call() {
        calls.push(call);
    }
    child.kill();
    calls
}

/// The signal by which a child stops. Not `SIGSTOP`, which a user may send to all processes of a test.
const STANDS: i32 = libc::SIGUSR2;

/// What the tracer passes on of a signal that reached the child.
fn passed_on(signal: i32) -> i32 {
    // `SIGSTOP` goes to the tracer too, and a child makes no step while its tracer is stopped.
    if signal == libc::SIGSTOP { 0 } else { signal }
}

fn stand_still() {
    // SAFETY: no memory is involved; the tracer keeps the signal to itself.
    unsafe { libc::raise(STANDS) };
}

fn wait(child: &Child) -> WaitStatus {
    rustix::io::retry_on_intr(|| waitpid(Some(child.id), WaitOptions::empty())).unwrap().unwrap().1
}

/// Not a signal but a system call (`PTRACE_O_TRACESYSGOOD` in `ptrace(2)`).
const STOPPED_AT_CALL: i32 = libc::SIGTRAP | 0x80;

/// What a thread sleeps for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// A descriptor.
    Poll,
    /// A lock.
    Futex,
}

/// The number of the system call that a thread, of this process or a child, sleeps or was stopped in; `None` if it is in none.
pub fn call_of(thread: Pid) -> Option<i64> {
    let call = fs::read_to_string(format!("/proc/{}/syscall", thread.as_raw_nonzero())).ok()?;
    call.split(' ').next()?.parse().ok().filter(|&number: &i64| number >= 0)
}

/// What a thread, of this process or a child, sleeps for; `None` if it runs, has ended, or sleeps for something else.
pub fn sleeps_in(thread: Pid) -> Option<Sleep> {
    let call = fs::read_to_string(format!("/proc/{}/syscall", thread.as_raw_nonzero())).ok()?;
    let mut words = call.split(' ');
    let number = words.next()?.parse::<i64>().ok()?;
    // A thread that was interrupted in a call that does not wait is in that call too, but is not asleep.
    let limit = words.nth(2)?;
    let is_asleep = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", thread.as_raw_nonzero())).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
    };
    match number {
        #[cfg(target_arch = "x86_64")] // later machines have only the newer call
        libc::SYS_poll if limit.starts_with("0xffffffff") => Some(Sleep::Poll),
        libc::SYS_ppoll if limit == "0x0" || is_asleep() => Some(Sleep::Poll),
        libc::SYS_futex => Some(Sleep::Futex),
        _ => None,
    }
}

impl Traced {
    /// Its number.
    pub fn id(&self) -> Pid {
        self.0.id
    }

    /// One instruction more; a system call counts as one.
    ///
    /// # Panics
    /// When the child has ended: nothing that it does in a traced part should end it.
    pub fn step(&self) -> Step {
        let mut signal = 0;
        loop {
            self.resume(libc::PTRACE_SINGLESTEP, signal);
            let Some(status) = self.wait_unless_asleep() else { return Step::Asleep };
            match status.stopping_signal() {
                Some(libc::SIGTRAP) => return Step::Made,
                Some(STANDS) => return Step::Finished,
                Some(other) => signal = passed_on(other),
                None => panic!("the child ended with {status:?}"),
            }
        }
    }

    /// Lets it go on to its next system call, which it is about to make then; `None` when the traced part is over.
    fn next_system_call(&self) -> Option<i64> {
        let pid = self.0.id.as_raw_nonzero().get();
        // SAFETY: the child is traced by this thread and stands still; no memory of ours is involved.
        unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, libc::PTRACE_O_TRACESYSGOOD) };
        let mut signal = 0;
        loop {
            self.resume(libc::PTRACE_SYSCALL, signal);
            let status = wait(&self.0);
            signal = match status.stopping_signal() {
                Some(STOPPED_AT_CALL) => 0,
                Some(STANDS) => return None,
                Some(other) => {
                    signal = passed_on(other);
                    continue;
                }
                None => panic!("the child ended with {status:?}"),
            };
            let mut info = MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
            // SAFETY: the kernel writes as much of the structure as it knows; zeros are valid for the rest, and `entry` is
            // what it writes at the beginning of a call.
            unsafe {
                let size = size_of::<libc::ptrace_syscall_info>();
                let filled = libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, pid, size, info.as_mut_ptr());
                assert!(filled > 0, "{}", std::io::Error::last_os_error());
                let info = info.assume_init();
                if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
                    return Some(info.u.entry.nr.cast_signed());
                }
            }
        }
    }

    fn resume(&self, until: libc::c_uint, signal: i32) {
        let pid = self.0.id.as_raw_nonzero().get();
        // SAFETY: the child is traced by this thread and stands still; no memory of ours is involved.
        let outcome = unsafe { libc::ptrace(until, pid, 0, signal) };
        assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
    }

    fn wait_until_it_stands(&self) {
        loop {
            let status = wait(&self.0);
            match status.stopping_signal() {
                Some(STANDS) => return,
                Some(other) => self.resume(libc::PTRACE_CONT, passed_on(other)),
                None => panic!("the child ended with {status:?}"),
            }
        }
    }

    fn wait_unless_asleep(&self) -> Option<WaitStatus> {
        for look in 0_u64.. {
            if let Some((_, status)) = waitpid(Some(self.0.id), WaitOptions::NOHANG).unwrap() {
                return Some(status);
            }
            // A step takes microseconds. After a thousand looks the child may be asleep instead.
            if look > 1000 && look.is_multiple_of(100) && self.sleeps_for_good() {
                return None;
            }
        }
        None
    }

    /// In `poll(2)`: a wait for a lock, which is a futex, has a limit and is over some time.
    fn sleeps_for_good(&self) -> bool {
        sleeps_in(self.0.id) == Some(Sleep::Poll)
    }

    /// Lets it do the rest of the traced part at its own speed.
    ///
    /// # Panics
    /// When it does not come to the end of it.
    pub fn finish(&self) {
        self.resume(libc::PTRACE_CONT, 0);
        self.wait_until_it_stands();
    }

    /// Ends it where it stands.
    ///
    /// # Panics
    /// When it had ended before.
    pub fn kill(self) {
        self.0.signal(Signal::KILL);
        // Before its death it may still report that it stood still.
        loop {
            let status = wait(&self.0);
            if status.terminating_signal() == Some(libc::SIGKILL) {
                break;
            }
            assert!(status.stopped(), "the child ended with {status:?}");
        }
        self.0.forget();
    }
}
