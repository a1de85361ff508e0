//! A POSIX message queue (`mq_overview(7)`), used as a stream.
//!
//! The queue is as large as every user may make one: `msg_max` messages of `msgsize_max` bytes, as
//! `/proc/sys/fs/mqueue` says (10 of 8 KiB unless it was changed; root could have more). A write that does not fit one
//! message is cut into several. A reader that wants less than the longest message gets it by way of a buffer of its own,
//! because the kernel fills none that could be too short; the rest waits there. An empty message ends the stream, and a
//! reader sleeps for ever where the writer died without one.

use std::ffi::CString;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millstream_sys::clock;
use millstream_sys::message_queue::MessageQueue;

use super::ends::{Ends, Transport, WriteEnd, retried};
use crate::engine::placement::Placement;

/// A queue.
pub struct PosixMq;

/// The only one.
pub static POSIX_MQ: PosixMq = PosixMq;

impl Transport for PosixMq {
    fn name(&self) -> &'static str {
        "posix-mq"
    }

    fn connect(&self, _: Placement) -> Result<Ends, String> {
        let (messages, message_bytes) = (limit("msg_max")?, limit("msgsize_max")?);
        let cannot = |error| {
            format!("cannot make a queue of {messages} messages of {message_bytes} bytes: {error}; see 'ulimit -q'")
        };
        let queue = MessageQueue::create(&unused_name(), messages, message_bytes).map_err(cannot)?;
        let other = queue.try_clone().map_err(cannot)?;
        let writer = Sender { queue, message_bytes };
        let reader = Receiver { queue: other, message: vec![0; message_bytes], waiting: 0..0, is_over: false };
        Ok(Ends { writer: Box::new(writer), reader: Box::new(reader) })
    }
}

fn limit(name: &str) -> Result<usize, String> {
    let path = format!("/proc/sys/fs/mqueue/{name}");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    text.trim().parse().map_err(|_| format!("this kernel has no message queues: '{path}' tells nothing"))
}

/// It is taken for a moment only.
fn unused_name() -> CString {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Relaxed);
    let name = format!("/millstream-{}-{count}-{:x}", std::process::id(), clock::raw_nanoseconds());
    CString::new(name).unwrap_or_default()
}

struct Sender {
    queue: MessageQueue,
    message_bytes: usize,
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Never an empty message: that is the end.
        for message in bytes.chunks(self.message_bytes) {
            retried(|| self.queue.send(message))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteEnd for Sender {
    fn finish(self: Box<Self>) {
        // A queue cannot refuse it; a reader that is gone needs no end.
        let _ = retried(|| self.queue.send(&[]));
    }
}

struct Receiver {
    queue: MessageQueue,
    message: Vec<u8>,
    /// What of `message` was not asked for yet.
    waiting: std::ops::Range<usize>,
    is_over: bool,
}

impl Read for Receiver {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() || self.is_over {
            return Ok(0);
        }
        if self.waiting.is_empty() {
            let is_direct = bytes.len() >= self.message.len();
            let buffer = if is_direct { &mut *bytes } else { &mut self.message };
            let len = retried(|| self.queue.receive(buffer))?;
            self.is_over = len == 0;
            if is_direct || self.is_over {
                return Ok(len);
            }
            self.waiting = 0..len;
        }
        let count = bytes.len().min(self.waiting.len());
        bytes[..count].copy_from_slice(&self.message[self.waiting.start..][..count]);
        self.waiting.start += count;
        Ok(count)
    }
}
