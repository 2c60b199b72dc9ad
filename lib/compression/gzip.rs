//! gzip by several threads, as one member: some readers stop after the first of many.
//!
//! The input is cut into blocks of a fixed size, each deflated on its own and ended on a byte
//! boundary; laid end to end they are one deflate stream. The cut, not the number of
//! threads, decides the bytes.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::thread::JoinHandle;

use flate2::{Compress, Compression, FlushCompress, Status};

const BLOCK: usize = 1 << 20;

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
        self.deflate(FlushCompress::Finish)?;
        while !self.running.is_empty() {
            self.take_first()?;
        }
        self.out.write_all(&self.checksum.finalize().to_le_bytes())?;
        self.out.write_all(&(self.length as u32).to_le_bytes())?; // modulo 2^32, as the format has it
        Ok(self.out)
    }

    fn deflate(&mut self, flush: FlushCompress) -> io::Result<()> {
        if self.running.len() >= self.threads {
            self.take_first()?;
        }
        let (block, level) = (std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK)), self.level);
        let thread = std::thread::Builder::new().name("gzip".into());
        self.running.push_back(thread.spawn(move || deflate(&block, level, flush))?);
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
            self.deflate(FlushCompress::Sync)?;
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

fn deflate(block: &[u8], level: Compression, flush: FlushCompress) -> io::Result<Deflated> {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(block);
    let mut compress = Compress::new(level, false);
    let mut bytes = Vec::with_capacity(block.len() / 2 + 1024);
    loop {
        let status = compress.compress_vec(&block[compress.total_in() as usize..], &mut bytes, flush)?;
        let all_in = compress.total_in() as usize == block.len();
        match flush {
            FlushCompress::Finish if status == Status::StreamEnd => break,
            FlushCompress::Sync if all_in && bytes.len() < bytes.capacity() => break,
            _ => bytes.reserve(64 * 1024),
        }
    }
    Ok(Deflated { bytes, checksum })
}
