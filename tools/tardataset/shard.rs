//! One shard being written: its samples, its table and its counts.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde_json::{Map, Value, json};
use tarpipe::sample::failed;
use tarpipe::sink::{self, Sink, SinkOptions};
use tarpipe::table::TypedWriter;

use crate::tardataset::StorageFormat;
use crate::tardataset::layout::DatasetLayout;
use crate::tardataset::row::DatasetRow;
use crate::tardataset::row_order::RowOrder;
use crate::tardataset::status_names::{RowStatus, StatusNames};
use crate::tardataset::storage::ShardStorage;

/// After this many different messages, new ones are counted under their codes.
const MAX_MESSAGES: usize = 10_000;

/// An open shard.
pub struct DatasetShard<'a> {
    layout: &'a DatasetLayout,
    number: u64,
    storage: ShardStorage,
    table: Option<TypedWriter<Sink>>,
    counts: ShardCounts,
    /// Rows that have arrived, whether they are written yet or not.
    arrived: u64,
    order: RowOrder,
}

#[derive(Default)]
struct ShardCounts {
    started: f64,
    success: u64,
    not_downloaded: u64,
    not_processed: u64,
    bytes: u64,
    messages: BTreeMap<String, u64>,
    /// The last row, which may get more clips.
    last: Option<RowOutcome>,
}

/// The outcome of a row.
struct RowOutcome {
    status: RowStatus,
    message: String,
    code: String,
}

impl<'a> DatasetShard<'a> {
    /// `started` is when work on the shard began, for its statistics.
    pub fn create(layout: &'a DatasetLayout, number: u64, started: f64) -> Result<Self> {
        let storage = ShardStorage::create(layout, number)?;
        let bytes = (layout.format == StorageFormat::Parquet).then_some(layout.field.as_str());
        let table = match layout.format {
            StorageFormat::None => None,
            _ => {
                let sink = Sink::create(&layout.name(number, ".parquet"), SinkOptions::default())?;
                Some(TypedWriter::new(sink, &layout.columns, bytes)?)
            }
        };
        let counts = ShardCounts { started, ..ShardCounts::default() };
        Ok(DatasetShard { layout, number, storage, table, counts, arrived: 0, order: RowOrder::default() })
    }

    /// Number of rows so far.
    pub fn rows(&self) -> u64 {
        self.arrived
    }

    /// Adds a sample, a failure or a clip. `begins` is false for a further clip of the same row. Rows whose keys have a number
    /// are written in the order of these numbers.
    pub fn add(&mut self, row: DatasetRow, begins: bool) -> Result<()> {
        self.arrived += u64::from(begins);
        match self.layout.row_of(&row.sample.key) {
            Some(number) => self.write_in_order(number, row, begins),
            None => self.write(row, begins),
        }
    }

    fn write_in_order(&mut self, number: u64, row: DatasetRow, begins: bool) -> Result<()> {
        self.order.add(number, row, begins)?.into_iter().try_for_each(|(row, begins)| self.write(row, begins))
    }

    fn write(&mut self, row: DatasetRow, begins: bool) -> Result<()> {
        let DatasetRow { mut sample, mut facts, .. } = row;
        if let Some((code, why)) = self.storage.refusal(self.layout, &sample)
            && facts.get("status").is_none_or(|status| status != "failed")
        {
            failed::mark(&mut facts, code, why);
        }
        let status = self.layout.status_names.translate(&mut facts, &mut sample);
        self.counts.add(status, &facts, begins);
        let json = self.layout.kept_entries(&facts);
        let mut row = self.layout.columns.fit(&mut facts);
        let bytes = sample.get(&self.layout.field).map(|member| member.data.as_slice());
        if let Some(table) = &mut self.table {
            table.add(&row, bytes.filter(|_| status == RowStatus::Success))?;
        }
        row.extend(json);
        if status == RowStatus::Success { self.storage.add(self.layout, sample, row) } else { Ok(()) }
    }

    /// Publishes the shard, its table and finally its counts.
    pub fn finish(mut self) -> Result<()> {
        for number in self.order.held_rows() {
            self.order.take(number)?.into_iter().try_for_each(|(row, begins)| self.write(row, begins))?;
        }
        self.counts.count_last_row();
        self.storage.finish()?;
        if let Some(table) = self.table {
            table.finish()?.finish()?;
        }
        let counts = self.counts.to_json(self.layout.status_names);
        sink::write_text(&self.layout.name(self.number, "_stats.json"), &format!("{counts:#}\n"))
    }
}

impl ShardCounts {
    fn add(&mut self, status: RowStatus, facts: &Map<String, Value>, begins: bool) {
        let text = |name: &str| facts.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        if begins {
            self.count_last_row();
            self.bytes += facts.get("bytes").and_then(Value::as_u64).unwrap_or(0);
        }
        if begins || status == RowStatus::Success {
            self.last = Some(RowOutcome { status, message: text("error_message"), code: text("code") });
        }
    }

    /// Counts the last row, which is complete.
    fn count_last_row(&mut self) {
        let Some(RowOutcome { status, message, code }) = self.last.take() else { return };
        let (count, message) = match status {
            RowStatus::Success => (&mut self.success, "success".to_owned()),
            RowStatus::FailedToDownload => (&mut self.not_downloaded, message),
            RowStatus::FailedToProcess => (&mut self.not_processed, message),
        };
        *count += 1;
        let is_full = self.messages.len() >= MAX_MESSAGES && !self.messages.contains_key(&message);
        *self.messages.entry(if is_full { code } else { message }).or_default() += 1;
    }

    fn rows(&self) -> u64 {
        self.success + self.not_downloaded + self.not_processed
    }

    fn to_json(&self, status_names: StatusNames) -> Value {
        let (started, ended) = (self.started, now());
        let mut stats = Map::new();
        stats.insert("count".into(), json!(self.rows()));
        stats.insert("successes".into(), json!(self.success));
        stats.insert(status_names.name(RowStatus::FailedToDownload).into(), json!(self.not_downloaded));
        stats.insert(status_names.name(RowStatus::FailedToProcess).into(), json!(self.not_processed));
        stats.insert("duration".into(), json!(ended - started));
        if status_names == StatusNames::Video2dataset {
            stats.insert("bytes_downloaded".into(), json!(self.bytes));
        }
        stats.insert("start_time".into(), json!(started));
        stats.insert("end_time".into(), json!(ended));
        stats.insert("status_dict".into(), json!(self.messages));
        stats.into()
    }
}

/// The time in seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
