//! A proxy before the S3 server that puts faults between it and its clients. It passes bytes on as
//! they are, so signatures hold; each connection carries one request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What becomes of a request.
pub enum Act {
    Pass,
    /// Answered without asking the server.
    Answer(&'static str),
    /// Forwards, and cuts the connection after this many bytes of the response.
    Cut(u64),
}

pub const SLOW_DOWN: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/xml\r\nConnection: close\r\n\
    Content-Length: 91\r\n\r\n<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>\r\n\r\n";

#[derive(Clone)]
pub struct Asked {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub range: Option<String>,
}

pub struct Proxy {
    pub url: String,
    seen: Arc<Mutex<Vec<Asked>>>,
}

impl Proxy {
    /// Starts a proxy before `server`; `act` gets each request and how many came before it.
    pub fn start(server: &str, act: impl Fn(&Asked, usize) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = server.trim_start_matches("http://").to_owned();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (requests, act) = (Arc::clone(&seen), Arc::new(act));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (server, requests, act) = (server.clone(), Arc::clone(&requests), Arc::clone(&act));
                std::thread::spawn(move || {
                    let Some((asked, bytes)) = read_request(&client) else { return };
                    let number = {
                        let mut requests = requests.lock().unwrap();
                        requests.push(asked.clone());
                        requests.len() - 1
                    };
                    answer(client, &server, &bytes, act(&asked, number));
                });
            }
        });
        Proxy { url, seen }
    }

    pub fn requests(&self) -> Vec<Asked> {
        self.seen.lock().unwrap().clone()
    }
}

fn answer(mut client: TcpStream, server: &str, request: &[u8], act: Act) {
    let most = match act {
        Act::Answer(text) => return client.write_all(text.as_bytes()).unwrap_or_default(),
        Act::Pass => u64::MAX,
        Act::Cut(most) => most,
    };
    let mut upstream = TcpStream::connect(server).unwrap();
    // A client that disconnects is not an error of the proxy.
    _ = upstream.write_all(request).and_then(|()| std::io::copy(&mut upstream.take(most), &mut client));
}

/// The request as it came, but for one header that nobody signs.
fn read_request(client: &TcpStream) -> Option<(Asked, Vec<u8>)> {
    let mut reader = BufReader::new(client.try_clone().ok()?);
    let (mut head, mut length, mut range) = (String::new(), 0, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&n| n > 0)?;
        if line == "\r\n" {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "range" => range = Some(value.trim().to_owned()),
            "connection" => continue,
            // Google's client sends it empty where it has no token; its own server does not mind.
            "authorization" if value.trim() == "Bearer" => continue,
            _ => {}
        }
        head.push_str(&line);
    }
    let mut words = head.split_whitespace();
    let asked = Asked { method: words.next()?.into(), target: words.next()?.into(), range };
    let mut bytes = format!("{head}Connection: close\r\n\r\n").into_bytes();
    let before = bytes.len();
    bytes.resize(before + length, 0);
    reader.read_exact(&mut bytes[before..]).ok()?;
    Some((asked, bytes))
}
