//! Output of --types: the types that hold all values of each column, for programs that write tables from what urlcat prints.

use anyhow::{Context, Result, bail};
use tarpipe::cli::Outcome;
use tarpipe::table::{Cell, Flow, Projection, TableFormat, TableRow, Tables, Visitor};

use crate::urlcat::inspect::write_line;

/// Writes the name and type of every column of all tables, in the order of their appearance. Reads all rows.
pub fn write(tables: &Tables, format: Option<TableFormat>, output: &str) -> Result<Outcome> {
    let mut types = ColumnTypes { columns: Vec::new(), format };
    for (name, table) in tables.each() {
        _ = table?.visit(&Projection::All, &mut types).with_context(|| name)?;
    }
    let lines: Vec<String> = types.columns.iter().map(|(name, kind)| format!("{name}\t{}", kind.name())).collect();
    write_line(output, lines.join("\n"))
}

/// The kinds of values, as tardataset --columns names them. Two different ones are both `string`, except for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    /// No value yet.
    Nothing,
    Bool,
    Int,
    Double,
    /// Lists and objects.
    Json,
    Text,
}

impl ValueKind {
    fn name(self) -> &'static str {
        match self {
            ValueKind::Nothing | ValueKind::Text => "string",
            ValueKind::Bool => "bool",
            ValueKind::Int => "int64",
            ValueKind::Double => "double",
            ValueKind::Json => "json",
        }
    }

    /// The kind of a cell. Cells of text tables are parsed.
    fn of(cell: &Cell<'_>, is_text_table: bool) -> ValueKind {
        match *cell {
            Cell::Null => ValueKind::Nothing,
            Cell::Bool(_) => ValueKind::Bool,
            Cell::Int(_) => ValueKind::Int,
            Cell::Uint(value) => {
                if i64::try_from(value).is_ok() {
                    ValueKind::Int
                } else {
                    ValueKind::Double
                }
            }
            Cell::Single(_) | Cell::Float(_) => ValueKind::Double,
            Cell::Bytes(_) => ValueKind::Text,
            Cell::Text(text) if is_text_table => ValueKind::of_text(text),
            Cell::Text(_) => ValueKind::Text,
            Cell::Json(text) => match text.as_bytes().first() {
                Some(b'[' | b'{') => ValueKind::Json,
                Some(b'"') => ValueKind::Text,
                _ => ValueKind::of_text(text),
            },
        }
    }

    fn of_text(text: &str) -> ValueKind {
        match text.trim() {
            "" | "null" => ValueKind::Nothing,
            "true" | "false" | "True" | "False" => ValueKind::Bool,
            text if text.parse::<i64>().is_ok() => ValueKind::Int,
            text if text.parse::<f64>().is_ok() => ValueKind::Double,
            _ => ValueKind::Text,
        }
    }

    fn and(self, other: ValueKind) -> ValueKind {
        match (self, other) {
            (ValueKind::Nothing, kind) | (kind, ValueKind::Nothing) => kind,
            (ValueKind::Int, ValueKind::Double) | (ValueKind::Double, ValueKind::Int) => ValueKind::Double,
            (one, other) => {
                if one == other {
                    one
                } else {
                    ValueKind::Text
                }
            }
        }
    }
}

struct ColumnTypes {
    columns: Vec<(String, ValueKind)>,
    format: Option<TableFormat>,
}

impl ColumnTypes {
    fn add(&mut self, at: usize, name: &str, kind: ValueKind) {
        let column = match self.columns.get(at) {
            Some((known, _)) if known == name => Some(at),
            _ => self.columns.iter().position(|(known, _)| known == name),
        };
        match column {
            Some(at) => self.columns[at].1 = self.columns[at].1.and(kind),
            None => self.columns.push((name.to_owned(), kind)),
        }
    }
}

impl Visitor for ColumnTypes {
    fn row(&mut self, row: &TableRow<'_>) -> Result<Flow> {
        let is_text_table = !matches!(self.format, Some(TableFormat::Json | TableFormat::Jsonl));
        for (at, (name, cell)) in row.cells.iter().enumerate() {
            self.add(at, name, ValueKind::of(cell, is_text_table));
        }
        Ok(Flow::Continue(()))
    }

    fn bad_row(&mut self, number: u64, why: &str) -> Result<Flow> {
        bail!("row {number}: {why}")
    }
}
