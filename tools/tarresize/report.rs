//! The rows of `--report`: one per image.

use serde_json::{Value, json};
use tarpipe::report::ReportColumn;

use crate::tarresize::sample_resizer::ImageResult;

pub const COLUMNS: &[ReportColumn] = &[
    ReportColumn::Text("key"),
    ReportColumn::Text("field"),
    ReportColumn::Text("status"),
    ReportColumn::Text("code"),
    ReportColumn::Text("error_message"),
    ReportColumn::Number("width"),
    ReportColumn::Number("height"),
    ReportColumn::Number("original_width"),
    ReportColumn::Number("original_height"),
    ReportColumn::Text("format"),
    ReportColumn::Number("bytes"),
];

/// The report row of one image of the sample `key`, in the order of [`COLUMNS`].
pub fn row(key: &str, image: &ImageResult) -> Vec<Value> {
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
