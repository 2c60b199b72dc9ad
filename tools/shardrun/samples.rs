//! Counts the samples of an archive on its way from a pipeline to its output.

use std::io::{self, Cursor, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tarpipe::archive::Reader;
use tarpipe::compression;
use tarpipe::sample::stream::Stream;
use tarpipe::sink::Sink;

/// What came through.
#[derive(Debug)]
pub enum Count {
    /// Not a byte.
    Empty,
    /// A whole archive, with so many samples.
    Whole(u64),
    /// Something else.
    Other,
    /// An archive that breaks off or is broken.
    Damaged(String),
}

/// Which end failed.
pub enum Broken {
    /// The pipeline's.
    Input(io::Error),
    /// The output's.
    Output(io::Error),
}

/// Copies all of `input` to `sink`, which has `head` already, and counts samples if it is an archive. What is
/// compressed is decompressed to see whether it is whole; it `should_be_archive` where its name says so. Hands the
/// sink back when all is in it.
pub fn copy<R: Read + Send + 'static>(
    head: Vec<u8>,
    input: R,
    sink: Sink,
    should_be_archive: bool,
) -> Result<(Count, Sink), Broken> {
    let tee = Shared(Arc::new(Mutex::new(Tee { input, sink, broken: None })));
    let whole = |head| Box::new(Cursor::new(head).chain(tee.clone()));
    let count = if head.is_empty() {
        Count::Empty
    } else if is_tar(&head) {
        count(Reader::new(whole(head), false))
    } else if compression::is_compressed(&head) {
        count_packed(whole(head), should_be_archive)
    } else {
        Count::Other
    };
    let drained = io::copy(&mut tee.clone(), &mut io::sink());
    let tee = Arc::into_inner(tee.0).ok_or_else(|| Broken::Output(io::Error::other("the output is in use")))?;
    let tee = tee.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (tee.broken, drained) {
        (Some(broken), _) => Err(broken),
        (None, Err(err)) => Err(Broken::Input(err)),
        (None, Ok(_)) => Ok((count, tee.sink)),
    }
}

fn count(reader: Reader) -> Count {
    let mut stream = Stream::new("the output", reader);
    let mut samples = 0;
    loop {
        match stream.next() {
            Ok(Some(_)) => samples += 1,
            Ok(None) => return Count::Whole(samples),
            Err(err) => return Count::Damaged(format!("{err:#}")),
        }
    }
}

fn count_packed(packed: Box<dyn Read + Send>, should_be_archive: bool) -> Count {
    let decoded = match compression::decoder(packed) {
        Ok(mut decoded) if !should_be_archive => io::copy(&mut decoded, &mut io::sink()).map(|_| None),
        decoded => decoded.map(Some),
    };
    match decoded {
        Ok(Some(archive)) => count(Reader::new(archive, false)),
        Ok(None) => Count::Other,
        Err(err) => Count::Damaged(format!("the output: {err}")),
    }
}

/// The magic of POSIX and GNU archives, or the end of an empty one.
fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar") || (head.len() == 512 && head.iter().all(|&byte| byte == 0))
}

/// Reads from the pipeline, and writes to the output what it read.
struct Tee<R> {
    input: R,
    sink: Sink,
    broken: Option<Broken>,
}

struct Shared<R>(Arc<Mutex<Tee<R>>>);

impl<R> Clone for Shared<R> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<R: Read> Read for Shared<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut tee = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tee.broken.is_some() {
            return Err(io::Error::other("given up"));
        }
        let n = match tee.input.read(buf) {
            Ok(n) => n,
            Err(err) => {
                tee.broken = Some(Broken::Input(err));
                return Err(io::Error::other("given up"));
            }
        };
        if let Err(err) = tee.sink.write_all(&buf[..n]) {
            tee.broken = Some(Broken::Output(err));
            return Err(io::Error::other("given up"));
        }
        Ok(n)
    }
}
