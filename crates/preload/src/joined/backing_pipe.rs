//! The calls of the kernel that the protocol of a channel needs, for one end of this process.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use millstream_ring::channel::{BackingPipe, Channel, Put, Span, TOKEN};

use super::end::End;
use super::kernel;
use super::ring_memory::ring_of;

/// A moment, in nanoseconds.
const MOMENT: u64 = 1_000_000;

impl BackingPipe for End {
    /// So many milliseconds signals are held back at most. Then they are let in, and the caller tries again.
    const PAUSES: u32 = 20;

    fn bytes(&self) -> usize {
        kernel::bytes_in(self.fd())
    }

    /// Where this process has the opposite end too, the pipe does not show it.
    fn peer_is_gone(&self) -> bool {
        let has_ended = || self.holds_both.load(Relaxed) && kernel::has_ended(self.patience.shared_cpu.other());
        peer_is_gone(self) || has_ended()
    }

    fn has_no_reader(&self) -> bool {
        kernel::has_no_reader(self.fd())
    }

    fn put_token(&self) {
        kernel::write(self.fd(), [TOKEN].as_ptr(), 1);
    }

    fn take_token(&self) -> Option<bool> {
        let mut byte = 0;
        if self.is_reader() {
            return Some(kernel::read_now(self.fd(), &raw mut byte, 1) == 1);
        }
        let mut has_it = false;
        with_other_end(self, |fd| has_it = kernel::read(fd, &raw mut byte, 1) == 1).then_some(has_it)
    }

    fn with_write_end(&self, mut put: impl FnMut(i32)) {
        if self.is_reader() {
            with_other_end(self, put);
        } else {
            put(self.fd());
        }
    }

    fn put(&self, write_end: i32, channel: &Channel, content: [Span; 2]) -> Put {
        let pieces = content.map(|span| (ring_of(channel).wrapping_add(span.at).cast_const(), span.len));
        match kernel::write_now(write_end, pieces) {
            kernel::EPIPE => {
                kernel::forget_sigpipe();
                Put::NoReader
            }
            kernel::EINTR | kernel::EAGAIN | kernel::ENOMEM => Put::Full,
            bytes @ 1.. => Put::Bytes(bytes as usize),
            _ => Put::OtherFile,
        }
    }

    fn pause_at(&self, word: &AtomicU32, value: u32) {
        kernel::wait(word, value, Some(MOMENT));
    }

    fn pause(&self) {
        pause();
    }

    fn pause_for_bytes(&self) {
        kernel::poll(self.fd(), kernel::POLLIN, 1);
    }

    fn wake_all(&self, word: &AtomicU32) {
        kernel::wake_all(word);
    }
}

/// A moment. (`poll` does not wait where no file may be open.)
pub(super) fn pause() {
    kernel::wait(&AtomicU32::new(0), 0, Some(MOMENT));
}

/// Whether the other side is gone, as the pipe shows it.
pub(super) fn peer_is_gone(end: &End) -> bool {
    match end.is_reader() {
        true => kernel::poll(end.fd(), 0, 0) & kernel::POLLHUP != 0,
        // The mark is of a thread, and the process may go on.
        false => kernel::has_no_reader(end.fd()),
    }
}

/// Opens the other end of the pipe for a moment. Where this process may open no further file a child does it, whose
/// table of descriptors is its own and has a place free. `false`: neither can.
///
/// What is opened here is not kept: with a write end of its own a reader would not see that the writer is gone.
pub(super) fn with_other_end(end: &End, mut used: impl FnMut(i32)) -> bool {
    let access = if end.is_reader() { kernel::O_WRONLY } else { kernel::O_RDONLY };
    let mut open = || {
        let fd = kernel::reopen(end.fd(), access | kernel::O_NONBLOCK);
        if fd >= 0 {
            used(fd as i32);
            kernel::close(fd as i32);
        }
        fd
    };
    let mut opened = open();
    if opened == kernel::EMFILE {
        kernel::in_child(|| {
            // All numbers that the limit allows are used, so this one is.
            kernel::close(i32::from(end.fd() == 0));
            opened = open();
        });
    }
    opened >= 0
}
