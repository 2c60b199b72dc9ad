//! Reads the reports of fetch and tarresize: failure codes and speed.

use std::collections::BTreeMap;

use anyhow::Result;
use tarpipe::messages;
use tarpipe::table::{Cell, Flow, Projection, Table, TableRow, Visitor};

/// Further codes are counted together, since the report may come from anywhere.
const MAX_CODES: usize = 100;
/// The maximum number of slices of a report.
const MAX_SLICES: usize = 96;

/// The totals of a report.
#[derive(Default)]
pub struct RunReport {
    pub name: String,
    pub rows: u64,
    pub failed: u64,
    pub bytes: u64,
    pub codes: BTreeMap<String, u64>,
    /// The rows in order, divided into slices of equal length.
    pub slices: Vec<RowSlice>,
    /// Rows in a full slice.
    pub slice_rows: u64,
    bad_rows: u64,
}

/// A number of consecutive rows.
#[derive(Clone, Copy, Default)]
pub struct RowSlice {
    pub rows: u64,
    pub failed: u64,
    pub bytes: u64,
    pub milliseconds: u64,
}

impl RunReport {
    /// Reads a report: parquet, csv or JSON lines.
    pub fn read(name: &str) -> Result<Self> {
        let mut report = RunReport { name: name.to_owned(), slice_rows: 1, ..RunReport::default() };
        let columns = ["status", "code", "bytes", "milliseconds"].map(str::to_owned);
        _ = Table::open(name, None)?.visit(&Projection::Named(columns.to_vec()), &mut report)?;
        if report.bad_rows > 0 {
            messages::notice(&format!("{name}: {} invalid rows in the report ignored", report.bad_rows));
        }
        Ok(report)
    }

    fn add(&mut self, slice: RowSlice) {
        self.rows += 1;
        self.failed += slice.failed;
        self.bytes += slice.bytes;
        if self.slices.last().is_none_or(|last| last.rows >= self.slice_rows) {
            if self.slices.len() == MAX_SLICES {
                self.slices =
                    self.slices.chunks(2).map(|pair| pair.iter().fold(RowSlice::default(), RowSlice::join)).collect();
                self.slice_rows *= 2;
            }
            self.slices.push(RowSlice::default());
        }
        if let Some(last) = self.slices.last_mut() {
            *last = last.join(&slice);
        }
    }
}

impl RowSlice {
    fn join(self, other: &RowSlice) -> RowSlice {
        RowSlice {
            rows: self.rows + other.rows,
            failed: self.failed + other.failed,
            bytes: self.bytes + other.bytes,
            milliseconds: self.milliseconds + other.milliseconds,
        }
    }
}

impl Visitor for RunReport {
    fn row(&mut self, row: &TableRow<'_>) -> Result<Flow> {
        let text = |name| row.get(name).and_then(Cell::text);
        let number = |name| text(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let failed = text("status").is_some_and(|status| !matches!(status.as_ref(), "success" | "handed_on"));
        if failed {
            let code = text("code").filter(|code| !code.is_empty()).unwrap_or("unknown".into());
            let known = self.codes.len() < MAX_CODES || self.codes.contains_key(code.as_ref());
            *self.codes.entry(if known { code.into_owned() } else { "other".into() }).or_default() += 1;
        }
        let (bytes, milliseconds) = (number("bytes"), number("milliseconds"));
        self.add(RowSlice { rows: 1, failed: u64::from(failed), bytes, milliseconds });
        Ok(Flow::Continue(()))
    }

    fn bad_row(&mut self, _: u64, _: &str) -> Result<Flow> {
        self.bad_rows += 1;
        Ok(Flow::Continue(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_of_one_length_and_lose_nothing() {
        let mut report = RunReport { slice_rows: 1, ..RunReport::default() };
        (0..1000).for_each(|i| report.add(RowSlice { rows: 1, failed: i % 2, bytes: i, milliseconds: 1 }));
        assert!(report.slices.len() <= MAX_SLICES);
        assert_eq!(report.slices.iter().map(|slice| slice.bytes).sum::<u64>(), 999 * 500);
        let (last, full) = report.slices.split_last().unwrap();
        assert!(full.iter().all(|slice| slice.rows == report.slice_rows) && last.rows <= report.slice_rows);
    }
}
