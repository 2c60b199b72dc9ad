//! A table on its way out, as parquet. Its cells are JSON values and bytes; which type a column
//! has is known only after the last row, so rows wait in an unnamed temporary file until then.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Seek, Write};
use std::sync::Arc;

use anyhow::{Context, Result};
use arrow_array::builder::{BinaryBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::parquet::Groups;
use crate::sink::{Options, Sink};

/// A row group ends with so many rows, or so many bytes of them as they wait.
const GROUP_ROWS: usize = 16_384;
const GROUP_BYTES: usize = 64 << 20;

/// What one cell of a table to be written holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// A value; null where there is none. Lists and objects are stored as JSON text.
    Json(Value),
    /// Bytes that are no text.
    Bytes(Vec<u8>),
}

/// What all cells of a column so far have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Nothing,
    Bool,
    Int,
    Float,
    Text,
    Bytes,
}

impl Type {
    fn of(datum: &Datum) -> Type {
        match datum {
            Datum::Bytes(_) => Type::Bytes,
            Datum::Json(Value::Null) => Type::Nothing,
            Datum::Json(Value::Bool(_)) => Type::Bool,
            Datum::Json(Value::Number(number)) if number.is_i64() => Type::Int,
            Datum::Json(Value::Number(number)) if number.is_f64() => Type::Float,
            // A whole number beyond 63 bits keeps its digits as text.
            Datum::Json(_) => Type::Text,
        }
    }

    /// The narrowest type that holds both.
    fn join(self, other: Type) -> Type {
        match (self, other) {
            (one, other) if one == other => one,
            (Type::Nothing, other) | (other, Type::Nothing) => other,
            (Type::Int, Type::Float) | (Type::Float, Type::Int) => Type::Float,
            (Type::Bytes, _) | (_, Type::Bytes) => Type::Bytes,
            _ => Type::Text,
        }
    }

    fn arrow(self) -> DataType {
        match self {
            Type::Bool => DataType::Boolean,
            Type::Int => DataType::Int64,
            Type::Float => DataType::Float64,
            Type::Bytes => DataType::Binary,
            Type::Text | Type::Nothing => DataType::Utf8,
        }
    }
}

/// A parquet table being made. It exists under its name only after [`Export::finish`].
pub struct Export {
    sink: Sink,
    columns: Vec<(String, Type)>,
    waiting: BufWriter<File>,
}

impl Export {
    /// Creates a table with these columns.
    pub fn create(name: &str, columns: Vec<String>) -> Result<Self> {
        let sink = Sink::create(name, Options::default())?;
        let waiting = tempfile::tempfile().context("no room for a temporary copy of the table")?;
        let columns = columns.into_iter().map(|name| (name, Type::Nothing)).collect();
        Ok(Export { sink, columns, waiting: BufWriter::new(waiting) })
    }

    /// Adds a row: a cell for each column.
    pub fn add(&mut self, row: Vec<Datum>) -> Result<()> {
        debug_assert_eq!(row.len(), self.columns.len());
        for ((_, kind), datum) in self.columns.iter_mut().zip(&row) {
            *kind = kind.join(Type::of(datum));
        }
        serde_json::to_writer(&mut self.waiting, &Value::Array(row.into_iter().map(set_down).collect()))?;
        self.waiting.write_all(b"\n").context("no room for a temporary copy of the table")
    }

    /// Writes the rows and makes the table appear.
    pub fn finish(self) -> Result<()> {
        let Export { sink, columns, waiting } = self;
        let mut file = waiting.into_inner().map_err(|err| err.into_error())?;
        file.rewind()?;
        let fields = columns.iter().map(|(name, kind)| Field::new(name, kind.arrow(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        let mut groups = Groups::begin(sink, Arc::clone(&schema))?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for line in BufReader::new(file).lines() {
            let line = line?;
            bytes += line.len();
            rows.push(serde_json::from_str(&line)?);
            if rows.len() >= GROUP_ROWS || bytes >= GROUP_BYTES {
                groups.write(&batch(&schema, &columns, &rows)?)?;
                groups.end_group()?;
                rows.clear();
                bytes = 0;
            }
        }
        groups.write(&batch(&schema, &columns, &rows)?)?;
        groups.finish()?.finish().map(drop)
    }
}

/// A cell as it waits: bytes are the only objects.
fn set_down(datum: Datum) -> Value {
    match datum {
        Datum::Bytes(bytes) => json!({ "": STANDARD.encode(bytes) }),
        Datum::Json(nested @ (Value::Array(_) | Value::Object(_))) => Value::from(nested.to_string()),
        Datum::Json(plain) => plain,
    }
}

fn batch(schema: &Arc<Schema>, columns: &[(String, Type)], rows: &[Vec<Value>]) -> Result<RecordBatch> {
    let arrays = columns.iter().enumerate().map(|(at, (_, kind))| {
        let cells = rows.iter().map(|row| row.get(at).filter(|value| !value.is_null()));
        column(*kind, cells)
    });
    Ok(RecordBatch::try_new(Arc::clone(schema), arrays.collect())?)
}

fn column<'a>(kind: Type, cells: impl Iterator<Item = Option<&'a Value>>) -> ArrayRef {
    macro_rules! built {
        ($builder:expr, $get:expr) => {{
            let mut builder = $builder;
            cells.for_each(|cell| builder.append_option(cell.and_then($get)));
            Arc::new(builder.finish())
        }};
    }
    match kind {
        Type::Bool => built!(BooleanBuilder::new(), Value::as_bool),
        Type::Int => built!(Int64Builder::new(), Value::as_i64),
        Type::Float => built!(Float64Builder::new(), Value::as_f64),
        Type::Bytes => built!(BinaryBuilder::new(), |value| Some(bytes(value))),
        Type::Text | Type::Nothing => built!(StringBuilder::new(), |value| Some(text(value))),
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn bytes(value: &Value) -> Vec<u8> {
    let stored = value.get("").and_then(Value::as_str).and_then(|stored| STANDARD.decode(stored).ok());
    stored.unwrap_or_else(|| text(value).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_holds_all_that_a_column_has() {
        let join = |values: &[Value]| {
            values.iter().fold(Type::Nothing, |kind, value| kind.join(Type::of(&Datum::Json(value.clone()))))
        };
        assert_eq!(join(&[json!(1), Value::Null, json!(-2)]), Type::Int);
        assert_eq!(join(&[json!(1), json!(0.5)]), Type::Float);
        assert_eq!(join(&[json!(true), json!(1)]), Type::Text);
        assert_eq!(join(&[json!(u64::MAX)]), Type::Text);
        assert_eq!(join(&[json!([1])]), Type::Text);
        assert_eq!(Type::Int.join(Type::Bytes), Type::Bytes);
    }
}
