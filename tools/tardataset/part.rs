//! One shard on its way: its samples, its table, its counts.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde_json::{Map, Value, json};
use tarpipe::sample::Sample;
use tarpipe::sink::{self, Options, Sink};
use tarpipe::table::Writer;

use crate::Format;
use crate::body::Body;
use crate::layout::Layout;
use crate::words::{Status, Words};

/// More different messages than this are counted by their code.
const MOST_MESSAGES: usize = 10_000;

/// A shard that is open.
pub struct Part<'a> {
    layout: &'a Layout,
    number: u64,
    body: Body,
    table: Option<Writer<Sink>>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    began: f64,
    success: u64,
    not_downloaded: u64,
    not_processed: u64,
    bytes: u64,
    messages: BTreeMap<String, u64>,
}

impl<'a> Part<'a> {
    pub fn create(layout: &'a Layout, number: u64) -> Result<Self> {
        let body = Body::create(layout, number)?;
        let bytes = (layout.format == Format::Parquet).then_some(layout.field.as_str());
        let table = match layout.format {
            Format::None => None,
            _ => {
                let sink = Sink::create(&layout.name(number, ".parquet"), Options::default())?;
                Some(Writer::new(sink, &layout.columns, bytes)?)
            }
        };
        let counts = Counts { began: now(), ..Counts::default() };
        Ok(Part { layout, number, body, table, counts })
    }

    /// How many samples and failures it has.
    pub fn rows(&self) -> u64 {
        self.counts.success + self.counts.not_downloaded + self.counts.not_processed
    }

    pub fn add(&mut self, mut sample: Sample) -> Result<()> {
        let json = sample.members.iter().position(|member| member.field == "json");
        let mut facts: Map<String, Value> =
            json.and_then(|at| serde_json::from_slice(&sample.members.remove(at).data).ok()).unwrap_or_default();
        facts.insert("key".into(), sample.key.as_str().into());
        let status = self.layout.words.tell(&mut facts);
        self.counts.add(status, &facts);
        let row = self.layout.columns.fit(&mut facts);
        let bytes = sample.get(&self.layout.field).map(|member| member.data.as_slice());
        if let Some(table) = &mut self.table {
            table.add(&row, bytes.filter(|_| status == Status::Success))?;
        }
        if status == Status::Success { self.body.add(self.layout, sample, row) } else { Ok(()) }
    }

    /// Makes the shard, its table and then its counts appear.
    pub fn finish(self) -> Result<()> {
        self.body.finish()?;
        if let Some(table) = self.table {
            table.finish()?.finish()?;
        }
        let counts = self.counts.to_json(self.layout.words);
        sink::write_text(&self.layout.name(self.number, "_stats.json"), &format!("{counts:#}\n"))
    }
}

impl Counts {
    fn add(&mut self, status: Status, facts: &Map<String, Value>) {
        let text = |name: &str| facts.get(name).and_then(Value::as_str);
        let (count, message) = match status {
            Status::Success => (&mut self.success, "success"),
            Status::FailedToDownload => (&mut self.not_downloaded, text("error_message").unwrap_or_default()),
            Status::FailedToProcess => (&mut self.not_processed, text("error_message").unwrap_or_default()),
        };
        *count += 1;
        self.bytes += facts.get("bytes").and_then(Value::as_u64).unwrap_or(0);
        let is_full = self.messages.len() >= MOST_MESSAGES && !self.messages.contains_key(message);
        let message = if is_full { text("code").unwrap_or_default() } else { message };
        *self.messages.entry(message.to_owned()).or_default() += 1;
    }

    fn to_json(&self, words: Words) -> Value {
        let (began, ended) = (self.began, now());
        let mut stats = Map::new();
        stats.insert("count".into(), json!(self.success + self.not_downloaded + self.not_processed));
        stats.insert("successes".into(), json!(self.success));
        stats.insert(words.name(Status::FailedToDownload).into(), json!(self.not_downloaded));
        stats.insert(words.name(Status::FailedToProcess).into(), json!(self.not_processed));
        if words == Words::Video2dataset {
            stats.insert("bytes_downloaded".into(), json!(self.bytes));
        }
        stats.insert("duration".into(), json!(ended - began));
        stats.insert("start_time".into(), json!(began));
        stats.insert("end_time".into(), json!(ended));
        stats.insert("status_dict".into(), json!(self.messages));
        stats.into()
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
