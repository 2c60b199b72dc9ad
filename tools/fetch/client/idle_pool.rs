//! Open connections that wait for their next request, by origin.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http2::SendRequest;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::http1::Http1Connection;

/// Idle connections are closed soon: a table of a million hosts would otherwise keep a million open.
const MAX_IDLE: Duration = Duration::from_secs(3);

/// How often expired connections are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Sends requests on an HTTP/2 connection, which many requests share.
pub type Http2Sender = SendRequest<Empty<Bytes>>;

/// A connection that a request can use.
pub enum Connection {
    Http1 { connection: Http1Connection, is_reused: bool },
    Http2(Http2Sender),
}

/// The idle connections of HTTP/1.1 and all connections of HTTP/2, with the time of their last use.
pub struct IdlePool {
    http1: HashMap<String, Vec<(Http1Connection, Instant)>>,
    http2: HashMap<String, (Http2Sender, Instant)>,
    swept: Instant,
}

impl IdlePool {
    pub fn new() -> Self {
        IdlePool { http1: HashMap::new(), http2: HashMap::new(), swept: Instant::now() }
    }

    /// A connection to `origin`, if there is one that has not expired.
    pub fn take(&mut self, origin: &str) -> Option<Connection> {
        if let Some((sender, used)) = self.http2.get_mut(origin) {
            if !sender.is_closed() {
                *used = Instant::now();
                return Some(Connection::Http2(sender.clone()));
            }
            self.http2.remove(origin);
        }
        let (connection, since) = self.http1.get_mut(origin)?.pop()?;
        // The newest has expired: so have all others.
        if since.elapsed() > MAX_IDLE {
            self.http1.remove(origin);
            return None;
        }
        Some(Connection::Http1 { connection, is_reused: true })
    }

    /// Keeps a connection of HTTP/1.1, unless `origin` has `limit` idle ones already or file descriptors are short.
    pub fn put(&mut self, origin: String, connection: Http1Connection, limit: usize) {
        self.sweep();
        // A request to another host may be waiting for a connection to close.
        if connection.limit_is_reached() {
            return;
        }
        let idle = self.http1.entry(origin).or_default();
        if idle.len() < limit {
            idle.push((connection, Instant::now()));
        }
    }

    /// Keeps a new connection of HTTP/2. If another task has opened one meanwhile, returns that one.
    pub fn share(&mut self, origin: &str, sender: Http2Sender) -> Http2Sender {
        self.sweep();
        match self.http2.get(origin) {
            Some((first, _)) if !first.is_closed() => first.clone(),
            _ => {
                self.http2.insert(origin.to_owned(), (sender.clone(), Instant::now()));
                sender
            }
        }
    }

    /// Closes one idle connection; false if there is none.
    pub fn close_one(&mut self) -> bool {
        let Some(origin) = self.http1.keys().next().cloned() else { return false };
        let closed = self.http1.get_mut(&origin).and_then(Vec::pop);
        if self.http1.get(&origin).is_some_and(Vec::is_empty) {
            self.http1.remove(&origin);
        }
        closed.is_some()
    }

    fn sweep(&mut self) {
        if self.swept.elapsed() < SWEEP_INTERVAL {
            return;
        }
        self.swept = Instant::now();
        for idle in self.http1.values_mut() {
            idle.retain(|(_, since)| since.elapsed() <= MAX_IDLE);
        }
        self.http1.retain(|_, idle| !idle.is_empty());
        self.http2.retain(|_, (sender, used)| !sender.is_closed() && used.elapsed() <= MAX_IDLE);
    }
}

/// Where a connection of HTTP/1.1 goes when its response has been read.
pub struct ReturnTo {
    pub pool: Arc<Mutex<IdlePool>>,
    pub origin: String,
    /// Idle connections per origin.
    pub limit: usize,
}

impl ReturnTo {
    pub fn put(self, connection: Http1Connection) {
        self.pool.lock().put(self.origin, connection, self.limit);
    }
}
