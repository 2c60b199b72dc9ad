//! HTTP/1.1 by hyper, which the bench compares with our own (`scripts/bench fetch`).

use std::sync::Arc;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{self, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;

use super::{MAX_HEAD, MAX_HEADERS, ResponseHead, truncated};
use crate::fetch::client::connector::HttpStream;
use crate::fetch::failure::{FailureCode, FetchFailure};

/// A connection that waits for a request.
pub struct Http1Connection {
    sender: SendRequest<Empty<Bytes>>,
    is_proxied: bool,
    open: Arc<Semaphore>,
}

impl Http1Connection {
    /// Prepares a new connection.
    pub async fn new(stream: HttpStream) -> Result<Self, FetchFailure> {
        let (is_proxied, open) = (stream.is_proxied, Arc::clone(stream.open_limit()));
        let mut builder = Builder::new();
        builder.max_headers(MAX_HEADERS).max_header_size(MAX_HEAD);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(|err| failure(&err))?;
        tokio::spawn(connection);
        Ok(Http1Connection { sender, is_proxied, open })
    }

    /// Whether the connection is idle: neither closed by the server nor with unread bytes.
    pub async fn is_idle(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// Whether the limit on open connections is reached.
    pub fn limit_is_reached(&self) -> bool {
        self.open.available_permits() == 0
    }

    /// Sends `request` and reads the response head. None if the connection was closed before it.
    pub async fn send(
        mut self,
        request: &Request<Empty<Bytes>>,
    ) -> Result<Option<(ResponseHead, Http1Body)>, FetchFailure> {
        let mut request = request.clone();
        if !request.headers().contains_key(header::HOST)
            && let Some(host) = request.uri().authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok())
        {
            request.headers_mut().insert(header::HOST, host);
        }
        if !self.is_proxied {
            let path = request.uri().path_and_query().cloned();
            *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
        }
        match self.sender.send_request(request).await {
            Ok(response) => {
                let (parts, incoming) = response.into_parts();
                let head = ResponseHead { status: parts.status, headers: parts.headers };
                Ok(Some((head, Http1Body { incoming, connection: self })))
            }
            Err(err) if err.is_canceled() || err.is_closed() || err.is_incomplete_message() => Ok(None),
            Err(err) => Err(failure(&err)),
        }
    }
}

fn failure(err: &hyper::Error) -> FetchFailure {
    match err.is_parse() {
        true => FetchFailure::permanent(FailureCode::Protocol, format!("invalid HTTP response: {err}")),
        false => FetchFailure::transient(FailureCode::Connect, err.to_string()),
    }
}

/// The body of a response.
pub struct Http1Body {
    incoming: Incoming,
    connection: Http1Connection,
}

impl Http1Body {
    /// The number of bytes still to come, if the server announced it.
    pub fn expected_length(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    /// Appends the next bytes to `data` and returns their number; 0 at the end of the body.
    pub async fn read(&mut self, data: &mut Vec<u8>) -> Result<usize, FetchFailure> {
        while let Some(frame) = self.incoming.frame().await {
            let Ok(piece) = frame.map_err(|_| truncated(data))?.into_data() else { continue };
            if !piece.is_empty() {
                data.extend_from_slice(&piece);
                return Ok(piece.len());
            }
        }
        Ok(0)
    }

    /// The connection, if all of the body has arrived.
    pub fn into_connection(self) -> Option<Http1Connection> {
        let is_open = self.incoming.is_end_stream() && !self.connection.sender.is_closed();
        is_open.then_some(self.connection)
    }
}
