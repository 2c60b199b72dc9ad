//! The connections of a run: those that wait for their next request, by where they lead, and those of HTTP/2,
//! which many requests share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Request, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::connect::{Connector, Stream};
use super::failure::{Code, Failure};
use super::http1::{self, Head, MAX_HEAD, Rest};

/// Idle connections are closed soon: a table of a million hosts would hold a million.
const IDLE: Duration = Duration::from_secs(3);

/// How often those that are over are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// New connections to one place that are under way. What does not fit into the queue of a server, which often has room
/// for 128, is dropped without a word; its client tries again after a second, and twice that.
const UNDER_WAY: usize = 128;

/// Requests go out here.
pub struct Connections {
    connector: Connector,
    gates: Gates,
    /// Idle connections to one host.
    per_host: usize,
    kept: Arc<Mutex<Kept>>,
}

/// What is open and not in use, and what can be shared.
struct Kept {
    idle: HashMap<String, Vec<(Stream, Instant)>>,
    shared: HashMap<String, (Sender, Instant)>,
    swept: Instant,
}

type Sender = SendRequest<Empty<Bytes>>;

/// A way to ask.
enum Way {
    Own { stream: Stream, is_reused: bool },
    Shared(Sender),
}

impl Connections {
    pub fn new(connector: Connector, per_host: usize) -> Self {
        let kept = Kept { idle: HashMap::new(), shared: HashMap::new(), swept: Instant::now() };
        Connections { connector, gates: Gates::default(), per_host, kept: Arc::new(Mutex::new(kept)) }
    }

    /// Sends one request and waits for the head of its answer. A connection that the server closed while it was idle
    /// is no failure: the request goes out again, on a new one.
    pub async fn ask(&self, request: Request<Empty<Bytes>>) -> Result<(Head, Body), Failure> {
        let place = place(request.uri());
        let kept = self.kept().take(&place);
        if let Some(way) = kept
            && let Some(answer) = self.ask_by(way, &place, &request).await?
        {
            return Ok(answer);
        }
        // Boxed, since most requests find a connection: see `Attempts::fetch`.
        let way = Box::pin(self.open(request.uri(), &place)).await?;
        let closed = || Failure::passing(Code::Truncated, "the connection was closed before an answer");
        self.ask_by(way, &place, &request).await?.ok_or_else(closed)
    }

    /// The answer, or none when the connection was closed before.
    async fn ask_by(
        &self,
        way: Way,
        place: &str,
        request: &Request<Empty<Bytes>>,
    ) -> Result<Option<(Head, Body)>, Failure> {
        match way {
            Way::Shared(sender) => Box::pin(ask_shared(sender, request)).await,
            Way::Own { mut stream, is_reused } => {
                if is_reused && !stream.is_quiet().await {
                    return Ok(None);
                }
                let Some((head, rest)) = http1::ask(&mut stream, request).await? else { return Ok(None) };
                let home = Home { kept: Arc::clone(&self.kept), place: place.to_owned(), limit: self.per_host };
                Ok(Some((head, Body(Some(Source::Own { rest, stream, home })))))
            }
        }
    }

    async fn open(&self, uri: &Uri, place: &str) -> Result<Way, Failure> {
        let turn = self.gates.turn(place).await;
        let stream = self.connector.connect(uri, || self.kept().drop_one()).await?;
        drop(turn);
        if !stream.is_h2 {
            return Ok(Way::Own { stream, is_reused: false });
        }
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_header_list_size(MAX_HEAD as u32)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20);
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) =
            handshake.map_err(|err| Failure::passing(Code::Connect, format!("HTTP/2: {err}")))?;
        tokio::spawn(connection);
        Ok(Way::Shared(self.kept().share(place, sender)))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One for each place that is being connected to.
#[derive(Default)]
struct Gates(Mutex<HashMap<String, Arc<Semaphore>>>);

/// May connect. The last one to leave a gate takes it away.
struct Turn<'a> {
    gates: &'a Gates,
    place: &'a str,
    permit: Option<OwnedSemaphorePermit>,
}

impl Gates {
    async fn turn<'a>(&'a self, place: &'a str) -> Turn<'a> {
        let mut turn = Turn { gates: self, place, permit: None };
        let new = || Arc::new(Semaphore::new(UNDER_WAY));
        let gate = Arc::clone(lock(&self.0).entry(place.to_owned()).or_insert_with(new));
        turn.permit = gate.acquire_owned().await.ok();
        turn
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.permit = None;
        let mut gates = lock(&self.gates.0);
        if gates.get(self.place).is_some_and(|gate| Arc::strong_count(gate) == 1) {
            gates.remove(self.place);
        }
    }
}

/// What connections may be shared by: scheme, host and port.
fn place(uri: &Uri) -> String {
    let host = uri.authority().map_or("", |authority| authority.as_str());
    [uri.scheme_str().unwrap_or_default(), host].join("://")
}

impl Kept {
    fn take(&mut self, place: &str) -> Option<Way> {
        if let Some((sender, used)) = self.shared.get_mut(place) {
            if !sender.is_closed() {
                *used = Instant::now();
                return Some(Way::Shared(sender.clone()));
            }
            self.shared.remove(place);
        }
        let (stream, since) = self.idle.get_mut(place)?.pop()?;
        // The newest is too old: so are all.
        if since.elapsed() > IDLE {
            self.idle.remove(place);
            return None;
        }
        Some(Way::Own { stream, is_reused: true })
    }

    fn put(&mut self, place: String, stream: Stream, limit: usize) {
        self.sweep();
        // Someone waits for a connection to another host, and there may be no more of them.
        if stream.is_wanted_elsewhere() {
            return;
        }
        let idle = self.idle.entry(place).or_default();
        if idle.len() < limit {
            idle.push((stream, Instant::now()));
        }
    }

    /// Keeps a new connection of HTTP/2, or finds the one that was faster.
    fn share(&mut self, place: &str, sender: Sender) -> Sender {
        self.sweep();
        match self.shared.get(place) {
            Some((first, _)) if !first.is_closed() => first.clone(),
            _ => {
                self.shared.insert(place.to_owned(), (sender.clone(), Instant::now()));
                sender
            }
        }
    }

    /// Closes an idle connection, if there is one.
    fn drop_one(&mut self) -> bool {
        let Some(place) = self.idle.keys().next().cloned() else { return false };
        let dropped = self.idle.get_mut(&place).and_then(Vec::pop);
        if self.idle.get(&place).is_some_and(Vec::is_empty) {
            self.idle.remove(&place);
        }
        dropped.is_some()
    }

    fn sweep(&mut self) {
        if self.swept.elapsed() < SWEEP {
            return;
        }
        self.swept = Instant::now();
        for idle in self.idle.values_mut() {
            idle.retain(|(_, since)| since.elapsed() <= IDLE);
        }
        self.idle.retain(|_, idle| !idle.is_empty());
        self.shared.retain(|_, (sender, used)| !sender.is_closed() && used.elapsed() <= IDLE);
    }
}

/// Where a connection goes back to.
struct Home {
    kept: Arc<Mutex<Kept>>,
    place: String,
    limit: usize,
}

/// The body of an answer. Its connection serves again once it has been read to its end.
pub struct Body(Option<Source>);

enum Source {
    Own { rest: Rest, stream: Stream, home: Home },
    Shared(Incoming),
}

impl Body {
    /// How long it is, if the server says so.
    pub fn announced(&self) -> Option<u64> {
        match self.0.as_ref()? {
            Source::Own { rest, .. } => rest.announced(),
            Source::Shared(incoming) => incoming.size_hint().exact(),
        }
    }

    /// Reads on, behind what `data` holds. Zero bytes: the body is whole.
    pub async fn read(&mut self, data: &mut Vec<u8>) -> Result<usize, Failure> {
        let read = match &mut self.0 {
            None => 0,
            Some(Source::Own { rest, stream, .. }) => rest.read(stream, data).await?,
            Some(Source::Shared(incoming)) => read_shared(incoming, data).await?,
        };
        if read == 0 {
            self.leave();
        }
        Ok(read)
    }

    /// What is left is not wanted. The connection is, if nothing more would come.
    pub fn leave(&mut self) {
        if let Some(Source::Own { rest, stream, home }) = self.0.take()
            && rest.leaves_it_clean()
        {
            lock(&home.kept).put(home.place, stream, home.limit);
        }
    }
}

async fn ask_shared(mut sender: Sender, request: &Request<Empty<Bytes>>) -> Result<Option<(Head, Body)>, Failure> {
    if sender.ready().await.is_err() {
        return Ok(None);
    }
    match sender.send_request(request.clone()).await {
        Ok(response) => {
            let (parts, incoming) = response.into_parts();
            let head = Head { status: parts.status, headers: parts.headers };
            Ok(Some((head, Body(Some(Source::Shared(incoming))))))
        }
        Err(err) if err.is_canceled() || err.is_closed() => Ok(None),
        Err(err) => Err(Failure::passing(Code::Truncated, format!("HTTP/2: {}", root(&err)))),
    }
}

async fn read_shared(incoming: &mut Incoming, data: &mut Vec<u8>) -> Result<usize, Failure> {
    while let Some(frame) = incoming.frame().await {
        let frame = frame
            .map_err(|_| Failure::passing(Code::Truncated, format!("the body ends after {} bytes", data.len())))?;
        let Ok(piece) = frame.into_data() else { continue };
        if !piece.is_empty() {
            data.extend_from_slice(&piece);
            return Ok(piece.len());
        }
    }
    Ok(0)
}

/// What an error comes from.
fn root(err: &dyn std::error::Error) -> String {
    let mut cause = err;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
