//! The report of a run: one line for every item, the good and the failed, in one set of columns
//! for all tools, so that the reports of a pipeline can be joined by key.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use arrow_array::builder::{StringBuilder, UInt16Builder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde::Serialize;

use crate::sink::{Options, Sink};

/// What became of one item.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// The key of its sample.
    pub key: String,
    /// Where it came from.
    pub url: String,
    /// `success` or `failed`.
    pub status: &'static str,
    /// The stable reason of a failure.
    pub code: Option<&'static str>,
    /// What happened, for people.
    pub error_message: Option<String>,
    /// What the server said last.
    pub http_status: Option<u16>,
    /// Where redirects led.
    pub final_url: Option<String>,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Media type of the first file.
    pub mime: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// Time spent on it.
    pub milliseconds: u64,
    /// Hash of its file; of several, with spaces between.
    pub hash: Option<String>,
}

/// Rows of a parquet row group: what is held in memory.
const ROW_GROUP: usize = 16_384;

/// A report on its way. It appears under its name only after [`Ledger::finish`].
pub struct Ledger(Kind);

enum Kind {
    Jsonl(Sink, Vec<u8>),
    Csv(Box<csv::Writer<Sink>>),
    Parquet(Box<ArrowWriter<Sink>>, Vec<Entry>),
}

impl Ledger {
    /// Creates a report; the suffix chooses its format.
    pub fn create(name: &str) -> Result<Self> {
        let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
        let suffix = plain.rsplit_once('.').map_or("", |(_, suffix)| suffix);
        if !["jsonl", "csv", "parquet"].contains(&suffix) {
            bail!("{name}: a report ends in .jsonl, .csv or .parquet");
        }
        let sink = Sink::create(name, Options::default())?;
        Ok(Ledger(match suffix {
            "jsonl" => Kind::Jsonl(sink, Vec::new()),
            "csv" => Kind::Csv(Box::new(csv::Writer::from_writer(sink))),
            _ => Kind::Parquet(Box::new(parquet_writer(sink)?), Vec::new()),
        }))
    }

    /// Adds a line.
    pub fn add(&mut self, entry: Entry) -> Result<()> {
        match &mut self.0 {
            Kind::Jsonl(sink, buf) => {
                serde_json::to_writer(&mut *buf, &entry)?;
                buf.push(b'\n');
                if buf.len() >= 64 << 10 {
                    sink.write_all(buf)?;
                    buf.clear();
                }
            }
            Kind::Csv(writer) => writer.serialize(&entry)?,
            Kind::Parquet(writer, entries) => {
                entries.push(entry);
                if entries.len() >= ROW_GROUP {
                    writer.write(&batch(entries)?)?;
                    writer.flush()?;
                    entries.clear();
                }
            }
        }
        Ok(())
    }

    /// Makes the report appear under its name.
    pub fn finish(self) -> Result<()> {
        let sink = match self.0 {
            Kind::Jsonl(mut sink, buf) => {
                sink.write_all(&buf)?;
                sink
            }
            Kind::Csv(writer) => writer.into_inner().map_err(|err| err.into_error()).context("report")?,
            Kind::Parquet(mut writer, entries) => {
                writer.write(&batch(&entries)?)?;
                writer.into_inner()?
            }
        };
        sink.finish()?;
        Ok(())
    }
}

fn parquet_writer(sink: Sink) -> Result<ArrowWriter<Sink>> {
    let compression = Compression::ZSTD(ZstdLevel::default());
    // The name of the writer and its version are no part of the data.
    let properties = WriterProperties::builder().set_compression(compression).set_created_by("tarpipe".into()).build();
    Ok(ArrowWriter::try_new(sink, batch(&[])?.schema(), Some(properties))?)
}

fn batch(entries: &[Entry]) -> Result<RecordBatch> {
    let text = |get: &dyn Fn(&Entry) -> Option<&str>| -> ArrayRef {
        let mut column = StringBuilder::new();
        entries.iter().for_each(|entry| column.append_option(get(entry)));
        Arc::new(column.finish())
    };
    let long = |get: &dyn Fn(&Entry) -> u64| -> ArrayRef {
        let mut column = UInt64Builder::new();
        entries.iter().for_each(|entry| column.append_value(get(entry)));
        Arc::new(column.finish())
    };
    let mut status = UInt16Builder::new();
    let mut attempts = UInt32Builder::new();
    for entry in entries {
        status.append_option(entry.http_status);
        attempts.append_value(entry.attempts);
    }
    let columns: [(&str, ArrayRef); 12] = [
        ("key", text(&|entry| Some(&entry.key))),
        ("url", text(&|entry| Some(&entry.url))),
        ("status", text(&|entry| Some(entry.status))),
        ("code", text(&|entry| entry.code)),
        ("error_message", text(&|entry| entry.error_message.as_deref())),
        ("http_status", Arc::new(status.finish())),
        ("final_url", text(&|entry| entry.final_url.as_deref())),
        ("bytes", long(&|entry| entry.bytes)),
        ("mime", text(&|entry| entry.mime.as_deref())),
        ("attempts", Arc::new(attempts.finish())),
        ("milliseconds", long(&|entry| entry.milliseconds)),
        ("hash", text(&|entry| entry.hash.as_deref())),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))?)
}
