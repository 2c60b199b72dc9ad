//! A row of shards, of which one is open.

use anyhow::Result;
use tarpipe::compression::Compression;
use tarpipe::sample::fields::Counts;
use tarpipe::sample::index::Index;
use tarpipe::sample::shard::Shard;
use tarpipe::sample::stream::Stream;
use tarpipe::sink;
use tarpipe::value::template::{Template, Values};

use crate::close::{Closing, Finishing, Full};

/// How shards are named, when they are full, and what stands beside them.
pub struct Layout {
    pub pattern: Template,
    pub start: u64,
    pub max_samples: Option<u64>,
    pub max_bytes: Option<u64>,
    pub max_shards: Option<u64>,
    pub index: bool,
    pub stats: bool,
    pub compression: Option<Compression>,
    pub threads: usize,
}

impl Layout {
    pub fn finishing(&self, post: Option<String>, delete: bool) -> Finishing {
        Finishing { post, delete, stats: self.stats }
    }

    fn name(&self, split: &str, number: u64) -> String {
        self.pattern.fill(&Values::from([("shard", number.to_string()), ("split", split.to_owned())]))
    }

    fn create(&self, name: String) -> Result<Open> {
        let options = sink::Options { compression: self.compression, threads: self.threads, digest: self.stats };
        let shard = Shard::create(&name, options)?;
        Ok(Open { name, shard, samples: 0, fields: Counts::default(), index: self.index.then(Index::default) })
    }

    /// The limit that a shard has reached.
    fn limit_of(&self, open: &Open) -> Option<&'static str> {
        if self.max_samples.is_some_and(|most| open.samples >= most) {
            Some("samples")
        } else if self.max_bytes.is_some_and(|most| open.shard.bytes() >= most) {
            Some("size")
        } else {
            None
        }
    }
}

/// A shard being written, and what is known of it.
pub struct Open {
    pub name: String,
    pub shard: Shard,
    pub samples: u64,
    pub fields: Counts,
    pub index: Option<Index>,
}

/// Whether another sample can be written.
#[derive(PartialEq, Eq)]
pub enum Room {
    Some,
    None,
}

/// Shards that follow each other.
pub struct Lane<'a> {
    layout: &'a Layout,
    split: String,
    number: u64,
    open: Option<Open>,
}

impl<'a> Lane<'a> {
    pub fn new(layout: &'a Layout, split: &str, number: u64) -> Self {
        Lane { layout, split: split.to_owned(), number, open: None }
    }

    /// Makes room for a sample: closes a shard that is full and opens the next, unless there
    /// are as many as there may be.
    pub fn room(&mut self, closing: &mut Closing) -> Result<Room> {
        if let Some(limit) = self.open.as_ref().and_then(|open| self.layout.limit_of(open)) {
            self.close(limit, closing)?;
        }
        if self.open.is_none() {
            if self.layout.max_shards.is_some_and(|most| closing.started() >= most) {
                return Ok(Room::None);
            }
            self.open = Some(self.layout.create(self.layout.name(&self.split, self.number))?);
            self.number += 1;
        }
        Ok(Room::Some)
    }

    /// Passes the current sample of the stream on to the open shard.
    pub fn copy(&mut self, stream: &mut Stream) -> Result<()> {
        let Some(Open { shard, samples, fields, index, .. }) = &mut self.open else { return Ok(()) };
        *samples += 1;
        if let Some(index) = index {
            index.begin();
        }
        shard.copy(stream, |member| {
            if self.layout.stats {
                fields.add(member.field);
            }
            if let Some(index) = index {
                index.add(&member);
            }
        })
    }

    /// Closes the last shard.
    pub fn finish(mut self, closing: &mut Closing) -> Result<()> {
        self.close("end", closing)
    }

    fn close(&mut self, limit: &'static str, closing: &mut Closing) -> Result<()> {
        match self.open.take() {
            Some(open) => closing.start(Full { open, limit }),
            None => Ok(()),
        }
    }
}
