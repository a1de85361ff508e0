//! What `poll`, `select` and `epoll` say about an end.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::Duration;

pub use rustix::event::PollFlags as Flags;
use rustix::event::{FdSetElement, PollFd, Timespec, epoll, fd_set_insert, fd_set_num_elements, poll, select};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::Polled;

/// What is asked for: all that `poll` can tell about a pipe.
const ASKED: Flags = Flags::IN.union(Flags::OUT);

/// What an end is ready for now. Asks `poll`, a new `epoll` and `select`, which must agree.
///
/// # Panics
/// When they do not.
#[track_caller]
pub fn now(end: &impl Polled) -> Flags {
    let descriptor = end.readiness().unwrap();
    let flags = by_poll(descriptor, Some(Duration::ZERO));
    let watched = Epoll::of(descriptor, epoll::EventFlags::empty());
    assert_eq!(watched.wait(Some(Duration::ZERO)), flags, "epoll and poll disagree");
    // `select(2)` says in these words when a descriptor is in which of its sets.
    let (readable, writable) = by_select(descriptor, Some(Duration::ZERO));
    assert_eq!(readable, flags.intersects(Flags::IN | Flags::HUP | Flags::ERR), "select and poll disagree: {flags:?}");
    assert_eq!(writable, flags.intersects(Flags::OUT | Flags::ERR), "select and poll disagree: {flags:?}");
    flags
}

/// Sleeps until the end is ready for something, or until the time is over.
///
/// # Panics
/// When the descriptor is no good.
pub fn by_poll(descriptor: BorrowedFd<'_>, limit: Option<Duration>) -> Flags {
    let mut polled = [PollFd::new(&descriptor, ASKED)];
    poll(&mut polled, limit.map(timespec).as_ref()).unwrap();
    polled[0].revents()
}

/// Sleeps until the descriptor can be read from or written to, or until the time is over; says which.
///
/// # Panics
/// When the descriptor is no good.
pub fn by_select(descriptor: BorrowedFd<'_>, limit: Option<Duration>) -> (bool, bool) {
    let count = descriptor.as_raw_fd() + 1;
    let mut set = vec![FdSetElement::default(); fd_set_num_elements(1, count)];
    fd_set_insert(&mut set, descriptor.as_raw_fd());
    let (mut readable, mut writable) = (set.clone(), set);
    // SAFETY: the one descriptor in the sets is open: it is borrowed.
    unsafe { select(count, Some(&mut readable), Some(&mut writable), None, limit.map(timespec).as_ref()) }.unwrap();
    let is_set = |set: &[FdSetElement]| rustix::event::FdSetIter::new(set).next().is_some();
    (is_set(&readable), is_set(&writable))
}

/// An `epoll` that watches one descriptor.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// Watches for all that can be told, in the manner of `mode`: level-triggered if empty.
    ///
    /// # Panics
    /// When the descriptor is no good.
    pub fn of(descriptor: impl AsFd, mode: epoll::EventFlags) -> Epoll {
        let watcher = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | mode;
        epoll::add(&watcher, descriptor, epoll::EventData::new_u64(0), flags).unwrap();
        Epoll(watcher)
    }

    /// Watches edge-triggered: tells each change once.
    pub fn of_edges(descriptor: impl AsFd) -> Epoll {
        Epoll::of(descriptor, epoll::EventFlags::ET)
    }

    /// Sleeps until there is something to tell, or until the time is over.
    ///
    /// # Panics
    /// When `epoll_wait` is refused.
    pub fn wait(&self, limit: Option<Duration>) -> Flags {
        let mut events = Vec::with_capacity(1);
        epoll::wait(&self.0, rustix::buffer::spare_capacity(&mut events), limit.map(timespec).as_ref()).unwrap();
        // The numbers are the same (`epoll_ctl(2)`).
        events.first().map_or(Flags::empty(), |event| Flags::from_bits_retain({ event.flags }.bits() as u16))
    }

    /// What there is to tell now.
    pub fn now(&self) -> Flags {
        self.wait(Some(Duration::ZERO))
    }
}

/// A descriptor that tells the calling thread of changes by a signal (`O_ASYNC`, `F_SETOWN_EX`, `F_SETSIG`).
#[derive(Debug)]
pub struct Sigio<'a> {
    descriptor: BorrowedFd<'a>,
    signal: libc::c_int,
}

/// Each has a signal of its own, of those that queue.
static SIGIOS: AtomicI32 = AtomicI32::new(0);

impl<'a> Sigio<'a> {
    /// Has it tell the calling thread from now on, which holds the signal back.
    ///
    /// # Panics
    /// When the descriptor is no good.
    pub fn of(descriptor: BorrowedFd<'a>) -> Sigio<'a> {
        let signals = libc::SIGRTMAX() - libc::SIGRTMIN();
        let signal = libc::SIGRTMIN() + SIGIOS.fetch_add(1, Relaxed) % signals;
        let sigio = Sigio { descriptor, signal };
        let owner = FOwnerEx { kind: F_OWNER_TID, id: rustix::thread::gettid().as_raw_nonzero().get() };
        // SAFETY: the kernel reads one `f_owner_ex`; the rest is numbers.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &sigio.set(), std::ptr::null_mut());
            assert_eq!(libc::fcntl(descriptor.as_raw_fd(), F_SETOWN_EX, &raw const owner), 0);
            assert_eq!(libc::fcntl(descriptor.as_raw_fd(), F_SETSIG, signal), 0);
        }
        sigio.switch(true);
        sigio
    }

    fn switch(&self, on: bool) {
        let mut flags = rustix::fs::fcntl_getfl(self.descriptor).unwrap();
        flags.set(rustix::fs::OFlags::from_bits_retain(libc::O_ASYNC as u32), on);
        rustix::fs::fcntl_setfl(self.descriptor, flags).unwrap();
    }

    fn set(&self) -> libc::sigset_t {
        let mut set = std::mem::MaybeUninit::uninit();
        // SAFETY: the first call initialises the set.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), self.signal);
            set.assume_init()
        }
    }

    /// Whether it has told of something; takes that away.
    pub fn is_there(&self) -> bool {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the set is initialised; no details are asked for.
        unsafe { libc::sigtimedwait(&self.set(), std::ptr::null_mut(), &raw const now) == self.signal }
    }

    /// Sleeps until it tells of something.
    pub fn wait(&self) {
        // SAFETY: as above.
        while unsafe { libc::sigwaitinfo(&self.set(), std::ptr::null_mut()) } != self.signal {}
    }
}

impl Drop for Sigio<'_> {
    fn drop(&mut self) {
        self.switch(false);
        while self.is_there() {}
    }
}

/// Of `fcntl(2)`; the C library that we call has no names for these.
const F_SETSIG: libc::c_int = 10;
const F_SETOWN_EX: libc::c_int = 15;
const F_OWNER_TID: libc::c_int = 0;

#[repr(C)]
struct FOwnerEx {
    kind: libc::c_int,
    id: libc::pid_t,
}

/// Sleeps until the descriptor is ready for something, asking whenever a signal says that something has changed.
///
/// # Panics
/// When the descriptor is no good.
pub fn by_sigio(descriptor: BorrowedFd<'_>) {
    let sigio = Sigio::of(descriptor);
    while by_poll(descriptor, Some(Duration::ZERO)).is_empty() {
        sigio.wait();
    }
}

/// The ways to sleep until an end is ready, for tests that want all of them.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// `poll(2)`.
    Poll,
    /// `select(2)`.
    Select,
    /// `epoll(7)`, level-triggered.
    EpollLevel,
    /// `epoll(7)`, edge-triggered.
    EpollEdge,
    /// Where the system lets us use it.
    IoUring,
    /// A signal says that it is time to ask.
    Sigio,
}

/// All of them.
pub const WAYS: [Way; 6] = [Way::Poll, Way::Select, Way::EpollLevel, Way::EpollEdge, Way::IoUring, Way::Sigio];

/// Sleeps until the end is ready, without limit.
///
/// # Panics
/// When the way ends without telling of anything.
#[track_caller]
pub fn sleep_until_ready(end: &impl Polled, way: Way) {
    assert!(is_ready_within(end.readiness().unwrap(), way, None), "{way:?}");
}

/// Sleeps until the descriptor is ready for something, or until the time is over; whether it is. By [`Way::IoUring`] and
/// [`Way::Sigio`] without a limit only.
///
/// # Panics
/// When the descriptor is no good.
pub fn is_ready_within(descriptor: BorrowedFd<'_>, way: Way, limit: Option<Duration>) -> bool {
    match way {
        Way::Poll => !by_poll(descriptor, limit).is_empty(),
        Way::Select => by_select(descriptor, limit) != (false, false),
        Way::EpollLevel => !Epoll::of(descriptor, epoll::EventFlags::empty()).wait(limit).is_empty(),
        Way::EpollEdge => !Epoll::of_edges(descriptor).wait(limit).is_empty(),
        Way::IoUring => {
            assert_eq!(limit, None, "not with a limit");
            let flags = crate::uring::poll(descriptor, ASKED);
            let by_poll_instead = || {
                note_skipped("io_uring is forbidden here");
                by_poll(descriptor, None)
            };
            !flags.unwrap_or_else(by_poll_instead).is_empty()
        }
        Way::Sigio => {
            assert_eq!(limit, None, "not with a limit");
            by_sigio(descriptor);
            true
        }
    }
}

/// A line for `make test`, which counts them and says that they were skipped: in the file that `MILLSTREAM_SKIPPED_LOG` names.
fn note_skipped(why: &str) {
    use std::io::Write;
    if let Some(log) = std::env::var_os("MILLSTREAM_SKIPPED_LOG") {
        let log = std::fs::OpenOptions::new().append(true).create(true).open(log);
        // One write, which is not mixed with those of other processes.
        log.and_then(|mut log| log.write_all(format!("{why}\n").as_bytes())).expect("the log of what is skipped");
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: duration.subsec_nanos().into() }
}
