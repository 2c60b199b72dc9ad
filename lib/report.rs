//! Reports of a run: one row per item, processed or failed. The reports of all
//! tools begin with a key and use the same column names and status words, so
//! that the reports of a pipeline can be joined.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Result, bail};
use arrow_schema::{DataType, Field, Schema};
use serde_json::Value;

use crate::sink::{Sink, SinkOptions};
use crate::table::from_json::JsonRows;
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

    fn data_type(self) -> DataType {
        match self {
            ReportColumn::Text(_) => DataType::Utf8,
            ReportColumn::Number(_) => DataType::Int64,
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
    Parquet(Box<RowGroupWriter<Sink>>, JsonRows),
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
                let fields = columns.iter().map(|column| Field::new(column.name(), column.data_type(), true));
                let schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
                let rows = JsonRows::new(Arc::clone(&schema));
                ReportFormat::Parquet(Box::new(RowGroupWriter::begin(sink, schema)?), rows)
            }
        };
        Ok(ReportWriter { columns, kind })
    }

    /// Adds a row: one value per column, in order. In parquet, text that should
    /// be a number becomes null, and numbers that should be text become text.
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
                rows.add(row);
                if rows.len() >= ROW_GROUP {
                    groups.write(&rows.take_batch()?)?;
                    groups.end_group()?;
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
            ReportFormat::Parquet(mut groups, mut rows) => {
                groups.write(&rows.take_batch()?)?;
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
