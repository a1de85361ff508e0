//! TCP over the loopback interface: no delay, and the largest buffers that are allowed.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use millstream_sys::socket;

use super::ends::{Ends, Transport, WriteEnd};
use crate::engine::placement::Placement;

/// How long a connection within one machine may take.
const LIMIT: Duration = Duration::from_secs(5);

/// A connection.
pub struct Tcp;

/// The only one.
pub static TCP: Tcp = Tcp;

impl Transport for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn connect(&self, _: Placement) -> Result<Ends, String> {
        let (writer, reader) = pair()
            .map_err(|error| format!("cannot connect over the loopback interface: {error}; is the interface up?"))?;
        Ok(Ends { writer: Box::new(writer), reader: Box::new(reader) })
    }
}

fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let reader = TcpStream::connect_timeout(&listener.local_addr()?, LIMIT)?;
    prepare(&reader)?;
    listener.set_nonblocking(true)?;
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        match listener.accept() {
            Ok((writer, peer)) if peer == reader.local_addr()? => {
                writer.set_nonblocking(false)?;
                prepare(&writer)?;
                return Ok((writer, reader));
            }
            // Another program on this machine found the port.
            Ok(_) => (),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// A listener whose connections have the largest buffers: TCP settles its window when it connects.
///
/// # Errors
/// `EADDRINUSE`: the port is taken. `EADDRNOTAVAIL`: not an address of this machine. `EACCES`.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    socket::ask_for_largest_buffers(&listener)?;
    Ok(listener)
}

/// Sees to it that nothing waits to be sent together with what may follow, and that buffers are as large as they can be.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    socket::ask_for_largest_buffers(stream)?;
    Ok(())
}

impl WriteEnd for TcpStream {
    fn finish(self: Box<Self>) {}
}
