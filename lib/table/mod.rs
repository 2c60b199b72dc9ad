//! A table: rows of named cells in any of the formats that URL lists come in; [`Export`] writes one.
//!
//! Rows are visited, not returned, so that cells can borrow from the block they were decoded
//! from. Memory is bounded by a block (text) or a batch of a row group (parquet, arrow), with
//! one exception: column-oriented JSON has to be read whole.

mod array;
mod arrow;
mod batch;
mod cell;
mod claims;
mod columns;
mod csv;
mod export;
mod format;
mod json;
mod jsonl;
pub(crate) mod parquet;
mod tables;
mod text;
mod txt;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::ops::ControlFlow;

use anyhow::{Context, Result};

use crate::location;
use crate::source;

pub use cell::Cell;
pub use columns::{Typed, Writer};
pub use export::{Datum, Export};
pub use format::Format;
pub use tables::Tables;

/// One row.
#[derive(Debug)]
pub struct Row<'a> {
    /// Its place in its table, from 1; a header line does not count.
    pub number: u64,
    /// Column name and cell, in the table's order; only the columns asked for.
    pub cells: &'a [(&'a str, Cell<'a>)],
}

impl<'a> Row<'a> {
    /// The cell of a column.
    pub fn get(&self, name: &str) -> Option<&Cell<'a>> {
        self.cells.iter().find(|(column, _)| *column == name).map(|(_, cell)| cell)
    }

    /// Appends the row as a JSON object.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (at, (name, cell)) in self.cells.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            Cell::Text(name).write_json(out);
            out.push(b':');
            cell.write_json(out);
        }
        out.push(b'}');
    }
}

/// Whether the visitor wants more rows.
pub type Flow = ControlFlow<()>;

/// Receives the rows of a table in order.
pub trait Visitor {
    /// A whole row. An error ends the reading and is handed back.
    fn row(&mut self, row: &Row<'_>) -> Result<Flow>;

    /// A row that cannot be read: ragged, not UTF-8, not JSON. Ok goes on with the next.
    fn bad_row(&mut self, number: u64, why: &str) -> Result<Flow>;
}

/// Which columns are decoded. The others cost nothing in parquet and arrow, little elsewhere.
#[derive(Clone, Debug)]
pub enum Columns {
    /// Every one.
    All,
    /// Those with these names; names that the table lacks are passed over.
    Named(Vec<String>),
}

impl Columns {
    fn wants(&self, name: &str) -> bool {
        match self {
            Columns::All => true,
            Columns::Named(names) => names.iter().any(|wanted| wanted == name),
        }
    }
}

/// A column as the table describes it; formats without a schema have the type `text` or `json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type, for people to read.
    pub kind: String,
}

/// An opened table, not yet read.
pub struct Table {
    format: Format,
    body: Body,
}

enum Body {
    Stream(Box<dyn BufRead + Send>),
    File(File),
}

impl Table {
    /// Opens a table by its name, as [`source::open`] takes it. The format is sniffed where it is not
    /// given. A parquet or arrow file on disk is read in place.
    pub fn open(name: &str, format: Option<Format>) -> Result<Table> {
        let table = || {
            let (head, rest) = peek(source::open(name)?)?;
            let format = format.unwrap_or_else(|| Format::sniff(name, &head));
            match plain_file(name, &head).filter(|_| format.needs_seek()) {
                Some(file) => Ok(Table { format, body: Body::File(file) }),
                None => Table::from_stream(
                    Box::new(BufReader::with_capacity(BUFFER, Cursor::new(head).chain(rest))),
                    format,
                ),
            }
        };
        table().with_context(|| location::display(name))
    }

    /// A table from a decompressed stream. Parquet and arrow need to seek: they are copied to an
    /// unnamed temporary file first.
    pub fn from_stream(mut stream: Box<dyn BufRead + Send>, format: Format) -> Result<Table> {
        if !format.needs_seek() {
            return Ok(Table { format, body: Body::Stream(stream) });
        }
        let mut file = tempfile::tempfile().context("no room for a temporary copy of the table")?;
        io::copy(&mut stream, &mut file)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Table { format, body: Body::File(file) })
    }

    /// How many rows it has, where the format says so without reading them.
    pub fn known_rows(&self) -> Result<Option<u64>> {
        match (&self.body, self.format) {
            (Body::File(file), Format::Parquet) => parquet::count_rows(file).map(Some),
            _ => Ok(None),
        }
    }

    /// Its schema, where the format has one.
    pub fn schema(&self) -> Result<Option<Vec<Column>>> {
        match (&self.body, self.format) {
            (Body::File(file), Format::Parquet) => parquet::schema(file).map(Some),
            (Body::File(file), _) => arrow::schema(file).map(Some),
            _ => Ok(None),
        }
    }

    /// Hands every row to `visitor`, until it has had enough. An error that is not the
    /// visitor's own says from which row on the table is unreadable.
    pub fn visit(self, columns: &Columns, visitor: &mut dyn Visitor) -> Result<Flow> {
        match (self.body, self.format) {
            (Body::File(file), Format::Parquet) => parquet::visit(file, columns, visitor),
            (Body::File(file), _) => arrow::visit(file, columns, visitor),
            (Body::Stream(stream), Format::Txt) => txt::visit(stream, columns, visitor),
            (Body::Stream(stream), Format::Csv) => csv::visit(stream, b',', columns, visitor),
            (Body::Stream(stream), Format::Tsv) => csv::visit(stream, b'\t', columns, visitor),
            (Body::Stream(stream), Format::Json) => json::visit(stream, columns, visitor),
            (Body::Stream(stream), _) => jsonl::visit(stream, columns, visitor),
        }
    }
}

/// What is read at once from a stream of text.
const BUFFER: usize = 256 << 10;

/// The start of a stream, two lines of it where they are not too long, and what follows. A decoder or a pipe
/// may hand out a few bytes first, which say nothing.
fn peek<R: Read>(mut stream: R) -> io::Result<(Vec<u8>, R)> {
    let mut head = Vec::new();
    let mut buf = [0; 8192];
    while head.len() < 64 << 10 && memchr::memchr_iter(b'\n', &head).nth(1).is_none() {
        let n = stream.read(&mut buf)?;
        if n == 0 {
            break;
        }
        head.extend_from_slice(&buf[..n]);
    }
    Ok((head, stream))
}

/// The file behind a name, if it starts as its decompressed stream does: if it is not compressed.
fn plain_file(name: &str, head: &[u8]) -> Option<File> {
    let mut file = File::open(location::path_of(name)).ok().filter(|_| name != "-")?;
    let mut start = [0; 8];
    let read = file.metadata().ok().filter(|found| found.is_file()).and_then(|_| file.read(&mut start).ok())?;
    file.seek(SeekFrom::Start(0)).ok()?;
    (read > 0 && head.starts_with(&start[..read])).then_some(file)
}
