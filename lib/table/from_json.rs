//! Converts JSON values to Arrow arrays: the inverse of what `batch` does. All
//! writers of parquet collect their rows here.

use std::sync::Arc;

use anyhow::{Result, bail};
use arrow_array::builder::{BinaryBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, UInt64Builder};
use arrow_array::{Array, ArrayRef, ListArray, MapArray, RecordBatch, StructArray, make_array, new_null_array};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_cast::cast;
use arrow_schema::{DataType, FieldRef, SchemaRef};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Rows that wait to become a record batch, by column.
pub struct JsonRows {
    schema: SchemaRef,
    cells: Vec<Vec<Value>>,
}

impl JsonRows {
    /// No rows, with the columns of a schema.
    pub fn new(schema: SchemaRef) -> Self {
        let cells = vec![Vec::new(); schema.fields().len()];
        JsonRows { schema, cells }
    }

    /// Adds a row: one value per column, in order.
    pub fn add(&mut self, row: impl IntoIterator<Item = Value>) {
        self.cells.iter_mut().zip(row).for_each(|(cells, value)| cells.push(value));
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.cells.first().map_or(0, Vec::len)
    }

    /// Takes all rows, one array per column, as [`array`] makes them. Fails as it
    /// does.
    pub fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let columns = self.cells.iter_mut().zip(self.schema.fields());
        columns.map(|(cells, field)| array(&std::mem::take(cells), field.data_type())).collect()
    }

    /// Takes all rows as a record batch. Fails as [`array`] does.
    pub fn take_batch(&mut self) -> Result<RecordBatch> {
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), self.take()?)?)
    }
}

/// Bytes as a JSON value, which [`array`] stores as bytes in a binary column.
pub fn from_bytes(bytes: &[u8]) -> Value {
    json!({ "": STANDARD.encode(bytes) })
}

fn to_bytes(value: &Value) -> Option<Vec<u8>> {
    let stored = value.get("").and_then(Value::as_str).and_then(|stored| STANDARD.decode(stored).ok());
    stored.or_else(|| text(value).map(String::into_bytes))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// A number, also one that JSON lacks, by the name that `Cell` gives it.
fn number(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => value.as_f64(),
    }
}

/// Returns true if [`array`] can make an array of this type.
pub fn supports(kind: &DataType) -> bool {
    match kind {
        DataType::List(element) | DataType::LargeList(element) => supports(element.data_type()),
        DataType::Struct(fields) => !fields.is_empty() && fields.iter().all(|field| supports(field.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                fields.len() == 2 && *fields[0].data_type() == DataType::Utf8 && supports(fields[1].data_type())
            }
            _ => false,
        },
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => true,
        DataType::Null | DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => true,
        DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) => true,
        kind => kind.is_integer() || kind.is_floating(),
    }
}

/// An array of a supported type, or binary. A value of another type becomes
/// null; text and binary columns take any value, as JSON.
///
/// # Errors
///
/// A type that is not supported.
pub fn array(values: &[Value], kind: &DataType) -> Result<ArrayRef> {
    macro_rules! built {
        ($builder:ident, $get:expr) => {{
            let mut builder = $builder::new();
            values.iter().for_each(|value| builder.append_option($get(value)));
            Arc::new(builder.finish())
        }};
    }
    let plain: ArrayRef = match kind {
        DataType::Null => new_null_array(kind, values.len()),
        DataType::Boolean => built!(BooleanBuilder, Value::as_bool),
        DataType::UInt64 => built!(UInt64Builder, Value::as_u64),
        DataType::Binary => built!(BinaryBuilder, to_bytes),
        kind if kind.is_integer() => built!(Int64Builder, Value::as_i64),
        kind if kind.is_floating() => built!(Float64Builder, number),
        DataType::Duration(_) => built!(Int64Builder, Value::as_i64),
        DataType::List(element) | DataType::LargeList(element) => list(values, element)?,
        DataType::Map(entries, sorted) => map(values, entries, *sorted)?,
        DataType::Timestamp(unit, Some(_)) => {
            // Names of time zones are not known here, but the values are in UTC.
            let utc = array(values, &DataType::Utf8)?;
            let utc = cast(&utc, &DataType::Timestamp(*unit, Some("+00:00".into())))?;
            make_array(utc.to_data().into_builder().data_type(kind.clone()).build()?)
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().map(|field| {
                let inner: Vec<Value> =
                    values.iter().map(|value| value.get(field.name()).cloned().unwrap_or(Value::Null)).collect();
                array(&inner, field.data_type())
            });
            let there = NullBuffer::from_iter(values.iter().map(Value::is_object));
            Arc::new(StructArray::try_new(fields.clone(), columns.collect::<Result<_>>()?, Some(there))?)
        }
        _ => built!(StringBuilder, text),
    };
    Ok(if plain.data_type() == kind { plain } else { cast(&plain, kind)? })
}

fn list(values: &[Value], element: &FieldRef) -> Result<ArrayRef> {
    let inner: Vec<Value> = values.iter().filter_map(Value::as_array).flatten().cloned().collect();
    let lengths = values.iter().map(|value| value.as_array().map_or(0, Vec::len));
    let there = NullBuffer::from_iter(values.iter().map(Value::is_array));
    let elements = array(&inner, element.data_type())?;
    Ok(Arc::new(ListArray::try_new(Arc::clone(element), OffsetBuffer::from_lengths(lengths), elements, Some(there))?))
}

/// Maps from text, given as objects.
fn map(values: &[Value], entries: &FieldRef, sorted: bool) -> Result<ArrayRef> {
    let DataType::Struct(fields) = entries.data_type() else { bail!("a map without entries") };
    let pairs = || values.iter().filter_map(Value::as_object).flatten();
    let keys: Vec<Value> = pairs().map(|(key, _)| key.as_str().into()).collect();
    let items: Vec<Value> = pairs().map(|(_, value)| value.clone()).collect();
    let columns = vec![array(&keys, fields[0].data_type())?, array(&items, fields[1].data_type())?];
    let lengths = values.iter().map(|value| value.as_object().map_or(0, serde_json::Map::len));
    let there = NullBuffer::from_iter(values.iter().map(Value::is_object));
    let structs = StructArray::try_new(fields.clone(), columns, None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, structs, Some(there), sorted)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{Field, TimeUnit};

    #[test]
    fn values_become_the_type_or_nothing() {
        let doubles = DataType::List(Arc::new(Field::new("item", DataType::Float64, true)));
        let boxes = DataType::List(Arc::new(Field::new("item", doubles, true)));
        let key = Field::new("key", DataType::Utf8, false);
        let entry = DataType::Struct(vec![key, Field::new("value", DataType::Int32, true)].into());
        let map = DataType::Map(Arc::new(Field::new("entries", entry, false)), false);
        let cases = [
            (DataType::Int32, json!([1, null, "x", 5_000_000_000_i64]), "[1,null,null,null]"),
            (DataType::Float32, json!([0.5, 1, null]), "[0.5,1.0,null]"),
            (DataType::LargeUtf8, json!(["a", 1, null]), r#"["a","1",null]"#),
            (boxes, json!([[[0.1, 0.2]], [], null]), "[[[0.1,0.2]],[],null]"),
            (
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
                json!(["2020-01-01T01:02:03.456789Z", null]),
                r#"["2020-01-01T01:02:03.456789Z",null]"#,
            ),
            (
                DataType::Float64,
                json!([0.5, "NaN", "Infinity", "-Infinity", "x"]),
                r#"[0.5,"NaN","Infinity","-Infinity",null]"#,
            ),
            (DataType::Duration(TimeUnit::Millisecond), json!([1500, null]), "[1500,null]"),
            (DataType::Decimal128(30, 3), json!(["12345678901234567890.123"]), r#"["12345678901234567890.123"]"#),
            (map, json!([{"a": 1, "b": null}, {}, null]), r#"[{"a":1,"b":null},{},null]"#),
            (DataType::UInt64, json!([u64::MAX, -1]), "[18446744073709551615,null]"),
        ];
        for (kind, values, expected) in cases {
            assert!(supports(&kind));
            let array = array(values.as_array().unwrap(), &kind).unwrap();
            assert_eq!(array.data_type(), &kind);
            let back: Vec<Value> = (0..array.len()).map(|at| super::super::batch::value(&array, at).unwrap()).collect();
            assert_eq!(Value::from(back).to_string(), expected);
        }
    }
}
