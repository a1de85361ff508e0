//! [Boost.Interprocess](https://www.boost.org/libs/interprocess): its `message_queue`.
//!
//! - **API**: `send` and `receive` of a `message_queue` in shared memory, what the library offers for bytes from one process
//!   to another. Its messages have a largest size: that of the first write; a longer write becomes several.
//! - **Waiting**: an end that must wait sleeps on the queue's condition (a futex).
//! - **Cannot**: notice the death of a peer. One that was killed inside `send` or `receive` leaves the queue locked; whoever
//!   started the processes must end them.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;

use millstream_bench::engine::placement::Placement;
use millstream_bench::transport::{Ends, Transport};

use crate::stream::{self, Messages, Rest, Stream};

/// Messages in the queue hold this much together: about what stays in a second-level cache. Two at least, so that both
/// ends can work at once.
const IN_FLIGHT_BYTES: usize = 512 << 10;
const IN_FLIGHT_MAX: usize = 1024;

/// The transport.
pub struct BoostInterprocess;

impl Transport for BoostInterprocess {
    fn name(&self) -> &'static str {
        "boost-interprocess"
    }

    fn connect(&self, placement: Placement) -> Result<Ends, String> {
        stream::connect(&BoostInterprocess, placement)
    }
}

impl Messages for BoostInterprocess {
    type Sender = Queue;
    type Receiver = Queue;

    fn receiver(&self, stream: &Stream, message_bytes: usize) -> Result<Queue, String> {
        let (name, mut why) = (name(stream)?, Why::default());
        let messages = (IN_FLIGHT_BYTES / message_bytes).clamp(2, IN_FLIGHT_MAX);
        // SAFETY: a string that ends, and room for a text.
        let queue = unsafe {
            millstream_boost_create(name.as_ptr(), messages, message_bytes, why.0.as_mut_ptr().cast(), why.0.len())
        };
        Queue::new(queue, message_bytes, &why)
    }

    fn sender(&self, stream: &Stream, message_bytes: usize) -> Result<Queue, String> {
        let (name, mut why) = (name(stream)?, Why::default());
        // SAFETY: a string that ends, and room for a text.
        let queue = unsafe { millstream_boost_open(name.as_ptr(), why.0.as_mut_ptr().cast(), why.0.len()) };
        Queue::new(queue, message_bytes, &why)
    }
}

fn name(stream: &Stream) -> Result<CString, String> {
    CString::new(format!("{}-queue", stream.site.id())).map_err(|error| error.to_string())
}

/// The queue as one process has it.
pub struct Queue {
    queue: *mut c_void,
    message_bytes: usize,
    scratch: Vec<u8>,
}

impl Queue {
    fn new(queue: *mut c_void, message_bytes: usize, why: &Why) -> Result<Queue, String> {
        match queue.is_null() {
            true => Err(format!("no message queue: {}", why.text())),
            false => Ok(Queue { queue, message_bytes, scratch: Vec::new() }),
        }
    }
}

impl stream::Sender for Queue {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(self.message_bytes)];
        let mut why = Why::default();
        // SAFETY: an open queue; the library copies the bytes before it returns.
        let outcome = unsafe {
            millstream_boost_send(
                self.queue,
                bytes.as_ptr().cast(),
                bytes.len(),
                why.0.as_mut_ptr().cast(),
                why.0.len(),
            )
        };
        if outcome == 0 { Ok(bytes.len()) } else { Err(io::Error::other(format!("send: {}", why.text()))) }
    }
}

impl stream::Receiver for Queue {
    /// Straight into the reader's buffer if the longest message fits, which is all that `receive` accepts.
    fn receive(&mut self, into: &mut [u8], rest: &mut Rest) -> io::Result<usize> {
        if into.len() >= self.message_bytes {
            return receive(self.queue, into);
        }
        self.scratch.resize(self.message_bytes, 0);
        let count = receive(self.queue, &mut self.scratch)?;
        Ok(rest.split(&self.scratch[..count], into))
    }
}

fn receive(queue: *mut c_void, into: &mut [u8]) -> io::Result<usize> {
    let mut why = Why::default();
    // SAFETY: an open queue, and room for as many bytes as are said.
    let outcome = unsafe {
        millstream_boost_receive(queue, into.as_mut_ptr().cast(), into.len(), why.0.as_mut_ptr().cast(), why.0.len())
    };
    usize::try_from(outcome).map_err(|_| io::Error::other(format!("receive: {}", why.text())))
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the queue is not used any more in this process.
        unsafe { millstream_boost_close(self.queue) };
    }
}

/// The release that was compiled in, as `1.81.0`.
pub fn version() -> String {
    // SAFETY: takes nothing.
    let version = unsafe { millstream_boost_version() };
    format!("{}.{}.{}", version / 100_000, version / 100 % 1000, version % 100)
}

/// Where the other side writes what went wrong.
#[derive(Default)]
struct Why([u8; 32]);

impl Why {
    fn text(&self) -> String {
        CStr::from_bytes_until_nul(&self.0).map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
    }
}

// SAFETY: as `boost_interprocess.cpp` defines them.
unsafe extern "C" {
    fn millstream_boost_create(
        name: *const c_char,
        messages: usize,
        message_bytes: usize,
        why: *mut c_char,
        why_bytes: usize,
    ) -> *mut c_void;
    fn millstream_boost_open(name: *const c_char, why: *mut c_char, why_bytes: usize) -> *mut c_void;
    fn millstream_boost_send(
        queue: *mut c_void,
        bytes: *const c_void,
        len: usize,
        why: *mut c_char,
        why_bytes: usize,
    ) -> c_int;
    fn millstream_boost_receive(
        queue: *mut c_void,
        bytes: *mut c_void,
        capacity: usize,
        why: *mut c_char,
        why_bytes: usize,
    ) -> isize;
    fn millstream_boost_close(queue: *mut c_void);
    fn millstream_boost_version() -> c_int;
}
