//! Which rows of the input to fetch: --resume, --retry-from and --done.

use anyhow::Result;
use tarpipe::digest::{self, FingerprintMap};
use tarpipe::messages;

use super::earlier_report::EarlierReport;
use super::stored_keys;

/// The flags.
pub struct RowChoice<'a> {
    /// The report of a run to continue.
    pub resume: Option<&'a str>,
    /// The report of a run whose failures are retried.
    pub retry_from: Option<&'a str>,
    /// The codes of these failures.
    pub codes: Vec<String>,
    /// Shards with samples that are not fetched again.
    pub done: &'a [String],
}

/// The rows to fetch, by their keys.
pub struct WantedRows {
    report: Option<EarlierReport>,
    /// Fingerprints of keys that are in shards.
    stored: FingerprintMap<()>,
}

impl RowChoice<'_> {
    /// Reads the report and the shards.
    pub fn read(&self) -> Result<WantedRows> {
        let report = match (self.resume, self.retry_from) {
            (Some(report), _) => Some(EarlierReport::to_resume(report)?),
            (None, Some(report)) => Some(EarlierReport::to_retry(report, &self.codes)?),
            (None, None) => None,
        };
        if let (Some(name), true) = (self.retry_from, report.as_ref().is_some_and(EarlierReport::is_partial)) {
            messages::notice(&format!(
                "{name}: the report of an interrupted run; --retry-from fetches none of the rows that it had not read, --resume does"
            ));
        }
        Ok(WantedRows { report, stored: stored_keys::read(self.done)? })
    }
}

impl WantedRows {
    /// Whether to fetch the row with this key.
    pub fn has(&self, key: &str) -> bool {
        let key = digest::fingerprint(key);
        !self.stored.contains_key(&key) && self.report.as_ref().is_none_or(|report| report.wants(key))
    }
}
