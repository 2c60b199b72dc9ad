//! --lines: each line is a sample, split into fields.

use anyhow::{Result, anyhow};
use tarpipe::cli::Usage;
use tarpipe::table::Flow;

use crate::tarcreate::content::{Content, ContentResolver};
use crate::tarcreate::inputs::Emit;
use crate::tarcreate::keys::KeyNaming;
use crate::tarcreate::plan::{each_line, refuse};
use crate::tarcreate::planned_sample::{InputPosition, ItemRefusal, PlannedItem, PlannedSample};

/// The columns of a line, and what separates them.
#[derive(Debug)]
pub struct LineFormat {
    columns: Vec<String>,
    separator: Vec<u8>,
}

impl LineFormat {
    pub fn new(fields: &[String], separator: Option<&str>) -> Result<Self> {
        let columns: Vec<String> = fields.to_vec();
        let separator = separator.unwrap_or("\t").replace("\\t", "\t").into_bytes();
        if columns.is_empty() || separator.is_empty() {
            return Err(anyhow!(Usage("--lines needs at least one field, --separator at least one character".into())));
        }
        Ok(LineFormat { columns, separator })
    }

    /// Emits one sample per line.
    pub fn visit(
        &self,
        name: &str,
        naming: &KeyNaming,
        index: &mut u64,
        resolver: &ContentResolver,
        emit: Emit<'_>,
    ) -> Result<Flow> {
        each_line(name, &mut |position, line| {
            *index += 1;
            emit(self.item(position, line, naming, *index - 1, resolver))
        })
    }

    fn item(
        &self,
        position: InputPosition,
        line: &[u8],
        naming: &KeyNaming,
        index: u64,
        resolver: &ContentResolver,
    ) -> PlannedItem {
        let cells = self.split(line);
        if cells.len() != self.columns.len() {
            let why = format!("{} fields where --lines names {}", cells.len(), self.columns.len());
            return refuse(position, "bad_row", why);
        }
        match self.sample(&position, &cells, naming, index, resolver) {
            Ok((key, fields)) => PlannedSample { position, key, fields }.checked(),
            Err(refusal) => Err((position, refusal)),
        }
    }

    fn sample(
        &self,
        position: &InputPosition,
        cells: &[&[u8]],
        naming: &KeyNaming,
        index: u64,
        resolver: &ContentResolver,
    ) -> Result<(String, Vec<(String, Content)>), ItemRefusal> {
        let text = |cell: &[u8]| match std::str::from_utf8(cell) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(ItemRefusal::new("name_not_utf8", "a key or source is not UTF-8")),
        };
        let (mut given, mut fields) = (None, Vec::new());
        for (column, cell) in self.columns.iter().zip(cells) {
            if naming.is_key(column) {
                given = Some(text(cell)?);
            } else if !naming.is_field(column) {
                continue;
            } else if let Some(field) = column.strip_prefix('@') {
                fields.push((field.to_owned(), resolver.resolve(&text(cell)?)?));
            } else {
                fields.push((column.clone(), Content::Text(cell.to_vec())));
            }
        }
        Ok((naming.key(given, index, position.number)?, fields))
    }

    /// Splits a line. A single field is the whole line, separators included.
    fn split<'a>(&self, line: &'a [u8]) -> Vec<&'a [u8]> {
        let mut cells = Vec::new();
        let mut rest = line;
        while self.columns.len() > 1 {
            let Some(at) = rest.windows(self.separator.len()).position(|part| part == self.separator) else { break };
            cells.push(&rest[..at]);
            rest = &rest[at + self.separator.len()..];
        }
        cells.push(rest);
        cells
    }
}
