//! The reports that fetch and tarresize leave: what failed and why, and how fast it went.

use std::collections::BTreeMap;

use anyhow::Result;
use tarpipe::messages;
use tarpipe::table::{Cell, Columns, Flow, Row, Table, Visitor};

/// Codes beyond so many are counted together: a report may be anybody's.
const MAX_CODES: usize = 100;
/// Pieces that a run is cut into.
const MAX_PIECES: usize = 96;

/// What a report says.
#[derive(Default)]
pub struct Report {
    pub name: String,
    pub rows: u64,
    pub failed: u64,
    pub bytes: u64,
    pub codes: BTreeMap<String, u64>,
    /// The rows in their order, cut into pieces of one length.
    pub pieces: Vec<Piece>,
    /// Rows in a full piece.
    pub piece_rows: u64,
    bad_rows: u64,
}

/// Some rows that follow each other.
#[derive(Clone, Copy, Default)]
pub struct Piece {
    pub rows: u64,
    pub failed: u64,
    pub bytes: u64,
    pub milliseconds: u64,
}

impl Report {
    /// Reads a report: parquet, csv or JSON lines.
    pub fn read(name: &str) -> Result<Self> {
        let mut report = Report { name: name.to_owned(), piece_rows: 1, ..Report::default() };
        let columns = ["status", "code", "bytes", "milliseconds"].map(str::to_owned);
        _ = Table::open(name, None)?.visit(&Columns::Named(columns.to_vec()), &mut report)?;
        if report.bad_rows > 0 {
            messages::notice(&format!("{name}: {} rows of the report cannot be read", report.bad_rows));
        }
        Ok(report)
    }

    fn add(&mut self, piece: Piece) {
        self.rows += 1;
        self.failed += piece.failed;
        self.bytes += piece.bytes;
        if self.pieces.last().is_none_or(|last| last.rows >= self.piece_rows) {
            if self.pieces.len() == MAX_PIECES {
                self.pieces =
                    self.pieces.chunks(2).map(|pair| pair.iter().fold(Piece::default(), Piece::join)).collect();
                self.piece_rows *= 2;
            }
            self.pieces.push(Piece::default());
        }
        if let Some(last) = self.pieces.last_mut() {
            *last = last.join(&piece);
        }
    }
}

impl Piece {
    fn join(self, other: &Piece) -> Piece {
        Piece {
            rows: self.rows + other.rows,
            failed: self.failed + other.failed,
            bytes: self.bytes + other.bytes,
            milliseconds: self.milliseconds + other.milliseconds,
        }
    }
}

impl Visitor for Report {
    fn row(&mut self, row: &Row<'_>) -> Result<Flow> {
        let text = |name| row.get(name).and_then(Cell::text);
        let number = |name| text(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let failed = text("status").is_some_and(|status| !matches!(status.as_ref(), "success" | "handed_on"));
        if failed {
            let code = text("code").filter(|code| !code.is_empty()).unwrap_or("unknown".into());
            let known = self.codes.len() < MAX_CODES || self.codes.contains_key(code.as_ref());
            *self.codes.entry(if known { code.into_owned() } else { "other".into() }).or_default() += 1;
        }
        let (bytes, milliseconds) = (number("bytes"), number("milliseconds"));
        self.add(Piece { rows: 1, failed: u64::from(failed), bytes, milliseconds });
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
        let mut report = Report { piece_rows: 1, ..Report::default() };
        (0..1000).for_each(|i| report.add(Piece { rows: 1, failed: i % 2, bytes: i, milliseconds: 1 }));
        assert!(report.pieces.len() <= MAX_PIECES);
        assert_eq!(report.pieces.iter().map(|piece| piece.bytes).sum::<u64>(), 999 * 500);
        let (last, full) = report.pieces.split_last().unwrap();
        assert!(full.iter().all(|piece| piece.rows == report.piece_rows) && last.rows <= report.piece_rows);
    }
}
