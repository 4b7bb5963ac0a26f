//! When something has come, by the system's own clock: who reads it may have waited for a processor since.

use std::io;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, SystemTime};

use tokio::io::Interest;
use tokio::net::TcpStream;

/// Bytes of room for what the system says beside what it has read.
const CONTROL_BYTES: usize = 64;

/// The time of day, which the system says it by.
pub(crate) fn now() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "the system has no other clock for it")]
    let now = SystemTime::now();
    now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Has the system note it from now on, or from a moment later: the first socket of a machine that wants it waits for that.
pub(crate) fn enable(stream: &TcpStream) -> io::Result<()> {
    let yes: libc::c_int = 1;
    #[allow(unsafe_code, reason = "the system's own clock: no crate here has it")]
    // SAFETY: the socket is open, and the value is there while it is read, of the length that is said.
    let set = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const yes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads what is there, as soon as there is something: how much, and when the last of it had come, by the time of day.
pub(crate) async fn read(stream: &TcpStream, room: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    loop {
        stream.readable().await?;
        match stream.try_io(Interest::READABLE, || read_now(stream, room)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

fn read_now(stream: &TcpStream, room: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    let mut into = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    // As aligned as its parts have to be.
    let mut control = [0_u64; CONTROL_BYTES / size_of::<u64>()];
    #[allow(unsafe_code, reason = "as above")]
    // SAFETY: all of it is numbers and pointers, which may be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut into;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BYTES;
    #[allow(unsafe_code, reason = "as above")]
    // SAFETY: the socket is open, and what the message points to is there and has the room that it says.
    let read = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, 0) };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    let mut arrived = None;
    #[allow(unsafe_code, reason = "as above")]
    // SAFETY: the system has filled in the message, and what is beside it is walked by its own lengths; a time is read
    // only from what says that it is one.
    unsafe {
        let mut part = libc::CMSG_FIRSTHDR(&raw const message);
        while !part.is_null() {
            if (*part).cmsg_level == libc::SOL_SOCKET && (*part).cmsg_type == libc::SCM_TIMESTAMPNS {
                let time = libc::CMSG_DATA(part).cast::<libc::timespec>().read_unaligned();
                arrived = Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32));
            }
            part = libc::CMSG_NXTHDR(&raw const message, part);
        }
    }
    Ok((read, arrived))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn it_is_when_something_has_come_and_not_when_it_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut there, _) = listener.accept().await.unwrap();
        enable(&here).unwrap();
        let mut room = [0; 16];
        // Until the system does.
        let mut is_noted = false;
        for _ in 0..1000 {
            there.write_all(b"first").await.unwrap();
            is_noted = read(&here, &mut room).await.unwrap().1.is_some();
            if is_noted {
                break;
            }
        }
        assert!(is_noted, "a thousand writes came without a time");
        let before = now();
        there.write_all(b"answer").await.unwrap();
        let sent = now();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let (read, arrived) = read(&here, &mut room).await.unwrap();
        assert_eq!(&room[..read], b"answer");
        let arrived = arrived.unwrap();
        assert!(before <= arrived && arrived <= sent, "{before:?} {arrived:?} {sent:?}");
    }
}
