//! An HTTP server on loopback with scripted answers, one connection at a time.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A received request.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the body is complete.
    pub whole: bool,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.0.eq_ignore_ascii_case(name)).map(|header| header.1.as_str())
    }
}

/// A running server. It lives as long as the test process.
pub struct Server {
    pub url: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Starts a server. `answer` gets the request, its number and the connection, which is closed when it returns.
    pub fn start(answer: impl Fn(&Request, usize, &mut TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&seen);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let Some(request) = read_request(&stream) else { continue };
                let number = requests.lock().unwrap().len();
                requests.lock().unwrap().push(request.clone());
                answer(&request, number, &mut stream);
            }
        });
        Server { url, seen }
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

/// Writes a response, but only the first `sent` bytes of its body.
pub fn respond(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8], sent: usize) {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n", body.len());
    // The client may have closed the connection.
    _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body[..sent.min(body.len())]));
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut request = Request { method, path, headers, body: Vec::new(), whole: true };
    if request.header("transfer-encoding") == Some("chunked") {
        request.whole = read_chunks(&mut reader, &mut request.body).is_some();
    }
    Some(request)
}

/// None if the body is truncated.
fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> Option<()> {
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let size = usize::from_str_radix(line.trim(), 16).ok()?;
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk).ok()?;
        if size == 0 {
            return Some(());
        }
        body.extend(&chunk[..size]);
    }
}
