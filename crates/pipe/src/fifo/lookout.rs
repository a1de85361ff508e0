//! Knowing without a question whether strangers have written into a FIFO.
//!
//! Before each write a writer has to know whether strangers' bytes lie in the FIFO, and to ask takes longer than to write a small
//! message. Once it has asked in vain for a while it wishes for a lookout: a reader of ours that has a [`Tripwire`] at the FIFO, with its words
//! in the shared memory, and says in the ring where they are. As long as they are as they were no stranger's write has
//! returned since the FIFO was seen empty.
//!
//! ```text
//!    the lookout                                   a writer, under its lock
//!    ───────────                                   ────────────────────────
//!    withdraws what it has said                    who looks out?
//!    puts up the tripwire: the FIFO is empty       is that tripwire up?
//!    says that it looks out                        does the same one still look out?
//! ```
//!
//! Where nobody looks out, something has come, or the words are another's by then, the writer asks. It does so every few microseconds in
//! any case: a program may close descriptors behind our back.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use millstream_ring::Lookout;
use millstream_sys::tripwire::{Tripwire, Words};
use millstream_sys::{Errno, clock};

use super::company::Link;
use crate::segment::Slot;
use crate::writer::ASK_EVERY;

/// Questions in vain after which a writer wishes for a lookout: some twenty microseconds' worth, half of what it takes to begin.
const QUESTIONS: u32 = 256;

/// What one end has to do with looking out.
#[derive(Debug)]
pub(super) struct Watch {
    /// Of a reader that has looked out.
    post: Slot<Post>,
    /// When that was last tried, by the coarse clock, and that it cannot be done.
    tried_at: AtomicU32,
    is_impossible: AtomicBool,
    /// Of a writer: when it last asked and nothing was there, in ticks, and how often.
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
}

/// Whether no strangers' bytes lie in the FIFO. With the writers locked; `now` is a moment ago, in ticks.
#[inline]
pub(super) fn is_free_of_foreign_bytes(link: &Link, now: u64) -> Result<bool, Errno> {
    let is_recent = now.wrapping_sub(link.watch.asked_at.load(Relaxed)) < ASK_EVERY;
    if is_recent && is_looked_out_for(link) { Ok(true) } else { ask(link, now) }
}

fn ask(link: &Link, now: u64) -> Result<bool, Errno> {
    let watch = &link.watch;
    if millstream_sys::transfer::bytes_waiting(link.fifo())? > 0 {
        watch.asked_at.store(now.wrapping_sub(ASK_EVERY), Relaxed);
        return Ok(false);
    }
    watch.asked_at.store(now, Relaxed);
    let questions = watch.questions.load(Relaxed).wrapping_add(1);
    watch.questions.store(questions, Relaxed);
    if questions == QUESTIONS {
        link.ring().want_lookout();
    }
    Ok(true)
}

/// Whether a tripwire is up.
#[inline]
fn is_looked_out_for(link: &Link) -> bool {
    let ring = link.ring();
    ring.lookout().is_some_and(|lookout| {
        let words = Words { flags: lookout.flags, count: lookout.count_at };
        let is_up = |page| link.segment().is_monitor_armed(page, words, lookout.count);
        // In this order: an owner that puts it up anew withdraws first, and what it was until then is not believed.
        ring.lookout_page(lookout.page).is_some_and(is_up) && ring.lookout() == Some(lookout)
    })
}

/// A reader with nothing else to do becomes the lookout, if writers wish for one and none is there.
#[inline]
pub(super) fn see_to_it(link: &Link) {
    if link.ring().is_lookout_wanted() && !is_looked_out_for(link) {
        try_to_look_out(link);
    }
}

#[cold]
fn try_to_look_out(link: &Link) {
    let (watch, ring, now) = (&link.watch, link.ring(), clock::coarse_milliseconds());
    // Not again and again beside a stranger who writes all the time.
    if watch.is_impossible.load(Relaxed) || watch.tried_at.swap(now, Relaxed) == now {
        return;
    }
    let post = match watch.post.get() {
        Some(post) => post,
        None => match new_post(link) {
            Ok(post) => watch.post.fill(post),
            // Then writers ask.
            Err(_) => return watch.is_impossible.store(true, Relaxed),
        },
    };
    withdraw(link);
    let before = ring.lookout();
    // An error: of another thread, or of the process that this one was forked from.
    if let Ok(Some(count)) = post.tripwire.set() {
        let Words { flags, count: count_at } = post.tripwire.words();
        ring.post_lookout(before, Lookout { page: post.page, flags, count_at, count });
    }
}

fn new_post(link: &Link) -> Result<Post, Errno> {
    let page = link.ring().take_lookout_page().ok_or(Errno::NOSPC)?;
    let offset = link.ring().lookout_page(page).ok_or(Errno::NOSPC)?;
    Ok(Post { tripwire: link.segment().write_monitor(offset, link.fifo())?, page })
}

/// This process looks out no longer.
pub(super) fn withdraw(link: &Link) {
    if let (Some(post), Some(lookout)) = (link.watch.post.get(), link.ring().lookout())
        && lookout.page == post.page
    {
        link.ring().withdraw_lookout(lookout);
    }
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

    use super::*;
    use crate::end::End;
    use crate::{Fifo, FifoOptions, Reader, Writer};

    /// A FIFO at which a reader of ours looks out.
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

    /// `None` where the kernel has nothing to look out with, or forbids it.
    fn watched() -> Option<Watched> {
        static NAMES: AtomicUsize = AtomicUsize::new(0);
        let name = format!("millstream-lookout-{}-{}", std::process::id(), NAMES.fetch_add(1, SeqCst));
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
            assert!(sent < 1_000_000, "nobody looks out");
        }
        if reader_sees(&watched.reader).is_none() {
            eprintln!("NOT TESTED: no io_uring of the kind that a lookout needs");
            return None;
        }
        Some(watched)
    }

    /// Whether somebody looks out; `None` if that is impossible.
    fn reader_sees(reader: &Reader) -> Option<bool> {
        let company = reader.end.pipe.company.as_ref().unwrap();
        let Some(link) = company.link_so_far() else { return Some(false) };
        (!link.watch.is_impossible.load(Relaxed)).then(|| is_looked_out_for(link))
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
                // A reader that was not run for a while takes part again, and looks out, when a writer has seen that it is there.
                if look % 50 == 0 {
                    (&self.writer).write_all(b"?").unwrap();
                    assert_eq!(self.read(1), b"?");
                }
                assert!(!read_some(&self.reader, &mut Vec::new()));
                thread::sleep(Duration::from_micros(200));
            }
        }

        /// Writes into the ring, of a reader that takes part: one that is not run for a while does not, and the kernel gets the
        /// bytes. Then it returns false, and all is as it was before.
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
    fn what_is_written_around_a_strangers_write_keeps_its_place() {
        let Some(watched) = watched() else { return };
        for round in 0..100 {
            while !watched.write_into_ring(b"a") {}
            assert!(is_looked_out_for(link(&watched.writer.end)), "our own writes do not count");
            (&watched.stranger).write_all(b"S").unwrap();
            assert!(!is_looked_out_for(link(&watched.writer.end)));
            (&watched.writer).write_all(b"b").unwrap();
            assert_eq!(watched.read(3), b"aSb", "{round}");
        }
    }

    #[test]
    fn who_sees_that_a_stranger_has_written_comes_behind_it() {
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
    fn a_reader_that_leaves_looks_out_no_longer_and_another_does() {
        let Some(mut watched) = watched() else { return };
        let other = reader_at(&watched.path);
        let mut text = Vec::new();
        // It joins with the first read.
        assert!(!read_some(&other, &mut text));
        let first = link(&watched.writer.end).ring().lookout();
        drop(std::mem::replace(&mut watched.reader, other));
        assert_eq!(link(&watched.writer.end).ring().lookout(), None);
        watched.wait_for_monitor();
        let second = link(&watched.writer.end).ring().lookout();
        assert!(second.is_some() && first.map(|it| it.page) != second.map(|it| it.page));
        (&watched.stranger).write_all(b"S").unwrap();
        (&watched.writer).write_all(b"b").unwrap();
        assert_eq!(watched.read(2), b"Sb");
    }

    #[test]
    fn when_the_thread_that_looked_out_has_gone_writers_ask() {
        let Some(watched) = thread::spawn(watched).join().unwrap() else { return };
        assert!(!is_looked_out_for(link(&watched.writer.end)));
        for _ in 0..20 {
            (&watched.stranger).write_all(b"S").unwrap();
            (&watched.writer).write_all(b"b").unwrap();
            assert_eq!(watched.read(2), b"Sb");
        }
    }

    #[test]
    fn what_was_looked_out_for_once_is_asked_for_now_and_then() {
        let Some(watched) = watched() else { return };
        let asked_at = || link(&watched.writer.end).watch.asked_at.load(Relaxed);
        let before = loop {
            // Who comes back to the ring has asked already.
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
