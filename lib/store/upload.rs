//! Objects as writable streams: uploaded in parts, which are sent while the
//! next one is filled, and completed at the end. Until then there is no object.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Once};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use crossbeam_channel::{Receiver, Sender, unbounded};
use object_store::multipart::PartId;
use object_store::{MultipartId, ObjectStoreExt, PutPayload};
use parking_lot::{Condvar, Mutex};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::error::explained;
use super::upload_marker::UploadMarker;
use super::{ObjectLocation, runtime, upload_marker};
use crate::run::signals;

/// All parts have the same size, as some stores require; S3 accepts 10,000 of
/// them, 78 GB in all.
const PART: usize = 8 << 20;
/// How many parts of all uploads together are being sent: 48 MB.
const UNDER_WAY: usize = 6;
/// How long to wait for a server to confirm that an upload was aborted, so that
/// one that does not respond cannot keep us from ending.
const ABORT_PATIENCE: Duration = Duration::from_secs(10);

/// How long parts may take to arrive before an upload is aborted: a server may
/// keep a part that arrives later.
const LAST_PARTS: Duration = Duration::from_millis(500);

/// An upload in progress. It is aborted if it is dropped before
/// [`ObjectUpload::finish`]. An object of at most one part is sent by a single
/// request at the end.
pub(crate) struct ObjectUpload {
    name: String,
    place: ObjectLocation,
    buf: Vec<u8>,
    parts: Option<MultipartUpload>,
}

/// An upload of more than one part.
struct MultipartUpload {
    number: u64,
    id: MultipartId,
    sent: usize,
    sender: Sender<(usize, Result<PartId>)>,
    receiver: Receiver<(usize, Result<PartId>)>,
    done: BTreeMap<usize, PartId>,
}

/// An upload that has to be aborted if the run ends now.
struct LiveUpload {
    place: ObjectLocation,
    id: MultipartId,
    tasks: Vec<AbortHandle>,
    marker: Option<UploadMarker>,
}

static LIVE: Mutex<BTreeMap<u64, LiveUpload>> = Mutex::new(BTreeMap::new());

/// The number of requests under way that begin or abort an upload; the process
/// must not end before they do.
static BUSY: Mutex<usize> = Mutex::new(0);
static CALM: Condvar = Condvar::new();

/// Counts itself in [`BUSY`] while it lives.
struct Busy;

impl Busy {
    fn new() -> Self {
        *BUSY.lock() += 1;
        Busy
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        *BUSY.lock() -= 1;
        CALM.notify_all();
    }
}

impl ObjectUpload {
    /// Begins an upload; no request is sent yet. Aborts the uploads of killed
    /// runs first.
    pub(crate) fn start(name: &str) -> Result<Self> {
        static ON_THE_WAY_OUT: Once = Once::new();
        ON_THE_WAY_OUT.call_once(|| signals::on_clean_up(abort_all));
        let place = ObjectLocation::of(name)?;
        upload_marker::abort_abandoned();
        Ok(ObjectUpload { name: name.into(), place, buf: Vec::new(), parts: None })
    }

    /// Takes as much as fits into the current part. Blocks while a part is sent
    /// if enough are under way; fails if an earlier part did.
    pub(crate) fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.buf.len() == PART {
            self.send_part().map_err(|err| io::Error::other(format!("{err:#}")))?;
        }
        let before = self.buf.len();
        for buf in bufs {
            let room = PART - self.buf.len();
            self.buf.extend_from_slice(&buf[..buf.len().min(room)]);
        }
        Ok(self.buf.len() - before)
    }

    /// Sends the rest, waits for all parts and completes the upload, so that
    /// the object appears.
    pub(crate) fn finish(mut self) -> Result<()> {
        if self.parts.is_none() {
            let (place, payload) = (self.place.clone(), PutPayload::from(std::mem::take(&mut self.buf)));
            let put =
                async move { explained(place.bucket.store.put(&place.path, payload).await, place.bucket.anonymous) };
            return runtime::wait(put)?.map(drop);
        }
        if !self.buf.is_empty() {
            self.send_part()?;
        }
        let Some(parts) = &mut self.parts else { return Ok(()) };
        while parts.done.len() < parts.sent {
            parts.receive()?;
        }
        let ids = std::mem::take(&mut parts.done).into_values().collect();
        let (place, id) = (self.place.clone(), parts.id.clone());
        let complete = async move { place.bucket.store.complete_multipart(&place.path, &id, ids).await };
        explained(runtime::wait(complete)?, self.place.bucket.anonymous)?;
        if let Some(live) = LIVE.lock().remove(&parts.number) {
            live.forget();
        }
        Ok(())
    }

    /// Sends the buffer as a part, as soon as fewer than [`UNDER_WAY`] are
    /// being sent.
    fn send_part(&mut self) -> Result<()> {
        static ROOM: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(UNDER_WAY)));
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(MultipartUpload::begin(&self.name, &self.place)?),
        };
        while let Ok((index, part)) = parts.receiver.try_recv() {
            parts.done.insert(index, part?);
        }
        let room = runtime::wait(Arc::clone(&ROOM).acquire_owned())??;
        let payload = PutPayload::from(std::mem::replace(&mut self.buf, Vec::with_capacity(PART)));
        let (place, id, index, out) = (self.place.clone(), parts.id.clone(), parts.sent, parts.sender.clone());
        let task = runtime::spawn(async move {
            let sent = place.bucket.store.put_part(&place.path, &id, index, payload).await;
            drop(room);
            _ = out.send((index, explained(sent, place.bucket.anonymous)));
        })?;
        parts.sent += 1;
        if let Some(live) = LIVE.lock().get_mut(&parts.number) {
            live.tasks.retain(|task| !task.is_finished());
            live.tasks.push(task.abort_handle());
        }
        Ok(())
    }
}

impl MultipartUpload {
    /// Tells the server that an upload begins, and registers it for being
    /// aborted.
    fn begin(name: &str, place: &ObjectLocation) -> Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let _busy = Busy::new();
        if signals::is_ending() {
            bail!("the run is being ended");
        }
        let asked = place.clone();
        let create = async move { asked.bucket.store.create_multipart(&asked.path).await };
        let id = explained(runtime::wait(create)?, place.bucket.anonymous)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let marker = UploadMarker::write(name, &id);
        LIVE.lock().insert(number, LiveUpload { place: place.clone(), id: id.clone(), tasks: Vec::new(), marker });
        let (sender, receiver) = unbounded();
        Ok(MultipartUpload { number, id, sent: 0, sender, receiver, done: BTreeMap::new() })
    }

    /// Waits for any part to arrive.
    fn receive(&mut self) -> Result<()> {
        let (index, part) = self.receiver.recv().context("the upload lost a part")?;
        self.done.insert(index, part?);
        Ok(())
    }
}

impl Drop for ObjectUpload {
    fn drop(&mut self) {
        if let Some(live) = self.parts.as_ref().and_then(|parts| LIVE.lock().remove(&parts.number)) {
            live.abort();
        }
    }
}

impl LiveUpload {
    /// Gives parts under way a moment, and then aborts the upload. If that
    /// fails, its marker stays for the next run.
    fn abort(mut self) {
        let _busy = Busy::new();
        let until = Instant::now() + LAST_PARTS;
        while !self.tasks.iter().all(AbortHandle::is_finished) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.tasks.iter().for_each(AbortHandle::abort);
        if abort(self.place.clone(), std::mem::take(&mut self.id)).is_ok() {
            self.forget();
        }
    }

    /// Removes the marker.
    fn forget(self) {
        if let Some(marker) = self.marker {
            marker.remove();
        }
    }
}

/// Tells the server to discard an upload. One that it does not know is
/// discarded already.
pub(super) fn abort(place: ObjectLocation, id: MultipartId) -> Result<()> {
    let anonymous = place.bucket.anonymous;
    let abort = async move { place.bucket.store.abort_multipart(&place.path, &id).await };
    let aborted = runtime::wait(async move { tokio::time::timeout(ABORT_PATIENCE, abort).await })?;
    match aborted.map_err(|_| anyhow!("no response"))? {
        Err(object_store::Error::NotFound { .. }) => Ok(()),
        aborted => explained(aborted, anonymous),
    }
}

/// Aborts every unfinished upload of a run that is being ended, including those
/// that are just beginning.
fn abort_all() {
    let until = Instant::now() + ABORT_PATIENCE;
    loop {
        let all = std::mem::take(&mut *LIVE.lock());
        all.into_values().for_each(LiveUpload::abort);
        let mut busy = BUSY.lock();
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || *busy == 0 && LIVE.lock().is_empty() {
            return;
        }
        CALM.wait_for(&mut busy, left);
    }
}
