//! Copies the stdout of a pipeline to its output, and counts the samples on the way if it is an archive. A truncated or
//! damaged archive is found out here, before it is committed.

use std::io::{self, Read, Write};

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
pub fn copy<R: Read + Send>(
    head: &[u8],
    input: R,
    sink: Sink,
    should_be_archive: bool,
) -> Result<(SampleCount, Sink), CopyError> {
    let mut tee = TeeReader { input, sink, failure: None };
    let whole = head.chain(&mut tee);
    let count = if head.is_empty() {
        SampleCount::Empty
    } else if is_tar(head) {
        count(ArchiveReader::new(whole, false))
    } else if compression::is_compressed(head) {
        count_compressed(Box::new(whole), should_be_archive)
    } else {
        SampleCount::Other
    };
    let drained = io::copy(&mut tee, &mut io::sink());
    match (tee.failure, drained) {
        (Some(failure), _) => Err(failure),
        (None, Err(err)) => Err(CopyError::Input(err)),
        (None, Ok(_)) => Ok((count, tee.sink)),
    }
}

fn count<R: Read>(reader: ArchiveReader<R>) -> SampleCount {
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

fn count_compressed(compressed: Box<dyn Read + Send + '_>, should_be_archive: bool) -> SampleCount {
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

impl<R: Read> Read for TeeReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.failure.is_some() {
            return Err(io::Error::other("the copy has failed"));
        }
        let n = match self.input.read(buf) {
            Ok(n) => n,
            Err(err) => {
                self.failure = Some(CopyError::Input(err));
                return Err(io::Error::other("the copy has failed"));
            }
        };
        if let Err(err) = self.sink.write_all(&buf[..n]) {
            self.failure = Some(CopyError::Output(err));
            return Err(io::Error::other("the copy has failed"));
        }
        Ok(n)
    }
}
