//! Runs: sorted records in a part of the spill file.
//!
//! A record is stored as the length of the prefix that its key shares with the
//! previous key, the length of the rest of the key, that rest, the length of
//! the body, and the body; lengths are varints. A long common path therefore
//! costs nothing. Compressed runs are one LZ4 frame.

use std::io::{self, BufReader, BufWriter, Read, Write};

use anyhow::Result;

use super::spill::{Append, Spill};
use super::varint;
use crate::compression::{self, Compression, Encoder};

const WRITE_BUFFER: usize = 1 << 20;

/// The position of a run in the spill file.
pub(super) struct SortedRun {
    from: u64,
    to: u64,
    compressed: bool,
}

/// Appends a run to the spill file. Only one run may be written at a time.
pub(super) struct RunWriter {
    out: RunOutput,
    from: u64,
    last_key: Vec<u8>,
    head: Vec<u8>,
}

/// The encoder buffers by itself.
enum RunOutput {
    Plain(BufWriter<Append>),
    Compressed(Box<Encoder<Append>>),
}

impl RunWriter {
    pub(super) fn new(spill: &Spill, compress: bool) -> Result<Self> {
        let append = spill.append();
        let out = match compress {
            false => RunOutput::Plain(BufWriter::with_capacity(WRITE_BUFFER, append)),
            true => RunOutput::Compressed(Box::new("lz4".parse::<Compression>()?.encoder(append, 1)?)),
        };
        Ok(RunWriter { out, from: spill.end, last_key: Vec::new(), head: Vec::new() })
    }

    /// Adds the next record.
    pub(super) fn put(&mut self, key: &[u8], body: &[u8]) -> Result<()> {
        let shared = key.iter().zip(&self.last_key).take_while(|(a, b)| a == b).count();
        self.head.clear();
        varint::put(&mut self.head, shared as u64);
        varint::put(&mut self.head, (key.len() - shared) as u64);
        self.head.extend_from_slice(&key[shared..]);
        varint::put(&mut self.head, body.len() as u64);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        let out: &mut dyn Write = match &mut self.out {
            RunOutput::Plain(out) => out,
            RunOutput::Compressed(out) => out,
        };
        out.write_all(&self.head)?;
        Ok(out.write_all(body)?)
    }

    /// Ends the run.
    pub(super) fn finish(self, spill: &mut Spill) -> Result<SortedRun> {
        let (append, compressed) = match self.out {
            RunOutput::Plain(out) => (out.into_inner().map_err(|err| err.into_error())?, false),
            RunOutput::Compressed(out) => (out.finish()?, true),
        };
        spill.end = append.end();
        Ok(SortedRun { from: self.from, to: spill.end, compressed })
    }
}

/// Reads a run: the next key first, its body only when it is needed.
pub(super) struct RunReader {
    input: BufReader<Box<dyn Read + Send>>,
    pub(super) key: Vec<u8>,
    body: u64,
}

impl RunReader {
    pub(super) fn new(run: &SortedRun, spill: &Spill, buffer: usize) -> Result<Self> {
        let part = spill.part(run.from, run.to);
        let input: Box<dyn Read + Send> = match run.compressed {
            false => Box::new(part),
            true => compression::decoder(Box::new(part))?,
        };
        Ok(RunReader { input: BufReader::with_capacity(buffer, input), key: Vec::new(), body: 0 })
    }

    /// Moves on to the next record; false after the last. The body of the
    /// current one must have been read.
    pub(super) fn advance(&mut self) -> io::Result<bool> {
        let Some(shared) = varint::read(&mut self.input)? else { return Ok(false) };
        let more = varint::read(&mut self.input)?.unwrap_or(0);
        self.key.truncate(shared as usize);
        read_exactly(&mut self.input, &mut self.key, more)?;
        self.body = varint::read(&mut self.input)?.unwrap_or(0);
        Ok(true)
    }

    /// Appends the body of the current record to `out`.
    pub(super) fn read_body(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let bytes = self.body;
        self.body = 0;
        read_exactly(&mut self.input, out, bytes)
    }
}

fn read_exactly(input: &mut impl Read, out: &mut Vec<u8>, bytes: u64) -> io::Result<()> {
    out.reserve_exact(bytes as usize);
    match input.take(bytes).read_to_end(out)? as u64 {
        read if read == bytes => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
