//! Descriptors over a Unix socket.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;

use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

/// Sends a descriptor to the process that holds the other end of the socket.
///
/// # Panics
/// When the socket takes none.
pub fn send(socket: &UnixStream, descriptor: impl AsFd) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    // At least one byte must go along (`unix(7)`).
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::empty());
    assert_eq!(sent, Ok(1));
}

/// Takes the next descriptor that was sent; closed on exec.
///
/// # Panics
/// When something else comes.
pub fn receive(socket: &UnixStream) -> OwnedFd {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    match control.drain().next() {
        Some(RecvAncillaryMessage::ScmRights(mut descriptors)) => descriptors.next().unwrap(),
        _ => panic!("no descriptor came"),
    }
}
