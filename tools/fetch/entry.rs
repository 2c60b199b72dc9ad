//! A line of the report: what became of one row.

use serde_json::{Value, json};
use tarpipe::ledger::Column;

/// What became of one row.
pub struct Entry {
    pub key: String,
    pub url: String,
    /// The stable reason of a failure.
    pub code: Option<&'static str>,
    /// What happened, for people.
    pub error_message: Option<String>,
    /// What the server said last.
    pub http_status: Option<u16>,
    /// Where redirects led.
    pub final_url: Option<String>,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Media type of the first file.
    pub mime: Option<String>,
    pub attempts: u32,
    pub milliseconds: u64,
    /// Hash of its file; of several, with spaces between.
    pub hash: Option<String>,
}

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

    /// Its values, in the order of the columns.
    pub fn into_row(self) -> Vec<Value> {
        let status = if self.code.is_some() { "failed" } else { "success" };
        vec![
            self.key.into(),
            self.url.into(),
            status.into(),
            self.code.into(),
            self.error_message.into(),
            json!(self.http_status),
            self.final_url.into(),
            self.bytes.into(),
            self.mime.into(),
            self.attempts.into(),
            self.milliseconds.into(),
            self.hash.into(),
        ]
    }
}
