//! A look at a table: its columns, its first rows, a number.

use std::io::Write;

use anyhow::{Context, Result};
use tarpipe::cli::Outcome;
use tarpipe::sink::{Options, Sink};
use tarpipe::table::{Columns, Flow, Row, Tables, Visitor};

/// Writes one line.
pub fn say(output: &str, text: impl std::fmt::Display) -> Result<Outcome> {
    let mut sink = Sink::create(output, Options::default())?;
    sink.write_all(format!("{text}\n").as_bytes())?;
    sink.finish()?;
    Ok(Outcome::default())
}

/// Writes name and type of every column; formats without types show what the first row has.
pub fn columns(tables: &Tables, output: &str) -> Result<Outcome> {
    let (name, table) = tables.first()?;
    let lines = match table.schema().with_context(|| name.clone())? {
        Some(columns) => columns.iter().map(|column| format!("{}\t{}", column.name, column.kind)).collect(),
        None => {
            let mut first = Show { rows: 1, lines: Vec::new(), names_only: true };
            _ = table.visit(&Columns::All, &mut first).with_context(|| name)?;
            first.lines
        }
    };
    say(output, lines.join("\n"))
}

/// Writes the first rows with all their columns.
pub fn head(tables: &Tables, rows: u64, output: &str) -> Result<Outcome> {
    let (name, table) = tables.first()?;
    let mut show = Show { rows, lines: Vec::new(), names_only: false };
    if rows > 0 {
        _ = table.visit(&Columns::All, &mut show).with_context(|| name)?;
    }
    say(output, show.lines.join("\n"))
}

struct Show {
    rows: u64,
    lines: Vec<String>,
    names_only: bool,
}

impl Visitor for Show {
    fn row(&mut self, row: &Row<'_>) -> Result<Flow> {
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
