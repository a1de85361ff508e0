//! Which processes can hold a pipe of this run, so that not every process of the machine has to be looked at.
//!
//! An end that a process shares with another is found by its mark, wherever that process is. The look through `/proc` is
//! for ends that a process has opened anew, as `/dev/stdout` or `/proc/self/fd/1`. A pipe that was made inside the run can
//! only be opened by a process that has it, so by the process that began the run and its descendants. They have higher numbers than it, as
//! numbers are given out in order, if none was given out twice since. That is sure for a while after the run began, as the kernel takes
//! its time for each, and later where it tells how many it has given out.
//!
//! What that does not see: processes from before the run that have opened an end from outside, through `/proc/PID/fd`, or that were
//! sent one that had been opened anew; and processes that chose their own number (`set_tid` of `clone3(2)`, which takes privileges).

use core::ffi::CStr;

use millstream_sys::settings::Ring;
use millstream_sys::{births, raw};

use super::kernel;
use super::own_run::own_run;

/// In so many ticks of the clock (about a microsecond) no kernel gives out two numbers: it does that under one lock, and with
/// much other work for each process and thread.
const TICKS_FOR_A_NUMBER: u64 = 4000;

/// The lowest number that a process with an end of the pipe `inode` can have. 0: any number.
pub(super) fn lowest_holder(inode: u64, peer: u32) -> u32 {
    let run = own_run();
    let is_known = u32::try_from(run.first).is_ok_and(|first| first <= millstream_sys::own_pid() && first <= peer);
    if is_known && !run.older.contains(&inode) && run.older[0] != u64::MAX && has_one_round(&run) {
        run.first as u32
    } else {
        0
    }
}

/// Whether numbers mean to this process what they meant when the run began, and have not been given out again since.
fn has_one_round(run: &Ring) -> bool {
    let at_most = kernel::ticks().wrapping_sub(run.ticks) / TICKS_FOR_A_NUMBER;
    let numbers = number_in(c"/proc/sys/kernel/pid_max").unwrap_or(0);
    (at_most < numbers || births_since(run).is_some_and(|births| births < numbers))
        && kernel::inode_of(c"/proc/self/ns/pid") == Some(run.namespace)
}

/// How many processes and threads the kernel has made since the run began, in all namespaces. The one that is made to find out is one
/// of them; without it the kernel counts none. Under a filter, which may kill for asking, it is not known.
fn births_since(run: &Ring) -> Option<u64> {
    let mut newest = None;
    if run.birth != 0 {
        kernel::in_child(|| newest = births::of(raw::process()));
    }
    newest?.checked_sub(run.birth).filter(|&births| births > 0)
}

fn number_in(path: &CStr) -> Option<u64> {
    let file = kernel::open(path, kernel::O_RDONLY | kernel::O_CLOEXEC);
    if file < 0 {
        return None;
    }
    let mut text = [0; 16];
    let len = kernel::read(file as i32, text.as_mut_ptr(), text.len());
    kernel::close(file as i32);
    let digits = text.get(..usize::try_from(len).ok()?)?.strip_suffix(b"\n")?;
    digits
        .iter()
        .try_fold(0_u64, |value, &digit| value.checked_mul(10)?.checked_add(u64::from(char::from(digit).to_digit(10)?)))
}
