//! The client side of HTTP/1.1: writes a request, reads the response head, then the body by its length, in chunks or until
//! the connection closes.
//!
//! fetch has its own because it reads a body straight into its final buffer. hyper reads into a buffer per connection first
//! and passes every piece from task to task; what that costs is in the head of the parent module.

use std::mem::MaybeUninit;

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::chunks::ChunkDecoder;
use super::{MAX_HEAD, MAX_HEADERS, ResponseHead, truncated};
use crate::fetch::client::connector::HttpStream;
use crate::fetch::failure::{FailureCode, FetchFailure, io_message};

/// Most heads fit into this; body bytes that are read along with the head must be copied.
const HEAD_BUFFER: usize = 4 << 10;

/// The most that is read from the connection at once.
const READ_SIZE: usize = 128 << 10;

/// A connection that waits for a request.
pub struct Http1Connection(HttpStream);

impl Http1Connection {
    /// Prepares a new connection.
    #[allow(clippy::unused_async, reason = "hyper_client has a handshake here")]
    pub async fn new(stream: HttpStream) -> Result<Self, FetchFailure> {
        Ok(Http1Connection(stream))
    }

    /// Whether the connection is idle: neither closed by the server nor with unread bytes.
    pub async fn is_idle(&mut self) -> bool {
        self.0.is_idle().await
    }

    /// Whether the limit on open connections is reached.
    pub fn limit_is_reached(&self) -> bool {
        self.0.limit_is_reached()
    }

    /// Sends `request` and reads the response head. None if the connection was closed before any of it arrived: a server
    /// may close an idle connection at any time.
    pub async fn send<B>(self, request: &Request<B>) -> Result<Option<(ResponseHead, Http1Body)>, FetchFailure> {
        let mut stream = self.0;
        if stream.write_all(&encode_request(request, stream.is_proxied)).await.is_err() {
            return Ok(None);
        }
        let mut text = Vec::with_capacity(HEAD_BUFFER);
        loop {
            let Some(parsed) = read_head(&mut stream, &mut text).await? else { return Ok(None) };
            let ParsedHead { head, length, keeps_alive } = parsed;
            text.drain(..length);
            // 100 Continue and 103 Early Hints precede the response.
            if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS {
                continue;
            }
            let framing = Framing::of(&head)?;
            let keeps_alive = keeps_alive && framing.has_definite_end(&head);
            return Ok(Some((head, Http1Body { stream, buffered: text, framing, keeps_alive })));
        }
    }
}

fn encode_request<B>(request: &Request<B>, is_proxied: bool) -> Vec<u8> {
    let uri = request.uri();
    let mut text = Vec::with_capacity(512);
    text.extend_from_slice(b"GET ");
    if is_proxied {
        text.extend_from_slice(uri.to_string().as_bytes());
    } else {
        text.extend_from_slice(uri.path_and_query().map_or("/", |path| path.as_str()).as_bytes());
    }
    text.extend_from_slice(b" HTTP/1.1\r\n");
    if !request.headers().contains_key(header::HOST) {
        let host = uri.authority().map_or("", |authority| authority.as_str());
        write_header(&mut text, "host", host.as_bytes());
    }
    for (name, value) in request.headers() {
        write_header(&mut text, name.as_str(), value.as_bytes());
    }
    text.extend_from_slice(b"\r\n");
    text
}

fn write_header(text: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        text.extend_from_slice(part);
    }
}

struct ParsedHead {
    head: ResponseHead,
    /// The bytes of the head, including the empty line.
    length: usize,
    /// Whether the server keeps the connection open.
    keeps_alive: bool,
}

/// Reads until `text` starts with a complete head. None if the connection was closed before the first byte.
async fn read_head(stream: &mut HttpStream, text: &mut Vec<u8>) -> Result<Option<ParsedHead>, FetchFailure> {
    let mut searched = 0;
    loop {
        // Garbage is detected in the first bytes; after that only a complete head is worth parsing.
        if ((searched == 0 && !text.is_empty()) || has_end(text, searched))
            && let Some(parsed) = parse(text)?
        {
            return Ok(Some(parsed));
        }
        searched = text.len();
        if searched >= MAX_HEAD {
            return Err(FetchFailure::permanent(
                FailureCode::TooLarge,
                format!("the response head is longer than {} KB", MAX_HEAD >> 10),
            ));
        }
        if text.capacity() == searched {
            text.reserve_exact(MAX_HEAD - searched);
        }
        match stream.read_buf(text).await {
            Ok(0) if searched == 0 => return Ok(None),
            Ok(0) => {
                // The same bytes give the same failure, however they were split.
                parse(text)?;
                return Err(FetchFailure::transient(
                    FailureCode::Truncated,
                    "connection closed in the middle of the response head",
                ));
            }
            Ok(_) => {}
            Err(_) if searched == 0 => return Ok(None),
            Err(err) => return Err(FetchFailure::transient(FailureCode::Connect, io_message(&err))),
        }
    }
}

/// Whether an empty line ends after `from`.
fn has_end(text: &[u8], from: usize) -> bool {
    let tail = &text[from.saturating_sub(3)..];
    tail.windows(2).any(|pair| pair == b"\n\n") || tail.windows(3).any(|three| three == b"\n\r\n")
}

fn parse(text: &[u8]) -> Result<Option<ParsedHead>, FetchFailure> {
    let invalid = |err: &dyn std::fmt::Display| {
        FetchFailure::permanent(FailureCode::Protocol, format!("invalid HTTP response: {err}"))
    };
    let mut buffer = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut response, text, &mut buffer) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(err) => return Err(invalid(&err)),
    };
    let status = StatusCode::from_u16(response.code.unwrap_or_default()).map_err(|err| invalid(&err))?;
    let mut headers = HeaderMap::with_capacity(response.headers.len());
    for raw in response.headers.iter() {
        let name = HeaderName::from_bytes(raw.name.as_bytes()).map_err(|err| invalid(&err))?;
        let value = HeaderValue::from_bytes(raw.value).map_err(|err| invalid(&err))?;
        headers.append(name, value);
    }
    let says = |word: &str| has_token(&headers, header::CONNECTION, word);
    let keeps_alive = if response.version == Some(1) { !says("close") } else { says("keep-alive") };
    Ok(Some(ParsedHead { head: ResponseHead { status, headers }, length, keeps_alive }))
}

/// Whether a header that is a comma-separated list contains this word.
fn has_token(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case(word))
}

/// How the end of a body is found.
enum Framing {
    /// After this many more bytes.
    Length(u64),
    Chunked(ChunkDecoder),
    /// When the server closes the connection.
    UntilClose,
}

impl Framing {
    fn of(head: &ResponseHead) -> Result<Self, FetchFailure> {
        let ResponseHead { status, headers } = head;
        if status.is_informational() || matches!(*status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            return Ok(Framing::Length(0));
        }
        if headers.contains_key(header::TRANSFER_ENCODING) {
            let is_chunked = has_token(headers, header::TRANSFER_ENCODING, "chunked");
            return Ok(if is_chunked { Framing::Chunked(ChunkDecoder::default()) } else { Framing::UntilClose });
        }
        let mut lengths = headers.get_all(header::CONTENT_LENGTH).into_iter();
        let Some(first) = lengths.next() else { return Ok(Framing::UntilClose) };
        let number = first.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        match number.and_then(|text| text.parse().ok()).filter(|_| lengths.all(|other| other == first)) {
            Some(length) => Ok(Framing::Length(length)),
            None => Err(FetchFailure::permanent(
                FailureCode::Protocol,
                "invalid HTTP response: malformed or conflicting Content-Length",
            )),
        }
    }

    /// Whether the bytes after the body can only be the next response.
    fn has_definite_end(&self, head: &ResponseHead) -> bool {
        match self {
            Framing::Length(_) => head.status != StatusCode::SWITCHING_PROTOCOLS,
            Framing::Chunked(_) => !head.headers.contains_key(header::CONTENT_LENGTH),
            Framing::UntilClose => false,
        }
    }
}

/// Reads the body that follows a head.
pub struct Http1Body {
    stream: HttpStream,
    /// Body bytes that arrived with the head, or chunks that are not decoded yet.
    buffered: Vec<u8>,
    framing: Framing,
    keeps_alive: bool,
}

impl Http1Body {
    /// The number of bytes still to come, if the server announced it.
    pub fn expected_length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(left) => Some(left),
            _ => None,
        }
    }

    /// The connection, if it can carry another request once the rest of this body is dropped: all of it has arrived, and the
    /// server keeps the connection open.
    pub fn into_connection(self) -> Option<Http1Connection> {
        let has_arrived = match &self.framing {
            Framing::Length(left) => *left == self.buffered.len() as u64,
            Framing::Chunked(chunks) => chunks.is_finished() && self.buffered.is_empty(),
            Framing::UntilClose => false,
        };
        (has_arrived && self.keeps_alive).then_some(Http1Connection(self.stream))
    }

    /// Appends the next bytes to `data` and returns their number; 0 at the end of the body.
    pub async fn read(&mut self, data: &mut Vec<u8>) -> Result<usize, FetchFailure> {
        let stream = &mut self.stream;
        match &mut self.framing {
            Framing::Length(0) => Ok(0),
            Framing::Length(left) if self.buffered.is_empty() => {
                // One byte more than is left: a short read tells tokio that the socket is empty, which saves a system call.
                let wanted = left.saturating_add(1).min(READ_SIZE as u64) as usize;
                let read = read_once(stream, data, wanted).await?;
                let read = if read == 0 { return Err(truncated(data)) } else { read as u64 };
                let surplus = read.saturating_sub(*left);
                data.truncate(data.len() - surplus as usize);
                self.keeps_alive &= surplus == 0;
                *left -= read - surplus;
                Ok((read - surplus) as usize)
            }
            Framing::Length(left) => {
                let buffered = std::mem::take(&mut self.buffered);
                let taken = buffered.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                data.extend_from_slice(&buffered[..taken]);
                self.keeps_alive &= taken == buffered.len();
                *left -= taken as u64;
                Ok(taken)
            }
            Framing::Chunked(chunks) => {
                let before = data.len();
                while data.len() == before && !chunks.is_finished() {
                    if self.buffered.is_empty() && read_once(stream, &mut self.buffered, READ_SIZE / 4).await? == 0 {
                        return Err(truncated(data));
                    }
                    let used = chunks.decode(&self.buffered, data)?;
                    self.buffered.drain(..used);
                }
                Ok(data.len() - before)
            }
            Framing::UntilClose if self.buffered.is_empty() => read_once(stream, data, READ_SIZE / 4).await,
            Framing::UntilClose => {
                let buffered = std::mem::take(&mut self.buffered);
                data.extend_from_slice(&buffered);
                Ok(buffered.len())
            }
        }
    }
}

/// Appends the result of one read of at most `wanted` bytes to `data`.
async fn read_once(stream: &mut HttpStream, data: &mut Vec<u8>, wanted: usize) -> Result<usize, FetchFailure> {
    data.reserve(wanted);
    let read = stream.take(wanted as u64).read_buf(data).await;
    read.map_err(|_| truncated(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> ResponseHead {
        parse(text.as_bytes()).unwrap().unwrap().head
    }

    fn keeps_alive(text: &str) -> bool {
        parse(text.as_bytes()).unwrap().unwrap().keeps_alive
    }

    #[test]
    fn a_head_is_parsed_once_it_is_complete() {
        assert!(parse(b"HTTP/1.1 200 OK\r\nA: b\r\n").unwrap().is_none());
        assert!(parse(b"SSH-2.0-OpenSSH\r\n").is_err());
        assert!(parse(b"HTTP/1.1 2000 OK\r\n\r\n").is_err());
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody").unwrap().unwrap().length, 25);
        assert!(has_end(b"a\r\n\r\n", 4) && has_end(b"a\n\n", 0) && !has_end(b"a\r\n", 0));
    }

    #[test]
    fn the_server_decides_whether_a_connection_is_kept() {
        assert!(keeps_alive("HTTP/1.1 200 OK\r\n\r\n"));
        assert!(!keeps_alive("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n"));
        assert!(!keeps_alive("HTTP/1.0 200 OK\r\n\r\n"));
        assert!(keeps_alive("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n"));
    }

    #[test]
    fn a_body_ends_by_length_chunks_or_close() {
        let framing = |lines: &str| Framing::of(&head(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n")));
        assert!(matches!(framing("Content-Length: 7\r\n"), Ok(Framing::Length(7))));
        assert!(matches!(framing("Content-Length: 7\r\nContent-Length: 7\r\n"), Ok(Framing::Length(7))));
        assert!(matches!(framing("Transfer-Encoding: gzip, chunked\r\n"), Ok(Framing::Chunked(_))));
        assert!(matches!(framing("Content-Length: 7\r\nTransfer-Encoding: chunked\r\n"), Ok(Framing::Chunked(_))));
        assert!(matches!(framing("Transfer-Encoding: identity\r\n"), Ok(Framing::UntilClose)));
        assert!(matches!(framing(""), Ok(Framing::UntilClose)));
        for wrong in
            ["Content-Length: +7", "Content-Length: 7\r\nContent-Length: 8", "Content-Length: 7, 8", "Content-Length:"]
        {
            assert!(framing(&format!("{wrong}\r\n")).is_err(), "{wrong}");
        }
        assert!(matches!(Framing::of(&head("HTTP/1.1 204 No\r\nContent-Length: 7\r\n\r\n")), Ok(Framing::Length(0))));
    }

    #[test]
    fn a_request_names_its_host_and_a_proxy_gets_the_whole_url() {
        let request = Request::get("http://h:81/a?b").header("x-a", "1").body(()).unwrap();
        assert_eq!(encode_request(&request, false), b"GET /a?b HTTP/1.1\r\nhost: h:81\r\nx-a: 1\r\n\r\n");
        assert!(encode_request(&request, true).starts_with(b"GET http://h:81/a?b HTTP/1.1\r\n"));
    }
}
