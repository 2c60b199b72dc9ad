//! A connection for a request: looked up, checked, connected, secured. Every new connection is
//! made here, so no request and no redirect gets around it.

use std::future::poll_fn;
use std::io::Result as IoResult;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::Error as TlsError;
use tokio_rustls::rustls::pki_types::ServerName;

use super::failure::{Code, Failure};
use super::resolve::Resolver;
use super::tls;

/// Makes connections.
#[derive(Clone)]
pub struct Connector(Arc<Shared>);

struct Shared {
    resolver: Resolver,
    insecure: bool,
    /// Made when the first https URL comes: reading certificates costs more than a hundred requests.
    tls: OnceLock<TlsConnector>,
    proxies: Arc<Matcher>,
    timeout: Duration,
    /// Open connections, idle ones too: file descriptors are few.
    open: Arc<Semaphore>,
}

impl Connector {
    /// Connections by way of `proxies` where they apply; at most `open` at a time.
    pub fn new(resolver: Resolver, insecure: bool, proxies: Arc<Matcher>, timeout: Duration, open: usize) -> Self {
        Connector(Arc::new(Shared {
            resolver,
            insecure,
            tls: OnceLock::new(),
            proxies,
            timeout,
            open: Arc::new(Semaphore::new(open)),
        }))
    }

    /// Whether the address of this host may be connected to.
    pub async fn check(&self, host: &str) -> Result<(), Failure> {
        self.0.resolver.resolve(host).await.map(drop)
    }

    /// Connects to the host of `uri`. Where no more connections may be open, `make_room` closes an idle one, or says
    /// that there is none.
    pub async fn connect(&self, uri: &Uri, make_room: impl Fn() -> bool) -> Result<Stream, Failure> {
        let permit = self.permit(make_room).await?;
        let late = |_| Failure::passing(Code::Connect, format!("no connection within {:?}", self.0.timeout));
        timeout(self.0.timeout, self.0.connect(uri, permit)).await.map_err(late)?
    }

    async fn permit(&self, make_room: impl Fn() -> bool) -> Result<OwnedSemaphorePermit, Failure> {
        loop {
            let open = Arc::clone(&self.0.open);
            if let Ok(permit) = Arc::clone(&open).try_acquire_owned() {
                return Ok(permit);
            }
            if !make_room() {
                return open.acquire_owned().await.map_err(|_| Failure::lasting(Code::Interrupted, "interrupted"));
            }
        }
    }
}

impl Shared {
    async fn connect(&self, uri: &Uri, permit: OwnedSemaphorePermit) -> Result<Stream, Failure> {
        let host = uri.host().unwrap_or_default();
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let (tcp, is_proxied) = match self.proxies.intercept(uri) {
            None => (connect_any(&self.resolver.resolve(host).await?, port).await?, false),
            Some(proxy) => (self.connect_proxy(&proxy, host, port, is_tls).await?, !is_tls),
        };
        // Requests are written whole: nothing to gain from waiting for more.
        _ = tcp.set_nodelay(true);
        if !is_tls {
            return Ok(Stream { io: Box::new(tcp), is_proxied, is_h2: false, permit });
        }
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
            .map_err(|_| Failure::lasting(Code::BadUrl, format!("{host}: no name for a certificate")))?;
        let tls = self.tls()?.connect(name, tcp).await.map_err(|err| tls_failure(&err))?;
        let is_h2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Stream { io: Box::new(tls), is_proxied, is_h2, permit })
    }

    fn tls(&self) -> Result<&TlsConnector, Failure> {
        match self.tls.get() {
            Some(tls) => Ok(tls),
            None => {
                let tls =
                    tls::connector(self.insecure).map_err(|err| Failure::lasting(Code::Tls, format!("{err:#}")))?;
                Ok(self.tls.get_or_init(|| tls))
            }
        }
    }

    /// A proxy is the user's own: its address is not checked. It resolves the target itself,
    /// so only addresses written into a URL can be checked behind one.
    async fn connect_proxy(
        &self,
        proxy: &Intercept,
        host: &str,
        port: u16,
        is_tls: bool,
    ) -> Result<TcpStream, Failure> {
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            self.resolver.resolve(&address.to_string()).await?;
        }
        let uri = proxy.uri();
        if uri.scheme_str() != Some("http") {
            return Err(Failure::lasting(Code::Connect, format!("proxy {uri}: only http:// proxies are spoken to")));
        }
        let place = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(80));
        let broken = |err: std::io::Error| Failure::passing(Code::Connect, format!("proxy {}: {err}", place.0));
        let mut tcp = TcpStream::connect(place).await.map_err(broken)?;
        if is_tls {
            let auth = proxy.basic_auth().and_then(|value| value.to_str().ok());
            let auth = auth.map(|value| format!("Proxy-Authorization: {value}\r\n")).unwrap_or_default();
            let ask = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{auth}\r\n");
            tcp.write_all(ask.as_bytes()).await.map_err(broken)?;
            let answer = read_head(&mut tcp).await.map_err(broken)?;
            if !(answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.0 200")) {
                let line = answer.lines().next().unwrap_or_default();
                return Err(Failure::passing(Code::Connect, format!("proxy {}: {line}", place.0)));
            }
        }
        Ok(tcp)
    }
}

/// The proxy's answer up to its empty line, byte by byte: what follows belongs to the tunnel.
async fn read_head(tcp: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 8192 {
        head.push(tcp.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

async fn connect_any(addresses: &[IpAddr], port: u16) -> Result<TcpStream, Failure> {
    let mut last = None;
    for &address in addresses.iter().take(3) {
        match TcpStream::connect(SocketAddr::new(address, port)).await {
            Ok(tcp) => return Ok(tcp),
            Err(err) => last = Some(Failure::passing(Code::Connect, format!("{address}: {}", plain(&err)))),
        }
    }
    Err(last.unwrap_or_else(|| Failure::lasting(Code::Dns, "no address")))
}

fn tls_failure(err: &std::io::Error) -> Failure {
    let rejected = err.get_ref().is_some_and(|inner| inner.is::<TlsError>());
    match rejected {
        true => Failure::lasting(Code::Tls, plain(err)),
        false => Failure::passing(Code::Tls, format!("handshake: {}", plain(err))),
    }
}

/// An error without the number that std adds.
pub fn plain(err: &std::io::Error) -> String {
    let text = err.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection, plain or secured.
pub struct Stream {
    io: Box<dyn Io>,
    /// Whether a proxy is at its other end, which wants whole URLs.
    pub is_proxied: bool,
    /// Whether HTTP/2 was agreed upon.
    pub is_h2: bool,
    permit: OwnedSemaphorePermit,
}

impl Stream {
    /// Whether the server has neither closed it nor said anything.
    pub async fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let mut room = ReadBuf::new(&mut byte);
        poll_fn(|cx| Poll::Ready(Pin::new(&mut self.io).poll_read(cx, &mut room).is_pending())).await
    }

    /// Whether no other connection can be opened while this one is.
    pub fn is_wanted_elsewhere(&self) -> bool {
        self.permit.semaphore().available_permits() == 0
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<IoResult<()>> {
        Pin::new(&mut self.io).poll_read(cx, room)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<IoResult<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<IoResult<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<IoResult<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
