//! HTTP/1.1 behind one interface: an [`Http1Connection`] sends a request, and the [`Http1Body`] of the response gives the
//! connection back once it has been read.
//!
//! `own` implements it for fetch, `hyper_client` for measurements alone: `cargo build --release --features hyper-http1`. hyper
//! would replace our own if it cost at most 10 % more CPU time at the defaults (256 in flight, SHA-256). It costs 11 % more for
//! bodies of 4 KB, 26 % for 50 KB and 27 % for 1 MB, over TLS 21 % for 4 KB and 26 % for 50 KB; at 32 in flight from 5 % less
//! to 22 % more (medians of 5 interleaved runs against nginx on a busy machine of 2 cores, November 2026).

#[cfg(not(feature = "hyper-http1"))]
mod chunks;
#[cfg(feature = "hyper-http1")]
mod hyper_client;
#[cfg(not(feature = "hyper-http1"))]
mod own;

#[cfg(feature = "hyper-http1")]
pub use hyper_client::{Http1Body, Http1Connection};
#[cfg(not(feature = "hyper-http1"))]
pub use own::{Http1Body, Http1Connection};

use hyper::{HeaderMap, StatusCode};

use crate::fetch::failure::{FailureCode, FetchFailure};

/// The longest response head that is accepted.
pub const MAX_HEAD: usize = 32 << 10;

/// More headers than this are an attack.
const MAX_HEADERS: usize = 256;

/// Status and headers of a response.
#[derive(Debug)]
pub struct ResponseHead {
    pub status: StatusCode,
    pub headers: HeaderMap,
}

fn truncated(data: &[u8]) -> FetchFailure {
    FetchFailure::transient(FailureCode::Truncated, format!("connection closed after {} bytes of the body", data.len()))
}
