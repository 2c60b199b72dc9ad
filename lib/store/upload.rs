//! An object written as a stream: in parts that are sent while the next is filled, completed at
//! the end. Until then there is nothing under its name.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use crossbeam_channel::{Receiver, Sender, unbounded};
use object_store::multipart::PartId;
use object_store::{MultipartId, ObjectStoreExt, PutPayload};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::error::explained;
use super::record::Record;
use super::{Place, record, runtime};
use crate::run::signals;

/// Parts are of one size, as some stores demand; S3 takes 10,000 of them, 78 GB in all.
const PART: usize = 8 << 20;
/// Parts of all uploads together that are under way.
const UNDER_WAY: usize = 6;
/// A server that does not answer does not keep us from ending.
const ABORT_PATIENCE: Duration = Duration::from_secs(10);

/// How long parts may take to arrive before an upload is aborted: a server may keep one that arrives later.
const LAST_PARTS: Duration = Duration::from_millis(500);

/// An upload. Dropped before [`Upload::finish`], it is aborted.
pub(crate) struct Upload {
    name: String,
    place: Place,
    buf: Vec<u8>,
    parts: Option<Parts>,
}

/// An upload that has grown over one part.
struct Parts {
    number: u64,
    id: MultipartId,
    sent: usize,
    sender: Sender<(usize, Result<PartId>)>,
    receiver: Receiver<(usize, Result<PartId>)>,
    done: BTreeMap<usize, PartId>,
}

/// What has to be aborted if we end now.
struct Live {
    place: Place,
    id: MultipartId,
    tasks: Vec<AbortHandle>,
    record: Option<Record>,
}

static LIVE: Mutex<BTreeMap<u64, Live>> = Mutex::new(BTreeMap::new());

fn live() -> MutexGuard<'static, BTreeMap<u64, Live>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Requests under way that make what has to be aborted, or abort it: nobody ends before they do.
static BUSY: Mutex<usize> = Mutex::new(0);
static CALM: Condvar = Condvar::new();

struct Busy;

impl Busy {
    fn new() -> Self {
        *busy() += 1;
        Busy
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        *busy() -= 1;
        CALM.notify_all();
    }
}

fn busy() -> MutexGuard<'static, usize> {
    BUSY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Upload {
    pub(crate) fn start(name: &str) -> Result<Self> {
        static ON_THE_WAY_OUT: Once = Once::new();
        ON_THE_WAY_OUT.call_once(|| signals::call_at_end(abort_all));
        let place = Place::of(name)?;
        record::abort_abandoned();
        Ok(Upload { name: name.into(), place, buf: Vec::new(), parts: None })
    }

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

    /// Makes the object appear.
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
        if let Some(live) = live().remove(&parts.number) {
            live.forget();
        }
        Ok(())
    }

    /// Sends the buffer as a part, once there is room for it on the way.
    fn send_part(&mut self) -> Result<()> {
        static ROOM: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(UNDER_WAY)));
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(Parts::begin(&self.name, &self.place)?),
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
        if let Some(live) = live().get_mut(&parts.number) {
            live.tasks.retain(|task| !task.is_finished());
            live.tasks.push(task.abort_handle());
        }
        Ok(())
    }
}

impl Parts {
    fn begin(name: &str, place: &Place) -> Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let _busy = Busy::new();
        if signals::is_ending() {
            bail!("the run was ended");
        }
        let asked = place.clone();
        let create = async move { asked.bucket.store.create_multipart(&asked.path).await };
        let id = explained(runtime::wait(create)?, place.bucket.anonymous)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let record = Record::write(name, &id);
        live().insert(number, Live { place: place.clone(), id: id.clone(), tasks: Vec::new(), record });
        let (sender, receiver) = unbounded();
        Ok(Parts { number, id, sent: 0, sender, receiver, done: BTreeMap::new() })
    }

    fn receive(&mut self) -> Result<()> {
        let (index, part) = self.receiver.recv().context("a part of the upload was lost")?;
        self.done.insert(index, part?);
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(live) = self.parts.as_ref().and_then(|parts| live().remove(&parts.number)) {
            live.abort();
        }
    }
}

impl Live {
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

    fn forget(self) {
        if let Some(record) = self.record {
            record.remove();
        }
    }
}

/// Tells the server to forget an upload; one that it does not know is forgotten.
pub(super) fn abort(place: Place, id: MultipartId) -> Result<()> {
    let anonymous = place.bucket.anonymous;
    let abort = async move { place.bucket.store.abort_multipart(&place.path, &id).await };
    let aborted = runtime::wait(async move { tokio::time::timeout(ABORT_PATIENCE, abort).await })?;
    match aborted.map_err(|_| anyhow!("no answer"))? {
        Err(object_store::Error::NotFound { .. }) => Ok(()),
        aborted => explained(aborted, anonymous),
    }
}

/// Aborts every upload that is not finished, on the way out of a run that was ended; also those that are just beginning.
fn abort_all() {
    let until = Instant::now() + ABORT_PATIENCE;
    loop {
        let all = std::mem::take(&mut *live());
        all.into_values().for_each(Live::abort);
        let busy = busy();
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || *busy == 0 && live().is_empty() {
            return;
        }
        drop(CALM.wait_timeout(busy, left));
    }
}
