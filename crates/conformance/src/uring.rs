//! One question to one `io_uring(7)`: when is a descriptor ready? By system calls, so that no further crate is needed.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::PollFlags as Flags;

const POLL_ADD: u8 = 6;
const ENTER_GETEVENTS: u32 = 1;
const FEATURE_SINGLE_MAP: u32 = 1;
const MAP_OF_RINGS: i64 = 0;
const MAP_OF_ENTRIES: i64 = 0x1000_0000;

/// Where the words of one of the two rings lie (`struct io_sqring_offsets`, `struct io_cqring_offsets`).
#[allow(dead_code, reason = "the kernel reads them")]
#[repr(C)]
#[derive(Default)]
struct Offsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    /// Flags of the one, overflows of the other.
    fifth: u32,
    /// Entries dropped of the one, the entries of the other.
    sixth: u32,
    /// The array of the one, flags of the other.
    seventh: u32,
    reserved: [u32; 3],
}

/// `struct io_uring_params`.
#[allow(dead_code, reason = "the kernel reads them")]
#[repr(C)]
#[derive(Default)]
struct Parameters {
    submission_entries: u32,
    completion_entries: u32,
    flags: u32,
    thread: [u32; 2],
    features: u32,
    queue: u32,
    reserved: [u32; 3],
    submission: Offsets,
    completion: Offsets,
}

/// `struct io_uring_sqe`, of what polling needs.
#[allow(dead_code, reason = "the kernel reads them")]
#[repr(C)]
#[derive(Default)]
struct Submission {
    operation: u8,
    flags: u8,
    priority: u16,
    descriptor: i32,
    unused: [u64; 2],
    len: u32,
    events: u32,
    user_data: u64,
    rest: [u64; 3],
}

/// `struct io_uring_cqe`.
#[allow(dead_code, reason = "the kernel reads them")]
#[repr(C)]
#[derive(Clone, Copy)]
struct Completion {
    user_data: u64,
    result: i32,
    flags: u32,
}

const _: () = assert!(size_of::<Parameters>() == 120 && size_of::<Submission>() == 64 && size_of::<Completion>() == 16);

/// Memory shared with the kernel.
struct Map(NonNull<u8>, usize);

impl Map {
    fn of(ring: &OwnedFd, len: usize, offset: i64) -> Map {
        // SAFETY: a new mapping, where the kernel likes.
        let start = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(
                std::ptr::null_mut(),
                len,
                access,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                ring.as_raw_fd(),
                offset,
            )
        };
        assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Map(NonNull::new(start.cast()).expect("a mapping is not at 0"), len)
    }

    fn at<T>(&self, offset: u32) -> NonNull<T> {
        assert!(offset as usize + size_of::<T>() <= self.1);
        // SAFETY: within the mapping, by the line above.
        unsafe { self.0.add(offset as usize) }.cast()
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: mapped for as long as `self`; the kernel puts words at multiples of four.
        unsafe { self.at::<AtomicU32>(offset).as_ref() }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: what was mapped; every use of it borrows `self`.
        unsafe { libc::munmap(self.0.as_ptr().cast(), self.1) };
    }
}

/// Sleeps until `descriptor` is ready for one of `events`, an error or a hang-up, and says for what. `None`: this system does not
/// let the process use `io_uring`.
///
/// # Panics
/// When the kernel does something else than what is documented.
pub fn poll(descriptor: BorrowedFd<'_>, events: Flags) -> Option<Flags> {
    let mut parameters = Parameters::default();
    // SAFETY: the kernel reads and writes one `struct io_uring_params`.
    let ring = match unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, &raw mut parameters) } {
        -1 => return None,
        // SAFETY: a new descriptor, which nothing else owns.
        fd => unsafe { OwnedFd::from_raw_fd(fd as i32) },
    };
    assert_ne!(parameters.features & FEATURE_SINGLE_MAP, 0);
    let Parameters { submission, completion, submission_entries, completion_entries, .. } = &parameters;
    let ends = [
        submission.seventh as usize + *submission_entries as usize * size_of::<u32>(),
        completion.sixth as usize + *completion_entries as usize * size_of::<Completion>(),
    ];
    let rings = Map::of(&ring, ends[0].max(ends[1]), MAP_OF_RINGS);
    let entries = Map::of(&ring, *submission_entries as usize * size_of::<Submission>(), MAP_OF_ENTRIES);
    let entry = Submission {
        operation: POLL_ADD,
        descriptor: descriptor.as_raw_fd(),
        events: events.bits().into(),
        user_data: 7,
        ..Submission::default()
    };
    // SAFETY: the first entry, which the kernel does not look at before it is told of it.
    unsafe { entries.at::<Submission>(0).write(entry) };
    rings.word(submission.seventh).store(0, Ordering::Relaxed);
    rings.word(submission.tail).store(1, Ordering::Release);
    loop {
        let to_submit = 1 - rings.word(submission.head).load(Ordering::Acquire);
        // SAFETY: numbers only; no mask of signals is given.
        let entered = unsafe {
            let (nothing, flags) = (std::ptr::null::<libc::sigset_t>(), ENTER_GETEVENTS);
            libc::syscall(libc::SYS_io_uring_enter, ring.as_raw_fd(), to_submit, 1, flags, nothing, 0)
        };
        if rings.word(completion.tail).load(Ordering::Acquire) != rings.word(completion.head).load(Ordering::Relaxed) {
            break;
        }
        let error = std::io::Error::last_os_error();
        assert!(entered >= 0 || error.kind() == std::io::ErrorKind::Interrupted, "{error}");
    }
    // SAFETY: the first completion, which the kernel has written.
    let done = unsafe { rings.at::<Completion>(completion.sixth).read() };
    assert!(done.user_data == 7 && done.result >= 0, "{}", std::io::Error::from_raw_os_error(-done.result));
    Some(Flags::from_bits_retain(done.result as u16))
}
