//! Stores the samples of a shard in the format of --format.

use std::io::Write;

use anyhow::{Context, Result};
use serde_json::ser::PrettyFormatter;
use serde_json::{Map, Serializer, Value};
use tarpipe::location;
use tarpipe::sample::shard::ShardWriter;
use tarpipe::sample::{Member, Sample};
use tarpipe::sink::{Sink, SinkOptions};

use crate::tardataset::StorageFormat;
use crate::tardataset::files::ShardFolder;
use crate::tardataset::layout::DatasetLayout;
use crate::tardataset::objects::ShardObjects;
use crate::tardataset::tfrecord;

/// A reason code, and the reason as text.
pub type StorageRefusal = (&'static str, &'static str);

/// The output for the samples of one shard.
pub enum ShardStorage {
    Tar(ShardWriter),
    Files(ShardFolder),
    Objects(ShardObjects),
    Records(Sink),
    /// The samples are in the table, or are not stored.
    None,
}

impl ShardStorage {
    pub fn create(layout: &DatasetLayout, number: u64) -> Result<Self> {
        Ok(match layout.format {
            StorageFormat::Tar => {
                ShardStorage::Tar(ShardWriter::create(&layout.name(number, ".tar"), SinkOptions::default())?)
            }
            StorageFormat::Files if location::is_object(&layout.folder) => {
                ShardStorage::Objects(ShardObjects::create(layout.name(number, "")))
            }
            StorageFormat::Files => ShardStorage::Files(ShardFolder::create(&layout.name(number, ""))?),
            StorageFormat::Tfrecord => {
                ShardStorage::Records(Sink::create(&layout.name(number, ".tfrecord"), SinkOptions::default())?)
            }
            StorageFormat::Parquet | StorageFormat::None => ShardStorage::None,
        })
    }

    /// Why the sample cannot be stored in this format.
    pub fn refusal(&self, layout: &DatasetLayout, sample: &Sample) -> Option<StorageRefusal> {
        match self {
            ShardStorage::Files(files) => files.refusal(sample),
            ShardStorage::Objects(objects) => objects.refusal(sample),
            ShardStorage::Records(_) if sample.get(&layout.field).is_none() => Some(("no_field", "no file to store")),
            _ => None,
        }
    }

    /// Stores a sample; `row` becomes its json.
    pub fn add(&mut self, layout: &DatasetLayout, mut sample: Sample, mut row: Map<String, Value>) -> Result<()> {
        for ours in ["code", "url_host"] {
            row.shift_remove(ours);
        }
        let caption = match (row.get("caption"), sample.get("txt")) {
            (Some(Value::String(text)), _) => text.clone(),
            (Some(Value::Null) | None, Some(txt)) => String::from_utf8_lossy(&txt.data).into_owned(),
            (Some(Value::Null) | None, None) => String::new(),
            (Some(other), _) => other.to_string(),
        };
        sample.members.retain(|member| member.field != "txt");
        if let ShardStorage::Records(sink) = self {
            let image = sample.get(&layout.field).context("no file for the record")?;
            let caption = layout.caption.then_some(caption);
            return Ok(sink.write_all(&tfrecord::record(&layout.field, &image.data, caption.as_deref(), &row))?);
        }
        sample.members.push(Member::new("json", pretty(&row)?));
        if layout.caption {
            sample.members.push(Member::new("txt", caption.into_bytes()));
        }
        match self {
            ShardStorage::Tar(shard) => shard.write(&sample),
            ShardStorage::Files(files) => files.write(&sample),
            ShardStorage::Objects(objects) => objects.write(&sample),
            ShardStorage::Records(_) | ShardStorage::None => Ok(()),
        }
    }

    pub fn finish(self) -> Result<()> {
        match self {
            ShardStorage::Tar(shard) => shard.finish().map(drop),
            ShardStorage::Files(files) => files.finish(),
            ShardStorage::Objects(objects) => objects.finish(),
            ShardStorage::Records(sink) => sink.finish().map(drop),
            ShardStorage::None => Ok(()),
        }
    }
}

/// Indented by four spaces, as img2dataset does.
fn pretty(row: &Map<String, Value>) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    let mut serializer = Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(b"    "));
    serde::Serialize::serialize(row, &mut serializer)?;
    Ok(out)
}
