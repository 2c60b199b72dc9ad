//! Tables: rows of named cells, in the formats that URL lists and metadata come
//! in.
//!
//! [`Table`] reads one table and [`Tables`] a list of them; [`TypedWriter`] and
//! [`InferredWriter`] write parquet. [`KeyList`] looks keys up in a column.
//!
//! | format | suffixes | types | held in memory |
//! |---|---|---|---|
//! | txt | `.txt` | one column of text, `url` | a block of lines |
//! | csv, tsv | `.csv`, `.tsv`, `.tab` | text; numbers by the first 1000 rows | 1000 rows |
//! | json | `.json` | JSON | a row; all of it if column-oriented |
//! | jsonl | `.jsonl`, `.ndjson` | JSON | a block of lines |
//! | parquet | `.parquet` | by schema | 4096 rows of the requested columns |
//! | arrow | `.arrow`, `.feather`, `.ipc` | by schema | a record batch |
//!
//! Rows are visited, not returned, so that cells can borrow from the block that
//! they were decoded from.
//!
//! Tables are untrusted. A row that cannot be decoded is reported to the
//! [`Visitor`], which decides whether to continue; damage that affects all
//! following rows is an error. Decoders that panic are contained (see
//! [`crate::run::panics`]).

mod arrow;
mod arrow_validate;
mod batch;
mod cell;
mod csv;
mod format;
pub(crate) mod from_json;
mod inferred_writer;
mod json;
mod jsonl;
mod key_list;
pub(crate) mod parquet;
mod tables;
mod text;
mod txt;
mod typed_writer;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::ops::ControlFlow;

use anyhow::{Context, Result, bail};

use crate::location;
use crate::source;

pub use cell::Cell;
pub use format::TableFormat;
pub use inferred_writer::{Datum, InferredWriter};
pub use key_list::KeyList;
pub use tables::Tables;
pub use typed_writer::{TypedColumns, TypedWriter};

/// An open table whose rows have not been read yet.
///
/// ```
/// use std::io::Cursor;
/// use tarpipe::table::{Flow, Projection, Table, TableFormat, TableRow, Visitor};
///
/// struct Urls(Vec<String>);
///
/// impl Visitor for Urls {
///     fn row(&mut self, row: &TableRow<'_>) -> anyhow::Result<Flow> {
///         self.0.extend(row.get("url").and_then(|cell| cell.text()).map(|url| url.into_owned()));
///         Ok(Flow::Continue(()))
///     }
///     fn bad_row(&mut self, number: u64, why: &str) -> anyhow::Result<Flow> {
///         anyhow::bail!("row {number}: {why}")
///     }
/// }
///
/// let table = Table::from_stream(Box::new(Cursor::new("url,width\nhttp://h/1,10\n")), TableFormat::Csv)?;
/// let mut urls = Urls(Vec::new());
/// _ = table.visit(&Projection::Named(vec!["url".into()]), &mut urls)?;
/// assert_eq!(urls.0, ["http://h/1"]);
/// # anyhow::Ok(())
/// ```
#[derive(Debug)]
pub struct TableRow<'a> {
    /// Its number in its table, from 1. A header line does not count; in line
    /// formats, blank lines do.
    pub number: u64,
    /// Column names and cells, in the table's order; only the requested
    /// columns.
    pub cells: &'a [(&'a str, Cell<'a>)],
}

impl<'a> TableRow<'a> {
    /// The cell of a column; None if the row does not have it. Linear in the
    /// number of columns.
    pub fn get(&self, name: &str) -> Option<&Cell<'a>> {
        self.cells.iter().find(|(column, _)| *column == name).map(|(_, cell)| cell)
    }

    /// Appends the row as a JSON object on one line.
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

/// Receives the rows of a table, in order.
pub trait Visitor {
    /// Called for each row. An error ends the reading and is returned by
    /// [`Table::visit`].
    fn row(&mut self, row: &TableRow<'_>) -> Result<Flow>;

    /// Called for a row that cannot be decoded: a wrong number of cells,
    /// invalid UTF-8 or JSON. If it returns Ok, reading continues with the next
    /// row.
    fn bad_row(&mut self, number: u64, why: &str) -> Result<Flow>;
}

/// Which columns to decode. The others cost nothing in parquet and arrow, and
/// little elsewhere.
#[derive(Clone, Debug)]
pub enum Projection {
    /// All columns.
    All,
    /// The columns with these names; names that the table lacks are ignored.
    Named(Vec<String>),
}

impl Projection {
    fn wants(&self, name: &str) -> bool {
        match self {
            Projection::All => true,
            Projection::Named(names) => names.iter().any(|wanted| wanted == name),
        }
    }
}

/// A column of a table's schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// Its type, for people to read.
    pub kind: String,
}

/// An opened table, not yet read.
pub struct Table {
    format: TableFormat,
    body: TableBody,
}

/// A stream, or a file for formats that have to seek.
enum TableBody {
    Stream(Box<dyn BufRead + Send>),
    File(File),
}

impl Table {
    /// Opens a table by its name (any source, decompressed). The format is
    /// detected if it is not given. An uncompressed parquet or arrow file on
    /// disk is read in place; from any other source it is copied to a temporary
    /// file first.
    ///
    /// Fails as [`source::open`] does, with the name as context.
    pub fn open(name: &str, format: Option<TableFormat>) -> Result<Table> {
        let table = || {
            let (head, rest) = peek(source::open(name)?)?;
            let format = format.unwrap_or_else(|| TableFormat::sniff(name, &head));
            if !format.needs_seek() && head.split(|byte| *byte == b'\n').next().is_some_and(|line| line.contains(&0)) {
                bail!("not a table: binary data");
            }
            match plain_file(name, &head).filter(|_| format.needs_seek()) {
                Some(file) => Ok(Table { format, body: TableBody::File(file) }),
                None => Table::from_stream(
                    Box::new(BufReader::with_capacity(BUFFER, Cursor::new(head).chain(rest))),
                    format,
                ),
            }
        };
        table().with_context(|| location::display(name))
    }

    /// A table from a decompressed stream. Parquet and arrow need to seek, so
    /// they are copied to an unnamed temporary file first.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written, or a parquet or arrow file is
    /// damaged.
    pub fn from_stream(mut stream: Box<dyn BufRead + Send>, format: TableFormat) -> Result<Table> {
        if !format.needs_seek() {
            return Ok(Table { format, body: TableBody::Stream(stream) });
        }
        let mut file = tempfile::tempfile().context("cannot create a temporary copy of the table")?;
        io::copy(&mut stream, &mut file)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Table { format, body: TableBody::File(file) })
    }

    /// The number of rows, if the format knows it without reading them
    /// (parquet). Fails if the file is damaged.
    pub fn known_rows(&self) -> Result<Option<u64>> {
        match (&self.body, self.format) {
            (TableBody::File(file), TableFormat::Parquet) => parquet::count_rows(file).map(Some),
            _ => Ok(None),
        }
    }

    /// The columns and their types, if the format has a schema (parquet,
    /// arrow). Fails if the file is damaged.
    pub fn schema(&self) -> Result<Option<Vec<TableColumn>>> {
        match (&self.body, self.format) {
            (TableBody::File(file), TableFormat::Parquet) => parquet::schema(file).map(Some),
            (TableBody::File(file), _) => arrow::schema(file).map(Some),
            _ => Ok(None),
        }
    }

    /// Passes every row to `visitor` until it wants no more.
    ///
    /// # Errors
    ///
    /// The visitor's own error, unchanged, or an error that says at which row
    /// the table becomes unreadable.
    pub fn visit(self, columns: &Projection, visitor: &mut dyn Visitor) -> Result<Flow> {
        match (self.body, self.format) {
            (TableBody::File(file), TableFormat::Parquet) => parquet::visit(file, columns, visitor),
            (TableBody::File(file), _) => arrow::visit(file, columns, visitor),
            (TableBody::Stream(stream), TableFormat::Txt) => txt::visit(stream, columns, visitor),
            (TableBody::Stream(stream), TableFormat::Csv) => csv::visit(stream, b',', columns, visitor),
            (TableBody::Stream(stream), TableFormat::Tsv) => csv::visit(stream, b'\t', columns, visitor),
            (TableBody::Stream(stream), TableFormat::Json) => json::visit(stream, columns, visitor),
            (TableBody::Stream(stream), _) => jsonl::visit(stream, columns, visitor),
        }
    }
}

/// The size of reads from a text stream.
const BUFFER: usize = 256 << 10;

/// The beginning of a stream (two lines, unless they are too long) and the
/// rest. A decoder or a pipe may return only a few bytes at first, which would
/// not be enough to detect the format.
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

/// The file of a name, if it begins as its decompressed stream does, that is,
/// if it is not compressed.
fn plain_file(name: &str, head: &[u8]) -> Option<File> {
    let mut file = File::open(location::path_of(name)).ok().filter(|_| name != "-")?;
    let mut start = [0; 8];
    let read = file.metadata().ok().filter(|found| found.is_file()).and_then(|_| file.read(&mut start).ok())?;
    file.seek(SeekFrom::Start(0)).ok()?;
    (read > 0 && head.starts_with(&start[..read])).then_some(file)
}
