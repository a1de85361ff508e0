//! The descriptors that this process has open, and what each stands for.
#![allow(unsafe_code)]

use rustix::fd::{AsFd, BorrowedFd};
pub use rustix::fs::Stat;
use rustix::fs::{FileType, Mode, OFlags};

use crate::directory;

/// Calls `visit` with each open descriptor until it returns false. Returns whether it never did. `None`: `/proc` is not
/// mounted. `far` is a number that may be open far above the others.
///
/// Listing `/proc/self/fd` takes ten times as long as `fstat(2)` for each number. The latter works where Linux tells how
/// many descriptors there are (since 6.2) and the process has one thread, so that none is opened or closed meanwhile.
pub fn each(has_one_thread: bool, far: Option<u32>, visit: impl FnMut(u32, &Stat) -> bool) -> Option<bool> {
    let count = if has_one_thread { rustix::fs::stat(c"/proc/self/fd").ok()?.st_size } else { 0 };
    each_of(count.cast_unsigned(), far, visit)
}

/// `count` is 0 if it is unknown. If it is too high, the listing still finds all descriptors.
fn each_of(count: u64, far: Option<u32>, mut visit: impl FnMut(u32, &Stat) -> bool) -> Option<bool> {
    let mut left = count;
    let near = 0..count.min(1 << 16) as u32 * 4;
    let far = far.filter(|number| count > 0 && !near.contains(number));
    for number in far.into_iter().chain(near.clone()) {
        if left == 0 {
            return Some(true);
        }
        let Some(status) = status_of(number) else { continue };
        if !visit(number, &status) {
            return Some(false);
        }
        left -= 1;
    }
    let is_asked = |number| near.contains(&number) || far == Some(number);
    each_listed(|number| is_asked(number) || status_of(number).is_none_or(|status| visit(number, &status)))
}

/// Whether this is no file but an `anon_inode` of Linux, as epoll and io_uring instances are.
pub fn is_no_file(status: &Stat) -> bool {
    FileType::from_raw_mode(status.st_mode) == FileType::Unknown
}

/// The status of the file that is open as this number.
pub fn status_of(number: u32) -> Option<Stat> {
    // SAFETY: not negative, so not -1; used for a call that is valid for any number.
    rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(number.cast_signed() & i32::MAX) }).ok()
}

fn each_listed(mut visit: impl FnMut(u32) -> bool) -> Option<bool> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let list = rustix::fs::open(c"/proc/self/fd", flags, Mode::empty()).ok()?;
    directory::each_entry(list.as_fd(), &mut |name, _| directory::number(name).is_none_or(&mut visit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::vec::Vec;

    /// How often a number is found without a count, and with one that is too high. Other tests open files meanwhile.
    fn found(far: Option<u32>, wanted: u32) -> [usize; 2] {
        [0, 100_000].map(|count| {
            let mut times = 0;
            let outcome = each_of(count, far, |number, _| {
                times += usize::from(number == wanted);
                true
            });
            assert_eq!(outcome, Some(true));
            times
        })
    }

    #[test]
    fn descriptor_is_found_once_however_far_it_is() {
        let (reader, _writer) = crate::pipe::create().unwrap();
        let far = rustix::io::fcntl_dupfd_cloexec(&reader, 900).unwrap();
        let [near, far] = [&reader, &far].map(|fd| fd.as_raw_fd().unsigned_abs());
        for (wanted, told) in [(near, None), (far, None), (far, Some(far)), (near, Some(near)), (near, Some(800))] {
            assert_eq!(found(told, wanted), [1, 1], "{wanted} {told:?}");
        }
    }

    #[test]
    fn search_ends_with_the_last_of_the_count() {
        let (reader, _writer) = crate::pipe::create().unwrap();
        let far = reader.as_raw_fd().unsigned_abs();
        let mut seen = Vec::new();
        let outcome = each_of(1, Some(far), |number, _| {
            seen.push(number);
            true
        });
        assert_eq!((outcome, seen.len()), (Some(true), 1));
    }

    #[test]
    fn visit_ends_when_it_says_no() {
        let mut visits = 0;
        assert_eq!(
            each(false, None, |_, _| {
                visits += 1;
                false
            }),
            Some(false)
        );
        assert_eq!(visits, 1);
    }

    #[test]
    fn epoll_instance_is_no_file_and_a_pipe_is_one() {
        let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap();
        let (reader, _writer) = crate::pipe::create().unwrap();
        let is_no_file = |fd: &rustix::fd::OwnedFd| is_no_file(&rustix::fs::fstat(fd).unwrap());
        assert_eq!((is_no_file(&epoll), is_no_file(&reader)), (true, false));
    }
}
