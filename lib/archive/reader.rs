//! Reads members off a stream of bytes, one at a time, without seeking.

use std::io;

use anyhow::Result;

use super::header::{self, Block, Extended, Kind};
use super::window::Window;
use super::{BLOCK, Fault, Writer, padding};

/// Extended headers hold a name and some times; more than this is an attack.
const MAX_EXTENDED: u64 = 1 << 20;

/// The header of a member. Its data stands next in the reader.
#[derive(Debug)]
pub struct Entry {
    /// The full name, as bytes: nothing says that it is UTF-8, or safe.
    pub path: Vec<u8>,
    /// Bytes of data.
    pub size: u64,
    /// Seconds since 1970.
    pub mtime: u64,
    /// What it is.
    pub kind: Kind,
    /// Where its first header block stands in the stream.
    pub offset: u64,
    /// Its header blocks as read, extended ones included; empty when they don't stand for
    /// themselves because a global header added to them.
    pub header: Vec<u8>,
}

/// A tar archive read from front to back. Several archives in a row are one stream.
///
/// Every header's checksum is verified. The end of the input before the end-of-archive
/// blocks is a [`Fault`].
pub struct Reader {
    window: Window,
    ignore_eof: bool,
    global: Extended,
    remaining: u64,
    padding: usize,
    ended: bool,
}

impl Reader {
    /// Reads from `input`. With `ignore_eof` a stream may end without the end-of-archive
    /// blocks, if it does so between two members.
    pub fn new(input: Box<dyn io::Read + Send>, ignore_eof: bool) -> Self {
        Reader {
            window: Window::new(input),
            ignore_eof,
            global: Extended::default(),
            remaining: 0,
            padding: 0,
            ended: false,
        }
    }

    /// Offset in the stream of what is read next.
    pub fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// The next member; what is left of the one before is skipped. After the last, reads on to
    /// the end of the input, so that whoever writes it is not cut off.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, Fault> {
        self.skip_data()?;
        let mut offset = self.offset();
        let mut extended = Extended::default();
        let mut blocks = Vec::with_capacity(BLOCK);
        loop {
            let Some(block) = self.next_block()? else { return self.at_end(&blocks) };
            if block == [0; BLOCK] {
                self.end_of_archive(&blocks)?;
                continue;
            }
            self.verify(&block)?;
            self.ended = false;
            self.window.consume(BLOCK);
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
                    // What stood before it was said of the label.
                    (offset, extended, blocks) = (self.offset(), Extended::default(), Vec::new());
                }
                Block::Continuation => return Err(self.continuation()),
            }
        }
    }

    /// The data of the current member. Memory grows with what is there, not with what the
    /// header claims.
    pub fn read_data(&mut self) -> Result<Vec<u8>, Fault> {
        // A larger claim must first be backed by bytes.
        const TRUSTED: u64 = 64 << 20;
        let mut data = Vec::with_capacity(self.remaining.min(TRUSTED) as usize);
        let at = self.offset();
        let n = self.window.read_into(&mut data, self.remaining).map_err(|err| unreadable(at, &err))?;
        self.remaining -= n;
        if self.remaining > 0 { Err(self.cut("in the middle of a member")) } else { Ok(data) }
    }

    /// Passes the data of the current member on, without a copy of our own.
    pub fn copy_data<W: io::Write>(&mut self, out: &mut Writer<W>) -> Result<()> {
        while self.remaining > 0 {
            out.data(self.fill_data()?)?;
            self.consume_data();
        }
        Ok(())
    }

    /// Reads past the data of the current member.
    pub fn skip_data(&mut self) -> Result<(), Fault> {
        while self.remaining > 0 {
            self.fill_data()?;
            self.consume_data();
        }
        while self.padding > 0 {
            let at = self.offset();
            let n = self.window.fill().map_err(|err| unreadable(at, &err))?.len().min(self.padding);
            if n == 0 {
                return Err(self.cut("in the padding of a member"));
            }
            self.window.consume(n);
            self.padding -= n;
        }
        Ok(())
    }

    fn fill_data(&mut self) -> Result<&[u8], Fault> {
        let (at, remaining) = (self.offset(), self.remaining);
        let bytes = self.window.fill().map_err(|err| unreadable(at, &err))?;
        if bytes.is_empty() {
            return Err(cut(at, "in the middle of a member"));
        }
        Ok(&bytes[..remaining.min(bytes.len() as u64) as usize])
    }

    /// Consumes what `fill_data` showed.
    fn consume_data(&mut self) {
        let n = self.remaining.min(self.window.buffered() as u64);
        self.window.consume(n as usize);
        self.remaining -= n;
    }

    fn member(
        &mut self,
        offset: u64,
        mut kind: Kind,
        block: &[u8; BLOCK],
        mut extended: Extended,
        mut blocks: Vec<u8>,
    ) -> Result<Entry, Fault> {
        if extended.fall_back_on(&self.global) {
            blocks.clear();
        }
        let path = extended.path.take().unwrap_or_else(|| header::path(block).into_owned());
        if kind == Kind::Sparse {
            self.skip_sparse_map(block)?;
        }
        if kind == Kind::File && extended.sparse {
            kind = Kind::Sparse;
        }
        let has_data = header::has_data(block, kind);
        if kind == Kind::File && path.ends_with(b"/") {
            kind = Kind::Directory; // how tar said it before there was a type for it
        }
        let size = self.size(extended.size.or_else(|| header::size(block)))?;
        let mtime = extended.mtime.unwrap_or_else(|| header::mtime(block));
        if has_data {
            (self.remaining, self.padding) = (size, padding(size));
        }
        Ok(Entry { path, size, mtime, kind, offset, header: blocks })
    }

    /// The data of an extended header; `raw` takes all its blocks.
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
                return Err(self.damaged("extended headers without end".into()));
            }
            raw.extend_from_slice(block);
            raw.extend_from_slice(&data);
            raw.resize(raw.len() + pad, 0);
        }
        Ok(data)
    }

    /// Labels have no data, and most a blank for its size.
    fn skip_label(&mut self, block: &[u8; BLOCK]) -> Result<(), Fault> {
        let size = header::size(block).unwrap_or(0);
        (self.remaining, self.padding) = (size, padding(size));
        self.skip_data()
    }

    fn take_pax(&self, extended: &mut Extended, records: &[u8]) -> Result<(), Fault> {
        extended.take_pax(records).ok_or_else(|| self.damaged("a malformed PAX header".into()))
    }

    fn skip_sparse_map(&mut self, block: &[u8; BLOCK]) -> Result<(), Fault> {
        let mut more = header::sparse_continues(block, true);
        while more {
            let Some(next) = self.next_block()? else { return Err(self.cut("in a sparse header")) };
            self.window.consume(BLOCK);
            more = header::sparse_continues(&next, false);
        }
        Ok(())
    }

    /// The next block, not consumed yet; None at the end of the input.
    fn next_block(&mut self) -> Result<Option<[u8; BLOCK]>, Fault> {
        let at = self.offset();
        let bytes = self.window.block().map_err(|err| unreadable(at, &err))?;
        if let Ok(block) = <[u8; BLOCK]>::try_from(bytes) {
            return Ok(Some(block));
        }
        let (n, blank) = (bytes.len(), bytes.iter().all(|&b| b == 0));
        match (n, self.ended && blank) {
            (0, _) => Ok(None),
            (_, true) => {
                self.window.consume(n);
                Ok(None)
            }
            _ if at == 0 => Err(Fault::new(0, "not_tar", "not a tar archive")),
            _ => Err(self.cut("in the middle of a block")),
        }
    }

    fn verify(&self, block: &[u8; BLOCK]) -> Result<(), Fault> {
        if header::checksum_holds(block) {
            Ok(())
        } else if self.offset() == 0 {
            Err(Fault::new(0, "not_tar", "not a tar archive"))
        } else if self.ended {
            Err(self.damaged("what follows the end of the archive is not an archive".into()))
        } else {
            Err(self.damaged("the checksum of a header is wrong".into()))
        }
    }

    /// Takes the two zero blocks that end an archive, and those that pad it.
    fn end_of_archive(&mut self, blocks: &[u8]) -> Result<(), Fault> {
        if !blocks.is_empty() {
            return Err(self.damaged("an extended header without its member".into()));
        }
        self.window.consume(BLOCK);
        if self.ended {
            return Ok(());
        }
        match self.next_block()? {
            Some(block) if block == [0; BLOCK] => self.window.consume(BLOCK),
            Some(_) => return Err(self.damaged("a lone zero block".into())),
            None => return Err(self.cut("after the first of two end-of-archive blocks")),
        }
        self.ended = true;
        self.global = Extended::default();
        Ok(())
    }

    fn at_end(&self, blocks: &[u8]) -> Result<Option<Entry>, Fault> {
        if self.ended || (self.ignore_eof && blocks.is_empty()) {
            Ok(None)
        } else if self.offset() == 0 {
            Err(Fault::new(0, "cut", "empty input: not even an end of archive"))
        } else {
            Err(self.cut("before the end-of-archive blocks"))
        }
    }

    /// The size that a header or a PAX record gives.
    fn size(&self, size: Option<u64>) -> Result<u64, Fault> {
        size.filter(|&size| size <= i64::MAX as u64).ok_or_else(|| self.damaged("an invalid size in a header".into()))
    }

    fn continuation(&self) -> Fault {
        self.damaged(
            "the rest of a member from another volume: join the volumes of a multi-volume archive first".into(),
        )
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

/// Decompressors report damage through the same call as disks report theirs.
fn unreadable(offset: u64, err: &io::Error) -> Fault {
    match err.kind() {
        io::ErrorKind::UnexpectedEof => Fault::new(offset, "cut", "the compressed data is cut off"),
        _ => Fault::new(offset, "read", err.to_string()),
    }
}
