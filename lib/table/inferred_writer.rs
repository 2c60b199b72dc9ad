//! Writes parquet tables with inferred types. The type of a column is known
//! only after the last row; until then the rows are kept in an unnamed
//! temporary file.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Seek, Write};
use std::sync::Arc;

use anyhow::{Context, Result};
use arrow_schema::{DataType, Field, Schema};
use serde_json::Value;

use super::from_json::{self, JsonRows};
use super::parquet::RowGroupWriter;
use crate::sink::{Sink, SinkOptions};

/// A row group ends after this many rows, or this many bytes of them as JSON.
const GROUP_ROWS: usize = 16_384;
const GROUP_BYTES: usize = 64 << 20;

/// One cell to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// A value, or null. Lists and objects are stored as JSON text.
    Json(Value),
    /// Bytes that are not text.
    Bytes(Vec<u8>),
}

/// The narrowest type that holds all cells of a column so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InferredType {
    Nothing,
    Bool,
    Int,
    Float,
    Text,
    Bytes,
}

impl InferredType {
    /// The type of a single cell.
    fn of(datum: &Datum) -> InferredType {
        match datum {
            Datum::Bytes(_) => InferredType::Bytes,
            Datum::Json(Value::Null) => InferredType::Nothing,
            Datum::Json(Value::Bool(_)) => InferredType::Bool,
            Datum::Json(Value::Number(number)) if number.is_i64() => InferredType::Int,
            Datum::Json(Value::Number(number)) if number.is_f64() => InferredType::Float,
            // A whole number beyond 63 bits is stored as text, to keep its digits.
            Datum::Json(_) => InferredType::Text,
        }
    }

    /// The narrowest type that holds both.
    fn join(self, other: InferredType) -> InferredType {
        match (self, other) {
            (one, other) if one == other => one,
            (InferredType::Nothing, other) | (other, InferredType::Nothing) => other,
            (InferredType::Int, InferredType::Float) | (InferredType::Float, InferredType::Int) => InferredType::Float,
            (InferredType::Bytes, _) | (_, InferredType::Bytes) => InferredType::Bytes,
            _ => InferredType::Text,
        }
    }

    fn arrow(self) -> DataType {
        match self {
            InferredType::Bool => DataType::Boolean,
            InferredType::Int => DataType::Int64,
            InferredType::Float => DataType::Float64,
            InferredType::Bytes => DataType::Binary,
            InferredType::Text | InferredType::Nothing => DataType::Utf8,
        }
    }
}

/// A parquet table that is being written; see the head of this module. It
/// appears under its name only after [`InferredWriter::finish`].
///
/// ```
/// use serde_json::json;
/// use tarpipe::table::{Datum, InferredWriter, Table};
///
/// let folder = tempfile::tempdir()?;
/// let name = format!("{}/t.parquet", folder.path().display());
/// let mut table = InferredWriter::create(&name, vec!["key".into(), "width".into()])?;
/// table.add(vec![Datum::Json(json!("cat")), Datum::Json(json!(640))])?;
/// table.add(vec![Datum::Json(json!("dog")), Datum::Json(json!(0.5))])?; // so all widths are floats
/// table.finish()?;
/// let schema = Table::open(&name, None)?.schema()?.unwrap_or_default();
/// assert_eq!(schema[1].kind, "Float64");
/// # anyhow::Ok(())
/// ```
pub struct InferredWriter {
    sink: Sink,
    columns: Vec<(String, InferredType)>,
    waiting: BufWriter<File>,
}

impl InferredWriter {
    /// Creates a table with these columns. Fails as [`Sink::create`] does, or
    /// if no temporary file can be created.
    pub fn create(name: &str, columns: Vec<String>) -> Result<Self> {
        let sink = Sink::create(name, SinkOptions::default())?;
        let waiting = tempfile::tempfile().context("cannot create a temporary copy of the table")?;
        let columns = columns.into_iter().map(|name| (name, InferredType::Nothing)).collect();
        Ok(InferredWriter { sink, columns, waiting: BufWriter::new(waiting) })
    }

    /// Adds a row: one cell per column, in order. Writes it to the temporary
    /// file.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written.
    pub fn add(&mut self, row: Vec<Datum>) -> Result<()> {
        debug_assert_eq!(row.len(), self.columns.len());
        for ((_, kind), datum) in self.columns.iter_mut().zip(&row) {
            *kind = kind.join(InferredType::of(datum));
        }
        serde_json::to_writer(&mut self.waiting, &Value::Array(row.into_iter().map(set_down).collect()))?;
        self.waiting.write_all(b"\n").context("cannot write a temporary copy of the table")
    }

    /// Writes all rows with the types that fit them and makes the table appear.
    /// Columns without any value are text.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be read, or those of [`Sink::finish`]. A table
    /// that is dropped unfinished is discarded.
    pub fn finish(self) -> Result<()> {
        let InferredWriter { sink, columns, waiting } = self;
        let mut file = waiting.into_inner().map_err(|err| err.into_error())?;
        file.rewind()?;
        let fields = columns.iter().map(|(name, kind)| Field::new(name, kind.arrow(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        let mut groups = RowGroupWriter::begin(sink, Arc::clone(&schema))?;
        let (mut rows, mut bytes) = (JsonRows::new(schema), 0);
        for line in BufReader::new(file).lines() {
            let line = line?;
            bytes += line.len();
            rows.add(serde_json::from_str::<Vec<Value>>(&line)?);
            if rows.len() >= GROUP_ROWS || bytes >= GROUP_BYTES {
                groups.write(&rows.take_batch()?)?;
                groups.end_group()?;
                bytes = 0;
            }
        }
        groups.write(&rows.take_batch()?)?;
        groups.finish()?.finish().map(drop)
    }
}

/// A cell in the temporary file: bytes are the only objects.
fn set_down(datum: Datum) -> Value {
    match datum {
        Datum::Bytes(bytes) => from_json::from_bytes(&bytes),
        Datum::Json(nested @ (Value::Array(_) | Value::Object(_))) => Value::from(nested.to_string()),
        Datum::Json(plain) => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_type_holds_all_that_a_column_has() {
        let join = |values: &[Value]| {
            values
                .iter()
                .fold(InferredType::Nothing, |kind, value| kind.join(InferredType::of(&Datum::Json(value.clone()))))
        };
        assert_eq!(join(&[json!(1), Value::Null, json!(-2)]), InferredType::Int);
        assert_eq!(join(&[json!(1), json!(0.5)]), InferredType::Float);
        assert_eq!(join(&[json!(true), json!(1)]), InferredType::Text);
        assert_eq!(join(&[json!(u64::MAX)]), InferredType::Text);
        assert_eq!(join(&[json!([1])]), InferredType::Text);
        assert_eq!(InferredType::Int.join(InferredType::Bytes), InferredType::Bytes);
    }
}
