//! Converts JSON values to Arrow arrays: the inverse of what `batch` does.

use std::sync::Arc;

use anyhow::Result;
use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, ListArray, StructArray, new_null_array};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_cast::cast;
use arrow_schema::{DataType, FieldRef};
use serde_json::Value;

/// Returns true if [`array`] can make an array of this type.
pub fn supports(kind: &DataType) -> bool {
    match kind {
        DataType::List(element) | DataType::LargeList(element) => supports(element.data_type()),
        DataType::Struct(fields) => !fields.is_empty() && fields.iter().all(|field| supports(field.data_type())),
        DataType::Null | DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => {
            true
        }
        kind => kind.is_integer() || kind.is_floating(),
    }
}

/// An array of a supported type. A value of another type becomes null; text
/// columns take any value, as JSON.
///
/// # Errors
///
/// A type that is not supported.
pub fn array(values: &[Value], kind: &DataType) -> Result<ArrayRef> {
    let plain: ArrayRef = match kind {
        DataType::Null => new_null_array(kind, values.len()),
        DataType::Boolean => {
            let mut builder = BooleanBuilder::new();
            values.iter().for_each(|value| builder.append_option(value.as_bool()));
            Arc::new(builder.finish())
        }
        DataType::UInt64 => {
            let mut builder = UInt64Builder::new();
            values.iter().for_each(|value| builder.append_option(value.as_u64()));
            Arc::new(builder.finish())
        }
        kind if kind.is_integer() => {
            let mut builder = Int64Builder::new();
            values.iter().for_each(|value| builder.append_option(value.as_i64()));
            Arc::new(builder.finish())
        }
        kind if kind.is_floating() => {
            let mut builder = Float64Builder::new();
            values.iter().for_each(|value| builder.append_option(value.as_f64()));
            Arc::new(builder.finish())
        }
        DataType::List(element) | DataType::LargeList(element) => list(values, element)?,
        DataType::Struct(fields) => {
            let columns = fields.iter().map(|field| {
                let inner: Vec<Value> =
                    values.iter().map(|value| value.get(field.name()).cloned().unwrap_or(Value::Null)).collect();
                array(&inner, field.data_type())
            });
            let there = NullBuffer::from_iter(values.iter().map(Value::is_object));
            Arc::new(StructArray::try_new(fields.clone(), columns.collect::<Result<_>>()?, Some(there))?)
        }
        _ => {
            let mut builder = StringBuilder::new();
            values.iter().for_each(|value| match value {
                Value::Null => builder.append_null(),
                Value::String(text) => builder.append_value(text),
                other => builder.append_value(other.to_string()),
            });
            Arc::new(builder.finish())
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::Field;
    use serde_json::json;

    #[test]
    fn values_become_the_type_or_nothing() {
        let doubles = DataType::List(Arc::new(Field::new("item", DataType::Float64, true)));
        let boxes = DataType::List(Arc::new(Field::new("item", doubles, true)));
        let cases = [
            (DataType::Int32, json!([1, null, "x", 5_000_000_000_i64]), "[1,null,null,null]"),
            (DataType::Float32, json!([0.5, 1, null]), "[0.5,1.0,null]"),
            (DataType::LargeUtf8, json!(["a", 1, null]), r#"["a","1",null]"#),
            (boxes, json!([[[0.1, 0.2]], [], null]), "[[[0.1,0.2]],[],null]"),
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
