//! Output of --columns, --head and --count-shards, which inspect tables instead of writing rows.

use std::io::Write;

use anyhow::{Context, Result};
use tarpipe::cli::Outcome;
use tarpipe::sink::{Sink, SinkOptions};
use tarpipe::table::{Flow, Projection, TableRow, Tables, Visitor};

/// Writes one line of text.
pub fn write_line(output: &str, text: impl std::fmt::Display) -> Result<Outcome> {
    let mut sink = Sink::create(output, SinkOptions::default())?;
    sink.write_all(format!("{text}\n").as_bytes())?;
    sink.finish()?;
    Ok(Outcome::default())
}

/// Writes the name and type of every column. Formats without types show those of the first row.
pub fn columns(tables: &Tables, output: &str) -> Result<Outcome> {
    let (name, table) = tables.first()?;
    let lines = match table.schema().with_context(|| name.clone())? {
        Some(columns) => columns.iter().map(|column| format!("{}\t{}", column.name, column.kind)).collect(),
        None => {
            let mut first = TableHead { rows: 1, lines: Vec::new(), names_only: true };
            _ = table.visit(&Projection::All, &mut first).with_context(|| name)?;
            first.lines
        }
    };
    write_line(output, lines.join("\n"))
}

/// Writes the first rows with all their columns.
pub fn head(tables: &Tables, rows: u64, output: &str) -> Result<Outcome> {
    let (name, table) = tables.first()?;
    let mut show = TableHead { rows, lines: Vec::new(), names_only: false };
    if rows > 0 {
        _ = table.visit(&Projection::All, &mut show).with_context(|| name)?;
    }
    write_line(output, show.lines.join("\n"))
}

struct TableHead {
    rows: u64,
    lines: Vec<String>,
    names_only: bool,
}

impl Visitor for TableHead {
    fn row(&mut self, row: &TableRow<'_>) -> Result<Flow> {
        if self.names_only {
            self.lines = row.cells.iter().map(|(name, cell)| format!("{name}\t{}", cell.kind())).collect();
            return Ok(Flow::Break(()));
        }
        let mut line = Vec::new();
        row.write_json(&mut line);
        self.lines.push(String::from_utf8_lossy(&line).into_owned());
        Ok(if self.lines.len() as u64 >= self.rows { Flow::Break(()) } else { Flow::Continue(()) })
    }

    fn bad_row(&mut self, number: u64, why: &str) -> Result<Flow> {
        anyhow::bail!("row {number}: {why}")
    }
}
