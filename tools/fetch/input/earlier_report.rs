//! The report of an earlier run, for `--resume` and `--retry-from`: which rows to fetch.

use anyhow::{Context, Result, anyhow};
use tarpipe::digest::{self, FingerprintMap};
use tarpipe::location;
use tarpipe::table::{Flow, Projection, Table, TableRow as Line, Visitor};

use crate::fetch::output::report_row::{HANDED_ON, SUCCESS, UNREAD};

/// The keys of an earlier report, as fingerprints: 32 MB of memory per million.
pub struct EarlierReport {
    /// Rows to fetch.
    failed: FingerprintMap<()>,
    /// To continue a run that did not read all rows: keys that are in neither set were not fetched either.
    kept: Option<FingerprintMap<()>>,
    is_partial: bool,
}

impl EarlierReport {
    /// The rows that the report does not list as kept.
    pub fn to_resume(report: &str) -> Result<Self> {
        let failed = ReportKeys::read(report, KeyKind::NotKept)?;
        let kept = if failed.is_partial { Some(ReportKeys::read(report, KeyKind::Kept)?.found) } else { None };
        Ok(EarlierReport { failed: failed.found, kept, is_partial: failed.is_partial })
    }

    /// The rows that failed with one of these codes.
    pub fn to_retry(report: &str, codes: &[String]) -> Result<Self> {
        let failed = ReportKeys::read(report, KeyKind::FailedWith(codes))?;
        Ok(EarlierReport { failed: failed.found, kept: None, is_partial: failed.is_partial })
    }

    /// Whether the run of the report ended before it had read all rows.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Whether to fetch the row whose key has this fingerprint.
    pub fn wants(&self, key: u128) -> bool {
        self.failed.contains_key(&key) || self.kept.as_ref().is_some_and(|kept| !kept.contains_key(&key))
    }
}

/// The rows of a report to read.
#[derive(Clone, Copy)]
enum KeyKind<'a> {
    Kept,
    NotKept,
    FailedWith(&'a [String]),
}

/// Reads the keys of some rows.
struct ReportKeys<'a> {
    kind: KeyKind<'a>,
    found: FingerprintMap<()>,
    is_partial: bool,
}

impl<'a> ReportKeys<'a> {
    fn read(report: &str, kind: KeyKind<'a>) -> Result<Self> {
        let table = Table::open(report, None)?;
        let mut keys = ReportKeys { kind, found: FingerprintMap::default(), is_partial: false };
        let columns = Projection::Named(vec!["key".into(), "status".into(), "code".into()]);
        _ = table.visit(&columns, &mut keys).with_context(|| location::display(report))?;
        Ok(keys)
    }
}

impl Visitor for ReportKeys<'_> {
    fn row(&mut self, row: &Line<'_>) -> Result<Flow> {
        let text = |name| row.get(name).and_then(|cell| cell.text());
        let (key, status) = (text("key"), text("status"));
        if status.as_deref() == Some(UNREAD) {
            self.is_partial = true;
            return Ok(Flow::Continue(()));
        }
        let (Some(key), Some(status)) = (key, status) else { return self.bad_row(row.number, "missing key or status") };
        let is_kept = matches!(status.as_ref(), SUCCESS | HANDED_ON);
        let is_wanted = match self.kind {
            KeyKind::Kept => is_kept,
            KeyKind::NotKept => !is_kept,
            KeyKind::FailedWith(codes) => text("code").is_some_and(|code| codes.iter().any(|wanted| *wanted == code)),
        };
        if is_wanted {
            self.found.insert(digest::fingerprint(&key), ());
        }
        Ok(Flow::Continue(()))
    }

    fn bad_row(&mut self, number: u64, reason: &str) -> Result<Flow> {
        Err(anyhow!("row {number}: {reason}"))
    }
}
