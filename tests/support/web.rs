//! Misbehaving servers: HTTP and HTTPS with a thread per connection, and name servers whose answers change.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request: its path as received, and its head in lower case.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    pub head: String,
}

/// A running server. It lives as long as the test process.
pub struct Web {
    pub url: String,
    pub port: u16,
    seen: Arc<Mutex<Vec<Asked>>>,
}

/// A connection, with or without TLS.
pub trait Wire: Read + Write {}
impl<T: Read + Write> Wire for T {}

impl Web {
    /// Starts a server. `answer` gets the request and the connection, which is closed when it returns.
    pub fn start(answer: impl Fn(&Asked, &mut dyn Wire) + Send + Sync + 'static) -> Self {
        Web::over("http", |tcp| Some(Box::new(tcp) as Box<dyn Wire>), move |asked, wire| answer(asked, &mut **wire))
    }

    /// The same with the TCP connection, for tests of what follows an answer.
    pub fn start_raw(answer: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> Self {
        Web::over("http", Some, answer)
    }

    /// The same over TLS, with this certificate.
    pub fn start_tls(
        certificate: &Certificate,
        answer: impl Fn(&Asked, &mut dyn Wire) + Send + Sync + 'static,
    ) -> Self {
        let config = Arc::clone(&certificate.config);
        let wrap = move |tcp| {
            let session = rustls::ServerConnection::new(Arc::clone(&config)).ok()?;
            Some(Box::new(rustls::StreamOwned::new(session, tcp)) as Box<dyn Wire>)
        };
        Web::over("https", wrap, move |asked, wire| answer(asked, &mut **wire))
    }

    fn over<W: Wire>(
        scheme: &str,
        wrap: impl Fn(TcpStream) -> Option<W> + Send + Sync + 'static,
        answer: impl Fn(&Asked, &mut W) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (requests, shared) = (Arc::clone(&seen), Arc::new((wrap, answer)));
        std::thread::spawn(move || {
            for tcp in listener.incoming().flatten() {
                let (requests, shared) = (Arc::clone(&requests), Arc::clone(&shared));
                std::thread::spawn(move || {
                    // A client that sends no request must not block the thread forever.
                    _ = tcp.set_read_timeout(Some(Duration::from_secs(60)));
                    let Some(mut wire) = (shared.0)(tcp) else { return };
                    let Some(asked) = read_request(&mut wire) else { return };
                    requests.lock().unwrap().push(asked.clone());
                    (shared.1)(&asked, &mut wire);
                    _ = wire.flush();
                });
            }
        });
        Web { url: format!("{scheme}://127.0.0.1:{port}"), port, seen }
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Asked> {
        self.seen.lock().unwrap().clone()
    }

    /// Number of requests for this path.
    pub fn count(&self, path: &str) -> usize {
        self.seen().iter().filter(|asked| asked.path == path).count()
    }
}

/// Reads one request; None if the client has closed the connection.
pub fn read_request(wire: &mut dyn Wire) -> Option<Asked> {
    let mut reader = BufReader::with_capacity(1, wire);
    let mut head = String::new();
    loop {
        let read = reader.read_line(&mut head).ok()?;
        if read == 0 {
            return None;
        }
        if head.ends_with("\r\n\r\n") {
            break;
        }
    }
    let path = head.split_whitespace().nth(1)?.to_owned();
    Some(Asked { path, head: head.to_ascii_lowercase() })
}

/// Writes a complete response. The client may have closed the connection.
pub fn reply(wire: &mut dyn Wire, status: &str, headers: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n", body.len());
    _ = wire.write_all(head.as_bytes()).and_then(|()| wire.write_all(body));
}

/// A self-signed certificate for these names.
pub struct Certificate {
    config: Arc<rustls::ServerConfig>,
    pem: String,
    key: String,
}

impl Certificate {
    pub fn new(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        Certificate { config: Arc::new(config), pem: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    /// Writes the certificate, for SSL_CERT_FILE.
    pub fn save(&self, path: &Path) {
        std::fs::write(path, &self.pem).unwrap();
    }

    /// Writes the certificate and its key, for another server.
    pub fn save_pair(&self, certificate: &Path, key: &Path) {
        self.save(certificate);
        std::fs::write(key, &self.key).unwrap();
    }
}

/// A name server. `answer` gets the name and the number of earlier queries for it, and returns the address; None means
/// "no such name". The TTL is 0.
pub fn name_server(answer: impl Fn(&str, usize) -> Option<Ipv4Addr> + Send + 'static) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut asked = std::collections::HashMap::<String, usize>::new();
        let mut buf = [0; 512];
        while let Ok((n, from)) = socket.recv_from(&mut buf) {
            let query = &buf[..n];
            let (name, end) = question(query);
            let is_a = query[end..end + 2] == [0, 1];
            let times = asked.entry(name.clone()).or_default();
            let address = if is_a { answer(&name, *times) } else { None };
            *times += usize::from(is_a);
            _ = socket.send_to(&response(query, end + 4, address), from);
        }
    });
    address
}

/// The name in a query, and where it ends.
fn question(query: &[u8]) -> (String, usize) {
    let mut labels = Vec::new();
    let mut at = 12;
    while query[at] != 0 {
        let length = usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..at + 1 + length]).to_ascii_lowercase());
        at += 1 + length;
    }
    (labels.join("."), at + 1)
}

fn response(query: &[u8], question_end: usize, address: Option<Ipv4Addr>) -> Vec<u8> {
    let mut out = query[..question_end].to_vec();
    let code = if address.is_some() { 0 } else { 3 };
    out[2..12].copy_from_slice(&[0x81, 0x80 | code, 0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0]);
    if let Some(address) = address {
        out.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        out.extend(address.octets());
    }
    out
}
