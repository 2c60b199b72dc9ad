//! Tables: a row a sample, a column a field.

use std::sync::Arc;

use anyhow::Result;
use tarpipe::location;
use tarpipe::table::{Cell, Columns, Row, Table, Visitor};

use crate::content::{Content, Reading};
use crate::item::{Item, Job, Place, Refusal};
use crate::keys::Naming;
use crate::plan::refuse;
use crate::recipe::{Flow, Give};

/// Gives the samples of a table.
pub fn visit(name: &str, naming: &Naming, index: &mut u64, reading: &Reading, give: Give<'_>) -> Result<Flow> {
    let table = Table::open(name, None)?;
    let shown = location::display(name);
    let mut rows = Rows { source: shown.clone().into(), naming, index, reading, give };
    table.visit(&Columns::All, &mut rows).map_err(|err| err.context(shown))
}

struct Rows<'a, 'b> {
    source: Arc<str>,
    naming: &'a Naming,
    index: &'a mut u64,
    reading: &'a Reading,
    give: Give<'b>,
}

impl Rows<'_, '_> {
    fn place(&self, number: u64) -> Place {
        Place { source: Arc::clone(&self.source), noun: "row", number }
    }

    fn item(&self, row: &Row<'_>, index: u64) -> Item {
        let place = self.place(row.number);
        match self.job(row, index) {
            Ok((key, fields)) => Job { place, key, fields }.checked(),
            Err(refusal) => Err((place, refusal)),
        }
    }

    fn job(&self, row: &Row<'_>, index: u64) -> Result<(String, Vec<(String, Content)>), Refusal> {
        let (mut given, mut fields) = (None, Vec::new());
        for (column, cell) in row.cells {
            let Some(text) = cell.text() else { continue };
            if self.naming.is_key(column) {
                given = Some(text.into_owned());
            } else if !self.naming.is_field(column) {
                continue;
            } else if let Some(field) = column.strip_prefix('@') {
                fields.push((field.to_owned(), self.reading.content(&text)?));
            } else {
                let bytes = if let Cell::Bytes(bytes) = cell { bytes.to_vec() } else { text.into_owned().into_bytes() };
                fields.push(((*column).to_owned(), Content::Text(bytes)));
            }
        }
        Ok((self.naming.key(given, index, row.number)?, fields))
    }
}

impl Visitor for Rows<'_, '_> {
    fn row(&mut self, row: &Row<'_>) -> Result<Flow> {
        let item = self.item(row, *self.index);
        *self.index += 1;
        (self.give)(item)
    }

    fn bad_row(&mut self, number: u64, why: &str) -> Result<Flow> {
        *self.index += 1;
        let place = self.place(number);
        (self.give)(refuse(place, "bad_row", why.to_owned()))
    }
}
