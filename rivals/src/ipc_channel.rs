//! [ipc-channel](https://github.com/servo/ipc-channel): Rust's channels between processes, from Servo.
//!
//! - **API**: `ipc::bytes_channel`, the pair for plain bytes, which are not serialised. On Linux it is a socket pair of
//!   packets, which a child inherits; messages above the socket's buffer travel in fragments over a second one.
//! - **Waiting**: an end that must wait sleeps in the kernel.
//! - The end of the stream is the library's own: the last sender is gone. That is what a reader is told too when the
//!   writer was killed.

use std::io::{self, Read, Write};

use ipc_channel::IpcError;
use ipc_channel::ipc::{self, IpcBytesReceiver, IpcBytesSender};
use millstream_bench::engine::placement::Placement;
use millstream_bench::transport::{Ends, Transport, WriteEnd};

use crate::stream::Rest;

/// The transport.
pub struct IpcChannel;

impl Transport for IpcChannel {
    fn name(&self) -> &'static str {
        "ipc-channel"
    }

    fn connect(&self, _: Placement) -> Result<Ends, String> {
        let (sender, receiver) = ipc::bytes_channel().map_err(|error| format!("no channel: {error}"))?;
        Ok(Ends { writer: Box::new(Writer(sender)), reader: Box::new(Reader { receiver, rest: Rest::default() }) })
    }
}

/// The release that was compiled in.
pub fn version() -> String {
    env!("IPC_CHANNEL_VERSION").into()
}

struct Writer(IpcBytesSender);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !bytes.is_empty() {
            self.0.send(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteEnd for Writer {
    fn finish(self: Box<Self>) {}
}

struct Reader {
    receiver: IpcBytesReceiver,
    rest: Rest,
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let kept = self.rest.give(bytes);
        if kept > 0 || bytes.is_empty() {
            return Ok(kept);
        }
        match self.receiver.recv() {
            Ok(message) => Ok(self.rest.split(&message, bytes)),
            Err(IpcError::Disconnected) => Ok(0),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}
