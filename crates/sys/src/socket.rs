//! Sockets, as far as the standard library does not go.

use rustix::fd::AsFd;
use rustix::net::sockopt;

use crate::Errno;

/// Gives `socket` the largest buffers that an unprivileged program may ask for (`socket(7)`: `net.core.wmem_max` and
/// `rmem_max`, to which the kernel cuts down what is asked). Ends the kernel's own sizing of TCP buffers, which may go
/// beyond. To matter for TCP's window it must be done before the connection is made.
///
/// # Errors
/// `EBADF`, `ENOTSOCK`: not a socket.
pub fn ask_for_largest_buffers(socket: impl AsFd) -> Result<(), Errno> {
    // The kernel doubles what it is given, in an `int`.
    let more_than_any = 1 << 29;
    sockopt::set_socket_send_buffer_size(&socket, more_than_any)?;
    sockopt::set_socket_recv_buffer_size(&socket, more_than_any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_grants_its_limit() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        ask_for_largest_buffers(&socket).unwrap();
        let limit = |name| {
            let text = std::fs::read_to_string(std::format!("/proc/sys/net/core/{name}")).unwrap();
            text.trim().parse::<usize>().unwrap()
        };
        // Both with the kernel's own share (`socket(7)`).
        assert_eq!(sockopt::socket_send_buffer_size(&socket), Ok(2 * limit("wmem_max")));
        assert_eq!(sockopt::socket_recv_buffer_size(&socket), Ok(2 * limit("rmem_max")));
    }

    #[test]
    fn a_pipe_has_no_such_buffers() {
        let (reader, _writer) = crate::pipe::create().unwrap();
        assert_eq!(ask_for_largest_buffers(reader), Err(Errno::NOTSOCK));
    }
}
