//! gzip by several threads, as one member: some readers stop after the first of many.
//!
//! The input is cut into blocks of a fixed size, each deflated on its own and ended on a byte
//! boundary; laid end to end they are one deflate stream. The cut, not the number of
//! threads, decides the bytes.
//!
//! What cannot be made smaller is stored as it is, piece by piece: deflate works hardest on photographs, of
//! which it saves a hundredth, and the names and texts between them are still worth the work.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::thread::JoinHandle;

use flate2::{Compress, Compression, FlushCompress};

const BLOCK: usize = 1 << 20;

/// Of a block, judged by itself.
const PIECE: usize = 4096;

/// From one byte to the next that is counted: no part of 2, 4 or 8, the sizes of numbers.
const STEP: usize = 5;

/// An empty block, the last.
const END: [u8; 2] = [3, 0];

/// Compresses what is written to it into `out`.
pub struct Encoder<W: Write> {
    out: W,
    level: Compression,
    threads: usize,
    block: Vec<u8>,
    running: VecDeque<JoinHandle<io::Result<Deflated>>>,
    checksum: crc32fast::Hasher,
    length: u64,
    started: bool,
}

struct Deflated {
    bytes: Vec<u8>,
    checksum: crc32fast::Hasher,
}

impl<W: Write> Encoder<W> {
    pub(super) fn new(out: W, level: u32, threads: usize) -> Self {
        Encoder {
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

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.deflate()?;
        while !self.running.is_empty() {
            self.take_first()?;
        }
        self.out.write_all(&END)?;
        self.out.write_all(&self.checksum.finalize().to_le_bytes())?;
        self.out.write_all(&(self.length as u32).to_le_bytes())?; // modulo 2^32, as the format has it
        Ok(self.out)
    }

    fn deflate(&mut self) -> io::Result<()> {
        if self.running.len() >= self.threads {
            self.take_first()?;
        }
        let (block, level) = (std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK)), self.level);
        let thread = std::thread::Builder::new().name("gzip".into());
        self.running.push_back(thread.spawn(move || deflate(&block, level))?);
        Ok(())
    }

    fn take_first(&mut self) -> io::Result<()> {
        let Some(first) = self.running.pop_front() else { return Ok(()) };
        let deflated = first.join().map_err(|_| io::Error::other("a compression thread panicked"))??;
        if !self.started {
            // No name, no time: the same input gives the same bytes.
            self.out.write_all(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255])?;
            self.started = true;
        }
        self.out.write_all(&deflated.bytes)?;
        self.checksum.combine(&deflated.checksum);
        Ok(())
    }
}

impl<W: Write> Write for Encoder<W> {
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

/// Whether there is nothing to gain: all bytes are about as frequent, and nothing comes twice.
fn is_dense(piece: &[u8]) -> bool {
    let mut counts = [0_u32; 256];
    piece.iter().step_by(STEP).for_each(|&byte| counts[usize::from(byte)] += 1);
    let squares: usize = counts.iter().map(|&count| (count * count) as usize).sum();
    // 256 times the squares over the square of their sum is 1 for bytes that are all as frequent as each other, 1.31 by chance
    // for as many as these; at 1.5 codes of different lengths would save about a fiftieth.
    let seen = piece.len().div_ceil(STEP);
    let is_even = squares * 256 <= seen * seen * 3 / 2;
    is_even && lz4_flex::block::compress(piece).len() > piece.len() - piece.len() / 64
}

/// As they are, behind a head on a byte boundary: how many, and its complement.
fn store(data: &[u8], bytes: &mut Vec<u8>) {
    for part in data.chunks(usize::from(u16::MAX)) {
        let length = part.len() as u16;
        bytes.push(0);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&(!length).to_le_bytes());
        bytes.extend_from_slice(part);
    }
}

/// As blocks that know nothing of those before, to a byte boundary.
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
