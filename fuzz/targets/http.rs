//! Any bytes as the response of a server to fetch: a head, then a body by its length, in chunks or until close. The sizes of
//! the reads must not matter.

#![no_main]
#![allow(dead_code, reason = "a target uses a part of its tool")]

#[path = "../../tools/fetch"]
mod fetch {
    pub mod failure;
    pub mod client {
        pub mod http1;

        /// A connection on which all bytes have arrived, read in pieces.
        pub mod connector {
            use std::io::Result;
            use std::pin::Pin;
            use std::task::{Context, Poll};

            use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

            pub struct HttpStream {
                pub is_proxied: bool,
                pub response: Vec<u8>,
                pub piece: usize,
            }

            impl HttpStream {
                pub async fn is_idle(&mut self) -> bool {
                    self.response.is_empty()
                }

                pub fn limit_is_reached(&self) -> bool {
                    false
                }
            }

            impl AsyncRead for HttpStream {
                fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
                    let n = self.response.len().min(self.piece).min(buf.remaining());
                    buf.put_slice(&self.response.drain(..n).collect::<Vec<u8>>());
                    Poll::Ready(Ok(()))
                }
            }

            impl AsyncWrite for HttpStream {
                fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
                    Poll::Ready(Ok(buf.len()))
                }

                fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
                    Poll::Ready(Ok(()))
                }

                fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
                    Poll::Ready(Ok(()))
                }
            }
        }
    }
}

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use hyper::Request;
use libfuzzer_sys::fuzz_target;

use fetch::client::connector::HttpStream;
use fetch::client::http1::Http1Connection;

/// The result of a future that never has to wait.
fn now<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("the future waits"),
    }
}

/// The status, the number of headers and the body; or the code of the failure.
fn response(bytes: &[u8], piece: usize) -> Result<Option<(u16, usize, Vec<u8>)>, &'static str> {
    let stream = HttpStream { is_proxied: false, response: bytes.to_vec(), piece };
    let connection = now(Http1Connection::new(stream)).map_err(|failure| failure.code.name())?;
    let request = Request::get("http://h/x").body(()).expect("a request");
    let Some((head, mut reader)) = now(connection.send(&request)).map_err(|failure| failure.code.name())? else {
        return Ok(None);
    };
    let expected = reader.expected_length();
    let mut body = Vec::new();
    while now(reader.read(&mut body)).map_err(|failure| failure.code.name())? > 0 {}
    assert!(expected.is_none_or(|length| length == body.len() as u64), "a body of the wrong length");
    assert!(body.len() <= bytes.len());
    _ = reader.into_connection();
    Ok(Some((head.status.as_u16(), head.headers.len(), body)))
}

fuzz_target!(|bytes: &[u8]| {
    let whole = response(bytes, usize::MAX);
    for piece in [1, 7, 600] {
        assert_eq!(response(bytes, piece), whole, "reading {piece} bytes at a time changes the result");
    }
});
