//! A row of the report: the outcome of one row of the input.

use serde_json::{Value, json};
use tarpipe::messages::secret::mask_users;
use tarpipe::report::ReportColumn;

use crate::fetch::client::RequestTrace;
use crate::fetch::failure::{FailureCode, FetchFailure};
use crate::fetch::fetcher::FetchJob;

/// The outcome of one row.
pub struct ReportRow {
    pub key: String,
    pub url: String,
    /// The reason code of a failure; None for a success.
    pub code: Option<&'static str>,
    /// What happened, for people to read.
    pub error_message: Option<String>,
    /// The status of the last response.
    pub http_status: Option<u16>,
    /// The URL after redirects.
    pub final_url: Option<String>,
    /// Bytes of all files.
    pub bytes: u64,
    /// Media type of the first file.
    pub mime: Option<String>,
    pub attempts: u32,
    pub milliseconds: u64,
    /// Hash of the file; several are separated by spaces.
    pub hash: Option<String>,
}

/// The status of a row whose sample is in the finished output.
pub const SUCCESS: &str = "success";

/// The status of a row whose sample was written to a pipe: the next program decides whether it is kept.
pub const HANDED_ON: &str = "handed_on";

/// The status of the last row of a report if the run ended before it had read all rows.
pub const UNREAD: &str = "unread";

const FAILED: &str = "failed";

impl ReportRow {
    pub const COLUMNS: &[ReportColumn] = &[
        ReportColumn::Text("key"),
        ReportColumn::Text("url"),
        ReportColumn::Text("status"),
        ReportColumn::Text("code"),
        ReportColumn::Text("error_message"),
        ReportColumn::Number("http_status"),
        ReportColumn::Text("final_url"),
        ReportColumn::Number("bytes"),
        ReportColumn::Text("mime"),
        ReportColumn::Number("attempts"),
        ReportColumn::Number("milliseconds"),
        ReportColumn::Text("hash"),
    ];

    pub fn new(job: &FetchJob, failure: Option<&FetchFailure>) -> Self {
        let hashes: Vec<&str> = job.files.iter().map(|file| file.hash.as_str()).collect();
        let first = job.files.first();
        let trace = first.map_or(&job.trace, |file| &file.trace);
        ReportRow {
            key: job.row.key.clone(),
            url: mask_users(if failure.is_some() { job.url() } else { job.first_url() }).into_owned(),
            code: failure.map(|failure| failure.code.name()),
            error_message: failure.map(|failure| mask_users(&failure.message).into_owned()),
            http_status: trace.http_status,
            final_url: final_url(trace),
            bytes: job.files.iter().map(|file| file.data.len() as u64).sum(),
            mime: first.map(|file| file.mime.clone()).or_else(|| trace.mime.clone()),
            attempts: job.attempts,
            milliseconds: job.spent.as_millis() as u64,
            hash: failure.is_none().then(|| hashes.join(" ")).filter(|hash| !hash.is_empty()),
        }
    }

    /// Turns a success into a failure.
    pub fn fail(&mut self, code: FailureCode, message: &str) {
        (self.code, self.error_message, self.hash) = (Some(code.name()), Some(message.to_owned()), None);
    }

    /// The values in the order of the columns. `status` is that of a success.
    pub fn values(&self, status: &str) -> Vec<Value> {
        let status = if self.code.is_some() { FAILED } else { status };
        vec![
            self.key.as_str().into(),
            self.url.as_str().into(),
            status.into(),
            self.code.into(),
            self.error_message.as_deref().into(),
            json!(self.http_status),
            self.final_url.as_deref().into(),
            self.bytes.into(),
            self.mime.as_deref().into(),
            self.attempts.into(),
            self.milliseconds.into(),
            self.hash.as_deref().into(),
        ]
    }

    /// The values of the last row of an incomplete report.
    pub fn unread() -> Vec<Value> {
        let message = "the run ended before it had read all rows; those not listed here were not fetched";
        let mut values = vec![Value::Null; Self::COLUMNS.len()];
        values[0] = "".into();
        values[2] = UNREAD.into();
        values[3] = UNREAD.into();
        values[4] = message.into();
        values
    }
}

/// The URL after redirects, without its password.
pub fn final_url(trace: &RequestTrace) -> Option<String> {
    trace.final_url.as_deref().map(|url| mask_users(url).into_owned())
}
