//! Sorting files by where their samples stand: only keys and places are held, and the samples are
//! copied from the files in their new order.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, bail};
use rustix::fs::{Advice, fadvise};
use tarpipe::archive::{Reader, padding};
use tarpipe::compression;
use tarpipe::location;
use tarpipe::messages;
use tarpipe::messages::progress::{self, Counted};
use tarpipe::sample::shard::Shard;
use tarpipe::sample::stream::{Passing, Stream};
use tarpipe::sort::Sorter;
use tarpipe::source;
use tarpipe::tally::Tally;

use crate::order::Order;
use crate::rule::Rule;
use crate::{Args, shown};

/// Bytes that the kernel is told of before they are read: it fetches them side by side.
const AHEAD: u64 = 16 << 20;
const COPY: usize = 1 << 20;

/// Sources that are plain files.
pub struct Files {
    names: Vec<String>,
    files: Vec<(File, Metadata)>,
}

/// Part of a file: offset and length.
type Extent = (u64, u64);

impl Files {
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
        Ok(Some(Files { names: names.to_vec(), files }))
    }

    /// Reads all files and sorts what is in them; None when a member does not stand for itself,
    /// because a global header adds to it.
    pub fn index(self, args: &Args) -> Result<Option<Indexed>> {
        let mut indexing = Indexing {
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
            let stream = Stream::new(name, Reader::new(Box::new(Counted(file)), args.input.ignore_eof));
            if !indexing.read(number as u32, stream)? {
                return Ok(None);
            }
        }
        let Indexing { order, sorter, tally, bytes, .. } = indexing;
        order.note().iter().for_each(|note| messages::notice(note));
        let rule = Rule::new(args, shown(&self.names));
        Ok(Some(Indexed { files: self, order, sorter, tally, rule, bytes }))
    }

    fn refuse_changed(&self) -> Result<()> {
        for (name, (file, before)) in self.names.iter().zip(&self.files) {
            let now = file.metadata()?;
            if now.len() != before.len() || now.modified()? != before.modified()? {
                bail!("{name}: changed while it was sorted");
            }
        }
        Ok(())
    }
}

/// The first phase.
struct Indexing {
    order: Order,
    sorter: Sorter,
    tally: Tally,
    max_sample: u64,
    keep_fields: bool,
    key: Vec<u8>,
    bytes: u64,
}

impl Indexing {
    fn read(&mut self, source: u32, mut stream: Stream) -> Result<bool> {
        while let Some(head) = stream.next()? {
            let mut found = Found { extents: Vec::new(), fields: Vec::new(), bytes: 0, stands_for_itself: true };
            let (order, limit) = (&self.order, self.max_sample);
            let mut room = limit;
            let wants = |member: &Passing<'_>| {
                let fits = member.entry.size <= room;
                room = room.saturating_sub(member.entry.size);
                fits && order.wants(member.field)
            };
            stream.look(wants, |member, data| found.add(member, data))?;
            if !found.stands_for_itself {
                return Ok(false);
            }
            if found.bytes > limit {
                self.tally.fail("too_large");
                messages::detail(&format!("{}: {}: larger than {limit} bytes", stream.name(), head.key));
                continue;
            }
            self.push(source, &head.key, &found)?;
            progress::add_sample();
        }
        self.tally.merge(stream.tally());
        Ok(true)
    }

    fn push(&mut self, source: u32, key: &str, found: &Found) -> Result<()> {
        let find = |name: &str| found.fields.iter().find(|(field, _)| field == name)?.1.as_deref();
        self.order.key(key, find, &mut self.key);
        let mut body = Vec::with_capacity(64);
        body.extend_from_slice(&source.to_le_bytes());
        body.extend_from_slice(&(found.extents.len() as u32).to_le_bytes());
        for (offset, bytes) in &found.extents {
            self.bytes += bytes;
            body.extend_from_slice(&offset.to_le_bytes());
            body.extend_from_slice(&bytes.to_le_bytes());
        }
        if !self.order.is_by_key() {
            body.extend_from_slice(key.as_bytes());
        }
        if self.keep_fields {
            // No name holds a NUL.
            for (field, _) in &found.fields {
                body.push(0);
                body.extend_from_slice(field.as_bytes());
            }
        }
        self.sorter.push(&self.key, &[&body])
    }
}

/// What is known of a sample after a look at it.
struct Found {
    extents: Vec<Extent>,
    fields: Vec<(String, Option<Vec<u8>>)>,
    bytes: u64,
    stands_for_itself: bool,
}

impl Found {
    fn add(&mut self, member: &Passing<'_>, data: Option<Vec<u8>>) {
        let (start, size) = (member.entry.offset, member.entry.size);
        let end = member.data_offset + size + padding(size) as u64;
        self.stands_for_itself &= !member.entry.header.is_empty();
        self.bytes += size;
        match self.extents.last_mut() {
            Some(last) if last.0 + last.1 == start => last.1 = end - last.0,
            _ => self.extents.push((start, end - start)),
        }
        self.fields.push((member.field.to_owned(), data));
    }
}

/// Files whose samples are known and sorted.
pub struct Indexed {
    files: Files,
    order: Order,
    sorter: Sorter,
    tally: Tally,
    rule: Rule,
    bytes: u64,
}

impl Indexed {
    /// The second phase: copies the samples in their new order.
    pub fn write(self, out: &mut Shard) -> Result<Tally> {
        let Indexed { files, order, sorter, mut tally, mut rule, bytes } = self;
        let mut sorted = sorter.finish()?;
        progress::begin_phase("writing", Some(bytes));
        let mut copier = Copier { files: &files, queue: VecDeque::new(), ahead: 0, buf: vec![0; COPY] };
        while let Some(record) = sorted.next()? {
            copier.expect(Place::parse(record.key, record.body).context("what was spilled is damaged")?);
            while copier.ahead > AHEAD {
                copier.copy_next(&order, &mut rule, out)?;
            }
        }
        while !copier.queue.is_empty() {
            copier.copy_next(&order, &mut rule, out)?;
        }
        files.refuse_changed()?;
        tally.merge(&rule.tally);
        Ok(tally)
    }
}

/// Where a sample stands.
struct Place {
    sort_key: Vec<u8>,
    key: String,
    fields: Vec<String>,
    source: usize,
    extents: Vec<Extent>,
}

impl Place {
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
        Some(Place { sort_key: sort_key.to_vec(), key, fields, source, extents })
    }

    fn bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.1).sum()
    }
}

struct Copier<'a> {
    files: &'a Files,
    queue: VecDeque<Place>,
    /// Bytes of what is queued.
    ahead: u64,
    buf: Vec<u8>,
}

impl Copier<'_> {
    fn expect(&mut self, place: Place) {
        let file = &self.files.files[place.source].0;
        for &(offset, bytes) in &place.extents {
            // Only advice: the copy finds out what is wrong.
            _ = fadvise(file, offset, std::num::NonZeroU64::new(bytes), Advice::WillNeed);
        }
        self.ahead += place.bytes();
        self.queue.push_back(place);
    }

    fn copy_next(&mut self, order: &Order, rule: &mut Rule, out: &mut Shard) -> Result<()> {
        let Some(place) = self.queue.pop_front() else { return Ok(()) };
        self.ahead -= place.bytes();
        progress::add_bytes(place.bytes());
        let fields = place.fields.iter().map(String::as_str);
        if !rule.admit(order, &place.sort_key, &place.key, fields, out)? {
            return Ok(());
        }
        let (file, name) = (&self.files.files[place.source].0, &self.files.names[place.source]);
        for &(mut offset, mut bytes) in &place.extents {
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
