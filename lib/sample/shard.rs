//! A shard on its way out: an archive in a sink.

use anyhow::{Result, bail};

use crate::archive::{BLOCK, Writer};
use crate::messages::progress;
use crate::sample::Sample;
use crate::sample::stream::{Passing, Stream};
use crate::sink::{Options, Sink, Stored};

/// An archive being written. It exists under its name only after [`Shard::finish`].
pub struct Shard {
    writer: Writer<Sink>,
    last_key: String,
}

impl Shard {
    /// Creates the archive.
    pub fn create(name: &str, options: Options) -> Result<Self> {
        Ok(Shard { writer: Writer::new(Sink::create(name, options)?), last_key: String::new() })
    }

    /// Bytes of the archive if it were finished now, before compression.
    pub fn bytes(&self) -> u64 {
        self.writer.offset() + 2 * BLOCK as u64
    }

    /// Writes a sample from memory.
    pub fn write(&mut self, sample: &Sample) -> Result<()> {
        self.begin(&sample.key, &sample.source)?;
        Ok(sample.write(&mut self.writer)?)
    }

    /// Passes the current sample of a stream on; `each` is shown its members.
    pub fn copy(&mut self, stream: &mut Stream, each: impl FnMut(Passing<'_>)) -> Result<()> {
        self.begin(stream.key(), stream.name())?;
        stream.copy(&mut self.writer, each)
    }

    /// Where the members of the sample begun last are written, for those who have them in
    /// another form than the two above.
    pub fn writer(&mut self) -> &mut Writer<Sink> {
        &mut self.writer
    }

    /// Begins a sample. Two in a row with one key would be read back as one: an error.
    pub fn begin(&mut self, key: &str, source: &str) -> Result<()> {
        if key == self.last_key {
            bail!("{source}: sample {key}: the sample before it has the same key (use tarcat --rekey '{{index:09}}')");
        }
        key.clone_into(&mut self.last_key);
        progress::add_sample();
        Ok(())
    }

    /// Ends the archive and makes it appear.
    pub fn finish(self) -> Result<Stored> {
        self.writer.finish()?.finish()
    }
}
