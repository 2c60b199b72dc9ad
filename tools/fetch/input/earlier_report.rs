//! The report of an earlier run, for `--retry-from`: which rows still have to be fetched.

use anyhow::{Context, Result, anyhow};
use tarpipe::digest::{self, FingerprintMap};
use tarpipe::location;
use tarpipe::table::{Flow, Projection, Table, TableRow as Line, Visitor};

use crate::fetch::output::report_row::{HANDED_ON, SUCCESS, UNREAD};

/// The keys of an earlier report, as fingerprints: 32 MB of memory per million.
pub struct EarlierReport {
    failed: FingerprintMap<()>,
    /// Only if that run did not read all rows: keys that are in neither set were not fetched either.
    kept: Option<FingerprintMap<()>>,
}

impl EarlierReport {
    pub fn read(report: &str) -> Result<Self> {
        let failed = ReportKeys::read(report, false)?;
        let kept = if failed.is_partial { Some(ReportKeys::read(report, true)?.found) } else { None };
        Ok(EarlierReport { failed: failed.found, kept })
    }

    /// Whether the row with this key still has to be fetched: the report does not list it as kept.
    pub fn is_missing(&self, key: &str) -> bool {
        let key = digest::fingerprint(key);
        self.failed.contains_key(&key) || self.kept.as_ref().is_some_and(|kept| !kept.contains_key(&key))
    }
}

/// Reads the keys of the samples that were kept, or of those that were not.
struct ReportKeys {
    are_kept: bool,
    found: FingerprintMap<()>,
    is_partial: bool,
}

impl ReportKeys {
    fn read(report: &str, are_kept: bool) -> Result<Self> {
        let table = Table::open(report, None)?;
        let mut keys = ReportKeys { are_kept, found: FingerprintMap::default(), is_partial: false };
        let columns = Projection::Named(vec!["key".into(), "status".into()]);
        _ = table.visit(&columns, &mut keys).with_context(|| location::display(report))?;
        Ok(keys)
    }
}

impl Visitor for ReportKeys {
    fn row(&mut self, row: &Line<'_>) -> Result<Flow> {
        let text = |name| row.get(name).and_then(|cell| cell.text());
        let (key, status) = (text("key"), text("status"));
        if status.as_deref() == Some(UNREAD) {
            self.is_partial = true;
            return Ok(Flow::Continue(()));
        }
        let (Some(key), Some(status)) = (key, status) else { return self.bad_row(row.number, "missing key or status") };
        if matches!(status.as_ref(), SUCCESS | HANDED_ON) == self.are_kept {
            self.found.insert(digest::fingerprint(&key), ());
        }
        Ok(Flow::Continue(()))
    }

    fn bad_row(&mut self, number: u64, reason: &str) -> Result<Flow> {
        Err(anyhow!("row {number}: {reason}"))
    }
}
