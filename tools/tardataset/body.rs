//! Where the samples of a shard are stored.

use std::io::Write;

use anyhow::{Context, Result};
use serde_json::ser::PrettyFormatter;
use serde_json::{Map, Serializer, Value};
use tarpipe::sample::shard::Shard;
use tarpipe::sample::{Member, Sample};
use tarpipe::sink::{Options, Sink};

use crate::Format;
use crate::files::Files;
use crate::layout::Layout;
use crate::tfrecord;

/// A reason code, and the reason in words.
pub type Refusal = (&'static str, &'static str);

/// The samples of a shard on their way.
pub enum Body {
    Tar(Shard),
    Files(Files),
    Records(Sink),
    /// In the table, or nowhere.
    None,
}

impl Body {
    pub fn create(layout: &Layout, number: u64) -> Result<Self> {
        Ok(match layout.format {
            Format::Tar => Body::Tar(Shard::create(&layout.name(number, ".tar"), Options::default())?),
            Format::Files => Body::Files(Files::create(&layout.name(number, ""))?),
            Format::Tfrecord => Body::Records(Sink::create(&layout.name(number, ".tfrecord"), Options::default())?),
            Format::Parquet | Format::None => Body::None,
        })
    }

    /// Why the sample cannot be stored here.
    pub fn refusal(&self, layout: &Layout, sample: &Sample) -> Option<Refusal> {
        match self {
            Body::Files(files) => files.refusal(sample),
            Body::Records(_) if sample.get(&layout.field).is_none() => Some(("no_field", "no file to store")),
            _ => None,
        }
    }

    /// Stores a sample whose json was taken out of it; `row` takes its place.
    pub fn add(&mut self, layout: &Layout, mut sample: Sample, mut row: Map<String, Value>) -> Result<()> {
        row.shift_remove("code");
        let caption = match (row.get("caption"), sample.get("txt")) {
            (Some(Value::String(text)), _) => text.clone(),
            (Some(Value::Null) | None, Some(txt)) => String::from_utf8_lossy(&txt.data).into_owned(),
            (Some(Value::Null) | None, None) => String::new(),
            (Some(other), _) => other.to_string(),
        };
        sample.members.retain(|member| member.field != "txt");
        if let Body::Records(sink) = self {
            let image = sample.get(&layout.field).context("no file for the record")?;
            let caption = layout.caption.then_some(caption);
            return Ok(sink.write_all(&tfrecord::record(&layout.field, &image.data, caption.as_deref(), &row))?);
        }
        sample.members.push(Member::new("json", pretty(&row)?));
        if layout.caption {
            sample.members.push(Member::new("txt", caption.into_bytes()));
        }
        match self {
            Body::Tar(shard) => shard.write(&sample),
            Body::Files(files) => files.write(&sample),
            Body::Records(_) | Body::None => Ok(()),
        }
    }

    pub fn finish(self) -> Result<()> {
        match self {
            Body::Tar(shard) => shard.finish().map(drop),
            Body::Files(files) => files.finish(),
            Body::Records(sink) => sink.finish().map(drop),
            Body::None => Ok(()),
        }
    }
}

/// Indented by four, as people of img2dataset see it.
fn pretty(row: &Map<String, Value>) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    let mut serializer = Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(b"    "));
    serde::Serialize::serialize(row, &mut serializer)?;
    Ok(out)
}
