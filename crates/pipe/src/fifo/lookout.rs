//! How a writer knows without a system call whether foreign processes have written into a FIFO.
//!
//! Before each write a writer has to know whether bytes of foreign processes lie in the FIFO. The question takes
//! longer than a small write. After [`QUESTIONS`] that found nothing, the writer requests a write monitor. The
//! monitor is a reader of ours that lets the kernel flag foreign writes ([`Tripwire`]). It keeps the words of the
//! flag in the shared memory, and says in the ring where they are. While these words are unchanged, no write of a
//! foreign process has returned since the FIFO was seen empty.
//!
//! ```text
//!    the write monitor                             a writer, under its lock
//!    ─────────────────                             ────────────────────────
//!    withdraws what it has said                    which reader monitors?
//!    arms its flag: the FIFO is empty              is its flag armed?
//!    says that it monitors                         does the same reader still monitor?
//! ```
//!
//! The writer asks the kernel if no reader monitors, if the flag was raised, or if the words belong to another
//! monitor by then. It does so every few microseconds in any case: a program may close descriptors behind our back.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use millstream_ring::{Lookout, Ring};
use millstream_sys::tripwire::{Tripwire, Words};
use millstream_sys::{Errno, clock, transfer};

use crate::policy::ASK_EVERY;
use crate::segment::{Segment, Slot};

/// Empty FIONREAD results before a writer requests a write monitor: they take some twenty microseconds, half of what
/// it takes to set up a monitor.
const QUESTIONS: u32 = 256;

/// The state of one end for write monitoring.
#[derive(Debug)]
pub(super) struct Watch {
    /// Of a reader that has been the write monitor.
    post: Slot<Post>,
    /// When it last tried to become the monitor, by the coarse clock, and whether it cannot.
    tried_at: AtomicU32,
    is_impossible: AtomicBool,
    /// Of a writer: when it last asked and found nothing, in TSC cycles, and how often.
    asked_at: AtomicU64,
    questions: AtomicU32,
}

#[derive(Debug)]
struct Post {
    tripwire: Tripwire,
    page: u8,
}

impl Watch {
    pub(super) fn none() -> Watch {
        Watch {
            post: Slot::empty(),
            tried_at: AtomicU32::new(clock::coarse_milliseconds().wrapping_sub(1)),
            is_impossible: AtomicBool::new(false),
            asked_at: AtomicU64::new(0),
            questions: AtomicU32::new(0),
        }
    }

    /// Whether no bytes of foreign processes lie in the FIFO. With the writers locked; `now` is a moment ago, in TSC
    /// cycles.
    #[inline]
    pub(super) fn is_free_of_foreign_bytes(
        &self,
        segment: &Segment,
        fifo: BorrowedFd<'_>,
        now: u64,
    ) -> Result<bool, Errno> {
        let is_recent = now.wrapping_sub(self.asked_at.load(Relaxed)) < ASK_EVERY;
        if is_recent && is_looked_out_for(segment) { Ok(true) } else { self.ask(segment.ring(), fifo, now) }
    }

    fn ask(&self, ring: &Ring<'_>, fifo: BorrowedFd<'_>, now: u64) -> Result<bool, Errno> {
        if transfer::bytes_waiting(fifo)? > 0 {
            self.asked_at.store(now.wrapping_sub(ASK_EVERY), Relaxed);
            return Ok(false);
        }
        self.asked_at.store(now, Relaxed);
        let questions = self.questions.load(Relaxed).wrapping_add(1);
        self.questions.store(questions, Relaxed);
        if questions == QUESTIONS {
            ring.want_monitor();
        }
        Ok(true)
    }

    /// A reader with nothing else to do becomes the write monitor, if writers request one and there is none.
    #[inline]
    pub(super) fn see_to_it(&self, segment: &Segment, fifo: BorrowedFd<'_>) {
        if segment.ring().is_monitor_wanted() && !is_looked_out_for(segment) {
            self.try_to_look_out(segment, fifo);
        }
    }

    #[cold]
    fn try_to_look_out(&self, segment: &Segment, fifo: BorrowedFd<'_>) {
        let (ring, now) = (segment.ring(), clock::coarse_milliseconds());
        // Not again and again while a foreign process writes all the time.
        if self.is_impossible.load(Relaxed) || self.tried_at.swap(now, Relaxed) == now {
            return;
        }
        let post = match self.post.get() {
            Some(post) => post,
            None => match new_post(segment, fifo) {
                Ok(post) => self.post.fill(post),
                // Then writers ask.
                Err(_) => return self.is_impossible.store(true, Relaxed),
            },
        };
        self.withdraw(ring);
        let before = ring.monitor();
        // An error: the monitor belongs to another thread, or to the process that this one was forked from.
        if let Ok(Some(count)) = post.tripwire.set() {
            let Words { flags, count: count_at } = post.tripwire.words();
            ring.post_monitor(before, Lookout { page: post.page, flags, count_at, count });
        }
    }

    /// This process is the write monitor no longer.
    pub(super) fn withdraw(&self, ring: &Ring<'_>) {
        if let (Some(post), Some(lookout)) = (self.post.get(), ring.monitor())
            && lookout.page == post.page
        {
            ring.withdraw_monitor(lookout);
        }
    }
}

/// Whether a reader monitors the FIFO, and its flag is armed.
#[inline]
fn is_looked_out_for(segment: &Segment) -> bool {
    let ring = segment.ring();
    ring.monitor().is_some_and(|lookout| {
        let words = Words { flags: lookout.flags, count: lookout.count_at };
        let is_up = |page| segment.is_monitor_armed(page, words, lookout.count);
        // In this order: a monitor withdraws before it arms its flag again. What the writer read before that does not
        // hold any more.
        ring.monitor_page(lookout.page).is_some_and(is_up) && ring.monitor() == Some(lookout)
    })
}

fn new_post(segment: &Segment, fifo: BorrowedFd<'_>) -> Result<Post, Errno> {
    let page = segment.ring().take_monitor_page().ok_or(Errno::NOSPC)?;
    let offset = segment.ring().monitor_page(page).ok_or(Errno::NOSPC)?;
    Ok(Post { tripwire: segment.write_monitor(offset, fifo)?, page })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{ErrorKind, Read, Write};
    use std::path::PathBuf;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;
    use std::thread;
    use std::time::Duration;

    use super::super::company::Link;
    use super::*;
    use crate::end::End;
    use crate::{Fifo, FifoOptions, Reader, Writer};

    /// A FIFO with a participant as its write monitor.
    struct Watched {
        path: PathBuf,
        reader: Reader,
        writer: Writer,
        stranger: File,
    }

    fn link(end: &End) -> &Link {
        end.pipe.company.as_ref().unwrap().link_so_far().unwrap()
    }

    fn reader_at(path: &PathBuf) -> Reader {
        FifoOptions::new().ring(true).nonblocking(true).open_reader(path).unwrap()
    }

    /// Returns whether there was anything.
    fn read_some(reader: &Reader, text: &mut Vec<u8>) -> bool {
        let mut buffer = [0; 16];
        match (&*reader).read(&mut buffer) {
            Ok(count) => text.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => panic!("{error}"),
        }
        true
    }

    /// `None` where the kernel has nothing to monitor writes with, or forbids it.
    fn watched() -> Option<Watched> {
        static NAMES: AtomicUsize = AtomicUsize::new(0);
        let name = format!("millstream-write-monitor-{}-{}", std::process::id(), NAMES.fetch_add(1, SeqCst));
        let path = std::env::temp_dir().join(name);
        Fifo::create(&path, 0o600).unwrap();
        let reader = reader_at(&path);
        let writer = FifoOptions::new().ring(true).open_writer(&path).unwrap();
        let stranger = File::options().write(true).open(&path).unwrap();
        let watched = Watched { path, reader, writer, stranger };
        let mut sent = 0;
        while reader_sees(&watched.reader) == Some(false) {
            (&watched.writer).write_all(b"?").unwrap();
            sent += 1;
            let mut text = Vec::new();
            while read_some(&watched.reader, &mut text) || text.is_empty() {}
            assert!(sent < 1_000_000, "no reader monitors the FIFO");
        }
        if reader_sees(&watched.reader).is_none() {
            eprintln!("NOT TESTED: no io_uring of the kind that a write monitor needs");
            return None;
        }
        Some(watched)
    }

    /// Whether a reader monitors the FIFO; `None` if that is impossible.
    fn reader_sees(reader: &Reader) -> Option<bool> {
        let company = reader.end.pipe.company.as_ref().unwrap();
        let Some(link) = company.link_so_far() else { return Some(false) };
        (!link.watch.is_impossible.load(Relaxed)).then(|| is_looked_out_for(link.segment()))
    }

    impl Watched {
        fn read(&self, len: usize) -> Vec<u8> {
            let mut text = Vec::new();
            while text.len() < len {
                read_some(&self.reader, &mut text);
            }
            text
        }

        fn wait_for_monitor(&self) {
            for look in 1.. {
                if reader_sees(&self.reader) != Some(false) {
                    break;
                }
                // A reader that was not run for a while is active again, and monitors, when a writer has seen that it
                // is there.
                if look % 50 == 0 {
                    (&self.writer).write_all(b"?").unwrap();
                    assert_eq!(self.read(1), b"?");
                }
                assert!(!read_some(&self.reader, &mut Vec::new()));
                thread::sleep(Duration::from_micros(200));
            }
        }

        /// Writes into the ring while the reader is active. A reader that is not run for a while is not active, and
        /// the kernel gets the bytes. Then it returns false, and all is as it was before.
        fn write_into_ring(&self, bytes: &[u8]) -> bool {
            self.wait_for_monitor();
            let before = self.writer.statistics().bytes_through_kernel;
            (&self.writer).write_all(bytes).unwrap();
            if self.writer.statistics().bytes_through_kernel == before {
                return true;
            }
            assert_eq!(self.read(bytes.len()), bytes);
            false
        }
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    #[test]
    fn bytes_around_a_foreign_write_keep_their_place() {
        let Some(watched) = watched() else { return };
        for round in 0..100 {
            while !watched.write_into_ring(b"a") {}
            assert!(is_looked_out_for(link(&watched.writer.end).segment()), "our own writes do not count");
            (&watched.stranger).write_all(b"S").unwrap();
            assert!(!is_looked_out_for(link(&watched.writer.end).segment()));
            (&watched.writer).write_all(b"b").unwrap();
            assert_eq!(watched.read(3), b"aSb", "{round}");
        }
    }

    #[test]
    fn writer_that_sees_a_foreign_write_comes_behind_it() {
        let Some(watched) = watched() else { return };
        let (asked, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=200 {
                    while asked.load(SeqCst) < round {
                        thread::yield_now();
                    }
                    (&watched.stranger).write_all(b"S").unwrap();
                    done.store(round, SeqCst);
                }
            });
            for round in 1..=200 {
                watched.wait_for_monitor();
                (&watched.writer).write_all(b"a").unwrap();
                asked.store(round, SeqCst);
                // Not in the kernel, unless it keeps the other from the CPU.
                for spins in 1_u32.. {
                    if done.load(SeqCst) == round {
                        break;
                    }
                    if spins.is_multiple_of(20_000) { thread::yield_now() } else { std::hint::spin_loop() }
                }
                (&watched.writer).write_all(b"b").unwrap();
                assert_eq!(watched.read(3), b"aSb", "{round}");
            }
        });
    }

    #[test]
    fn write_monitor_passes_to_another_reader_when_it_leaves() {
        let Some(mut watched) = watched() else { return };
        let other = reader_at(&watched.path);
        let mut text = Vec::new();
        // It attaches with the first read.
        assert!(!read_some(&other, &mut text));
        let first = link(&watched.writer.end).ring().monitor();
        drop(std::mem::replace(&mut watched.reader, other));
        assert_eq!(link(&watched.writer.end).ring().monitor(), None);
        watched.wait_for_monitor();
        let second = link(&watched.writer.end).ring().monitor();
        assert!(second.is_some() && first.map(|it| it.page) != second.map(|it| it.page));
        (&watched.stranger).write_all(b"S").unwrap();
        (&watched.writer).write_all(b"b").unwrap();
        assert_eq!(watched.read(2), b"Sb");
    }

    #[test]
    fn writers_ask_when_the_thread_of_the_write_monitor_has_ended() {
        let Some(watched) = thread::spawn(watched).join().unwrap() else { return };
        assert!(!is_looked_out_for(link(&watched.writer.end).segment()));
        for _ in 0..20 {
            (&watched.stranger).write_all(b"S").unwrap();
            (&watched.writer).write_all(b"b").unwrap();
            assert_eq!(watched.read(2), b"Sb");
        }
    }

    #[test]
    fn writer_asks_now_and_then_beside_a_write_monitor() {
        let Some(watched) = watched() else { return };
        let asked_at = || link(&watched.writer.end).watch.asked_at.load(Relaxed);
        let before = loop {
            // A writer that returns to the ring has asked already.
            while !watched.write_into_ring(b"?") {}
            watched.read(1);
            let before = asked_at();
            thread::sleep(Duration::from_millis(1));
            if watched.write_into_ring(b"a") {
                break before;
            }
        };
        assert_ne!(asked_at(), before);
        assert_eq!(watched.read(1), b"a");
    }
}
