//! Tables: each row is a sample and each column a field.

use std::sync::Arc;

use anyhow::Result;
use tarpipe::location;
use tarpipe::table::{Cell, Flow, Projection, Table, TableRow, Visitor};

use crate::tarcreate::content::{Content, ContentResolver};
use crate::tarcreate::inputs::Emit;
use crate::tarcreate::keys::KeyNaming;
use crate::tarcreate::plan::refuse;
use crate::tarcreate::planned_sample::{InputPosition, ItemRefusal, PlannedItem, PlannedSample};

/// Emits the samples of a table.
pub fn visit(
    name: &str,
    naming: &KeyNaming,
    index: &mut u64,
    resolver: &ContentResolver,
    emit: Emit<'_>,
) -> Result<Flow> {
    let table = Table::open(name, None)?;
    let shown = location::display(name);
    let mut rows = TableRows { source: shown.clone().into(), naming, index, resolver, emit };
    table.visit(&Projection::All, &mut rows).map_err(|err| err.context(shown))
}

struct TableRows<'a, 'b> {
    source: Arc<str>,
    naming: &'a KeyNaming,
    index: &'a mut u64,
    resolver: &'a ContentResolver,
    emit: Emit<'b>,
}

impl TableRows<'_, '_> {
    fn position(&self, number: u64) -> InputPosition {
        InputPosition { source: Arc::clone(&self.source), noun: "row", number }
    }

    fn item(&self, row: &TableRow<'_>, index: u64) -> PlannedItem {
        let position = self.position(row.number);
        match self.sample(row, index) {
            Ok((key, fields)) => PlannedSample { position, key, fields }.checked(),
            Err(refusal) => Err((position, refusal)),
        }
    }

    fn sample(&self, row: &TableRow<'_>, index: u64) -> Result<(String, Vec<(String, Content)>), ItemRefusal> {
        let (mut given, mut fields) = (None, Vec::new());
        for (column, cell) in row.cells {
            let Some(text) = cell.text() else { continue };
            if self.naming.is_key(column) {
                given = Some(text.into_owned());
            } else if !self.naming.is_field(column) {
                continue;
            } else if let Some(field) = column.strip_prefix('@') {
                fields.push((field.to_owned(), self.resolver.resolve(&text)?));
            } else {
                let bytes = if let Cell::Bytes(bytes) = cell { bytes.to_vec() } else { text.into_owned().into_bytes() };
                fields.push(((*column).to_owned(), Content::Text(bytes)));
            }
        }
        Ok((self.naming.key(given, index, row.number)?, fields))
    }
}

impl Visitor for TableRows<'_, '_> {
    fn row(&mut self, row: &TableRow<'_>) -> Result<Flow> {
        let item = self.item(row, *self.index);
        *self.index += 1;
        (self.emit)(item)
    }

    fn bad_row(&mut self, number: u64, why: &str) -> Result<Flow> {
        *self.index += 1;
        let position = self.position(number);
        (self.emit)(refuse(position, "bad_row", why.to_owned()))
    }
}
