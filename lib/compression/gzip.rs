//! gzip with several threads, as a single member: some readers stop after the
//! first of several members.
//!
//! The input is divided into blocks of 1 MB, each deflated independently and
//! ended on a byte boundary, so that their concatenation is one deflate stream.
//! The division does not depend on the number of threads, so neither do the
//! bytes.
//!
//! Incompressible data is stored unchanged, piece by piece. Deflate spends most
//! of its time on photographs, of which it saves 1 %, while the names and texts
//! between them are worth compressing.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::thread::JoinHandle;

use flate2::{Compress, Compression, FlushCompress};

/// The unit of parallel work. Larger blocks compress hardly better.
const BLOCK: usize = 1 << 20;

/// The unit in which a block is tested for compressibility.
const PIECE: usize = 4096;

/// The distance of bytes that are counted. It is coprime to 2, 4 and 8, the
/// sizes of numbers.
const STEP: usize = 5;

/// The final block, which is empty.
const END: [u8; 2] = [3, 0];

/// Compresses what is written to it into `out`. Holds up to one block per
/// thread, compressed and uncompressed.
pub struct GzipEncoder<W: Write> {
    out: W,
    level: Compression,
    threads: usize,
    block: Vec<u8>,
    running: VecDeque<JoinHandle<io::Result<Deflated>>>,
    checksum: crc32fast::Hasher,
    length: u64,
    started: bool,
}

/// A compressed block and the checksum of its contents.
struct Deflated {
    bytes: Vec<u8>,
    checksum: crc32fast::Hasher,
}

impl<W: Write> GzipEncoder<W> {
    /// Nothing is written, and no thread started, before the first block is
    /// full.
    pub(super) fn new(out: W, level: u32, threads: usize) -> Self {
        GzipEncoder {
            out,
            level: Compression::new(level),
            threads: threads.max(1),
            block: Vec::with_capacity(BLOCK),
            running: VecDeque::new(),
            checksum: crc32fast::Hasher::new(),
            length: 0,
            started: false,
        }
    }

    /// Compresses what is left, waits for all threads and writes the trailer.
    /// Dropping the encoder instead leaves the stream truncated.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.deflate()?;
        while !self.running.is_empty() {
            self.take_first()?;
        }
        self.out.write_all(&END)?;
        self.out.write_all(&self.checksum.finalize().to_le_bytes())?;
        self.out.write_all(&(self.length as u32).to_le_bytes())?; // modulo 2^32, as the format says
        Ok(self.out)
    }

    /// Hands the current block to a new thread, after waiting for the oldest if
    /// all are busy.
    fn deflate(&mut self) -> io::Result<()> {
        if self.running.len() >= self.threads {
            self.take_first()?;
        }
        let (block, level) = (std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK)), self.level);
        let thread = std::thread::Builder::new().name("gzip".into());
        self.running.push_back(thread.spawn(move || deflate(&block, level))?);
        Ok(())
    }

    /// Waits for the oldest block and writes it.
    fn take_first(&mut self) -> io::Result<()> {
        let Some(first) = self.running.pop_front() else { return Ok(()) };
        let deflated = first.join().map_err(|_| io::Error::other("a compression thread panicked"))??;
        if !self.started {
            // Without a name and a time, so that the same input gives the same bytes.
            self.out.write_all(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255])?;
            self.started = true;
        }
        self.out.write_all(&deflated.bytes)?;
        self.checksum.combine(&deflated.checksum);
        Ok(())
    }
}

impl<W: Write> Write for GzipEncoder<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.block.len() == BLOCK {
            self.deflate()?;
        }
        let n = buf.len().min(BLOCK - self.block.len());
        self.block.extend_from_slice(&buf[..n]);
        self.length += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn deflate(block: &[u8], level: Compression) -> io::Result<Deflated> {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(block);
    let mut compress = Compress::new(level, false);
    let mut bytes = Vec::with_capacity(block.len() + 1024);
    let pieces: Vec<(bool, &[u8])> = block.chunks(PIECE).map(|piece| (is_dense(piece), piece)).collect();
    let mut rest = block;
    for run in pieces.chunk_by(|a, b| a.0 == b.0) {
        let (data, after) = rest.split_at(run.iter().map(|(_, piece)| piece.len()).sum());
        rest = after;
        if run[0].0 { store(data, &mut bytes) } else { squeeze(&mut compress, data, &mut bytes)? }
    }
    Ok(Deflated { bytes, checksum })
}

/// Returns true if a piece is not worth compressing: all bytes are about
/// equally frequent, and nothing repeats.
fn is_dense(piece: &[u8]) -> bool {
    let mut counts = [0_u32; 256];
    piece.iter().step_by(STEP).for_each(|&byte| counts[usize::from(byte)] += 1);
    let squares: usize = counts.iter().map(|&count| (count * count) as usize).sum();
    // The sum of the squared frequencies, times 256, is 1 if all bytes are equally frequent and 1.31 for
    // random bytes in a sample of this size; at 1.5, Huffman coding would save about 2 %.
    let seen = piece.len().div_ceil(STEP);
    let is_even = squares * 256 <= seen * seen * 3 / 2;
    is_even && lz4_flex::block::compress(piece).len() > piece.len() - piece.len() / 64
}

/// Appends stored blocks: a header on a byte boundary with the length and its
/// complement, then the data.
fn store(data: &[u8], bytes: &mut Vec<u8>) {
    for part in data.chunks(usize::from(u16::MAX)) {
        let length = part.len() as u16;
        bytes.push(0);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&(!length).to_le_bytes());
        bytes.extend_from_slice(part);
    }
}

/// Appends deflated blocks that do not refer to earlier data, ended on a byte
/// boundary.
fn squeeze(compress: &mut Compress, data: &[u8], bytes: &mut Vec<u8>) -> io::Result<()> {
    compress.reset();
    loop {
        compress.compress_vec(&data[compress.total_in() as usize..], bytes, FlushCompress::Sync)?;
        if compress.total_in() as usize == data.len() && bytes.len() < bytes.capacity() {
            return Ok(());
        }
        bytes.reserve(64 * 1024);
    }
}
