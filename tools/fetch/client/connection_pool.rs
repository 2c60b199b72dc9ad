//! Sends requests on connections that are reused. HTTP/1.1 carries one request per connection at a time; HTTP/2 shares one
//! connection per origin.

use std::sync::Arc;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http2::Builder;
use hyper::{Request, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;

use super::connect_limits::ConnectLimits;
use super::connector::Connector;
use super::http1::{Http1Connection, MAX_HEAD, ResponseHead};
use super::idle_pool::{Connection, Http2Sender, IdlePool, ReturnTo};
use super::response_body::ResponseBody;
use crate::fetch::failure::{FailureCode, FetchFailure};

/// The connections of a run.
pub struct ConnectionPool {
    connector: Connector,
    connect_limits: ConnectLimits,
    /// Idle connections to keep per origin.
    per_host: usize,
    idle: Arc<Mutex<IdlePool>>,
}

impl ConnectionPool {
    pub fn new(connector: Connector, per_host: usize) -> Self {
        let idle = Arc::new(Mutex::new(IdlePool::new()));
        ConnectionPool { connector, connect_limits: ConnectLimits::default(), per_host, idle }
    }

    /// Sends a request and waits for the head of its response. If the server has closed an idle connection meanwhile, the
    /// request is sent again on a new one.
    pub async fn send(&self, request: Request<Empty<Bytes>>) -> Result<(ResponseHead, ResponseBody), FetchFailure> {
        let origin = origin(request.uri());
        let idle = self.idle.lock().take(&origin);
        if let Some(connection) = idle
            && let Some(response) = self.send_on(connection, &origin, &request).await?
        {
            return Ok(response);
        }
        // Boxed, since most requests find an idle connection: see `Fetcher::download`.
        let connection = Box::pin(self.open(request.uri(), &origin)).await?;
        let closed = || FetchFailure::transient(FailureCode::Truncated, "connection closed before a response");
        self.send_on(connection, &origin, &request).await?.ok_or_else(closed)
    }

    /// The response, or None if the connection was closed before it.
    async fn send_on(
        &self,
        connection: Connection,
        origin: &str,
        request: &Request<Empty<Bytes>>,
    ) -> Result<Option<(ResponseHead, ResponseBody)>, FetchFailure> {
        match connection {
            Connection::Http2(sender) => Box::pin(send_http2(sender, request)).await,
            Connection::Http1 { mut connection, is_reused } => {
                if is_reused && !connection.is_idle().await {
                    return Ok(None);
                }
                let Some((head, body)) = connection.send(request).await? else { return Ok(None) };
                let return_to =
                    ReturnTo { pool: Arc::clone(&self.idle), origin: origin.to_owned(), limit: self.per_host };
                Ok(Some((head, ResponseBody::http1(body, return_to))))
            }
        }
    }

    async fn open(&self, uri: &Uri, origin: &str) -> Result<Connection, FetchFailure> {
        let permit = self.connect_limits.acquire(origin).await;
        let stream = self.connector.connect(uri, || self.idle.lock().close_one()).await?;
        drop(permit);
        if !stream.is_h2 {
            return Ok(Connection::Http1 { connection: Http1Connection::new(stream).await?, is_reused: false });
        }
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_header_list_size(MAX_HEAD as u32)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20);
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) =
            handshake.map_err(|err| FetchFailure::transient(FailureCode::Connect, format!("HTTP/2: {err}")))?;
        tokio::spawn(connection);
        Ok(Connection::Http2(self.idle.lock().share(origin, sender)))
    }
}

/// Scheme, host and port: requests to the same origin can use the same connection.
fn origin(uri: &Uri) -> String {
    let host = uri.authority().map_or("", |authority| authority.as_str());
    [uri.scheme_str().unwrap_or_default(), host].join("://")
}

async fn send_http2(
    mut sender: Http2Sender,
    request: &Request<Empty<Bytes>>,
) -> Result<Option<(ResponseHead, ResponseBody)>, FetchFailure> {
    if sender.ready().await.is_err() {
        return Ok(None);
    }
    match sender.send_request(request.clone()).await {
        Ok(response) => {
            let (parts, incoming) = response.into_parts();
            let head = ResponseHead { status: parts.status, headers: parts.headers };
            Ok(Some((head, ResponseBody::http2(incoming))))
        }
        Err(err) if err.is_canceled() || err.is_closed() => Ok(None),
        Err(err) => Err(FetchFailure::transient(FailureCode::Truncated, format!("HTTP/2: {}", root_cause(&err)))),
    }
}

fn root_cause(err: &dyn std::error::Error) -> String {
    let mut cause = err;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
