//! Forwards the stderr of pipelines to our own as it comes, and keeps its last part for the results. Used where there is no
//! run folder to write to. One thread serves item after item.

use std::io::{self, PipeReader, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;

/// Bytes of stderr to keep.
const MAX_TAIL: usize = 8 << 10;

/// How long to wait for the end of a pipe that orphans of a pipeline hold open.
const EOF_WAIT: Duration = Duration::from_secs(1);

/// A pipe to forward, and where to send its last part.
type TailRequest = (PipeReader, Sender<String>);

/// The idle forwarding thread, which is started when it is first needed.
#[derive(Clone, Default)]
pub struct StderrTail(Arc<Mutex<Option<Sender<TailRequest>>>>);

/// A pipe that is being forwarded, and the thread that does it.
pub struct PendingTail {
    thread: Sender<TailRequest>,
    tail: Receiver<String>,
}

impl StderrTail {
    /// Starts forwarding a pipe to our stderr.
    pub fn forward(&self, pipe: PipeReader) -> io::Result<PendingTail> {
        let idle = self.0.lock().take();
        let thread = idle.map_or_else(start, Ok)?;
        let (sender, tail) = channel();
        thread.send((pipe, sender)).map_err(|_| io::Error::other("the stderr thread has ended"))?;
        Ok(PendingTail { thread, tail })
    }

    /// Waits for the last part of a forwarded pipe; None if it was empty. If the pipe is still held open, its thread is
    /// abandoned.
    pub fn finish(&self, pending: PendingTail) -> Option<String> {
        let tail = pending.tail.recv_timeout(EOF_WAIT).ok()?;
        *self.0.lock() = Some(pending.thread);
        Some(tail).filter(|tail| !tail.is_empty())
    }
}

fn start() -> io::Result<Sender<TailRequest>> {
    let (sender, tasks) = channel::<TailRequest>();
    std::thread::Builder::new().name("stderr".into()).spawn(move || {
        for (pipe, sender) in tasks {
            _ = sender.send(forward(pipe));
        }
    })?;
    Ok(sender)
}

fn forward(mut pipe: PipeReader) -> String {
    let mut tail = Vec::new();
    let mut buf = [0; 8192];
    while let Ok(n @ 1..) = pipe.read(&mut buf) {
        _ = io::stderr().lock().write_all(&buf[..n]);
        tail.extend_from_slice(&buf[..n]);
        if tail.len() > 4 * MAX_TAIL {
            tail.drain(..tail.len() - MAX_TAIL);
        }
    }
    let from = tail.len().saturating_sub(MAX_TAIL);
    String::from_utf8_lossy(&tail[from..]).into_owned()
}
