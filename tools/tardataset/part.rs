//! One shard on its way: its samples, its table, its counts.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde_json::{Map, Value, json};
use tarpipe::sample::failed;
use tarpipe::sink::{self, Options, Sink};
use tarpipe::table::Writer;

use crate::Format;
use crate::body::Body;
use crate::layout::Layout;
use crate::row::Row;
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
    /// The row that came last, of which more clips may come.
    last: Option<Fate>,
}

/// What became of a row.
struct Fate {
    status: Status,
    message: String,
    code: String,
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

    /// How many rows have come.
    pub fn rows(&self) -> u64 {
        self.counts.settled() + u64::from(self.counts.last.is_some())
    }

    /// Takes a sample, a failure, or a clip, with which a row begins or goes on.
    pub fn add(&mut self, row: Row, begins: bool) -> Result<()> {
        let Row { mut sample, mut facts, .. } = row;
        if let Some((code, why)) = self.body.refusal(self.layout, &sample)
            && facts.get("status").is_none_or(|status| status != "failed")
        {
            failed::mark(&mut facts, code, why);
        }
        let status = self.layout.words.tell(&mut facts, &mut sample);
        self.counts.add(status, &facts, begins);
        let json = self.layout.kept_of(&facts);
        let mut row = self.layout.columns.fit(&mut facts);
        let bytes = sample.get(&self.layout.field).map(|member| member.data.as_slice());
        if let Some(table) = &mut self.table {
            table.add(&row, bytes.filter(|_| status == Status::Success))?;
        }
        row.extend(json);
        if status == Status::Success { self.body.add(self.layout, sample, row) } else { Ok(()) }
    }

    /// Makes the shard, its table and then its counts appear.
    pub fn finish(mut self) -> Result<()> {
        self.counts.settle();
        self.body.finish()?;
        if let Some(table) = self.table {
            table.finish()?.finish()?;
        }
        let counts = self.counts.to_json(self.layout.words);
        sink::write_text(&self.layout.name(self.number, "_stats.json"), &format!("{counts:#}\n"))
    }
}

impl Counts {
    fn add(&mut self, status: Status, facts: &Map<String, Value>, begins: bool) {
        let text = |name: &str| facts.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        if begins {
            self.settle();
            self.bytes += facts.get("bytes").and_then(Value::as_u64).unwrap_or(0);
        }
        if begins || status == Status::Success {
            self.last = Some(Fate { status, message: text("error_message"), code: text("code") });
        }
    }

    /// Counts the last row, of which nothing more comes.
    fn settle(&mut self) {
        let Some(Fate { status, message, code }) = self.last.take() else { return };
        let (count, message) = match status {
            Status::Success => (&mut self.success, "success".to_owned()),
            Status::FailedToDownload => (&mut self.not_downloaded, message),
            Status::FailedToProcess => (&mut self.not_processed, message),
        };
        *count += 1;
        let is_full = self.messages.len() >= MOST_MESSAGES && !self.messages.contains_key(&message);
        *self.messages.entry(if is_full { code } else { message }).or_default() += 1;
    }

    fn settled(&self) -> u64 {
        self.success + self.not_downloaded + self.not_processed
    }

    fn to_json(&self, words: Words) -> Value {
        let (began, ended) = (self.began, now());
        let mut stats = Map::new();
        stats.insert("count".into(), json!(self.settled()));
        stats.insert("successes".into(), json!(self.success));
        stats.insert(words.name(Status::FailedToDownload).into(), json!(self.not_downloaded));
        stats.insert(words.name(Status::FailedToProcess).into(), json!(self.not_processed));
        stats.insert("duration".into(), json!(ended - began));
        if words == Words::Video2dataset {
            stats.insert("bytes_downloaded".into(), json!(self.bytes));
        }
        stats.insert("start_time".into(), json!(began));
        stats.insert("end_time".into(), json!(ended));
        stats.insert("status_dict".into(), json!(self.messages));
        stats.into()
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
