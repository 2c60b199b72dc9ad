//! Record batches as rows, for parquet and arrow.

use anyhow::{Context, Result, anyhow};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, MapArray, RecordBatch, make_array};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use serde_json::{Map, Value};

use super::cell::not_finite;
use super::{Cell, Flow, TableColumn, TableRow, Visitor};
use crate::run::panics::or_damaged;

/// Visits all batches of a table in turn, until the visitor wants no more.
///
/// # Errors
///
/// Those of the batches and of the visitor.
pub fn visit_all(
    mut batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
    visitor: &mut dyn Visitor,
) -> Result<Flow> {
    let mut row = 1;
    while let Some(read) = or_damaged(|| Ok(batches.next())).with_context(|| format!("row {row}"))? {
        let read = read.map_err(|err| anyhow!("row {row}: {err}"))?;
        if visit(&read, row, visitor)?.is_break() {
            return Ok(Flow::Break(()));
        }
        row += read.num_rows() as u64;
    }
    Ok(Flow::Continue(()))
}

/// Visits the rows of a batch; the first one has the number `first`.
///
/// # Errors
///
/// Those of the visitor, and damaged batches.
pub fn visit(batch: &RecordBatch, first: u64, visitor: &mut dyn Visitor) -> Result<Flow> {
    let schema = batch.schema();
    let columns: Vec<(&str, Cells<'_>)> = (schema.fields().iter().zip(batch.columns()))
        .map(|(field, array)| Ok((field.name().as_str(), or_damaged(|| Cells::new(array))?)))
        .collect::<Result<_>>()
        .with_context(|| format!("row {first}"))?;
    let mut cells = Vec::with_capacity(columns.len());
    for row in 0..batch.num_rows() {
        cells.clear();
        cells.extend(columns.iter().map(|(name, column)| (*name, column.get(row))));
        if visitor.row(&TableRow { number: first + row as u64, cells: &cells })?.is_break() {
            return Ok(Flow::Break(()));
        }
    }
    Ok(Flow::Continue(()))
}

/// Names and types of a schema.
pub fn columns(schema: &Schema) -> Vec<TableColumn> {
    let column = |field: &Field| TableColumn { name: field.name().clone(), kind: field.data_type().to_string() };
    schema.fields().iter().map(|field| column(field)).collect()
}

/// A column prepared for access by row, so that its type is not examined for
/// every cell.
enum Cells<'a> {
    Text(&'a arrow_array::StringArray),
    LargeText(&'a arrow_array::LargeStringArray),
    TextView(&'a arrow_array::StringViewArray),
    Bytes(&'a arrow_array::BinaryArray),
    LargeBytes(&'a arrow_array::LargeBinaryArray),
    Bool(&'a arrow_array::BooleanArray),
    Int32(&'a arrow_array::Int32Array),
    Int64(&'a arrow_array::Int64Array),
    Single(&'a arrow_array::Float32Array),
    Float(&'a arrow_array::Float64Array),
    /// All rarer types, converted to JSON for the whole batch.
    Json(Vec<String>),
}

impl<'a> Cells<'a> {
    fn new(array: &'a ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Utf8 => Cells::Text(array.as_string()),
            DataType::LargeUtf8 => Cells::LargeText(array.as_string()),
            DataType::Utf8View => Cells::TextView(array.as_string_view()),
            DataType::Binary => Cells::Bytes(array.as_binary()),
            DataType::LargeBinary => Cells::LargeBytes(array.as_binary()),
            DataType::Boolean => Cells::Bool(array.as_boolean()),
            DataType::Int32 => Cells::Int32(array.as_primitive()),
            DataType::Int64 => Cells::Int64(array.as_primitive()),
            DataType::Float32 => Cells::Single(array.as_primitive()),
            DataType::Float64 => Cells::Float(array.as_primitive()),
            _ => Cells::Json((0..array.len()).map(|row| Ok(value(array, row)?.to_string())).collect::<Result<_>>()?),
        })
    }

    fn get(&self, row: usize) -> Cell<'_> {
        match self {
            Cells::Text(array) if array.is_valid(row) => Cell::Text(array.value(row)),
            Cells::LargeText(array) if array.is_valid(row) => Cell::Text(array.value(row)),
            Cells::TextView(array) if array.is_valid(row) => Cell::Text(array.value(row)),
            Cells::Bytes(array) if array.is_valid(row) => Cell::Bytes(array.value(row)),
            Cells::LargeBytes(array) if array.is_valid(row) => Cell::Bytes(array.value(row)),
            Cells::Bool(array) if array.is_valid(row) => Cell::Bool(array.value(row)),
            Cells::Int32(array) if array.is_valid(row) => Cell::Int(array.value(row).into()),
            Cells::Int64(array) if array.is_valid(row) => Cell::Int(array.value(row)),
            Cells::Single(array) if array.is_valid(row) => Cell::Single(array.value(row)),
            Cells::Float(array) if array.is_valid(row) => Cell::Float(array.value(row)),
            Cells::Json(values) => Cell::Json(&values[row]),
            _ => Cell::Null,
        }
    }
}

/// Any cell as JSON: nested types as arrays and objects, bytes as text if they
/// are UTF-8 and as base64 otherwise, dates and decimals as arrow prints them,
/// durations as numbers of their unit.
///
/// # Errors
///
/// A value that arrow cannot print, or a dictionary key out of range.
pub fn value(array: &ArrayRef, row: usize) -> Result<Value> {
    if array.is_null(row) {
        return Ok(Value::Null);
    }
    Ok(match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Float16 => number(array.as_primitive::<Float16Type>().value(row).to_f64()),
        DataType::Float32 => number(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => number(array.as_primitive::<Float64Type>().value(row)),
        DataType::Duration(_) => value(&cast(&array.slice(row, 1), &DataType::Int64)?, 0)?,
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).into(),
        DataType::Utf8View => array.as_string_view().value(row).into(),
        DataType::Binary => Cell::Bytes(array.as_binary::<i32>().value(row)).to_value(),
        DataType::LargeBinary => Cell::Bytes(array.as_binary::<i64>().value(row)).to_value(),
        DataType::BinaryView => Cell::Bytes(array.as_binary_view().value(row)).to_value(),
        DataType::FixedSizeBinary(_) => Cell::Bytes(array.as_fixed_size_binary().value(row)).to_value(),
        DataType::List(_) => list(&array.as_list::<i32>().value(row))?,
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row))?,
        DataType::FixedSizeList(..) => list(&array.as_fixed_size_list().value(row))?,
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let mut object = Map::new();
            for (field, column) in fields.iter().zip(columns) {
                object.insert(field.name().clone(), value(column, row)?);
            }
            Value::Object(object)
        }
        DataType::Map(..) => map(array.as_map(), row)?,
        DataType::Timestamp(unit, Some(_)) => {
            // Names of time zones are not known here, but the values are in UTC.
            let utc = DataType::Timestamp(*unit, Some("+00:00".into()));
            let data = array.slice(row, 1).to_data().into_builder().data_type(utc).build()?;
            printed(&make_array(data), 0)?
        }
        DataType::Dictionary(..) => dictionary(array, row)?,
        _ => printed(array, row)?,
    })
}

/// A number; those that JSON lacks are named.
fn number(number: f64) -> Value {
    if number.is_finite() { number.into() } else { not_finite(number).into() }
}

/// A value as arrow prints it.
fn printed(array: &ArrayRef, row: usize) -> Result<Value> {
    let options = FormatOptions::default();
    Ok(ArrayFormatter::try_new(array.as_ref(), &options)?.value(row).to_string().into())
}

/// An object; keys that are not text are printed. The last of equal keys wins.
fn map(maps: &MapArray, row: usize) -> Result<Value> {
    let entries = maps.value(row);
    let mut object = Map::new();
    for at in 0..entries.len() {
        let key = match value(entries.column(0), at)? {
            Value::String(text) => text,
            other => other.to_string(),
        };
        object.insert(key, value(entries.column(1), at)?);
    }
    Ok(Value::Object(object))
}

fn list(elements: &ArrayRef) -> Result<Value> {
    (0..elements.len()).map(|at| value(elements, at)).collect::<Result<Vec<_>>>().map(Value::Array)
}

/// The key may be out of range in a damaged file.
fn dictionary(array: &ArrayRef, row: usize) -> Result<Value> {
    let dictionary = array.as_any_dictionary();
    let at = *dictionary.normalized_keys().get(row).context("a dictionary key is out of range")?;
    value(dictionary.values(), at)
}
