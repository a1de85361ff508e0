//! Threads that go to sleep inside a pipe, and how to tell that they have.

use std::fs;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::Pid;

/// A running thread.
#[derive(Debug)]
pub struct Task<T> {
    /// Its number, as the kernel has it.
    pub id: Pid,
    handle: JoinHandle<T>,
}

/// Starts a thread.
///
/// # Panics
/// When there can be no more threads.
pub fn start<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> Task<T> {
    let (sender, receiver) = mpsc::channel();
    let handle = thread::spawn(move || {
        sender.send(rustix::thread::gettid()).unwrap();
        body()
    });
    Task { id: receiver.recv().unwrap(), handle }
}

/// Starts a thread and waits until it sleeps in its body.
///
/// # Panics
/// When it has ended instead.
pub fn start_and_wait_until_asleep<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> Task<T> {
    let task = start(body);
    wait_until_asleep(task.id);
    assert!(!task.is_finished(), "the task should sleep and has ended");
    task
}

impl<T> Task<T> {
    /// Waits for its end and returns what it returned.
    ///
    /// # Panics
    /// When it panicked.
    pub fn join(self) -> T {
        self.handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

/// Waits until a thread, or a process with one, sleeps (state S) and has not run for a while. Returns also when it has
/// ended; a task that neither sleeps nor ends is the watchdog's.
pub fn wait_until_asleep(id: Pid) {
    wait_until_idle_for(id, Duration::from_millis(20));
}

/// Waits until all of these threads sleep, or have ended.
pub fn wait_until_all_asleep<T>(tasks: &[Task<T>]) {
    wait_until_these_sleep(&tasks.iter().map(|task| task.id).collect::<Vec<_>>());
}

/// Waits until the threads of these numbers sleep, or have ended.
pub fn wait_until_these_sleep(ids: &[Pid]) {
    // A thread that sleeps may still be woken by one that runs, so the last look compares all of them.
    let look = || ids.iter().map(|&id| state_and_time(id)).collect::<Vec<_>>();
    loop {
        let before = look();
        thread::sleep(Duration::from_millis(20));
        if before == look() && before.iter().flatten().all(|&(state, _)| state == 'S') {
            return;
        }
    }
}

/// Waits until a thread sleeps (state S) and has not got a nanosecond of a CPU for `window`.
pub fn wait_until_idle_for(id: Pid, window: Duration) {
    loop {
        let before = state_and_time(id);
        if before.is_none_or(|(state, _)| state == 'Z') {
            return;
        }
        thread::sleep(window);
        if before == state_and_time(id) && before.is_some_and(|(state, _)| state == 'S') {
            return;
        }
    }
}

/// Waits until a process is in this state (the letters of `proc(5)`).
pub fn wait_until_state(id: Pid, wanted: char) {
    while state_and_time(id).is_none_or(|(state, _)| state != wanted) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Its state, and the nanoseconds that it has run so far; `None` when it is gone.
fn state_and_time(id: Pid) -> Option<(char, u64)> {
    // Threads are found there too, although they are not listed.
    let directory = format!("/proc/{}", id.as_raw_nonzero());
    let stat = fs::read_to_string(format!("{directory}/task/{}/stat", id.as_raw_nonzero())).ok()?;
    let schedule = fs::read_to_string(format!("{directory}/task/{}/schedstat", id.as_raw_nonzero())).ok()?;
    let state = stat.rsplit_once(") ")?.1.chars().next()?;
    Some((state, schedule.split(' ').next()?.parse().ok()?))
}
