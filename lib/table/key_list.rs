//! Lists of keys to look up: `--keys` and `--not-keys`. Memory is bounded,
//! however many there are.

use std::io::{BufRead, BufReader, Cursor, Read};
use std::ops::ControlFlow;

use anyhow::{Context, Result, bail, ensure};

use super::{Flow, Projection, Table, TableFormat, TableRow, Visitor};
use crate::location;
use crate::sort::{Lookup, LookupBuilder, SortOptions};
use crate::source;

/// A set of keys, loaded from a source.
pub struct KeyList(Lookup);

impl KeyList {
    /// Loads the keys of a source: `column` of a table, if the name has the
    /// suffix of one (other than txt) or the content is parquet or arrow; the
    /// elements of an `.npy` array; otherwise, the lines of a text.
    ///
    /// Elements of an array are text, or pairs of 64-bit numbers, which are 32
    /// hexadecimal digits, as in the lists of DataComp. Empty keys are ignored.
    ///
    /// # Errors
    ///
    /// The source cannot be read or is damaged, a table lacks the column, an
    /// array has another type, or a temporary file cannot be written.
    pub fn load(name: &str, column: &str, options: SortOptions) -> Result<Self> {
        let mut keys = LookupBuilder::new(options);
        read(name, column, &mut keys).with_context(|| location::display(name))?;
        Ok(KeyList(keys.finish()?))
    }

    /// Returns true if the key is in the list. Fails if a temporary file cannot
    /// be read.
    pub fn has(&mut self, key: &str) -> Result<bool> {
        Ok(self.0.find(key)?.is_some())
    }
}

fn read(name: &str, column: &str, keys: &mut LookupBuilder) -> Result<()> {
    if TableFormat::from_suffix(name).is_some_and(|format| format != TableFormat::Txt) && location::is_path(name) {
        return read_table(Table::open(name, None)?, column, keys);
    }
    let mut rest = source::open(name)?;
    let mut head = Vec::new();
    rest.by_ref().take(4096).read_to_end(&mut head)?;
    let format = TableFormat::sniff(name, &head);
    let is_array = head.starts_with(MAGIC);
    let mut input = BufReader::with_capacity(1 << 18, Cursor::new(head).chain(rest));
    let is_table = TableFormat::from_suffix(name).is_some_and(|named| named != TableFormat::Txt);
    if is_array {
        read_array(&mut input, keys)
    } else if is_table || format.needs_seek() {
        read_table(Table::from_stream(Box::new(input), format)?, column, keys)
    } else {
        read_lines(&mut input, keys)
    }
}

fn read_lines(input: &mut impl BufRead, keys: &mut LookupBuilder) -> Result<()> {
    let mut line = String::new();
    for number in 1_u64.. {
        line.clear();
        if input.read_line(&mut line).with_context(|| format!("line {number}"))? == 0 {
            break;
        }
        push(line.trim_end_matches(['\n', '\r']), keys)?;
    }
    Ok(())
}

fn push(key: &str, keys: &mut LookupBuilder) -> Result<()> {
    if key.is_empty() { Ok(()) } else { keys.push(key, b"") }
}

fn read_table(table: Table, column: &str, keys: &mut LookupBuilder) -> Result<()> {
    let mut visitor = KeyVisitor { column, keys, rows: 0, has_column: false };
    _ = table.visit(&Projection::Named(vec![column.to_owned()]), &mut visitor)?;
    ensure!(visitor.rows == 0 || visitor.has_column, "no column '{column}' (urlcat --columns shows the columns)");
    Ok(())
}

struct KeyVisitor<'a> {
    column: &'a str,
    keys: &'a mut LookupBuilder,
    rows: u64,
    has_column: bool,
}

impl Visitor for KeyVisitor<'_> {
    fn row(&mut self, row: &TableRow<'_>) -> Result<Flow> {
        self.rows += 1;
        if let Some(cell) = row.get(self.column) {
            self.has_column = true;
            push(&cell.text().unwrap_or_default(), self.keys)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn bad_row(&mut self, number: u64, why: &str) -> Result<Flow> {
        bail!("row {number}: {why}")
    }
}

/// The first bytes of an `.npy` file.
const MAGIC: &[u8] = b"\x93NUMPY";

/// The types of elements that can be keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementType {
    /// Two numbers of 64 bits.
    Pair,
    /// Bytes, padded with zeros.
    Bytes(usize),
    /// Characters of four bytes, padded with zeros.
    Chars(usize),
}

impl ElementType {
    /// From the header of the file, a literal of Python.
    fn parse(header: &str) -> Option<Self> {
        let value = header.split_once("'descr':")?.1.trim_start();
        if let Some(fields) = value.strip_prefix('[') {
            let fields = fields.split_once(']')?.0;
            let is_pair = fields.matches("'<u8'").count() == 2 && fields.matches('(').count() == 2;
            return is_pair.then_some(ElementType::Pair);
        }
        let name = value.strip_prefix('\'')?.split_once('\'')?.0;
        let (kind, size) = (name.get(..2)?, name.get(2..)?.parse().ok().filter(|size| (1..=4096).contains(size))?);
        match kind {
            "|S" => Some(ElementType::Bytes(size)),
            "<U" => Some(ElementType::Chars(size)),
            _ => None,
        }
    }

    fn size(self) -> usize {
        match self {
            ElementType::Pair => 16,
            ElementType::Bytes(size) => size,
            ElementType::Chars(size) => 4 * size,
        }
    }

    /// The key that an element stands for.
    fn key(self, element: &[u8]) -> Result<String> {
        Ok(match self {
            ElementType::Pair => {
                let (first, second) = element.split_at(8);
                let number = |bytes: &[u8]| Ok::<_, anyhow::Error>(u64::from_le_bytes(bytes.try_into()?));
                format!("{:016x}{:016x}", number(first)?, number(second)?)
            }
            ElementType::Bytes(_) => std::str::from_utf8(element)?.trim_end_matches('\0').to_owned(),
            ElementType::Chars(_) => {
                let chars =
                    element.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
                let text: Option<String> = chars.map(char::from_u32).collect();
                text.context("an element is not Unicode")?.trim_end_matches('\0').to_owned()
            }
        })
    }
}

fn read_array(input: &mut impl Read, keys: &mut LookupBuilder) -> Result<()> {
    let mut start = [0; 10];
    input.read_exact(&mut start)?;
    let mut length = usize::from(start[8]) | usize::from(start[9]) << 8;
    if start[6] > 1 {
        let mut more = [0; 2];
        input.read_exact(&mut more)?;
        length |= usize::from(more[0]) << 16 | usize::from(more[1]) << 24;
    }
    ensure!(length < 1 << 20, "the header of the array is too long");
    let mut header = vec![0; length];
    input.read_exact(&mut header)?;
    let header = String::from_utf8_lossy(&header);
    let kind = ElementType::parse(&header).context("an array of text or of pairs of <u8 is expected")?;
    let mut left = count(&header).context("an array of one dimension is expected")?;
    let mut element = vec![0; kind.size()];
    while left > 0 {
        input.read_exact(&mut element).context("the array ends early")?;
        push(&kind.key(&element)?, keys)?;
        left -= 1;
    }
    Ok(())
}

/// The length of a one-dimensional array.
fn count(header: &str) -> Option<u64> {
    let shape = header.split_once("'shape':")?.1.trim_start().strip_prefix('(')?.split_once(')')?.0;
    let mut lengths = shape.split(',').map(str::trim).filter(|length| !length.is_empty());
    let first = lengths.next()?.parse().ok()?;
    lengths.next().is_none().then_some(first)
}
