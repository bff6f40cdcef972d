//! Descriptors on their way through a Unix socket (`SCM_RIGHTS`), beside bytes.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

/// Descriptors of one message at most.
pub const MOST: usize = 3;

/// Sends bytes, with descriptors beside the first of them. Tells how many bytes went; at least one, with which the
/// descriptors went too.
pub fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    if descriptors.len() > MOST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    Ok(rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?)
}

/// Receives bytes and what comes beside them; no bytes at the end. The descriptors are closed at exec.
pub fn receive(
    socket: impl AsFd,
    bytes: &mut [u8],
    flags: RecvFlags,
    mut descriptor: impl FnMut(OwnedFd),
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(arrived) = message {
            arrived.for_each(&mut descriptor);
        }
    }
    Ok(received.bytes)
}

/// Receives one descriptor. `None` when the other end was closed without.
pub fn receive_one(socket: impl AsFd) -> Option<OwnedFd> {
    let mut descriptor = None;
    receive(socket, &mut [0], RecvFlags::empty(), |arrived| descriptor = Some(arrived)).ok()?;
    descriptor
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn descriptors_arrive_with_their_bytes() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        assert_eq!(send(&ours, b"ab", &[ours.as_fd(), theirs.as_fd()]).expect("sent"), 2);
        let (mut bytes, mut arrived) = ([0; 4], Vec::new());
        let size = receive(&theirs, &mut bytes, RecvFlags::empty(), |descriptor| arrived.push(descriptor));
        assert_eq!((size.expect("received"), &bytes[..2], arrived.len()), (2, &b"ab"[..], 2));
        send(&ours, b"1", &[theirs.as_fd()]).expect("sent");
        assert!(receive_one(&theirs).is_some());
        assert!(send(&ours, b"1", &[ours.as_fd(); MOST + 1]).is_err());
        drop((ours, arrived));
        assert!(receive_one(&theirs).is_none());
    }
}
