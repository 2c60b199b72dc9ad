//! Any bytes as a table, in the format that the first byte names: every row is JSON on one line.

#![no_main]

use std::io::Cursor;

use anyhow::Result;
use libfuzzer_sys::fuzz_target;
use tarpipe::table::{Flow, Projection, Table, TableFormat, TableRow, Visitor};

/// More rows tell nothing new.
const ROWS: u64 = 2000;

const FORMATS: [TableFormat; 7] = [
    TableFormat::Txt,
    TableFormat::Csv,
    TableFormat::Tsv,
    TableFormat::Json,
    TableFormat::Jsonl,
    TableFormat::Parquet,
    TableFormat::Arrow,
];

#[derive(Default)]
struct Check {
    rows: u64,
    last: u64,
}

impl Check {
    fn count(&mut self, number: u64) -> Result<Flow> {
        assert!(number > self.last, "rows out of order");
        (self.last, self.rows) = (number, self.rows + 1);
        Ok(if self.rows < ROWS { Flow::Continue(()) } else { Flow::Break(()) })
    }
}

impl Visitor for Check {
    fn row(&mut self, row: &TableRow<'_>) -> Result<Flow> {
        let mut json = Vec::new();
        row.write_json(&mut json);
        assert!(!json.contains(&b'\n'), "a row of two lines");
        let text = std::str::from_utf8(&json).expect("JSON is UTF-8");
        if let Err(err) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
            panic!("no JSON: {err}: {text}");
        }
        row.cells.iter().for_each(|(_, cell)| _ = (cell.text(), cell.kind(), cell.to_value()));
        self.count(row.number)
    }

    fn bad_row(&mut self, number: u64, why: &str) -> Result<Flow> {
        assert!(!why.is_empty());
        self.count(number)
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let format = match FORMATS.get(usize::from(first)) {
        Some(&format) => format,
        None => TableFormat::sniff("fuzz", rest),
    };
    for columns in [Projection::All, Projection::Named(vec!["url".into(), "b".into()])] {
        let Ok(table) = Table::from_stream(Box::new(Cursor::new(rest.to_vec())), format) else { return };
        _ = table.known_rows();
        _ = table.schema();
        _ = table.visit(&columns, &mut Check::default());
    }
});
