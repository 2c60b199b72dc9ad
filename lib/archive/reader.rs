//! Reads members from a stream of bytes, one at a time, without seeking.

use std::io;

use anyhow::Result;

use super::header::{self, Block, EntryKind, Extended};
use super::read_buffer::ReadBuffer;
use super::{
    AFTER_END, ArchiveEntry, ArchiveWriter, BEFORE_END, BLOCK, EMPTY_INPUT, Fault, IN_END, IN_MEMBER, padding,
};

/// Extended headers contain a name and some times; more than this is an attack.
const MAX_EXTENDED: u64 = 1 << 20;

/// Reads a tar archive from front to back. Concatenated archives are read as
/// one stream.
///
/// The checksum of every header is verified, sizes are checked, and extended
/// headers are limited to 1 MB. The end of the input before the end-of-archive
/// blocks is a [`Fault`], so that a truncated archive is never taken for a
/// complete one. After a fault the reader must not be used any further.
///
/// ```
/// use std::io::Cursor;
/// use tarpipe::archive::{ArchiveReader, ArchiveWriter};
///
/// let mut writer = ArchiveWriter::new(Vec::new());
/// writer.new_header("cat.txt", 4, 0)?;
/// writer.data(b"meow")?;
/// let archive = writer.finish()?;
///
/// let mut reader = ArchiveReader::new(Cursor::new(archive), false);
/// while let Some(entry) = reader.next_entry()? {
///     assert_eq!(entry.path, b"cat.txt");
///     assert_eq!(reader.read_data()?, b"meow");
/// }
/// # anyhow::Ok(())
/// ```
pub struct ArchiveReader<R = Box<dyn io::Read + Send>> {
    buffer: ReadBuffer<R>,
    ignore_eof: bool,
    global: Extended,
    remaining: u64,
    padding: usize,
    ended: bool,
    ends: u64,
}

impl<R: io::Read> ArchiveReader<R> {
    /// Reads from `input`, which is decompressed already and need not be
    /// buffered. With `ignore_eof`, the end-of-archive blocks may be missing if
    /// the input ends between two members.
    pub fn new(input: R, ignore_eof: bool) -> Self {
        ArchiveReader {
            buffer: ReadBuffer::new(input),
            ignore_eof,
            global: Extended::default(),
            remaining: 0,
            padding: 0,
            ended: false,
            ends: 0,
        }
    }

    /// The input. The reader has a buffer: bytes read from the input directly
    /// are missing in the archive.
    pub fn get_mut(&mut self) -> &mut R {
        self.buffer.input()
    }

    /// The offset in the stream of what is read next.
    pub fn offset(&self) -> u64 {
        self.buffer.offset()
    }

    /// Returns the header of the next member, of any type; the unread data of
    /// the previous one is skipped. None at the end of the input.
    ///
    /// After the end of an archive this reads on to the end of the input,
    /// because another archive may follow, and because a writer at the other
    /// end of a pipe would otherwise get a broken pipe.
    ///
    /// # Errors
    ///
    /// See [`Fault::code`]. Data after the end of an archive that is neither
    /// zeros nor another archive is `damaged`.
    pub fn next_entry(&mut self) -> Result<Option<ArchiveEntry>, Fault> {
        self.skip_data()?;
        let mut offset = self.offset();
        let mut extended = Extended::default();
        let mut blocks = Vec::with_capacity(BLOCK);
        loop {
            let Some(block) = self.next_block()? else { return self.at_end(&blocks) };
            if block == [0; BLOCK] {
                self.end_of_archive(&blocks)?;
                offset = self.offset();
                continue;
            }
            self.verify(&block)?;
            self.ended = false;
            self.buffer.consume(BLOCK);
            match header::classify(&block) {
                Block::Member(kind) => {
                    blocks.extend_from_slice(&block);
                    return self.member(offset, kind, &block, extended, blocks).map(Some);
                }
                Block::GlobalPax => {
                    let records = self.extension(&block, None)?;
                    let mut global = std::mem::take(&mut self.global);
                    self.take_pax(&mut global, &records)?;
                    self.global = global;
                    if blocks.is_empty() {
                        offset = self.offset();
                    }
                }
                Block::Pax => {
                    let records = self.extension(&block, Some(&mut blocks))?;
                    self.take_pax(&mut extended, &records)?;
                }
                Block::LongName => {
                    let mut name = self.extension(&block, Some(&mut blocks))?;
                    name.truncate(name.iter().position(|&b| b == 0).unwrap_or(name.len()));
                    extended.path.get_or_insert(name);
                }
                Block::LongLink => {
                    self.extension(&block, Some(&mut blocks))?;
                }
                Block::Label => {
                    self.skip_label(&block)?;
                    // Extended headers before the label described the label.
                    (offset, extended, blocks) = (self.offset(), Extended::default(), Vec::new());
                }
                Block::Continuation => return Err(self.continuation()),
            }
        }
    }

    /// Reads the data of the current member into memory. Memory grows with the
    /// data that arrives, not with the size that the header announces. Once the
    /// data was read or copied, this returns nothing.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if the input fails or ends before the announced size.
    pub fn read_data(&mut self) -> Result<Vec<u8>, Fault> {
        // Beyond this, memory is only allocated as data arrives.
        const TRUSTED: u64 = 64 << 20;
        let mut data = Vec::with_capacity(self.remaining.min(TRUSTED) as usize);
        let at = self.offset();
        let n = self.buffer.read_into(&mut data, self.remaining).map_err(|err| unreadable(at, &err))?;
        self.remaining -= n;
        if self.remaining > 0 { Err(self.cut(IN_MEMBER)) } else { Ok(data) }
    }

    /// Copies the data of the current member to `out`, through the read buffer.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if the input fails, or the error of `out`.
    pub fn copy_data<W: io::Write>(&mut self, out: &mut ArchiveWriter<W>) -> Result<()> {
        while self.remaining > 0 {
            out.data(self.fill_data()?)?;
            self.consume_data();
        }
        Ok(())
    }

    /// Skips the data of the current member and its padding.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if the input fails or ends within the data or its padding.
    pub fn skip_data(&mut self) -> Result<(), Fault> {
        while self.remaining > 0 {
            self.fill_data()?;
            self.consume_data();
        }
        while self.padding > 0 {
            let at = self.offset();
            let n = self.buffer.fill().map_err(|err| unreadable(at, &err))?.len().min(self.padding);
            if n == 0 {
                return Err(self.cut("in the padding of a member"));
            }
            self.buffer.consume(n);
            self.padding -= n;
        }
        Ok(())
    }

    /// The next bytes of the current member's data, not consumed; never empty.
    fn fill_data(&mut self) -> Result<&[u8], Fault> {
        let (at, remaining) = (self.offset(), self.remaining);
        let bytes = self.buffer.fill().map_err(|err| unreadable(at, &err))?;
        if bytes.is_empty() {
            return Err(cut(at, IN_MEMBER));
        }
        Ok(&bytes[..remaining.min(bytes.len() as u64) as usize])
    }

    /// Consumes what `fill_data` returned.
    fn consume_data(&mut self) {
        let n = self.remaining.min(self.buffer.buffered() as u64);
        self.buffer.consume(n as usize);
        self.remaining -= n;
    }

    /// Combines a header block with the extended headers before it.
    fn member(
        &mut self,
        offset: u64,
        mut kind: EntryKind,
        block: &[u8; BLOCK],
        mut extended: Extended,
        mut blocks: Vec<u8>,
    ) -> Result<ArchiveEntry, Fault> {
        if extended.fall_back_on(&self.global) {
            blocks.clear();
        }
        let path = extended.path.take().unwrap_or_else(|| header::path(block).into_owned());
        if kind == EntryKind::Sparse {
            self.skip_sparse_map(block)?;
        }
        if kind == EntryKind::File && extended.sparse {
            kind = EntryKind::Sparse;
        }
        let has_data = header::has_data(block, kind);
        if kind == EntryKind::File && path.ends_with(b"/") {
            kind = EntryKind::Directory; // before there was a type for directories
        }
        let size = self.size(extended.size.or_else(|| header::size(block)))?;
        let mtime = extended.mtime.unwrap_or_else(|| header::mtime(block));
        if has_data {
            (self.remaining, self.padding) = (size, padding(size));
        }
        Ok(ArchiveEntry { path, size, mtime, kind, offset, archive: self.ends, header: blocks })
    }

    /// Reads the data of an extended header; its blocks are appended to `raw`.
    fn extension(&mut self, block: &[u8; BLOCK], raw: Option<&mut Vec<u8>>) -> Result<Vec<u8>, Fault> {
        let size = self.size(header::size(block))?;
        if size > MAX_EXTENDED {
            return Err(self.damaged(format!("an extended header of {size} bytes")));
        }
        (self.remaining, self.padding) = (size, padding(size));
        let data = self.read_data()?;
        let pad = self.padding;
        self.skip_data()?;
        if let Some(raw) = raw {
            if raw.len() as u64 > MAX_EXTENDED {
                return Err(self.damaged("more than 1 MB of extended headers".into()));
            }
            raw.extend_from_slice(block);
            raw.extend_from_slice(&data);
            raw.resize(raw.len() + pad, 0);
        }
        Ok(data)
    }

    /// Labels have no data, and often no valid size either.
    fn skip_label(&mut self, block: &[u8; BLOCK]) -> Result<(), Fault> {
        let size = header::size(block).unwrap_or(0);
        (self.remaining, self.padding) = (size, padding(size));
        self.skip_data()
    }

    fn take_pax(&self, extended: &mut Extended, records: &[u8]) -> Result<(), Fault> {
        extended.take_pax(records).ok_or_else(|| self.damaged("a malformed PAX header".into()))
    }

    /// Skips the blocks with which a GNU sparse header continues.
    fn skip_sparse_map(&mut self, block: &[u8; BLOCK]) -> Result<(), Fault> {
        let mut more = header::sparse_continues(block, true);
        while more {
            let Some(next) = self.next_block()? else { return Err(self.cut("in a sparse header")) };
            self.buffer.consume(BLOCK);
            more = header::sparse_continues(&next, false);
        }
        Ok(())
    }

    /// The next block, not consumed yet; None at the end of the input.
    fn next_block(&mut self) -> Result<Option<[u8; BLOCK]>, Fault> {
        let at = self.offset();
        let bytes = self.buffer.block().map_err(|err| unreadable(at, &err))?;
        if let Ok(block) = <[u8; BLOCK]>::try_from(bytes) {
            return Ok(Some(block));
        }
        let (n, blank) = (bytes.len(), bytes.iter().all(|&b| b == 0));
        match (n, self.ended && blank) {
            (0, _) => Ok(None),
            (_, true) => {
                self.buffer.consume(n);
                Ok(None)
            }
            _ if at == 0 => Err(Fault::new(0, "not_tar", "not a tar archive")),
            _ => Err(self.cut("in the middle of a block")),
        }
    }

    /// A wrong checksum in the first block means that this is not an archive at
    /// all.
    fn verify(&self, block: &[u8; BLOCK]) -> Result<(), Fault> {
        if header::checksum_holds(block) {
            Ok(())
        } else if self.offset() == 0 {
            Err(Fault::new(0, "not_tar", "not a tar archive"))
        } else if self.ended {
            Err(self.damaged(AFTER_END.into()))
        } else {
            Err(self.damaged("the checksum of a header is wrong".into()))
        }
    }

    /// Consumes the two zero blocks that end an archive, and those that pad it.
    fn end_of_archive(&mut self, blocks: &[u8]) -> Result<(), Fault> {
        if !blocks.is_empty() {
            return Err(self.damaged("an extended header without its member".into()));
        }
        self.buffer.consume(BLOCK);
        if self.ended {
            return Ok(());
        }
        match self.next_block()? {
            Some(block) if block == [0; BLOCK] => self.buffer.consume(BLOCK),
            Some(_) => return Err(self.damaged("a lone zero block".into())),
            None => return Err(self.cut(IN_END)),
        }
        self.ended = true;
        self.ends += 1;
        self.global = Extended::default();
        Ok(())
    }

    /// The end of the input is the end of the stream only after an end marker,
    /// or where `ignore_eof` allows it.
    fn at_end(&self, blocks: &[u8]) -> Result<Option<ArchiveEntry>, Fault> {
        if self.ended || (self.ignore_eof && blocks.is_empty()) {
            Ok(None)
        } else if self.offset() == 0 {
            Err(Fault::new(0, "cut", EMPTY_INPUT))
        } else {
            Err(self.cut(BEFORE_END))
        }
    }

    /// Validates the size that a header or a PAX record gives.
    fn size(&self, size: Option<u64>) -> Result<u64, Fault> {
        size.filter(|&size| size <= i64::MAX as u64).ok_or_else(|| self.damaged("an invalid size in a header".into()))
    }

    fn continuation(&self) -> Fault {
        self.damaged("continues a member of another volume: join the volumes of a multi-volume archive first".into())
    }

    fn damaged(&self, what: String) -> Fault {
        Fault::new(self.offset(), "damaged", what)
    }

    fn cut(&self, place: &str) -> Fault {
        cut(self.offset(), place)
    }
}

fn cut(offset: u64, place: &str) -> Fault {
    Fault::new(offset, "cut", format!("the input ends {place}"))
}

/// Decompressors report damage through the same call as disks.
fn unreadable(offset: u64, err: &io::Error) -> Fault {
    match err.kind() {
        io::ErrorKind::UnexpectedEof => Fault::new(offset, "cut", "the compressed data is cut off"),
        _ => Fault::new(offset, "read", err.to_string()),
    }
}
