//! Changing a pipe of other processes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use millstream_sys::open_files::{self, MemoryFiles, Target};
use millstream_sys::pipe;
use millstream_sys::transfer::{self, Access};

use super::segment::examine;
use crate::end::{End, Origin, Pipe};
use crate::error::PipeErrorKind;
use crate::policy::WaitPolicy;
use crate::segment::Segment;

/// Makes the pipe behind `descriptor` of `process` larger or smaller, as
/// [`Reader::set_capacity`](crate::Reader::set_capacity) of one of its ends would; returns its new capacity.
///
/// During the call the pipe is open here once more, for reading and writing. An end whose peers close in that time
/// learns of it when the call is over. Marks and the header count the ends that were exported and those that came
/// back. This call changes neither, so bytes go where they went.
///
/// # Errors
/// As [`Reader::set_capacity`](crate::Reader::set_capacity). `NotFound`: there is no such process or descriptor.
/// `PermissionDenied`: it is another user's. `InvalidInput` with a [`PipeError`](crate::PipeError): it is no
/// anonymous pipe, or no process that may be looked into has shared memory for it that is in use.
pub fn set_capacity(process: u32, descriptor: u32, bytes: usize) -> io::Result<usize> {
    let pinned = open_files::pin(process, descriptor)?;
    let number = open_files::pipe_number(&pinned).ok_or(PipeErrorKind::NotAPipe)?;
    let identity = pipe::identity(&pinned).ok_or(PipeErrorKind::NotAPipe)?;
    let file = find_memory(process, number)?.ok_or(PipeErrorKind::NoSharedMemory)?;
    let (segment, size) = Segment::of_peer(&file, identity).map_err(|_| PipeErrorKind::NoSharedMemory)?;
    let pipe = Pipe::mapped(Origin { file, shadow: identity, size, found_at: None }, segment);
    let shadow = transfer::reopened(&pinned, Access::Both, true)?;
    let end = End::new(shadow, Arc::new(pipe), WaitPolicy::Block);
    let outcome = end.set_capacity(bytes);
    // Not dropped, which would tell the others that one of them has closed.
    drop(end.take_fd());
    outcome
}

/// The memory of a pipe. Most likely the process has it that has the end, but the end may have been passed to that
/// process.
fn find_memory(process: u32, number: u64) -> io::Result<Option<OwnedFd>> {
    let memory_files = MemoryFiles::known()?;
    let in_process = |process: u32| {
        let files = open_files::of_process(process).unwrap_or_default();
        let memories = files.into_iter().filter(|file| file.target == Target::Memory);
        memories.filter_map(|file| memory_of(memory_files, process, file.descriptor, number)).next()
    };
    if let Some(file) = in_process(process) {
        return Ok(Some(file));
    }
    Ok(open_files::processes()?.into_iter().find_map(in_process))
}

fn memory_of(memory_files: MemoryFiles, process: u32, descriptor: u32, number: u64) -> Option<OwnedFd> {
    let pinned = open_files::pin(process, descriptor).ok()?;
    let seen = examine(&memory_files.open(pinned.as_fd(), Access::Read).ok()?).ok()??;
    // Compared with the pipe itself when it is mapped; here a number is enough to pass by the others.
    (seen.look.whose.inode == number).then(|| memory_files.open(pinned, Access::Both).ok()).flatten()
}
