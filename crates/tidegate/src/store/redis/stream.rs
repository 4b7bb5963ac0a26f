//! Bytes to a server and back: TCP, or TLS over it.

use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, to),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, to),
        }
    }

    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Reads what the system has now, and not what it had when the runtime last asked it:
    /// nothing at the end, `WouldBlock` if nothing came.
    pub(super) fn read_now(&self, to: &mut [u8]) -> io::Result<Now> {
        match self {
            Self::Tcp(stream) => (&*SockRef::from(stream)).read(to).map(|count| match count {
                0 => Now::Ended,
                count => Now::Read(count),
            }),
            // What is encrypted only the runtime's way can read.
            Self::Tls(stream) => {
                let socket = SockRef::from(stream.get_ref().0);
                socket.peek(&mut [MaybeUninit::uninit()]).map(|count| match count {
                    0 => Now::Ended,
                    _ => Now::Unread,
                })
            }
        }
    }
}

/// What there is of a stream.
pub(super) enum Now {
    /// The other side has closed it.
    Ended,
    /// So many bytes were read.
    Read(usize),
    /// There is something that was not read.
    Unread,
}
