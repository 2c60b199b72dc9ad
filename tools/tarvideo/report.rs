//! The rows of `--report`: one per sample or clip.

use serde_json::{Value, json};
use tarpipe::report::ReportColumn;
use tarpipe::run::failure::Failure;
use tarpipe::sample::Sample;

use crate::tarvideo::sample_processor::OutputSample;

pub const COLUMNS: &[ReportColumn] = &[
    ReportColumn::Text("key"),
    ReportColumn::Text("status"),
    ReportColumn::Text("code"),
    ReportColumn::Text("error_message"),
    ReportColumn::Number("bytes"),
];

/// The report row of one output sample, in the order of [`COLUMNS`].
pub fn row(output: &OutputSample) -> Vec<Value> {
    let (failure, bytes) = (output.result.as_ref().err(), output.result.as_ref().ok().map(Sample::bytes));
    let status = if failure.is_some() { "failed" } else { "success" };
    let code = failure.map(|failure| failure.code);
    vec![json!(output.key), json!(status), json!(code), json!(failure.map(Failure::what)), json!(bytes)]
}
