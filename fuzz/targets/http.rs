//! Any bytes as the answer of a server to fetch: a head, and a body by its length, in chunks or up to the end. Short
//! reads change nothing.

#![no_main]
#![allow(dead_code, reason = "a target uses a part of its tool")]

#[path = "../../tools/fetch/chunks.rs"]
mod chunks;
#[path = "../../tools/fetch/failure.rs"]
mod failure;
#[path = "../../tools/fetch/http1.rs"]
mod http1;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use hyper::Request;
use libfuzzer_sys::fuzz_target;

use connect::Stream;

/// A connection on which everything has come already, handed out in pieces.
mod connect {
    use std::io::{Error, Result};
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    pub struct Stream {
        pub is_proxied: bool,
        pub answer: Vec<u8>,
        pub piece: usize,
    }

    impl AsyncRead for Stream {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
            let n = self.answer.len().min(self.piece).min(buf.remaining());
            buf.put_slice(&self.answer.drain(..n).collect::<Vec<u8>>());
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Stream {
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

    pub fn plain(err: &Error) -> String {
        err.to_string()
    }
}

/// Nothing here has to be waited for.
fn now<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("it waits"),
    }
}

/// The status, the number of headers and the body; or the code of the failure.
fn answer(bytes: &[u8], piece: usize) -> Result<Option<(u16, usize, Vec<u8>)>, &'static str> {
    let mut stream = Stream { is_proxied: false, answer: bytes.to_vec(), piece };
    let request = Request::get("http://h/x").body(()).expect("a request");
    let Some((head, mut rest)) = now(http1::ask(&mut stream, &request)).map_err(|failure| failure.code.name())? else {
        return Ok(None);
    };
    let announced = rest.announced();
    let mut body = Vec::new();
    while now(rest.read(&mut stream, &mut body)).map_err(|failure| failure.code.name())? > 0 {}
    assert!(announced.is_none_or(|length| length == body.len() as u64), "a body of another length");
    assert!(body.len() <= bytes.len());
    _ = rest.leaves_it_clean();
    Ok(Some((head.status.as_u16(), head.headers.len(), body)))
}

fuzz_target!(|bytes: &[u8]| {
    let whole = answer(bytes, usize::MAX);
    for piece in [1, 7, 600] {
        assert_eq!(answer(bytes, piece), whole, "pieces of {piece} bytes change what is read");
    }
});
