//! Copies the stdout of a pipeline to its output, and counts the samples on the way if it is an archive. A truncated or
//! damaged archive is found out here, before it is committed.

use std::io::{self, Cursor, Read, Write};
use std::sync::Arc;

use parking_lot::Mutex;

use tarpipe::archive::ArchiveReader;
use tarpipe::compression;
use tarpipe::sample::stream::SampleStream;
use tarpipe::sink::Sink;

/// What the copied bytes were.
#[derive(Debug)]
pub enum SampleCount {
    /// No bytes at all.
    Empty,
    /// A complete archive with this many samples.
    Whole(u64),
    /// Not an archive.
    Other,
    /// A truncated or damaged archive, and the problem.
    Damaged(String),
}

/// Which side of a copy failed.
pub enum CopyError {
    /// Reading from the pipeline.
    Input(io::Error),
    /// Writing to the output.
    Output(io::Error),
}

/// Copies all of `input` to `sink`, to which `head` was written already, and counts the samples of an archive. Compressed
/// data is decompressed to check that it is complete, and read as an archive if `should_be_archive`. Returns the sink.
pub fn copy<R: Read + Send + 'static>(
    head: Vec<u8>,
    input: R,
    sink: Sink,
    should_be_archive: bool,
) -> Result<(SampleCount, Sink), CopyError> {
    let tee = SharedTee(Arc::new(Mutex::new(TeeReader { input, sink, failure: None })));
    let whole = |head| Box::new(Cursor::new(head).chain(tee.clone()));
    let count = if head.is_empty() {
        SampleCount::Empty
    } else if is_tar(&head) {
        count(ArchiveReader::new(whole(head), false))
    } else if compression::is_compressed(&head) {
        count_compressed(whole(head), should_be_archive)
    } else {
        SampleCount::Other
    };
    let drained = io::copy(&mut tee.clone(), &mut io::sink());
    let tee =
        Arc::into_inner(tee.0).ok_or_else(|| CopyError::Output(io::Error::other("the output is still in use")))?;
    let tee = tee.into_inner();
    match (tee.failure, drained) {
        (Some(failure), _) => Err(failure),
        (None, Err(err)) => Err(CopyError::Input(err)),
        (None, Ok(_)) => Ok((count, tee.sink)),
    }
}

fn count(reader: ArchiveReader) -> SampleCount {
    let mut stream = SampleStream::new("the output", reader);
    let mut samples = 0;
    loop {
        match stream.next() {
            Ok(Some(_)) => samples += 1,
            Ok(None) => return SampleCount::Whole(samples),
            Err(err) => return SampleCount::Damaged(format!("{err:#}")),
        }
    }
}

fn count_compressed(compressed: Box<dyn Read + Send>, should_be_archive: bool) -> SampleCount {
    let decoded = match compression::decoder(compressed) {
        Ok(mut decoded) if !should_be_archive => io::copy(&mut decoded, &mut io::sink()).map(|_| None),
        decoded => decoded.map(Some),
    };
    match decoded {
        Ok(Some(archive)) => count(ArchiveReader::new(archive, false)),
        Ok(None) => SampleCount::Other,
        Err(err) => SampleCount::Damaged(format!("the output: {err}")),
    }
}

/// Whether these are the first bytes of a POSIX or GNU archive, or the end marker of an empty one.
fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar") || (head.len() == 512 && head.iter().all(|&byte| byte == 0))
}

/// Reads from the pipeline, and writes everything it reads to the output.
struct TeeReader<R> {
    input: R,
    sink: Sink,
    failure: Option<CopyError>,
}

struct SharedTee<R>(Arc<Mutex<TeeReader<R>>>);

impl<R> Clone for SharedTee<R> {
    fn clone(&self) -> Self {
        SharedTee(Arc::clone(&self.0))
    }
}

impl<R: Read> Read for SharedTee<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut tee = self.0.lock();
        if tee.failure.is_some() {
            return Err(io::Error::other("the copy has failed"));
        }
        let n = match tee.input.read(buf) {
            Ok(n) => n,
            Err(err) => {
                tee.failure = Some(CopyError::Input(err));
                return Err(io::Error::other("the copy has failed"));
            }
        };
        if let Err(err) = tee.sink.write_all(&buf[..n]) {
            tee.failure = Some(CopyError::Output(err));
            return Err(io::Error::other("the copy has failed"));
        }
        Ok(n)
    }
}
