//! An upload by HTTP PUT. The body is chunked: a server that stores cut-off bodies is broken.

use std::io::{self, IoSlice, PipeReader, PipeWriter, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};
use ureq::SendBody;

use crate::http;
use crate::source;

/// A PUT in progress, fed through a pipe by the thread that writes.
pub(super) struct Upload {
    pipe: Option<PipeWriter>,
    whole: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Upload {
    pub(super) fn start(url: &str) -> Result<Self> {
        let (reader, writer) = io::pipe()?;
        source::widen_pipe(&writer);
        let whole = Arc::new(AtomicBool::new(false));
        let body = Body { pipe: reader, whole: Arc::clone(&whole) };
        let url = url.to_owned();
        let thread = std::thread::Builder::new().name("put".into()).spawn(move || put(&url, body))?;
        Ok(Upload { pipe: Some(writer), whole, thread: Some(thread) })
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.whole.store(true, Ordering::Release);
        self.pipe = None;
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        let thread = self.thread.take().context("the upload has ended")?;
        thread.join().map_err(|_| anyhow!("the upload panicked"))?
    }

    pub(super) fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(pipe) = &mut self.pipe else { return Err(io::ErrorKind::BrokenPipe.into()) };
        match pipe.write_vectored(bufs) {
            // The server hung up: what it said is the error to report.
            Err(err) if err.kind() == io::ErrorKind::BrokenPipe => {
                self.pipe = None;
                Err(io::Error::other(format!("{:#}", self.join().err().unwrap_or_else(|| err.into()))))
            }
            result => result,
        }
    }
}

/// What the client reads. The end of the pipe without the word that all is written breaks the
/// request off, so that the server does not take a part for the whole.
struct Body {
    pipe: PipeReader,
    whole: Arc<AtomicBool>,
}

impl Read for Body {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.pipe.read(buf)? {
            0 if !buf.is_empty() && !self.whole.load(Ordering::Acquire) => Err(io::Error::other("given up")),
            n => Ok(n),
        }
    }
}

fn put(url: &str, body: Body) -> Result<()> {
    // A redirected PUT would become a GET, and its answer would be taken for that to the upload.
    let request = http::agent().put(url).config().max_redirects(0).build();
    let request = request.header("Content-Type", "application/x-tar");
    let response =
        request.send(SendBody::from_owned_reader(body)).map_err(|err| anyhow!(http::transport_error(err)))?;
    if !response.status().is_success() {
        bail!("the server answers {}", response.status());
    }
    Ok(())
}
