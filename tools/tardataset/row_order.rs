//! Puts the rows of a shard in order, whatever the order in which they arrive: the same rows give the same bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};

use crate::tardataset::row::DatasetRow;

/// Bytes of files that wait in memory; more wait in a temporary file.
const MAX_HELD: usize = 32 << 20;

/// The rows of one shard that arrived before their turn.
#[derive(Default)]
pub struct RowOrder {
    /// The number of the next row to be written.
    next: u64,
    /// The row being written now, which may get more clips.
    current: Option<u64>,
    held: BTreeMap<u64, Vec<HeldRow>>,
    held_bytes: usize,
    spilled: Option<(File, u64)>,
}

/// A sample, failure or clip that waits. The files of a spilled one are at `offset` in the temporary file.
struct HeldRow {
    row: DatasetRow,
    begins: bool,
    spilled: Option<SpilledFiles>,
}

struct SpilledFiles {
    offset: u64,
    sizes: Vec<usize>,
}

impl RowOrder {
    /// Takes a sample, failure or clip of row `number`, and returns those whose turn it is. `begins` is false for a further
    /// clip of the row before.
    pub fn add(&mut self, number: u64, row: DatasetRow, begins: bool) -> Result<Vec<(DatasetRow, bool)>> {
        let mut ready = if begins { self.end_current()? } else { Vec::new() };
        if begins && number <= self.next {
            self.current = Some(number);
        }
        if self.current == Some(number) {
            ready.push((row, begins));
        } else {
            self.hold(number, row, begins)?;
        }
        Ok(ready)
    }

    /// The numbers of the rows that are left at the end, in order; others may be missing between them.
    pub fn held_rows(&self) -> Vec<u64> {
        self.held.keys().copied().collect()
    }

    /// The samples of a held row.
    pub fn take(&mut self, number: u64) -> Result<Vec<(DatasetRow, bool)>> {
        let held = self.held.remove(&number).unwrap_or_default();
        held.into_iter().map(|held| self.restore(held)).collect()
    }

    /// The row being written is complete: the held ones that follow it are next.
    fn end_current(&mut self) -> Result<Vec<(DatasetRow, bool)>> {
        let mut ready = Vec::new();
        if self.current.take() == Some(self.next) {
            self.next += 1;
        }
        while self.held.contains_key(&self.next) {
            ready.extend(self.take(self.next)?);
            self.next += 1;
        }
        Ok(ready)
    }

    fn hold(&mut self, number: u64, mut row: DatasetRow, begins: bool) -> Result<()> {
        let bytes = row.sample.bytes() as usize;
        let spilled = if self.held_bytes + bytes > MAX_HELD { Some(self.spill(&mut row)?) } else { None };
        self.held_bytes += if spilled.is_some() { 0 } else { bytes };
        self.held.entry(number).or_default().push(HeldRow { row, begins, spilled });
        Ok(())
    }

    /// Moves the files of a sample to the temporary file.
    fn spill(&mut self, row: &mut DatasetRow) -> Result<SpilledFiles> {
        let (file, end) = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert((tempfile::tempfile().context("cannot create a temporary file")?, 0)),
        };
        let offset = *end;
        let mut sizes = Vec::new();
        for member in &mut row.sample.members {
            file.write_all(&member.data).context("cannot write a temporary file")?;
            sizes.push(member.data.len());
            *end += member.data.len() as u64;
            member.data = Vec::new();
        }
        Ok(SpilledFiles { offset, sizes })
    }

    fn restore(&mut self, held: HeldRow) -> Result<(DatasetRow, bool)> {
        let HeldRow { mut row, begins, spilled } = held;
        match (spilled, &self.spilled) {
            (Some(SpilledFiles { mut offset, sizes }), Some((file, _))) => {
                for (member, size) in row.sample.members.iter_mut().zip(sizes) {
                    member.data = vec![0; size];
                    file.read_exact_at(&mut member.data, offset).context("cannot read a temporary file")?;
                    offset += size as u64;
                }
            }
            _ => self.held_bytes -= row.sample.bytes() as usize,
        }
        Ok((row, begins))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tarpipe::sample::{Member, Sample};

    fn row(key: &str, bytes: usize) -> DatasetRow {
        let members = vec![Member::new("jpg", vec![key.as_bytes()[0]; bytes])];
        Sample { key: key.into(), mtime: 0, source: "".into(), members }.into()
    }

    #[test]
    fn rows_leave_in_order_with_their_files_and_clips() {
        let mut order = RowOrder::default();
        let mut left = Vec::new();
        let arrivals = [(2, "c"), (1, "b1"), (1, "b2"), (0, "a"), (4, "e"), (3, "d")];
        for (number, key) in arrivals {
            left.extend(order.add(number, row(key, 20 << 20), key != "b2").unwrap());
        }
        for number in order.held_rows() {
            left.extend(order.take(number).unwrap());
        }
        let keys: Vec<&str> = left.iter().map(|(row, _)| row.sample.key.as_str()).collect();
        assert_eq!(keys, ["a", "b1", "b2", "c", "d", "e"]);
        assert!(left.iter().all(|(row, begins)| {
            let data = &row.sample.members[0].data;
            data.len() == 20 << 20
                && data.iter().all(|&b| b == row.sample.key.as_bytes()[0])
                && *begins == (row.sample.key != "b2")
        }));
    }
}
