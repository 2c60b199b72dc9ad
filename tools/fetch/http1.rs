//! HTTP/1.1 as a client speaks it: a request is written, the head of its answer read, then a body by its length,
//! in chunks or until the connection ends. A body is read straight to where it stays. That is why this is ours:
//! hyper reads into a buffer of each connection first and hands every piece from one task to another, which cost
//! as much as the rest of a request.

use std::mem::MaybeUninit;

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::chunks::Chunks;
use super::connect::{Stream, plain};
use super::failure::{Code, Failure};

/// A response head may be this long.
pub const MAX_HEAD: usize = 32 << 10;

/// Most heads fit into this; what is read of the body with them has to be copied.
const HEAD: usize = 4 << 10;

/// More headers are an attack.
const MAX_HEADERS: usize = 256;

/// A body is read in pieces of this size.
const PIECE: usize = 128 << 10;

/// The head of an answer.
#[derive(Debug)]
pub struct Head {
    pub status: StatusCode,
    pub headers: HeaderMap,
}

/// Asks for `request` and reads the head of the answer; nothing when the connection was closed before one.
pub async fn ask<B>(stream: &mut Stream, request: &Request<B>) -> Result<Option<(Head, Rest)>, Failure> {
    if stream.write_all(&written(request, stream.is_proxied)).await.is_err() {
        return Ok(None);
    }
    let mut text = Vec::with_capacity(HEAD);
    loop {
        let Some(parsed) = read_head(stream, &mut text).await? else { return Ok(None) };
        let Parsed { head, length, keeps } = parsed;
        text.drain(..length);
        // 100 Continue and 103 Early Hints come before the answer.
        if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS {
            continue;
        }
        let framing = Framing::of(&head)?;
        let is_reusable = keeps && framing.tells_its_end(&head);
        return Ok(Some((head, Rest { early: text, framing, is_reusable })));
    }
}

/// The bytes of a request.
fn written<B>(request: &Request<B>, is_proxied: bool) -> Vec<u8> {
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

struct Parsed {
    head: Head,
    /// How many bytes it took.
    length: usize,
    /// Whether the server keeps the connection open.
    keeps: bool,
}

/// Reads until `text` starts with a whole head. Nothing when not a byte came.
async fn read_head(stream: &mut Stream, text: &mut Vec<u8>) -> Result<Option<Parsed>, Failure> {
    let mut looked = 0;
    loop {
        // What is no HTTP shows at once; after that only a whole head is worth another look.
        if ((looked == 0 && !text.is_empty()) || has_end(text, looked))
            && let Some(parsed) = parse(text)?
        {
            return Ok(Some(parsed));
        }
        looked = text.len();
        if looked >= MAX_HEAD {
            return Err(Failure::lasting(Code::TooLarge, format!("the head is longer than {} KB", MAX_HEAD >> 10)));
        }
        if text.capacity() == looked {
            text.reserve_exact(MAX_HEAD - looked);
        }
        match stream.read_buf(text).await {
            Ok(0) if looked == 0 => return Ok(None),
            Ok(0) => {
                // What came is no HTTP, in however many pieces it came.
                parse(text)?;
                return Err(Failure::passing(Code::Truncated, "the connection was closed within the head"));
            }
            Ok(_) => {}
            Err(_) if looked == 0 => return Ok(None),
            Err(err) => return Err(Failure::passing(Code::Connect, plain(&err))),
        }
    }
}

/// Whether an empty line ends beyond `from`.
fn has_end(text: &[u8], from: usize) -> bool {
    let tail = &text[from.saturating_sub(3)..];
    tail.windows(2).any(|pair| pair == b"\n\n") || tail.windows(3).any(|three| three == b"\n\r\n")
}

fn parse(text: &[u8]) -> Result<Option<Parsed>, Failure> {
    let no_http = |err: &dyn std::fmt::Display| Failure::lasting(Code::Protocol, format!("not HTTP: {err}"));
    let mut room = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut response, text, &mut room) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(err) => return Err(no_http(&err)),
    };
    let status = StatusCode::from_u16(response.code.unwrap_or_default()).map_err(|err| no_http(&err))?;
    let mut headers = HeaderMap::with_capacity(response.headers.len());
    for raw in response.headers.iter() {
        let name = HeaderName::from_bytes(raw.name.as_bytes()).map_err(|err| no_http(&err))?;
        let value = HeaderValue::from_bytes(raw.value).map_err(|err| no_http(&err))?;
        headers.append(name, value);
    }
    let says = |word: &str| has_token(&headers, header::CONNECTION, word);
    let keeps = if response.version == Some(1) { !says("close") } else { says("keep-alive") };
    Ok(Some(Parsed { head: Head { status, headers }, length, keeps }))
}

/// Whether a list of words in a header holds this one.
fn has_token(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case(word))
}

/// How the end of a body is told.
enum Framing {
    /// So many bytes are left.
    Length(u64),
    Chunked(Chunks),
    /// By the end of the connection.
    Closing,
}

impl Framing {
    fn of(head: &Head) -> Result<Self, Failure> {
        let Head { status, headers } = head;
        if status.is_informational() || matches!(*status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            return Ok(Framing::Length(0));
        }
        if headers.contains_key(header::TRANSFER_ENCODING) {
            let is_chunked = has_token(headers, header::TRANSFER_ENCODING, "chunked");
            return Ok(if is_chunked { Framing::Chunked(Chunks::default()) } else { Framing::Closing });
        }
        let mut lengths = headers.get_all(header::CONTENT_LENGTH).into_iter();
        let Some(first) = lengths.next() else { return Ok(Framing::Closing) };
        let number = first.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        match number.and_then(|text| text.parse().ok()).filter(|_| lengths.all(|other| other == first)) {
            Some(length) => Ok(Framing::Length(length)),
            None => Err(Failure::lasting(Code::Protocol, "not HTTP: no single length of the body")),
        }
    }

    /// Whether what follows the body is surely the next answer.
    fn tells_its_end(&self, head: &Head) -> bool {
        match self {
            Framing::Length(_) => head.status != StatusCode::SWITCHING_PROTOCOLS,
            Framing::Chunked(_) => !head.headers.contains_key(header::CONTENT_LENGTH),
            Framing::Closing => false,
        }
    }
}

/// What follows a head: the body, of which some may have come already.
pub struct Rest {
    early: Vec<u8>,
    framing: Framing,
    is_reusable: bool,
}

impl Rest {
    /// How many bytes are to come, if the server says so.
    pub fn announced(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Whether the connection is fit for another request, its body not being wanted any more.
    pub fn leaves_it_clean(&self) -> bool {
        let is_here = match &self.framing {
            Framing::Length(left) => *left == self.early.len() as u64,
            Framing::Chunked(chunks) => chunks.is_over() && self.early.is_empty(),
            Framing::Closing => false,
        };
        is_here && self.is_reusable
    }

    /// Reads on, behind what `data` holds. Zero bytes: the body is whole.
    pub async fn read(&mut self, stream: &mut Stream, data: &mut Vec<u8>) -> Result<usize, Failure> {
        match &mut self.framing {
            Framing::Length(0) => Ok(0),
            Framing::Length(left) if self.early.is_empty() => {
                // A byte more than is left: the short read tells tokio that no more has come, which saves a call.
                let wanted = left.saturating_add(1).min(PIECE as u64) as usize;
                let read = receive(stream, data, wanted).await?;
                let read = if read == 0 { return Err(cut(data)) } else { read as u64 };
                let surplus = read.saturating_sub(*left);
                data.truncate(data.len() - surplus as usize);
                self.is_reusable &= surplus == 0;
                *left -= read - surplus;
                Ok((read - surplus) as usize)
            }
            Framing::Length(left) => {
                let early = std::mem::take(&mut self.early);
                let taken = early.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                data.extend_from_slice(&early[..taken]);
                self.is_reusable &= taken == early.len();
                *left -= taken as u64;
                Ok(taken)
            }
            Framing::Chunked(chunks) => {
                let before = data.len();
                while data.len() == before && !chunks.is_over() {
                    if self.early.is_empty() && receive(stream, &mut self.early, PIECE / 4).await? == 0 {
                        return Err(cut(data));
                    }
                    let used = chunks.decode(&self.early, data)?;
                    self.early.drain(..used);
                }
                Ok(data.len() - before)
            }
            Framing::Closing if self.early.is_empty() => receive(stream, data, PIECE / 4).await,
            Framing::Closing => {
                let early = std::mem::take(&mut self.early);
                data.extend_from_slice(&early);
                Ok(early.len())
            }
        }
    }
}

/// Reads once, at most `wanted` bytes, behind what `data` holds.
async fn receive(stream: &mut Stream, data: &mut Vec<u8>, wanted: usize) -> Result<usize, Failure> {
    data.reserve(wanted);
    let read = stream.take(wanted as u64).read_buf(data).await;
    read.map_err(|_| cut(data))
}

fn cut(data: &[u8]) -> Failure {
    Failure::passing(Code::Truncated, format!("the body ends after {} bytes", data.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        parse(text.as_bytes()).unwrap().unwrap().head
    }

    fn keeps(text: &str) -> bool {
        parse(text.as_bytes()).unwrap().unwrap().keeps
    }

    #[test]
    fn a_head_is_taken_as_soon_as_it_is_whole() {
        assert!(parse(b"HTTP/1.1 200 OK\r\nA: b\r\n").unwrap().is_none());
        assert!(parse(b"SSH-2.0-OpenSSH\r\n").is_err());
        assert!(parse(b"HTTP/1.1 2000 OK\r\n\r\n").is_err());
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody").unwrap().unwrap().length, 25);
        assert!(has_end(b"a\r\n\r\n", 4) && has_end(b"a\n\n", 0) && !has_end(b"a\r\n", 0));
    }

    #[test]
    fn connections_are_kept_as_the_server_says() {
        assert!(keeps("HTTP/1.1 200 OK\r\n\r\n"));
        assert!(!keeps("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n"));
        assert!(!keeps("HTTP/1.0 200 OK\r\n\r\n"));
        assert!(keeps("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n"));
    }

    #[test]
    fn a_body_ends_by_length_chunks_or_with_the_connection() {
        let framing = |lines: &str| Framing::of(&head(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n")));
        assert!(matches!(framing("Content-Length: 7\r\n"), Ok(Framing::Length(7))));
        assert!(matches!(framing("Content-Length: 7\r\nContent-Length: 7\r\n"), Ok(Framing::Length(7))));
        assert!(matches!(framing("Transfer-Encoding: gzip, chunked\r\n"), Ok(Framing::Chunked(_))));
        assert!(matches!(framing("Content-Length: 7\r\nTransfer-Encoding: chunked\r\n"), Ok(Framing::Chunked(_))));
        assert!(matches!(framing("Transfer-Encoding: identity\r\n"), Ok(Framing::Closing)));
        assert!(matches!(framing(""), Ok(Framing::Closing)));
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
        assert_eq!(written(&request, false), b"GET /a?b HTTP/1.1\r\nhost: h:81\r\nx-a: 1\r\n\r\n");
        assert!(written(&request, true).starts_with(b"GET http://h:81/a?b HTTP/1.1\r\n"));
    }
}
