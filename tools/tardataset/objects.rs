//! A shard as objects of a store, one per file. They appear as they are written; the shard counts as done when its file of
//! counts exists, and a run that was interrupted writes them again.

use anyhow::Result;
use tarpipe::sample::Sample;
use tarpipe::sink;

use crate::tardataset::storage::StorageRefusal;

/// Objects that are written at the same time: one takes tens of milliseconds, whatever its size.
const MAX_PENDING: usize = 32;
/// Bytes that wait to be written.
const MAX_BYTES: usize = 32 << 20;
/// The longest key that S3 takes; the longest of Google and Azure is the same.
const LONGEST_KEY: usize = 1024;

/// A prefix of a store, and the objects that wait to be written below it.
pub struct ShardObjects {
    prefix: String,
    pending: Vec<(String, Vec<u8>)>,
    bytes: usize,
}

impl ShardObjects {
    pub fn create(prefix: String) -> Self {
        ShardObjects { prefix, pending: Vec::new(), bytes: 0 }
    }

    /// Why the files of a sample cannot be objects, including the json it will get.
    pub fn refusal(&self, sample: &Sample) -> Option<StorageRefusal> {
        let longest = sample.members.iter().map(|member| member.field.len()).chain([4]).max().unwrap_or(0);
        let length = self.prefix.len() + sample.key.len() + longest + 2;
        (length > LONGEST_KEY).then_some(("name_long", "its name is too long for an object"))
    }

    pub fn write(&mut self, sample: &Sample) -> Result<()> {
        for member in &sample.members {
            self.bytes += member.data.len();
            self.pending.push((format!("{}/{}.{}", self.prefix, sample.key, member.field), member.data.clone()));
        }
        if self.pending.len() >= MAX_PENDING || self.bytes >= MAX_BYTES { self.flush() } else { Ok(()) }
    }

    pub fn finish(mut self) -> Result<()> {
        self.flush()
    }

    /// Writes what is pending, all at the same time. Returns the first error.
    fn flush(&mut self) -> Result<()> {
        self.bytes = 0;
        let pending = std::mem::take(&mut self.pending);
        std::thread::scope(|scope| {
            let write = |(name, data): &(String, Vec<u8>)| sink::write_bytes(name, data);
            let writers: Vec<_> = pending.iter().map(|object| scope.spawn(move || write(object))).collect();
            let results: Vec<Result<()>> = writers
                .into_iter()
                .map(|writer| writer.join().unwrap_or_else(|_| anyhow::bail!("a writer panicked")))
                .collect();
            results.into_iter().collect()
        })
    }
}
