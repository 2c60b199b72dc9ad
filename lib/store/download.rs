//! Objects as readable streams: fetched in ranges, some of them ahead of the
//! reader.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};
use std::ops::Range;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, unbounded};
use futures_util::StreamExt;
use object_store::{GetOptions, GetRange, GetResult, ObjectStoreExt};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::error::{explain, explained, is_about_the_range};
use super::{ObjectLocation, runtime};

const MIB: u64 = 1 << 20;
/// The first range of an object that is opened: its response tells the size.
const FIRST: u64 = MIB;
/// All further ranges, and the first of prefetched objects. Larger ranges are
/// not faster.
const RANGE: u64 = 8 * MIB;
/// How many ranges are being fetched or waiting for the reader: up to 32 MB per
/// object.
const AHEAD: usize = 4;
/// How many prefetched objects, with one range each, may wait to be opened.
const PARKED: usize = 4;

/// What the request for one range delivers.
enum RangePiece {
    ObjectHead(ObjectHead),
    Data(Bytes),
}

/// What the first response says about the object. A range with different values
/// belongs to a different version.
#[derive(Clone, PartialEq)]
struct ObjectHead {
    size: u64,
    tag: Option<String>,
    modified: i64,
}

impl ObjectHead {
    fn of(answer: &GetResult) -> Self {
        let meta = &answer.meta;
        ObjectHead { size: meta.size, tag: meta.e_tag.clone(), modified: meta.last_modified.timestamp() }
    }

    /// The tag that a server can compare; weak tags are not comparable.
    fn strong_tag(&self) -> Option<String> {
        self.tag.clone().filter(|tag| !tag.starts_with("W/"))
    }
}

/// A range that is being fetched. Dropping it aborts the request.
struct RangeFetch {
    pieces: Receiver<Result<RangePiece>>,
    left: u64,
    task: AbortHandle,
}

impl Drop for RangeFetch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The bytes of one object, in order and of one version.
pub(crate) struct ObjectDownload {
    place: ObjectLocation,
    ranges: VecDeque<RangeFetch>,
    head: Option<ObjectHead>,
    /// The offset of the next range to request.
    next: u64,
    piece: Bytes,
}

/// Prefetched objects that nobody has opened yet, by name.
static WAITING: Mutex<BTreeMap<String, ObjectDownload>> = Mutex::new(BTreeMap::new());

/// Starts to fetch an object that will be opened soon. Does nothing if enough
/// objects are waiting already.
pub(crate) fn prefetch(name: &str) {
    let mut waiting = WAITING.lock();
    if waiting.len() < PARKED && !waiting.contains_key(name) {
        // Errors are reported when it is opened.
        if let Ok(download) = ObjectDownload::begin(name, RANGE) {
            waiting.insert(name.into(), download);
        }
    }
}

impl ObjectDownload {
    /// Opens an object; returns when the server has agreed to send it.
    pub(crate) fn start(name: &str) -> Result<Self> {
        let waiting = WAITING.lock().remove(name);
        let mut download = match waiting {
            Some(download) => download,
            None => ObjectDownload::begin(name, FIRST)?,
        };
        download.read_head()?;
        Ok(download)
    }

    /// Requests the first range, without waiting for the response.
    fn begin(name: &str, length: u64) -> Result<Self> {
        let mut download = ObjectDownload {
            place: ObjectLocation::of(name)?,
            ranges: VecDeque::new(),
            head: None,
            next: 0,
            piece: Bytes::new(),
        };
        download.ask(length)?;
        Ok(download)
    }

    /// Waits for the first response, and requests the following ranges.
    fn read_head(&mut self) -> Result<()> {
        let first = self.ranges.front_mut().context("no request was made")?;
        let RangePiece::ObjectHead(head) = first.receive()? else {
            bail!("the store client sent data before the size")
        };
        first.left = first.left.min(head.size);
        self.next = self.next.min(head.size);
        self.head = Some(head);
        self.ask_ahead()
    }

    /// Requests ranges until enough are under way.
    fn ask_ahead(&mut self) -> Result<()> {
        let size = self.head.as_ref().map_or(0, |head| head.size);
        while self.ranges.len() < AHEAD && self.next < size {
            self.ask(RANGE.min(size - self.next))?;
        }
        Ok(())
    }

    /// Requests the next `length` bytes in the background.
    fn ask(&mut self, length: u64) -> Result<()> {
        let (sender, pieces) = unbounded();
        let range = self.next..self.next + length;
        let task = runtime::spawn(fetch(self.place.clone(), range, self.head.clone(), sender))?.abort_handle();
        self.ranges.push_back(RangeFetch { pieces, left: length, task });
        self.next += length;
        Ok(())
    }

    /// The next bytes to arrive; empty at the end of the object.
    fn next_piece(&mut self) -> Result<Bytes> {
        loop {
            let Some(range) = self.ranges.front_mut() else { return Ok(Bytes::new()) };
            if range.left == 0 {
                self.ranges.pop_front();
                self.ask_ahead()?;
                continue;
            }
            if let RangePiece::Data(bytes) = range.receive()? {
                range.left =
                    range.left.checked_sub(bytes.len() as u64).context("the server sent more than requested")?;
                return Ok(bytes);
            }
        }
    }
}

impl RangeFetch {
    /// The next piece of a range, in order.
    fn receive(&mut self) -> Result<RangePiece> {
        self.pieces.recv().context("the server sent less than requested")?
    }
}

impl Read for ObjectDownload {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() && !buf.is_empty() {
            self.piece = self.next_piece().map_err(|err| io::Error::other(format!("{err:#}")))?;
        }
        let n = buf.len().min(self.piece.len());
        buf[..n].copy_from_slice(&self.piece.split_to(n));
        Ok(n)
    }
}

/// Fetches a range. The client resumes it if the connection drops.
async fn fetch(place: ObjectLocation, range: Range<u64>, head: Option<ObjectHead>, out: Sender<Result<RangePiece>>) {
    if let Err(err) = try_fetch(place, range, head, &out).await {
        // Fails only if the reader is gone.
        _ = out.send(Err(err));
    }
}

/// A server that ignores or refuses the range of a small object is asked for
/// all of it.
async fn try_fetch(
    place: ObjectLocation,
    range: Range<u64>,
    head: Option<ObjectHead>,
    out: &Sender<Result<RangePiece>>,
) -> Result<()> {
    let ObjectLocation { bucket, path } = place;
    let is_first = range.start == 0;
    let length = range.end - range.start;
    let if_match = head.as_ref().and_then(ObjectHead::strong_tag);
    let options = GetOptions { range: Some(GetRange::Bounded(range)), if_match, ..GetOptions::default() };
    let answer = match bucket.store.get_opts(&path, options).await {
        Err(err) if is_first && is_about_the_range(&err) => {
            let answer = explained(bucket.store.get(&path).await, bucket.anonymous)?;
            if answer.meta.size > length {
                bail!("the server does not support range requests");
            }
            answer
        }
        answer => explained(answer, bucket.anonymous)?,
    };
    match head {
        None => _ = out.send(Ok(RangePiece::ObjectHead(ObjectHead::of(&answer)))),
        // Not every server compares the tag that was sent.
        Some(head) if head != ObjectHead::of(&answer) => bail!("changed on the server while it was read"),
        Some(_) => {}
    }
    let mut body = answer.into_stream();
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(|err| explain(err, bucket.anonymous))?;
        _ = out.send(Ok(RangePiece::Data(bytes)));
    }
    Ok(())
}
