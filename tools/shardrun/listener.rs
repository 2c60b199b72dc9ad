//! What pipelines say: passed on to our stderr as it comes, and the end of it kept. The thread that listens stays from
//! one item to the next.

use std::io::{self, PipeReader, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How much of what a pipeline said is kept.
const TAIL: usize = 8 << 10;

/// How long a pipe may be held open by what a pipeline has left behind.
const PATIENCE: Duration = Duration::from_secs(1);

/// A pipe, and where the end of what came out of it goes.
type Task = (PipeReader, Sender<String>);

/// Has a thread that listens, once it was needed.
#[derive(Clone, Default)]
pub struct Listener(Arc<Mutex<Option<Sender<Task>>>>);

/// A pipe that is listened to, and who does it.
pub struct Heard {
    thread: Sender<Task>,
    tail: Receiver<String>,
}

impl Listener {
    /// Copies a pipe to our stderr until its end.
    pub fn listen(&self, pipe: PipeReader) -> io::Result<Heard> {
        let idle = self.idle().take();
        let thread = idle.map_or_else(start, Ok)?;
        let (sender, tail) = channel();
        thread.send((pipe, sender)).map_err(|_| io::Error::other("nobody listens"))?;
        Ok(Heard { thread, tail })
    }

    /// The end of what was said, if anything was. A thread whose pipe is still held open is left to it.
    pub fn tail(&self, heard: Heard) -> Option<String> {
        let tail = heard.tail.recv_timeout(PATIENCE).ok()?;
        *self.idle() = Some(heard.thread);
        Some(tail).filter(|tail| !tail.is_empty())
    }

    fn idle(&self) -> MutexGuard<'_, Option<Sender<Task>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start() -> io::Result<Sender<Task>> {
    let (sender, tasks) = channel::<Task>();
    std::thread::Builder::new().name("stderr".into()).spawn(move || {
        for (pipe, sender) in tasks {
            _ = sender.send(pass_on(pipe));
        }
    })?;
    Ok(sender)
}

fn pass_on(mut pipe: PipeReader) -> String {
    let mut tail = Vec::new();
    let mut buf = [0; 8192];
    while let Ok(n @ 1..) = pipe.read(&mut buf) {
        _ = io::stderr().lock().write_all(&buf[..n]);
        tail.extend_from_slice(&buf[..n]);
        if tail.len() > 4 * TAIL {
            tail.drain(..tail.len() - TAIL);
        }
    }
    let from = tail.len().saturating_sub(TAIL);
    String::from_utf8_lossy(&tail[from..]).into_owned()
}
