//! The report of a run: one line for every item, the good and the failed. Every tool begins it with
//! a key and uses the same words, so that the reports of a pipeline can be joined.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Result, bail};
use arrow_array::builder::{Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use serde_json::Value;

use crate::sink::{Options, Sink};
use crate::table::parquet::Groups;
use crate::usage::Usage;

/// A column: its name, and what it holds.
#[derive(Clone, Copy, Debug)]
pub enum Column {
    /// Text, or nothing.
    Text(&'static str),
    /// A whole number, or nothing: signed in parquet, where Spark knows no other.
    Number(&'static str),
}

impl Column {
    fn name(self) -> &'static str {
        match self {
            Column::Text(name) | Column::Number(name) => name,
        }
    }
}

/// The formats of reports.
const FORMATS: [&str; 3] = [".jsonl", ".csv", ".parquet"];

/// Rows of a parquet row group: what is held in memory.
const ROW_GROUP: usize = 16_384;

/// A report on its way. It appears under its name only after [`Ledger::finish`].
pub struct Ledger {
    columns: &'static [Column],
    kind: Kind,
}

enum Kind {
    Jsonl(Sink, Vec<u8>),
    Csv(Box<csv::Writer<Sink>>),
    Parquet(Box<Groups<Sink>>, Vec<Vec<Value>>),
}

impl Ledger {
    /// The suffix of a report's name, with its dots: the format, then the compression if there is one. Any other
    /// suffix is a usage error.
    pub fn suffix(name: &str) -> Result<&str> {
        let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
        match FORMATS.iter().find(|format| plain.ends_with(*format)) {
            Some(format) => Ok(&name[plain.len() - format.len()..]),
            None => bail!(Usage(format!("{name}: a report ends in .jsonl, .csv or .parquet"))),
        }
    }

    /// Creates a report; the suffix chooses its format.
    pub fn create(name: &str, columns: &'static [Column]) -> Result<Self> {
        let suffix = Ledger::suffix(name)?;
        let sink = Sink::create(name, Options::default())?;
        let kind = match suffix {
            _ if suffix.starts_with(".jsonl") => Kind::Jsonl(sink, Vec::new()),
            _ if suffix.starts_with(".csv") => Kind::Csv(Box::new(csv_writer(sink, columns)?)),
            _ => Kind::Parquet(Box::new(Groups::begin(sink, batch(columns, &[])?.schema())?), Vec::new()),
        };
        Ok(Ledger { columns, kind })
    }

    /// Adds a line: a value for each column.
    pub fn add(&mut self, row: Vec<Value>) -> Result<()> {
        debug_assert_eq!(row.len(), self.columns.len(), "a value for each column");
        match &mut self.kind {
            Kind::Jsonl(sink, buf) => {
                let names = self.columns.iter().map(|column| column.name().to_owned());
                serde_json::to_writer(&mut *buf, &names.zip(row).collect::<Value>())?;
                buf.push(b'\n');
                if buf.len() >= 64 << 10 {
                    sink.write_all(buf)?;
                    buf.clear();
                }
            }
            Kind::Csv(writer) => writer.write_record(row.iter().map(cell))?,
            Kind::Parquet(groups, rows) => {
                rows.push(row);
                if rows.len() >= ROW_GROUP {
                    groups.write(&batch(self.columns, rows)?)?;
                    groups.end_group()?;
                    rows.clear();
                }
            }
        }
        Ok(())
    }

    /// Makes the report appear under its name.
    pub fn finish(self) -> Result<()> {
        let sink = match self.kind {
            Kind::Jsonl(mut sink, buf) => {
                sink.write_all(&buf)?;
                sink
            }
            Kind::Csv(writer) => writer.into_inner().map_err(|err| err.into_error())?,
            Kind::Parquet(mut groups, rows) => {
                groups.write(&batch(self.columns, &rows)?)?;
                groups.finish()?
            }
        };
        sink.finish()?;
        Ok(())
    }
}

fn csv_writer(sink: Sink, columns: &[Column]) -> Result<csv::Writer<Sink>> {
    let mut writer = csv::Writer::from_writer(sink);
    writer.write_record(columns.iter().map(|column| column.name()))?;
    Ok(writer)
}

/// A value as CSV has it: nothing is an empty cell.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn batch(columns: &[Column], rows: &[Vec<Value>]) -> Result<RecordBatch> {
    let arrays = columns.iter().enumerate().map(|(at, column)| {
        let values = rows.iter().map(|row| &row[at]);
        let array: ArrayRef = match column {
            Column::Text(_) => {
                let mut builder = StringBuilder::new();
                values.for_each(|value| builder.append_option(value.as_str()));
                Arc::new(builder.finish())
            }
            Column::Number(_) => {
                let mut builder = Int64Builder::new();
                values.for_each(|value| builder.append_option(value.as_i64()));
                Arc::new(builder.finish())
            }
        };
        (column.name(), array, true)
    });
    Ok(RecordBatch::try_from_iter_with_nullable(arrays)?)
}
