//! A sequence of shards with consecutive numbers, one of them open at a time.

use anyhow::Result;
use tarpipe::compression::Compression;
use tarpipe::sample::fields::FieldCounts;
use tarpipe::sample::index::Index;
use tarpipe::sample::shard::ShardWriter;
use tarpipe::sample::stream::SampleStream;
use tarpipe::sink;
use tarpipe::value::template::{Template, Values};

use crate::tarsplit::earlier_shards::EarlierShards;
use crate::tarsplit::finisher::{Finisher, FullShard};

/// Names and limits of shards, and the files to write beside them.
pub struct ShardLayout {
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

impl ShardLayout {
    fn name(&self, split: &str, number: u64) -> String {
        self.pattern.fill(&Values::from([("shard", number.to_string()), ("split", split.to_owned())]))
    }

    fn create(&self, name: String) -> Result<OpenShard> {
        let options = sink::SinkOptions { compression: self.compression, threads: self.threads, digest: self.stats };
        let shard = ShardWriter::create(&name, options)?;
        Ok(OpenShard {
            name,
            shard,
            samples: 0,
            fields: FieldCounts::default(),
            index: self.index.then(Index::default),
        })
    }

    /// The limit that a shard has reached, by its name in --stats.
    fn limit_reached(&self, open: &OpenShard) -> Option<&'static str> {
        if self.max_samples.is_some_and(|most| open.samples >= most) {
            Some("samples")
        } else if self.max_bytes.is_some_and(|most| open.shard.bytes() >= most) {
            Some("size")
        } else {
            None
        }
    }
}

/// A shard being written, with the counts and the index of its samples.
pub struct OpenShard {
    pub name: String,
    pub shard: ShardWriter,
    pub samples: u64,
    pub fields: FieldCounts,
    pub index: Option<Index>,
}

/// The shards of one split, written one after another.
pub struct ShardSequence<'a> {
    layout: &'a ShardLayout,
    split: String,
    number: u64,
    open: Option<OpenShard>,
}

impl<'a> ShardSequence<'a> {
    pub fn new(layout: &'a ShardLayout, split: &str, number: u64) -> Self {
        ShardSequence { layout, split: split.to_owned(), number, open: None }
    }

    /// Makes room for another sample: closes the open shard if it is full, and opens the next. False when
    /// --max-shards allows no further shard.
    pub fn make_room(&mut self, finisher: &mut Finisher, earlier: &mut EarlierShards) -> Result<bool> {
        if let Some(limit) = self.open.as_ref().and_then(|open| self.layout.limit_reached(open)) {
            self.close(limit, finisher)?;
        }
        if self.open.is_none() {
            if self.layout.max_shards.is_some_and(|most| finisher.started() >= most) {
                return Ok(false);
            }
            let name = self.layout.name(&self.split, self.number);
            earlier.replace(&name);
            self.open = Some(self.layout.create(name)?);
            self.number += 1;
        }
        Ok(true)
    }

    /// Copies the current sample of the stream into the open shard.
    pub fn copy(&mut self, stream: &mut SampleStream) -> Result<()> {
        let Some(OpenShard { shard, samples, fields, index, .. }) = &mut self.open else { return Ok(()) };
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
    pub fn finish(mut self, finisher: &mut Finisher) -> Result<()> {
        self.close("end", finisher)
    }

    fn close(&mut self, limit: &'static str, finisher: &mut Finisher) -> Result<()> {
        match self.open.take() {
            Some(open) => finisher.start(FullShard { open, limit }),
            None => Ok(()),
        }
    }
}
