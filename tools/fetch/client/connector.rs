//! Opens connections: DNS lookup, address check, TCP or proxy, TLS. Every connection of fetch is opened here, so that no
//! request or redirect bypasses the address check.

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

use super::resolver::Resolver;
use super::tls;
use crate::fetch::failure::{FailureCode, FetchFailure, io_message};

/// Opens connections, as many at a time as there are file descriptors for.
#[derive(Clone)]
pub struct Connector(Arc<ConnectorInner>);

struct ConnectorInner {
    resolver: Resolver,
    insecure: bool,
    /// Created for the first https URL: reading the certificates costs more than a hundred requests.
    tls: OnceLock<TlsConnector>,
    proxies: &'static Matcher,
    timeout: Duration,
    /// One permit per open connection, idle ones included: file descriptors are limited.
    open: Arc<Semaphore>,
}

impl Connector {
    /// Uses `proxies` where they apply, and keeps at most `open` connections open.
    pub fn new(resolver: Resolver, insecure: bool, proxies: &'static Matcher, timeout: Duration, open: usize) -> Self {
        Connector(Arc::new(ConnectorInner {
            resolver,
            insecure,
            tls: OnceLock::new(),
            proxies,
            timeout,
            open: Arc::new(Semaphore::new(open)),
        }))
    }

    /// Fails if no address of this host may be connected to.
    pub async fn check(&self, host: &str) -> Result<(), FetchFailure> {
        self.0.resolver.resolve(host).await.map(drop)
    }

    /// Connects to the host of `uri`. If too many connections are open, calls `make_room`, which closes an idle one or returns
    /// false.
    pub async fn connect(&self, uri: &Uri, make_room: impl Fn() -> bool) -> Result<HttpStream, FetchFailure> {
        let permit = self.permit(make_room).await?;
        let timed_out =
            |_| FetchFailure::transient(FailureCode::Connect, format!("not connected within {:?}", self.0.timeout));
        timeout(self.0.timeout, self.0.connect(uri, permit)).await.map_err(timed_out)?
    }

    async fn permit(&self, make_room: impl Fn() -> bool) -> Result<OwnedSemaphorePermit, FetchFailure> {
        loop {
            let open = Arc::clone(&self.0.open);
            if let Ok(permit) = Arc::clone(&open).try_acquire_owned() {
                return Ok(permit);
            }
            if !make_room() {
                return open
                    .acquire_owned()
                    .await
                    .map_err(|_| FetchFailure::permanent(FailureCode::Interrupted, "interrupted"));
            }
        }
    }
}

impl ConnectorInner {
    async fn connect(&self, uri: &Uri, permit: OwnedSemaphorePermit) -> Result<HttpStream, FetchFailure> {
        let host = uri.host().unwrap_or_default();
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let (tcp, is_proxied) = match self.proxies.intercept(uri) {
            None => (connect_any(&self.resolver.resolve(host).await?, port).await?, false),
            Some(proxy) => (self.connect_proxy(&proxy, host, port, is_tls).await?, !is_tls),
        };
        // Requests are written at once: there is nothing to wait for.
        _ = tcp.set_nodelay(true);
        if !is_tls {
            return Ok(HttpStream { io: Box::new(tcp), is_proxied, is_h2: false, permit });
        }
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(|_| {
            FetchFailure::permanent(FailureCode::BadUrl, format!("{host}: not a valid host name for TLS"))
        })?;
        let tls = self.tls()?.connect(name, tcp).await.map_err(|err| tls_failure(&err))?;
        let is_h2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(HttpStream { io: Box::new(tls), is_proxied, is_h2, permit })
    }

    fn tls(&self) -> Result<&TlsConnector, FetchFailure> {
        match self.tls.get() {
            Some(tls) => Ok(tls),
            None => {
                let tls = tls::connector(self.insecure)
                    .map_err(|err| FetchFailure::permanent(FailureCode::Tls, format!("{err:#}")))?;
                Ok(self.tls.get_or_init(|| tls))
            }
        }
    }

    /// The address of the proxy is not checked: the user chose it. The proxy resolves the target itself, so only IP
    /// addresses in the URL can be checked.
    async fn connect_proxy(
        &self,
        proxy: &Intercept,
        host: &str,
        port: u16,
        is_tls: bool,
    ) -> Result<TcpStream, FetchFailure> {
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            self.resolver.resolve(&address.to_string()).await?;
        }
        let uri = proxy.uri();
        if uri.scheme_str() != Some("http") {
            return Err(FetchFailure::permanent(
                FailureCode::Connect,
                format!("proxy {uri}: unsupported scheme; use an http:// proxy"),
            ));
        }
        let address = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(80));
        let failed =
            |err: std::io::Error| FetchFailure::transient(FailureCode::Connect, format!("proxy {}: {err}", address.0));
        let mut tcp = TcpStream::connect(address).await.map_err(failed)?;
        if is_tls {
            let auth = proxy.basic_auth().and_then(|value| value.to_str().ok());
            let auth = auth.map(|value| format!("Proxy-Authorization: {value}\r\n")).unwrap_or_default();
            let request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{auth}\r\n");
            tcp.write_all(request.as_bytes()).await.map_err(failed)?;
            let response = read_head(&mut tcp).await.map_err(failed)?;
            if !(response.starts_with("HTTP/1.1 200") || response.starts_with("HTTP/1.0 200")) {
                let line = response.lines().next().unwrap_or_default();
                return Err(FetchFailure::transient(FailureCode::Connect, format!("proxy {}: {line}", address.0)));
            }
        }
        Ok(tcp)
    }
}

/// The proxy's response up to its empty line, byte by byte: the bytes after it belong to the tunnel.
async fn read_head(tcp: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 8192 {
        head.push(tcp.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

async fn connect_any(addresses: &[IpAddr], port: u16) -> Result<TcpStream, FetchFailure> {
    let mut last = None;
    for &address in addresses.iter().take(3) {
        match TcpStream::connect(SocketAddr::new(address, port)).await {
            Ok(tcp) => return Ok(tcp),
            Err(err) => {
                last = Some(FetchFailure::transient(FailureCode::Connect, format!("{address}: {}", io_message(&err))))
            }
        }
    }
    Err(last.unwrap_or_else(|| FetchFailure::permanent(FailureCode::Dns, "no address")))
}

fn tls_failure(err: &std::io::Error) -> FetchFailure {
    let rejected = err.get_ref().is_some_and(|inner| inner.is::<TlsError>());
    match rejected {
        true => FetchFailure::permanent(FailureCode::Tls, io_message(err)),
        false => FetchFailure::transient(FailureCode::Tls, format!("handshake: {}", io_message(err))),
    }
}

trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// An open connection, with or without TLS.
pub struct HttpStream {
    io: Box<dyn ByteStream>,
    /// Whether the peer is a proxy, which expects absolute URLs in requests.
    pub is_proxied: bool,
    /// Whether HTTP/2 was negotiated.
    pub is_h2: bool,
    permit: OwnedSemaphorePermit,
}

impl HttpStream {
    /// Whether the connection is idle: neither closed by the server nor with unread bytes.
    #[cfg(not(feature = "hyper-http1"))]
    pub async fn is_idle(&mut self) -> bool {
        let mut byte = [0];
        let mut buf = ReadBuf::new(&mut byte);
        std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut self.io).poll_read(cx, &mut buf).is_pending())).await
    }

    /// The limit on open connections.
    #[cfg(feature = "hyper-http1")]
    pub fn open_limit(&self) -> &Arc<Semaphore> {
        self.permit.semaphore()
    }

    /// Whether the limit on open connections is reached.
    #[cfg(not(feature = "hyper-http1"))]
    pub fn limit_is_reached(&self) -> bool {
        self.permit.semaphore().available_permits() == 0
    }
}

impl AsyncRead for HttpStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<IoResult<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for HttpStream {
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
