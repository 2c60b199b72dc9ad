//! Writes parquet tables with given columns and types, from rows in JSON.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use arrow_array::builder::BinaryBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use serde_json::{Map, Value};

use super::from_json::{self, JsonRows};
use super::parquet::RowGroupWriter;
use super::{Table, TableFormat};
use crate::value::list;

/// Rows per batch, which are held as JSON.
const BATCH: usize = 1024;

/// Bytes per row group, which are held in memory besides one batch.
const ROW_GROUP: usize = 32 << 20;

/// The types that a column can be given.
const TYPES: &str = "string, json, bool, int32, int64, float, double, =COLUMN";

/// The columns of a table to be written: names, types and order.
///
/// ```
/// use serde_json::json;
/// use tarpipe::table::TypedColumns;
///
/// let columns = TypedColumns::parse("url width:int32 exif:json", None)?;
/// let row = json!({"width": "640", "exif": {"iso": 100}, "url": "http://h/1", "other": 1});
/// let fitted = columns.fit(&mut row.as_object().cloned().unwrap_or_default());
/// assert_eq!(fitted["width"], json!(640));
/// assert_eq!(fitted["exif"], json!(r#"{"iso":100}"#));
/// # anyhow::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct TypedColumns(Arc<Schema>);

impl TypedColumns {
    /// Parses a [list](crate::value::list) such as `id:int64 caption:=TEXT
    /// url`: names, each with an optional type after a colon: string (the
    /// default), json, bool, int32, int64, float, double, or `=COLUMN` for the
    /// type that COLUMN has in the table `types`. If that table lacks the
    /// column, or its type cannot be filled from JSON, the type is string.
    ///
    /// # Errors
    ///
    /// An unknown type, a name that appears twice, or a damaged table.
    pub fn parse(list: &str, types: Option<&Table>) -> Result<Self> {
        let known = types.map_or_else(|| Ok(None), Table::arrow_schema)?;
        let fields = list::items(list).map(|item| {
            let (name, kind) = item.split_once(':').unwrap_or((item, "string"));
            let kind = match kind.strip_prefix('=') {
                Some(column) => known.as_ref().map_or(DataType::Utf8, |schema| type_of(schema, column)),
                None => simple(kind).with_context(|| format!("'{item}': unknown type (use {TYPES})"))?,
            };
            Ok(Field::new(name, kind, true))
        });
        let fields = fields.collect::<Result<Vec<Field>>>()?;
        if let Some(twice) =
            fields.iter().enumerate().find(|(i, field)| fields[..*i].iter().any(|f| f.name() == field.name()))
        {
            bail!("column '{}' appears twice", twice.1.name());
        }
        Ok(TypedColumns(Arc::new(Schema::new(fields))))
    }

    /// Takes the values of these columns out of a row, in their order; missing
    /// ones are null. Text is converted to numbers and booleans, and lists and
    /// objects to text, as the column's type requires; what cannot be converted
    /// becomes null.
    pub fn fit(&self, row: &mut Map<String, Value>) -> Map<String, Value> {
        let mut cell = |field: &Field| {
            let value = row.remove(field.name()).unwrap_or(Value::Null);
            (field.name().clone(), converted(value, field.data_type()))
        };
        self.0.fields().iter().map(|field| cell(field)).collect()
    }
}

fn simple(kind: &str) -> Option<DataType> {
    Some(match kind {
        "string" | "json" => DataType::Utf8,
        "bool" => DataType::Boolean,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "float" => DataType::Float32,
        "double" => DataType::Float64,
        _ => return None,
    })
}

/// The type of a column in another table, if JSON can fill it.
fn type_of(schema: &Schema, column: &str) -> DataType {
    let kind = match schema.field_with_name(column).map(Field::data_type) {
        Ok(DataType::Dictionary(_, value)) => value.as_ref().clone(),
        Ok(DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)) | Err(_) => {
            DataType::Utf8
        }
        Ok(kind) => kind.clone(),
    };
    if from_json::supports(&kind) { kind } else { DataType::Utf8 }
}

/// The names of numbers that JSON lacks.
const NOT_FINITE: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Numbers and booleans that are given as text, as in text tables, and lists
/// and objects in text columns.
fn converted(value: Value, kind: &DataType) -> Value {
    match (&value, kind) {
        (Value::String(text), kind) if kind.is_integer() => text.trim().parse::<i64>().map_or(Value::Null, Value::from),
        (Value::String(text), kind) if kind.is_floating() && !NOT_FINITE.contains(&text.as_str()) => {
            text.trim().parse::<f64>().map_or(Value::Null, Value::from)
        }
        (Value::String(text), DataType::Boolean) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => true.into(),
            "false" | "0" => false.into(),
            _ => Value::Null,
        },
        (Value::Array(_) | Value::Object(_), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => {
            value.to_string().into()
        }
        _ => value,
    }
}

/// A parquet table that is being written, in row groups of 32 MB. Memory is
/// bounded by one row group and one batch of rows.
pub struct TypedWriter<W: Write + Send> {
    groups: RowGroupWriter<W>,
    schema: Arc<Schema>,
    /// The current batch.
    rows: JsonRows,
    /// The column of bytes, which JSON lacks.
    bytes: Option<BinaryBuilder>,
}

impl<W: Write + Send> TypedWriter<W> {
    /// Begins a table; `bytes` is the name of a last column for bytes, if there
    /// is one.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn new(out: W, columns: &TypedColumns, bytes: Option<&str>) -> Result<Self> {
        let mut fields: Vec<Field> = columns.0.fields().iter().map(|field| field.as_ref().clone()).collect();
        fields.extend(bytes.map(|name| Field::new(name, DataType::Binary, true)));
        let schema = Arc::new(Schema::new(fields));
        let groups = RowGroupWriter::begin(out, Arc::clone(&schema))?;
        let rows = JsonRows::new(Arc::clone(&columns.0));
        Ok(TypedWriter { groups, schema, rows, bytes: bytes.map(|_| BinaryBuilder::new()) })
    }

    /// Adds a row, which should come from [`TypedColumns::fit`]: values of
    /// other types become null. `bytes` is ignored if the table has no column
    /// for them.
    ///
    /// # Errors
    ///
    /// Those of the output, which appear once a batch is full.
    pub fn add(&mut self, row: &Map<String, Value>, bytes: Option<&[u8]>) -> Result<()> {
        let cell = |field: &FieldRef| row.get(field.name()).cloned().unwrap_or(Value::Null);
        self.rows.add(self.schema.fields().iter().map(cell));
        let mut held = 0;
        if let Some(builder) = &mut self.bytes {
            builder.append_option(bytes);
            held = builder.values_slice().len();
        }
        if self.rows.len() >= BATCH || held >= ROW_GROUP { self.flush() } else { Ok(()) }
    }

    /// Completes the table and returns the output, which is not committed yet.
    ///
    /// # Errors
    ///
    /// Those of the output. A table that is dropped unfinished has no footer,
    /// so readers refuse it.
    pub fn finish(mut self) -> Result<W> {
        self.flush()?;
        self.groups.finish()
    }

    /// Writes the batch to the row group, and the row group if it is large
    /// enough.
    fn flush(&mut self) -> Result<()> {
        let mut arrays = self.rows.take()?;
        arrays.extend(self.bytes.as_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef));
        self.groups.write(&RecordBatch::try_new(Arc::clone(&self.schema), arrays)?)?;
        if self.groups.bytes() >= ROW_GROUP { self.groups.end_group() } else { Ok(()) }
    }
}

impl Table {
    /// The schema with arrow's types, which a file may carry beside its own.
    fn arrow_schema(&self) -> Result<Option<Arc<Schema>>> {
        match (&self.body, self.format) {
            (super::TableBody::File(file), TableFormat::Parquet) => super::parquet::arrow_schema(file).map(Some),
            (super::TableBody::File(file), _) => super::arrow::arrow_schema(file).map(Some),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fit(list: &str, row: Value) -> String {
        let Value::Object(mut row) = row else { panic!("no object") };
        Value::from(TypedColumns::parse(list, None).unwrap().fit(&mut row)).to_string()
    }

    #[test]
    fn rows_take_the_order_and_the_types_of_the_columns() {
        let row = json!({"b": "1.5", "a": "7", "c": {"x": 1}, "d": "yes", "e": 5});
        assert_eq!(
            fit("a:int64 b:double c:json d:bool f", row),
            r#"{"a":7,"b":1.5,"c":"{\"x\":1}","d":null,"f":null}"#
        );
        assert!(TypedColumns::parse("a:int9", None).is_err() && TypedColumns::parse("a a", None).is_err());
    }

    #[test]
    fn a_table_has_its_rows_and_bytes() {
        let columns = TypedColumns::parse("id:int32 text", None).unwrap();
        let mut writer = TypedWriter::new(Vec::new(), &columns, Some("jpg")).unwrap();
        for (id, bytes) in [(1, Some(&b"x"[..])), (2, None)] {
            let Value::Object(mut row) = json!({"id": id}) else { panic!("no object") };
            writer.add(&columns.fit(&mut row), bytes).unwrap();
        }
        let table = writer.finish().unwrap();
        assert!(table.starts_with(b"PAR1") && table.ends_with(b"PAR1"));
    }
}
