//! Sorts the samples of uncompressed files by their offsets: only keys and offsets are held, and the samples are copied
//! from the files in their new order.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, bail};
use rustix::fs::{Advice, fadvise};
use tarpipe::archive::{ArchiveReader, padding};
use tarpipe::compression;
use tarpipe::location;
use tarpipe::messages;
use tarpipe::messages::progress::{self, Counted};
use tarpipe::sample::shard::ShardWriter;
use tarpipe::sample::stream::{MemberView, SampleStream};
use tarpipe::sort::Sorter;
use tarpipe::source;
use tarpipe::tally::Tally;

use crate::tarsort::Args;
use crate::tarsort::duplicates::DuplicatePolicy;
use crate::tarsort::order::SortOrder;

/// Bytes announced to the kernel ahead of the copy, so that it can fetch them in parallel.
const AHEAD: u64 = 16 << 20;
const COPY: usize = 1 << 20;

/// Sources that are uncompressed files.
pub struct SourceFiles {
    names: Vec<String>,
    files: Vec<(File, Metadata)>,
}

/// A range of a file: offset and length.
type FileExtent = (u64, u64);

impl SourceFiles {
    /// None unless all sources are uncompressed files.
    pub fn open(names: &[String]) -> Result<Option<Self>> {
        let mut files = Vec::new();
        for name in names {
            if !location::is_path(name) {
                return Ok(None);
            }
            let open = || -> Result<_> {
                let mut file = File::open(location::path_of(name))?;
                let found = file.metadata()?;
                let mut head = Vec::new();
                if found.is_file() {
                    source::refuse_output(&file)?;
                    (&mut file).take(compression::HEAD as u64).read_to_end(&mut head)?;
                }
                let is_plain = found.is_file() && !compression::is_compressed(&head);
                Ok(is_plain.then_some((file, found)))
            };
            match open().with_context(|| name.clone())? {
                Some(file) => files.push(file),
                None => return Ok(None),
            }
        }
        Ok(Some(SourceFiles { names: names.to_vec(), files }))
    }

    /// Reads all files and sorts their samples. None if a global header applies to some members: they cannot be copied
    /// without it.
    pub fn index(self, args: &Args) -> Result<Option<OffsetIndex>> {
        let mut indexer = OffsetIndexer {
            order: args.order(),
            sorter: args.sorter(),
            tally: Tally::default(),
            max_sample: args.held.max_sample,
            keep_fields: args.group,
            key: Vec::new(),
            bytes: 0,
        };
        for (number, (name, (file, _))) in self.names.iter().zip(&self.files).enumerate() {
            let mut file = file.try_clone().with_context(|| name.clone())?;
            file.seek(SeekFrom::Start(0)).with_context(|| name.clone())?;
            let stream = SampleStream::new(name, ArchiveReader::new(Counted(file), args.input.ignore_eof));
            if !indexer.read(number as u32, stream)? {
                return Ok(None);
            }
        }
        let OffsetIndexer { order, sorter, tally, bytes, .. } = indexer;
        order.notice().iter().for_each(|notice| messages::notice(notice));
        let duplicates = DuplicatePolicy::new(args, &self.names);
        Ok(Some(OffsetIndex { files: self, order, sorter, tally, duplicates, bytes }))
    }

    fn refuse_changed(&self) -> Result<()> {
        for (name, (file, before)) in self.names.iter().zip(&self.files) {
            let now = file.metadata()?;
            if now.len() != before.len() || now.modified()? != before.modified()? {
                bail!("{name}: the file changed while it was sorted");
            }
        }
        Ok(())
    }
}

/// The first phase: reads the files and makes a sort key and a location for each sample.
struct OffsetIndexer {
    order: SortOrder,
    sorter: Sorter,
    tally: Tally,
    max_sample: u64,
    keep_fields: bool,
    key: Vec<u8>,
    bytes: u64,
}

impl OffsetIndexer {
    fn read<R: Read>(&mut self, source: u32, mut stream: SampleStream<R>) -> Result<bool> {
        while let Some(head) = stream.next()? {
            let mut scan = SampleScan { extents: Vec::new(), fields: Vec::new(), bytes: 0, is_self_contained: true };
            let (order, limit) = (&self.order, self.max_sample);
            let mut room = limit;
            let wants = |member: &MemberView<'_>| {
                let fits = member.entry.size <= room;
                room = room.saturating_sub(member.entry.size);
                fits && order.wants(member.field)
            };
            stream.inspect(wants, |member, data| scan.add(member, data))?;
            if !scan.is_self_contained {
                return Ok(false);
            }
            if scan.bytes > limit {
                let item = format!("{}: {}", stream.name(), head.key);
                self.tally.leave_out("too_large", &item, &format_args!("larger than {limit} bytes"));
                continue;
            }
            self.push(source, &head.key, &scan)?;
            progress::add_sample();
        }
        self.tally.merge(stream.tally());
        Ok(true)
    }

    fn push(&mut self, source: u32, key: &str, scan: &SampleScan) -> Result<()> {
        let find = |name: &str| scan.fields.iter().find(|(field, _)| field == name)?.1.as_deref();
        self.order.key(key, find, &mut self.key);
        let mut body = Vec::with_capacity(64);
        body.extend_from_slice(&source.to_le_bytes());
        body.extend_from_slice(&(scan.extents.len() as u32).to_le_bytes());
        for (offset, bytes) in &scan.extents {
            self.bytes += bytes;
            body.extend_from_slice(&offset.to_le_bytes());
            body.extend_from_slice(&bytes.to_le_bytes());
        }
        if !self.order.is_by_key() {
            body.extend_from_slice(key.as_bytes());
        }
        if self.keep_fields {
            // Names never contain a NUL.
            for (field, _) in &scan.fields {
                body.push(0);
                body.extend_from_slice(field.as_bytes());
            }
        }
        self.sorter.push(&self.key, &[&body])
    }
}

/// The location of a sample, its fields, and the data of the fields that the order needs.
struct SampleScan {
    extents: Vec<FileExtent>,
    fields: Vec<(String, Option<Vec<u8>>)>,
    bytes: u64,
    is_self_contained: bool,
}

impl SampleScan {
    fn add(&mut self, member: &MemberView<'_>, data: Option<Vec<u8>>) {
        let (start, size) = (member.entry.offset, member.entry.size);
        let end = member.data_offset + size + padding(size) as u64;
        self.is_self_contained &= !member.entry.header.is_empty();
        self.bytes += size;
        match self.extents.last_mut() {
            Some(last) if last.0 + last.1 == start => last.1 = end - last.0,
            _ => self.extents.push((start, end - start)),
        }
        self.fields.push((member.field.to_owned(), data));
    }
}

/// Files whose samples have been located and sorted.
pub struct OffsetIndex {
    files: SourceFiles,
    order: SortOrder,
    sorter: Sorter,
    tally: Tally,
    duplicates: DuplicatePolicy,
    bytes: u64,
}

impl OffsetIndex {
    /// The second phase: copies the samples in their new order.
    pub fn write(self, out: &mut ShardWriter) -> Result<Tally> {
        let OffsetIndex { files, order, sorter, mut tally, mut duplicates, bytes } = self;
        let mut sorted = sorter.finish()?;
        progress::begin_phase("writing", Some(bytes));
        let mut copier = Copier { files: &files, queue: VecDeque::new(), ahead: 0, buf: vec![0; COPY] };
        while let Some(record) = sorted.next()? {
            copier.enqueue(SampleLocation::parse(record.key, record.body).context("the spilled data is damaged")?);
            while copier.ahead > AHEAD {
                copier.copy_next(&order, &mut duplicates, out)?;
            }
        }
        while !copier.queue.is_empty() {
            copier.copy_next(&order, &mut duplicates, out)?;
        }
        files.refuse_changed()?;
        tally.merge(&duplicates.tally);
        Ok(tally)
    }
}

/// Where the bytes of a sample are.
struct SampleLocation {
    sort_key: Vec<u8>,
    key: String,
    fields: Vec<String>,
    source: usize,
    extents: Vec<FileExtent>,
}

impl SampleLocation {
    fn parse(sort_key: &[u8], mut body: &[u8]) -> Option<Self> {
        let source = u32::from_le_bytes(body.split_off(..4)?.try_into().ok()?) as usize;
        let count = u32::from_le_bytes(body.split_off(..4)?.try_into().ok()?);
        let mut extents = Vec::new();
        for _ in 0..count {
            let offset = u64::from_le_bytes(body.split_off(..8)?.try_into().ok()?);
            extents.push((offset, u64::from_le_bytes(body.split_off(..8)?.try_into().ok()?)));
        }
        let mut names = std::str::from_utf8(body).ok()?.split('\0');
        let key = match names.next()? {
            "" => std::str::from_utf8(sort_key).ok()?,
            key => key,
        };
        let (key, fields) = (key.to_owned(), names.map(str::to_owned).collect());
        Some(SampleLocation { sort_key: sort_key.to_vec(), key, fields, source, extents })
    }

    fn bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.1).sum()
    }
}

struct Copier<'a> {
    files: &'a SourceFiles,
    queue: VecDeque<SampleLocation>,
    /// Bytes in the queue.
    ahead: u64,
    buf: Vec<u8>,
}

impl Copier<'_> {
    fn enqueue(&mut self, location: SampleLocation) {
        let file = &self.files.files[location.source].0;
        for &(offset, bytes) in &location.extents {
            // Only advice: if something is wrong, the copy will fail.
            _ = fadvise(file, offset, std::num::NonZeroU64::new(bytes), Advice::WillNeed);
        }
        self.ahead += location.bytes();
        self.queue.push_back(location);
    }

    fn copy_next(&mut self, order: &SortOrder, duplicates: &mut DuplicatePolicy, out: &mut ShardWriter) -> Result<()> {
        let Some(location) = self.queue.pop_front() else { return Ok(()) };
        self.ahead -= location.bytes();
        progress::add_bytes(location.bytes());
        let fields = location.fields.iter().map(String::as_str);
        if !duplicates.admit(order, &location.sort_key, &location.key, fields, out)? {
            return Ok(());
        }
        let (file, name) = (&self.files.files[location.source].0, &self.files.names[location.source]);
        for &(mut offset, mut bytes) in &location.extents {
            while bytes > 0 {
                let n = bytes.min(COPY as u64) as usize;
                file.read_exact_at(&mut self.buf[..n], offset).with_context(|| name.clone())?;
                out.writer().raw_header(&self.buf[..n])?;
                (offset, bytes) = (offset + n as u64, bytes - n as u64);
            }
        }
        Ok(())
    }
}
