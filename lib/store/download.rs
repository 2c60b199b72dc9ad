//! An object read as a stream: by ranges, some of them ahead of the reader.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, unbounded};
use futures_util::StreamExt;
use object_store::{GetOptions, GetRange, GetResult, ObjectStoreExt};
use tokio::task::AbortHandle;

use super::error::{explain, explained, is_about_the_range};
use super::{Place, runtime};

const MIB: u64 = 1 << 20;
/// The first range of an object that is read at once: its answer tells the size.
const FIRST: u64 = MIB;
/// All further ones. Servers do not get faster with larger ones.
const RANGE: u64 = 8 * MIB;
/// How many ranges are under way or wait for the reader.
const AHEAD: usize = 4;
/// Objects that wait, each with one range, for someone to open them.
const PARKED: usize = 4;

/// What comes back from the requests of one range.
enum Piece {
    Head(Head),
    Data(Bytes),
}

/// What the first answer says of the object. A range that differs in any of it is one of another version.
#[derive(Clone, PartialEq)]
struct Head {
    size: u64,
    tag: Option<String>,
    modified: i64,
}

impl Head {
    fn of(answer: &GetResult) -> Self {
        let meta = &answer.meta;
        Head { size: meta.size, tag: meta.e_tag.clone(), modified: meta.last_modified.timestamp() }
    }

    /// The tag that a server may be asked to compare: weak ones are never equal.
    fn strong_tag(&self) -> Option<String> {
        self.tag.clone().filter(|tag| !tag.starts_with("W/"))
    }
}

/// A range that is being fetched.
struct Fetching {
    pieces: Receiver<Result<Piece>>,
    left: u64,
    task: AbortHandle,
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The bytes of one object, in order.
pub(crate) struct Download {
    place: Place,
    ranges: VecDeque<Fetching>,
    head: Option<Head>,
    /// Where the next range starts.
    next: u64,
    piece: Bytes,
}

static WAITING: Mutex<BTreeMap<String, Download>> = Mutex::new(BTreeMap::new());

/// Starts to read an object that will be opened soon. Without effect when enough wait already.
pub(crate) fn prefetch(name: &str) {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    if waiting.len() < PARKED && !waiting.contains_key(name) {
        // What is wrong with it is said when it is opened.
        if let Ok(download) = Download::begin(name, RANGE) {
            waiting.insert(name.into(), download);
        }
    }
}

impl Download {
    /// Opens an object; returns when the server has agreed to send it.
    pub(crate) fn start(name: &str) -> Result<Self> {
        let waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        let mut download = match waiting {
            Some(download) => download,
            None => Download::begin(name, FIRST)?,
        };
        download.read_head()?;
        Ok(download)
    }

    fn begin(name: &str, length: u64) -> Result<Self> {
        let mut download =
            Download { place: Place::of(name)?, ranges: VecDeque::new(), head: None, next: 0, piece: Bytes::new() };
        download.ask(length)?;
        Ok(download)
    }

    fn read_head(&mut self) -> Result<()> {
        let first = self.ranges.front_mut().context("no request was made")?;
        let Piece::Head(head) = first.receive()? else { bail!("the client of the store sent data before its size") };
        first.left = first.left.min(head.size);
        self.next = self.next.min(head.size);
        self.head = Some(head);
        self.ask_ahead()
    }

    /// Keeps enough ranges under way.
    fn ask_ahead(&mut self) -> Result<()> {
        let size = self.head.as_ref().map_or(0, |head| head.size);
        while self.ranges.len() < AHEAD && self.next < size {
            self.ask(RANGE.min(size - self.next))?;
        }
        Ok(())
    }

    fn ask(&mut self, length: u64) -> Result<()> {
        let (sender, pieces) = unbounded();
        let range = self.next..self.next + length;
        let task = runtime::spawn(fetch(self.place.clone(), range, self.head.clone(), sender))?.abort_handle();
        self.ranges.push_back(Fetching { pieces, left: length, task });
        self.next += length;
        Ok(())
    }

    /// The next bytes that are there; none at the end of the object.
    fn next_piece(&mut self) -> Result<Bytes> {
        loop {
            let Some(range) = self.ranges.front_mut() else { return Ok(Bytes::new()) };
            if range.left == 0 {
                self.ranges.pop_front();
                self.ask_ahead()?;
                continue;
            }
            if let Piece::Data(bytes) = range.receive()? {
                range.left =
                    range.left.checked_sub(bytes.len() as u64).context("the server sent more than asked for")?;
                return Ok(bytes);
            }
        }
    }
}

impl Fetching {
    fn receive(&mut self) -> Result<Piece> {
        self.pieces.recv().context("the server sent less than asked for")?
    }
}

impl Read for Download {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() && !buf.is_empty() {
            self.piece = self.next_piece().map_err(|err| io::Error::other(format!("{err:#}")))?;
        }
        let n = buf.len().min(self.piece.len());
        buf[..n].copy_from_slice(&self.piece.split_to(n));
        Ok(n)
    }
}

/// Fetches a range. The client resumes it when the connection drops.
async fn fetch(place: Place, range: Range<u64>, head: Option<Head>, out: Sender<Result<Piece>>) {
    if let Err(err) = try_fetch(place, range, head, &out).await {
        // Nobody listens any more: then nobody asks.
        _ = out.send(Err(err));
    }
}

async fn try_fetch(place: Place, range: Range<u64>, head: Option<Head>, out: &Sender<Result<Piece>>) -> Result<()> {
    let Place { bucket, path } = place;
    let is_first = range.start == 0;
    let length = range.end - range.start;
    let if_match = head.as_ref().and_then(Head::strong_tag);
    let options = GetOptions { range: Some(GetRange::Bounded(range)), if_match, ..GetOptions::default() };
    let answer = match bucket.store.get_opts(&path, options).await {
        Err(err) if is_first && is_about_the_range(&err) => {
            let answer = explained(bucket.store.get(&path).await, bucket.anonymous)?;
            if answer.meta.size > length {
                bail!("the server sends no ranges");
            }
            answer
        }
        answer => explained(answer, bucket.anonymous)?,
    };
    match head {
        None => _ = out.send(Ok(Piece::Head(Head::of(&answer)))),
        // Not every server compares the tag that it was asked to.
        Some(head) if head != Head::of(&answer) => bail!("changed on the server while it was read"),
        Some(_) => {}
    }
    let mut body = answer.into_stream();
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(|err| explain(err, bucket.anonymous))?;
        _ = out.send(Ok(Piece::Data(bytes)));
    }
    Ok(())
}
