//! Lines: a sample each, cut into fields.

use anyhow::{Result, anyhow};
use tarpipe::cli::Usage;

use crate::content::{Content, Reading};
use crate::item::{Item, Job, Place, Refusal};
use crate::keys::Naming;
use crate::plan::{each_line, refuse};
use crate::recipe::{Flow, Give};

/// How lines are cut.
#[derive(Debug)]
pub struct Lines {
    columns: Vec<String>,
    separator: Vec<u8>,
}

impl Lines {
    pub fn new(fields: &str, separator: Option<&str>) -> Result<Self> {
        let columns: Vec<String> = fields.split_whitespace().map(str::to_owned).collect();
        let separator = separator.unwrap_or("\t").replace("\\t", "\t").into_bytes();
        if columns.is_empty() || separator.is_empty() {
            return Err(anyhow!(Usage("--lines names at least one field, --separator one character".into())));
        }
        Ok(Lines { columns, separator })
    }

    /// Gives a sample a line.
    pub fn visit(
        &self,
        name: &str,
        naming: &Naming,
        index: &mut u64,
        reading: &Reading,
        give: Give<'_>,
    ) -> Result<Flow> {
        each_line(name, &mut |place, line| {
            *index += 1;
            give(self.item(place, line, naming, *index - 1, reading))
        })
    }

    fn item(&self, place: Place, line: &[u8], naming: &Naming, index: u64, reading: &Reading) -> Item {
        let cells = self.cut(line);
        if cells.len() != self.columns.len() {
            let why = format!("{} cells where --lines names {} fields", cells.len(), self.columns.len());
            return refuse(place, "bad_row", why);
        }
        match self.job(&place, &cells, naming, index, reading) {
            Ok((key, fields)) => Job { place, key, fields }.checked(),
            Err(refusal) => Err((place, refusal)),
        }
    }

    fn job(
        &self,
        place: &Place,
        cells: &[&[u8]],
        naming: &Naming,
        index: u64,
        reading: &Reading,
    ) -> Result<(String, Vec<(String, Content)>), Refusal> {
        let text = |cell: &[u8]| match std::str::from_utf8(cell) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Refusal::new("name_not_utf8", "a key or a source is not UTF-8")),
        };
        let (mut given, mut fields) = (None, Vec::new());
        for (column, cell) in self.columns.iter().zip(cells) {
            if naming.is_key(column) {
                given = Some(text(cell)?);
            } else if !naming.is_field(column) {
                continue;
            } else if let Some(field) = column.strip_prefix('@') {
                fields.push((field.to_owned(), reading.content(&text(cell)?)?));
            } else {
                fields.push((column.clone(), Content::Text(cell.to_vec())));
            }
        }
        Ok((naming.key(given, index, place.number)?, fields))
    }

    /// A single field is the whole line, whatever stands in it.
    fn cut<'a>(&self, line: &'a [u8]) -> Vec<&'a [u8]> {
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
