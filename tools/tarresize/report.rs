//! A line of the report: what became of one image.

use serde_json::{Value, json};
use tarpipe::report::Column;

use crate::fields::Image;

pub const COLUMNS: &[Column] = &[
    Column::Text("key"),
    Column::Text("field"),
    Column::Text("status"),
    Column::Text("code"),
    Column::Text("error_message"),
    Column::Number("width"),
    Column::Number("height"),
    Column::Number("original_width"),
    Column::Number("original_height"),
    Column::Text("format"),
    Column::Number("bytes"),
];

/// The values of one image of the sample `key`, in the order of the columns.
pub fn row(key: &str, image: &Image) -> Vec<Value> {
    let mut row = vec![json!(key), json!(image.field)];
    row.extend(match &image.result {
        Ok(done) => [
            json!("success"),
            Value::Null,
            Value::Null,
            json!(done.size.width),
            json!(done.size.height),
            json!(done.original.width),
            json!(done.original.height),
            json!(done.format.name()),
            json!(done.written),
        ],
        Err(failure) => {
            let mut rest = [const { Value::Null }; COLUMNS.len() - 2];
            rest[..3].clone_from_slice(&[json!("failed"), json!(failure.code.name()), json!(failure.detail)]);
            rest
        }
    });
    row
}
