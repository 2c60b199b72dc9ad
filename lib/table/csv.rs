//! csv and tsv with a header line. These formats have no types: a column whose
//! first 1000 rows contain only numbers is numeric, and any other text in it
//! later stays text.
//!
//! tsv is csv with tabs and without quoting.

use std::io::Read;

use anyhow::{Context, Result, anyhow, bail};
use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};

use super::text::without_bom;
use super::{Cell, Flow, Projection, TableRow, Visitor};

/// The number of rows that determine the types of columns.
const TYPED_BY: usize = 1000;

/// A requested column.
struct CsvColumn {
    at: usize,
    name: String,
    is_number: bool,
}

/// Visits all rows. A row with the wrong number of cells, or with invalid
/// UTF-8, is a bad row; a missing or ambiguous header is an error.
pub fn visit(stream: impl Read, delimiter: u8, columns: &Projection, visitor: &mut dyn Visitor) -> Result<Flow> {
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .quoting(delimiter == b',')
        .buffer_capacity(256 << 10)
        .from_reader(stream);
    let mut columns = header(&mut reader, columns)?;
    let mut first = Vec::new();
    for _ in 0..TYPED_BY {
        let mut record = ByteRecord::new();
        match reader.read_byte_record(&mut record) {
            Ok(false) => break,
            read => first.push(read.map(|_| record)),
        }
    }
    for column in &mut columns {
        column.is_number = holds_numbers(column.at, &first);
    }
    let mut number = 0;
    for read in first {
        number += 1;
        if visit_record(number, read.as_ref(), &columns, visitor)?.is_break() {
            return Ok(Flow::Break(()));
        }
    }
    let mut record = ByteRecord::new();
    loop {
        number += 1;
        let read = match reader.read_byte_record(&mut record) {
            Ok(false) => return Ok(Flow::Continue(())),
            Ok(true) => Ok(&record),
            Err(err) => Err(err),
        };
        if visit_record(number, read.as_ref().copied(), &columns, visitor)?.is_break() {
            return Ok(Flow::Break(()));
        }
    }
}

/// The requested columns of the header. Names must be unique and UTF-8.
fn header(reader: &mut Reader<impl Read>, wanted: &Projection) -> Result<Vec<CsvColumn>> {
    let record = reader.byte_headers().context("header")?;
    let mut columns: Vec<CsvColumn> = Vec::new();
    for (at, name) in record.iter().enumerate() {
        let name = if at == 0 { without_bom(name) } else { name };
        let name = std::str::from_utf8(name).map_err(|_| anyhow!("not a table: its first line is not UTF-8 text"))?;
        if columns.iter().any(|column| column.name == name) {
            bail!("column '{name}' appears twice in the header");
        }
        columns.push(CsvColumn { at, name: name.to_owned(), is_number: false });
    }
    columns.retain(|column| wanted.wants(&column.name));
    Ok(columns)
}

/// Whether a column is numeric: all cells of the first rows are numbers or
/// empty, and some are numbers.
fn holds_numbers(at: usize, first: &[csv::Result<ByteRecord>]) -> bool {
    let mut cells =
        first.iter().flatten().filter_map(|record| record.get(at)).filter(|cell| !cell.is_empty()).peekable();
    cells.peek().is_some() && cells.all(|cell| std::str::from_utf8(cell).is_ok_and(|text| number(text).is_some()))
}

/// Decodes one record, or reports it as bad.
fn visit_record(
    number: u64,
    read: Result<&ByteRecord, &csv::Error>,
    columns: &[CsvColumn],
    visitor: &mut dyn Visitor,
) -> Result<Flow> {
    let record = match read {
        Ok(record) => record,
        Err(err) => match err.kind() {
            ErrorKind::UnequalLengths { expected_len, len, .. } => {
                return visitor
                    .bad_row(number, &format!("wrong number of cells: {len}, the header has {expected_len}"));
            }
            _ => bail!("row {number}: {err}"),
        },
    };
    let mut cells = Vec::with_capacity(columns.len());
    for column in columns {
        let Ok(text) = std::str::from_utf8(record.get(column.at).unwrap_or_default()) else {
            return visitor.bad_row(number, &format!("column '{}' is not UTF-8", column.name));
        };
        cells.push((column.name.as_str(), cell(text, column.is_number)));
    }
    visitor.row(&TableRow { number, cells: &cells })
}

fn cell(text: &str, is_number: bool) -> Cell<'_> {
    match is_number {
        true if text.is_empty() => Cell::Null,
        true => number(text).unwrap_or(Cell::Text(text)),
        false => Cell::Text(text),
    }
}

/// Accepts only numbers that are printed as they were read, so that `007` and
/// `1e400` stay text.
fn number(text: &str) -> Option<Cell<'_>> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let starts_well = matches!(digits.as_bytes(), [b'0'] | [b'0', b'.', ..] | [b'1'..=b'9', ..]);
    if !starts_well || digits.ends_with('.') {
        return None;
    }
    if let Ok(int) = text.parse::<i64>() {
        return Some(Cell::Int(int));
    }
    let plain = digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'-' | b'+'));
    let plain = plain && !digits.contains(".e") && !digits.contains(".E");
    let finite = plain && text.parse::<f64>().is_ok_and(f64::is_finite);
    finite.then_some(Cell::Json(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_that_print_unchanged_are_numbers() {
        for yes in ["0", "-1", "12", "0.25", "-0.5e-3", "1e5", "9223372036854775807"] {
            assert!(number(yes).is_some(), "{yes}");
        }
        for no in ["", "007", "+1", ".5", "5.", "1.e5", "1e", "1e999", "inf", "nan", "0x10", "1_000", "--1", "-"] {
            assert_eq!(number(no), None, "{no}");
        }
    }
}
