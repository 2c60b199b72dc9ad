//! A row of the report: what became of one row of the table.

use serde_json::{Value, json};
use tarpipe::messages::secret::mask_users;
use tarpipe::report::Column;

use super::attempt::Job;
use super::failure::{Code, Failure};
use super::request::Trace;

/// What became of one row.
pub struct Entry {
    pub key: String,
    pub url: String,
    /// The stable reason of a failure.
    pub code: Option<&'static str>,
    /// What happened, for people.
    pub error_message: Option<String>,
    /// The last status of the server.
    pub http_status: Option<u16>,
    /// Where redirects led.
    pub final_url: Option<String>,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Media type of the first file.
    pub mime: Option<String>,
    pub attempts: u32,
    pub milliseconds: u64,
    /// Hash of its file; several are separated by spaces.
    pub hash: Option<String>,
}

/// The status of a row whose sample is in the finished output.
pub const SUCCESS: &str = "success";

/// The status of a row whose sample went to a pipe, where another program decides whether it is kept.
pub const HANDED_ON: &str = "handed_on";

/// The status of the last row of a report whose run ended before it had read all rows of its table.
pub const UNREAD: &str = "unread";

const FAILED: &str = "failed";

impl Entry {
    pub const COLUMNS: &[Column] = &[
        Column::Text("key"),
        Column::Text("url"),
        Column::Text("status"),
        Column::Text("code"),
        Column::Text("error_message"),
        Column::Number("http_status"),
        Column::Text("final_url"),
        Column::Number("bytes"),
        Column::Text("mime"),
        Column::Number("attempts"),
        Column::Number("milliseconds"),
        Column::Text("hash"),
    ];

    pub fn new(job: &Job, failure: Option<&Failure>) -> Self {
        let hashes: Vec<&str> = job.files.iter().map(|file| file.hash.as_str()).collect();
        let first = job.files.first();
        let trace = first.map_or(&job.trace, |file| &file.trace);
        Entry {
            key: job.row.key.clone(),
            url: mask_users(if failure.is_some() { job.url() } else { job.row.url(0) }).into_owned(),
            code: failure.map(|failure| failure.code.name()),
            error_message: failure.map(|failure| mask_users(&failure.why).into_owned()),
            http_status: trace.http_status,
            final_url: final_url(trace),
            bytes: job.files.iter().map(|file| file.data.len() as u64).sum(),
            mime: first.map(|file| file.mime.clone()).or_else(|| trace.mime.clone()),
            attempts: job.attempts,
            milliseconds: job.spent.as_millis() as u64,
            hash: failure.is_none().then(|| hashes.join(" ")).filter(|hash| !hash.is_empty()),
        }
    }

    /// The same row after its sample was lost.
    pub fn fail(&mut self, code: Code, why: &str) {
        (self.code, self.error_message, self.hash) = (Some(code.name()), Some(why.to_owned()), None);
    }

    /// Its values, in the order of the columns. A row that did not fail has the status `kept`.
    pub fn values(&self, kept: &str) -> Vec<Value> {
        let status = if self.code.is_some() { FAILED } else { kept };
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

    /// The values of the row that ends an incomplete report.
    pub fn unread() -> Vec<Value> {
        let why = "the run ended before it had read all rows; those not listed here were not fetched";
        let mut values = vec![Value::Null; Self::COLUMNS.len()];
        values[0] = "".into();
        values[2] = UNREAD.into();
        values[3] = UNREAD.into();
        values[4] = why.into();
        values
    }
}

/// Where redirects led, without the password for it.
pub fn final_url(trace: &Trace) -> Option<String> {
    trace.final_url.as_deref().map(|url| mask_users(url).into_owned())
}
