//! [ZeroMQ](https://zeromq.org): libzmq 4.3.5, sockets of the `ipc` transport.
//!
//! - **API**: `zmq_send` on a PUSH socket, `zmq_msg_recv` on a PULL socket, the pattern for a stream of work in one
//!   direction. The reader binds, the writer connects. Both keep the default high-water mark of 1000 messages.
//! - **Waiting**: each process has one I/O thread, as `zmq_ctx_new` makes it; an end that must wait sleeps until its thread
//!   wakes it. That thread runs on the CPU of its end.
//! - **Cannot**: tell the reader that the writer has died: a PULL socket waits for the next one. Whoever started the
//!   process must end it.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;

use millstream_bench::engine::placement::Placement;
use millstream_bench::transport::{Ends, Transport};

use crate::stream::{self, Messages, Rest, Stream};

/// The transport.
pub struct Zeromq;

impl Transport for Zeromq {
    fn name(&self) -> &'static str {
        "zeromq"
    }

    fn connect(&self, placement: Placement) -> Result<Ends, String> {
        stream::connect(&Zeromq, placement)
    }
}

impl Messages for Zeromq {
    type Sender = Socket;
    type Receiver = Socket;

    fn receiver(&self, stream: &Stream, _: usize) -> Result<Socket, String> {
        let socket = Socket::new(ZMQ_PULL)?;
        // SAFETY: an open socket and a string that ends.
        match unsafe { zmq_bind(socket.socket, endpoint(stream)?.as_ptr()) } {
            0 => Ok(socket),
            _ => Err(format!("zmq_bind: {}", last_error())),
        }
    }

    fn sender(&self, stream: &Stream, _: usize) -> Result<Socket, String> {
        let socket = Socket::new(ZMQ_PUSH)?;
        // SAFETY: an open socket and a string that ends.
        match unsafe { zmq_connect(socket.socket, endpoint(stream)?.as_ptr()) } {
            0 => Ok(socket),
            _ => Err(format!("zmq_connect: {}", last_error())),
        }
    }
}

fn endpoint(stream: &Stream) -> Result<CString, String> {
    let path = stream.site.directory().join("socket");
    CString::new([b"ipc://", path.as_os_str().as_bytes()].concat()).map_err(|error| error.to_string())
}

/// A socket with a context of its own.
pub struct Socket {
    context: *mut c_void,
    socket: *mut c_void,
}

impl Socket {
    fn new(kind: c_int) -> Result<Socket, String> {
        // SAFETY: takes nothing.
        let context = unsafe { zmq_ctx_new() };
        if context.is_null() {
            return Err(format!("zmq_ctx_new: {}", last_error()));
        }
        // SAFETY: a context that was just made.
        let socket = unsafe { zmq_socket(context, kind) };
        let socket = Socket { context, socket };
        if socket.socket.is_null() { Err(format!("zmq_socket: {}", last_error())) } else { Ok(socket) }
    }
}

impl stream::Sender for Socket {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: an open socket; the library copies the bytes before it returns.
        let sent = unsafe { zmq_send(self.socket, bytes.as_ptr().cast(), bytes.len(), 0) };
        usize::try_from(sent).map_err(|_| failed("zmq_send"))
    }
}

impl stream::Receiver for Socket {
    fn receive(&mut self, into: &mut [u8], rest: &mut Rest) -> io::Result<usize> {
        let mut message = Message([0; 8]);
        // SAFETY: makes an empty message of memory that has the size and alignment of one.
        unsafe { zmq_msg_init(&mut message) };
        // SAFETY: an open socket and a message.
        let received = unsafe { zmq_msg_recv(&mut message, self.socket, 0) };
        let Ok(len) = usize::try_from(received) else { return Err(failed("zmq_msg_recv")) };
        // SAFETY: the message has so many bytes there until it is closed.
        let payload = unsafe { std::slice::from_raw_parts(zmq_msg_data(&mut message).cast(), len) };
        let count = rest.split(payload, into);
        // SAFETY: the message is not used any more.
        unsafe { zmq_msg_close(&mut message) };
        Ok(count)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // What was not taken by now is not waited for: see `stream`, where the reader says that it has read the end.
        let no_time: c_int = 0;
        // SAFETY: the socket and its context are not used any more; the option is an int.
        unsafe {
            if !self.socket.is_null() {
                zmq_setsockopt(self.socket, ZMQ_LINGER, (&raw const no_time).cast(), size_of::<c_int>());
                zmq_close(self.socket);
            }
            zmq_ctx_term(self.context);
        }
    }
}

fn last_error() -> String {
    // SAFETY: the library has a text for every number, which is never freed.
    unsafe { CStr::from_ptr(zmq_strerror(zmq_errno())) }.to_string_lossy().into_owned()
}

fn failed(what: &str) -> io::Error {
    io::Error::other(format!("{what}: {}", last_error()))
}

/// The release that was compiled in.
pub fn version() -> String {
    let mut parts: [c_int; 3] = [0; 3];
    let [major, minor, patch] = &mut parts;
    // SAFETY: three numbers to fill in.
    unsafe { zmq_version(major, minor, patch) };
    parts.map(|part| part.to_string()).join(".")
}

/// `zmq_msg_t`: 64 bytes, aligned like a pointer.
#[repr(C, align(8))]
struct Message([u64; 8]);

// Of `zmq.h`.
const ZMQ_PULL: c_int = 7;
const ZMQ_PUSH: c_int = 8;
const ZMQ_LINGER: c_int = 17;

// SAFETY: as `zmq.h` declares them.
unsafe extern "C" {
    fn zmq_ctx_new() -> *mut c_void;
    fn zmq_ctx_term(context: *mut c_void) -> c_int;
    fn zmq_socket(context: *mut c_void, kind: c_int) -> *mut c_void;
    fn zmq_close(socket: *mut c_void) -> c_int;
    fn zmq_setsockopt(socket: *mut c_void, option: c_int, value: *const c_void, len: usize) -> c_int;
    fn zmq_bind(socket: *mut c_void, endpoint: *const c_char) -> c_int;
    fn zmq_connect(socket: *mut c_void, endpoint: *const c_char) -> c_int;
    fn zmq_send(socket: *mut c_void, bytes: *const c_void, len: usize, flags: c_int) -> c_int;
    fn zmq_msg_init(message: *mut Message) -> c_int;
    fn zmq_msg_recv(message: *mut Message, socket: *mut c_void, flags: c_int) -> c_int;
    fn zmq_msg_data(message: *mut Message) -> *mut c_void;
    fn zmq_msg_close(message: *mut Message) -> c_int;
    fn zmq_version(major: *mut c_int, minor: *mut c_int, patch: *mut c_int);
    fn zmq_errno() -> c_int;
    fn zmq_strerror(number: c_int) -> *const c_char;
}
