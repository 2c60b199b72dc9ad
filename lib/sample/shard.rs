//! Writes shards: an archive of samples in a sink.

use anyhow::{Result, bail};

use crate::archive::{ArchiveWriter, BLOCK};
use crate::messages::progress;
use crate::sample::Sample;
use crate::sample::stream::{MemberView, SampleStream};
use crate::sink::{Sink, SinkOptions, StoredBytes};

/// A shard that is being written. It appears under its name only after
/// [`ShardWriter::finish`]; see [`Sink`].
///
/// Samples are written as they come, with constant memory.
///
/// ```
/// use tarpipe::sample::shard::ShardWriter;
/// use tarpipe::sample::{Member, Sample};
/// use tarpipe::sink::SinkOptions;
///
/// let folder = tempfile::tempdir()?;
/// let name = format!("{}/shard-0.tar", folder.path().display());
/// let mut shard = ShardWriter::create(&name, SinkOptions::default())?;
/// let members = vec![Member::new("txt", b"meow".to_vec())];
/// let cat = Sample { key: "cat".into(), mtime: 0, source: "example".into(), members };
/// shard.write(&cat)?;
/// assert!(shard.write(&cat).is_err(), "adjacent samples need different keys");
/// assert_eq!(shard.finish()?.bytes, 512 + 512 + 1024);
/// # anyhow::Ok(())
/// ```
pub struct ShardWriter {
    writer: ArchiveWriter<Sink>,
    last_key: String,
}

impl ShardWriter {
    /// Creates the shard. Fails as [`Sink::create`] does.
    pub fn create(name: &str, options: SinkOptions) -> Result<Self> {
        Ok(ShardWriter { writer: ArchiveWriter::new(Sink::create(name, options)?), last_key: String::new() })
    }

    /// The size that the archive would have if it were finished now, before
    /// compression.
    pub fn bytes(&self) -> u64 {
        self.writer.offset() + 2 * BLOCK as u64
    }

    /// Writes a sample from memory. Fails if the previous sample has the same
    /// key, or if the output fails.
    pub fn write(&mut self, sample: &Sample) -> Result<()> {
        self.begin(&sample.key, &sample.source)?;
        Ok(sample.write(&mut self.writer)?)
    }

    /// Copies the current sample of a stream without holding it in memory;
    /// `each` is called with its members, and their offsets in this shard.
    /// Fails as [`ShardWriter::write`] does, or if the stream is damaged.
    pub fn copy(&mut self, stream: &mut SampleStream, each: impl FnMut(MemberView<'_>)) -> Result<()> {
        self.begin(stream.key(), stream.name())?;
        stream.copy(&mut self.writer, each)
    }

    /// The archive itself, to write the members of a sample that was begun with
    /// [`ShardWriter::begin`].
    pub fn writer(&mut self) -> &mut ArchiveWriter<Sink> {
        &mut self.writer
    }

    /// Begins a sample and counts it for the progress display. Adjacent samples
    /// with the same key would be read back as one sample, so that is an error;
    /// `source` is what messages call its origin.
    pub fn begin(&mut self, key: &str, source: &str) -> Result<()> {
        if key == self.last_key {
            bail!("{source}: sample {key}: the previous sample has the same key (use tarcat --rekey '{{index:09}}')");
        }
        key.clone_into(&mut self.last_key);
        progress::add_sample();
        Ok(())
    }

    /// Ends the archive and makes it appear under its name. Blocks until it is
    /// stored.
    ///
    /// # Errors
    ///
    /// Those of [`crate::sink::Sink::finish`]. A shard that is dropped
    /// unfinished is discarded.
    pub fn finish(self) -> Result<StoredBytes> {
        self.writer.finish()?.finish()
    }
}
