//! Reports of a run: one row per item, processed or failed. The reports of all
//! tools begin with a key and use the same column names and status words, so
//! that the reports of a pipeline can be joined.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Result, bail};
use arrow_array::builder::{Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use serde_json::Value;

use crate::sink::{Sink, SinkOptions};
use crate::table::parquet::RowGroupWriter;
use crate::usage::Usage;

/// The name and type of a column. Every column may be null.
#[derive(Clone, Copy, Debug)]
pub enum ReportColumn {
    /// Text.
    Text(&'static str),
    /// A whole number; signed in parquet, because Spark has no unsigned type.
    Number(&'static str),
}

impl ReportColumn {
    fn name(self) -> &'static str {
        match self {
            ReportColumn::Text(name) | ReportColumn::Number(name) => name,
        }
    }
}

/// The formats of reports, by suffix.
const FORMATS: [&str; 3] = [".jsonl", ".csv", ".parquet"];

/// Rows per parquet row group, which is what is held in memory.
const ROW_GROUP: usize = 16_384;

/// A report that is being written: JSON lines, CSV or parquet. It appears under
/// its name only after [`ReportWriter::finish`]. Memory is bounded by 64 KB, or
/// by 16,384 rows for parquet.
///
/// ```
/// use serde_json::json;
/// use tarpipe::report::{ReportColumn, ReportWriter};
///
/// const COLUMNS: &[ReportColumn] = &[ReportColumn::Text("key"), ReportColumn::Number("width")];
/// let folder = tempfile::tempdir()?;
/// let name = format!("{}/report.csv", folder.path().display());
/// let mut report = ReportWriter::create(&name, COLUMNS)?;
/// report.add(vec![json!("cat"), json!(640)])?;
/// report.add(vec![json!("dog"), json!(null)])?;
/// report.finish()?;
/// assert_eq!(std::fs::read_to_string(&name)?, "key,width\ncat,640\ndog,\n");
/// # anyhow::Ok(())
/// ```
pub struct ReportWriter {
    columns: &'static [ReportColumn],
    kind: ReportFormat,
}

/// The output in each format, with what is buffered of it.
enum ReportFormat {
    Jsonl(Sink, Vec<u8>),
    Csv(Box<csv::Writer<Sink>>),
    Parquet(Box<RowGroupWriter<Sink>>, Vec<Vec<Value>>),
}

impl ReportWriter {
    /// The suffix of a report's name, with its dots: the format, then the
    /// compression if there is one (`.gz` or `.zst`). Any other suffix is a
    /// usage error.
    ///
    /// ```
    /// use tarpipe::report::ReportWriter;
    ///
    /// assert_eq!(ReportWriter::suffix("out/report.jsonl.gz")?, ".jsonl.gz");
    /// assert!(ReportWriter::suffix("report.txt").is_err());
    /// # anyhow::Ok(())
    /// ```
    pub fn suffix(name: &str) -> Result<&str> {
        let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
        match FORMATS.iter().find(|format| plain.ends_with(*format)) {
            Some(format) => Ok(&name[plain.len() - format.len()..]),
            None => bail!(Usage(format!("{name}: the name of a report must end in .jsonl, .csv or .parquet"))),
        }
    }

    /// Creates a report; its suffix determines the format. Fails as
    /// [`ReportWriter::suffix`] and [`Sink::create`] do.
    pub fn create(name: &str, columns: &'static [ReportColumn]) -> Result<Self> {
        let suffix = ReportWriter::suffix(name)?;
        let sink = Sink::create(name, SinkOptions::default())?;
        let kind = match suffix {
            _ if suffix.starts_with(".jsonl") => ReportFormat::Jsonl(sink, Vec::new()),
            _ if suffix.starts_with(".csv") => ReportFormat::Csv(Box::new(csv_writer(sink, columns)?)),
            _ => {
                ReportFormat::Parquet(Box::new(RowGroupWriter::begin(sink, batch(columns, &[])?.schema())?), Vec::new())
            }
        };
        Ok(ReportWriter { columns, kind })
    }

    /// Adds a row: one value per column, in order. A value of the wrong type
    /// becomes null in parquet.
    ///
    /// # Errors
    ///
    /// Those of the output. Parquet holds up to a row group in memory, so they
    /// may appear later or in [`ReportWriter::finish`].
    pub fn add(&mut self, row: Vec<Value>) -> Result<()> {
        debug_assert_eq!(row.len(), self.columns.len(), "a value for each column");
        match &mut self.kind {
            ReportFormat::Jsonl(sink, buf) => {
                let names = self.columns.iter().map(|column| column.name().to_owned());
                serde_json::to_writer(&mut *buf, &names.zip(row).collect::<Value>())?;
                buf.push(b'\n');
                if buf.len() >= 64 << 10 {
                    sink.write_all(buf)?;
                    buf.clear();
                }
            }
            ReportFormat::Csv(writer) => writer.write_record(row.iter().map(cell))?,
            ReportFormat::Parquet(groups, rows) => {
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

    /// Writes what is left and makes the report appear under its name.
    ///
    /// # Errors
    ///
    /// Those of [`Sink::finish`]. A report that is dropped unfinished is
    /// discarded.
    pub fn finish(self) -> Result<()> {
        let sink = match self.kind {
            ReportFormat::Jsonl(mut sink, buf) => {
                sink.write_all(&buf)?;
                sink
            }
            ReportFormat::Csv(writer) => writer.into_inner().map_err(|err| err.into_error())?,
            ReportFormat::Parquet(mut groups, rows) => {
                groups.write(&batch(self.columns, &rows)?)?;
                groups.finish()?
            }
        };
        sink.finish()?;
        Ok(())
    }
}

fn csv_writer(sink: Sink, columns: &[ReportColumn]) -> Result<csv::Writer<Sink>> {
    let mut writer = csv::Writer::from_writer(sink);
    writer.write_record(columns.iter().map(|column| column.name()))?;
    Ok(writer)
}

/// A value in CSV: null is an empty cell.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Rows as a record batch with the types of the columns.
fn batch(columns: &[ReportColumn], rows: &[Vec<Value>]) -> Result<RecordBatch> {
    let arrays = columns.iter().enumerate().map(|(at, column)| {
        let values = rows.iter().map(|row| &row[at]);
        let array: ArrayRef = match column {
            ReportColumn::Text(_) => {
                let mut builder = StringBuilder::new();
                values.for_each(|value| builder.append_option(value.as_str()));
                Arc::new(builder.finish())
            }
            ReportColumn::Number(_) => {
                let mut builder = Int64Builder::new();
                values.for_each(|value| builder.append_option(value.as_i64()));
                Arc::new(builder.finish())
            }
        };
        (column.name(), array, true)
    });
    Ok(RecordBatch::try_from_iter_with_nullable(arrays)?)
}
