//! Uploads by HTTP PUT. The body is chunked, so that a server can tell an
//! aborted upload from a complete one.

use std::io::{self, IoSlice, PipeReader, PipeWriter, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};
use ureq::SendBody;

use crate::http;
use crate::source;

/// A PUT in progress: a thread sends what is written to a pipe.
pub(super) struct PutUpload {
    pipe: Option<PipeWriter>,
    whole: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl PutUpload {
    /// Starts the upload and returns at once; refusals of the server surface in
    /// later writes or in `finish`.
    pub(super) fn start(url: &str) -> Result<Self> {
        let (reader, writer) = io::pipe()?;
        source::widen_pipe(&writer);
        let whole = Arc::new(AtomicBool::new(false));
        let body = PutBody { pipe: reader, whole: Arc::clone(&whole) };
        let url = url.to_owned();
        let thread = std::thread::Builder::new().name("put".into()).spawn(move || put(&url, body))?;
        Ok(PutUpload { pipe: Some(writer), whole, thread: Some(thread) })
    }

    /// Ends the body and waits for the response, which must be a success.
    pub(super) fn finish(mut self) -> Result<()> {
        self.whole.store(true, Ordering::Release);
        self.pipe = None;
        self.join()
    }

    /// Waits for the thread and returns the result of the request.
    fn join(&mut self) -> Result<()> {
        let thread = self.thread.take().context("the upload has ended")?;
        thread.join().map_err(|_| anyhow!("the upload panicked"))?
    }

    /// Blocks while the pipe is full. If the server has hung up, fails with its
    /// response.
    pub(super) fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(pipe) = &mut self.pipe else { return Err(io::ErrorKind::BrokenPipe.into()) };
        match pipe.write_vectored(bufs) {
            // The server hung up: its response is the error to report.
            Err(err) if err.kind() == io::ErrorKind::BrokenPipe => {
                self.pipe = None;
                Err(io::Error::other(format!("{:#}", self.join().err().unwrap_or_else(|| err.into()))))
            }
            result => result,
        }
    }
}

/// What the client sends. If the pipe ends before `finish` was called, reading
/// fails, which aborts the request, so that the server does not mistake a part
/// for the whole.
struct PutBody {
    pipe: PipeReader,
    whole: Arc<AtomicBool>,
}

impl Read for PutBody {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.pipe.read(buf)? {
            0 if !buf.is_empty() && !self.whole.load(Ordering::Acquire) => Err(io::Error::other("aborted")),
            n => Ok(n),
        }
    }
}

/// Sends the request. Runs on a thread of its own.
fn put(url: &str, body: PutBody) -> Result<()> {
    let send = || http::put(url)?.header("Content-Type", "application/x-tar").send(SendBody::from_owned_reader(body));
    let response = send().map_err(|err| anyhow!(http::transport_error(err)))?;
    if !response.status().is_success() {
        bail!("the server answers {}", response.status());
    }
    Ok(())
}
