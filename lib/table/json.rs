//! json: an array of objects, read one element at a time, or an object of
//! columns (`{"url": ["…"], …}` or pandas' `{"url": {"0": "…"}, …}`), read as a
//! whole.

use std::fmt;
use std::io::BufRead;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::{Deserializer, SeqAccess, Visitor as Decode};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::jsonl::{JsonFields, visit_fields};
use super::{Cell, Flow, Projection, TableRow, Visitor};

/// Visits all rows. An element of the array that is not an object is a bad row;
/// a syntax error is an error.
pub fn visit(mut stream: impl BufRead, columns: &Projection, visitor: &mut dyn Visitor) -> Result<Flow> {
    match first_byte(&mut stream)? {
        Some(b'[') => visit_array(stream, columns, visitor),
        Some(b'{') => visit_columns(stream, columns, visitor),
        None => Ok(Flow::Continue(())),
        Some(_) => bail!("a JSON table must begin with '[' or '{{'"),
    }
}

/// The first byte after white space and a byte-order mark; not consumed.
fn first_byte(stream: &mut impl BufRead) -> Result<Option<u8>> {
    loop {
        let buf = stream.fill_buf()?;
        if buf.is_empty() {
            return Ok(None);
        }
        let blank = buf.iter().take_while(|b| b.is_ascii_whitespace() || [0xef, 0xbb, 0xbf].contains(*b)).count();
        if blank < buf.len() {
            let byte = buf[blank];
            stream.consume(blank);
            return Ok(Some(byte));
        }
        stream.consume(blank);
    }
}

fn visit_array(stream: impl BufRead, columns: &Projection, visitor: &mut dyn Visitor) -> Result<Flow> {
    let mut array = ArrayVisitor { number: 0, columns, visitor, outcome: Ok(Flow::Continue(())) };
    let mut json = serde_json::Deserializer::from_reader(stream);
    let read = json.deserialize_seq(&mut array);
    let number = array.number;
    match (array.outcome, read) {
        (Ok(Flow::Continue(())), Err(err)) => Err(anyhow!("row {}: {err}", number + 1)),
        (outcome, _) => outcome,
    }
}

/// Passes the elements of an array to the visitor as serde parses them.
struct ArrayVisitor<'v> {
    number: u64,
    columns: &'v Projection,
    visitor: &'v mut dyn Visitor,
    /// The visitor's last result: its error cannot be passed through serde.
    outcome: Result<Flow>,
}

impl<'de> Decode<'de> for &mut ArrayVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(element) = seq.next_element::<Box<RawValue>>()? {
            self.number += 1;
            self.outcome = self.visit_element(&element);
            if !matches!(self.outcome, Ok(Flow::Continue(()))) {
                return Err(serde::de::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

impl ArrayVisitor<'_> {
    fn visit_element(&mut self, element: &RawValue) -> Result<Flow> {
        // Pretty-printed values would break the line format downstream.
        let compact = if element.get().contains('\n') {
            serde_json::from_str::<Value>(element.get())?.to_string()
        } else {
            element.get().to_owned()
        };
        match serde_json::from_str::<JsonFields<'_>>(&compact) {
            Ok(fields) => visit_fields(self.number, &fields, self.columns, self.visitor),
            Err(_) => self.visitor.bad_row(self.number, "not a JSON object"),
        }
    }
}

/// Column-oriented tables: all columns must have the same length.
fn visit_columns(mut stream: impl BufRead, columns: &Projection, visitor: &mut dyn Visitor) -> Result<Flow> {
    let mut text = Vec::new();
    stream.read_to_end(&mut text)?;
    let table: Map<String, Value> = serde_json::from_slice(&text).context("not a JSON table")?;
    drop(text);
    let mut names = Vec::new();
    let mut values = Vec::new();
    for (name, column) in table {
        let cells: Vec<String> = match column {
            Value::Array(cells) => cells.iter().map(Value::to_string).collect(),
            Value::Object(cells) => cells.values().map(Value::to_string).collect(),
            _ => bail!("column '{name}' is neither an array nor an object"),
        };
        names.push(name);
        values.push(cells);
    }
    let rows = values.iter().map(Vec::len).max().unwrap_or(0);
    if let Some(short) = values.iter().position(|cells| cells.len() < rows) {
        bail!("column '{}' has {} rows, another has {rows}", names[short], values[short].len());
    }
    for row in 0..rows {
        let cells: Vec<(&str, Cell<'_>)> = (names.iter().zip(&values))
            .filter(|(name, _)| columns.wants(name))
            .map(|(name, cells)| (name.as_str(), Cell::Json(cells[row].as_str())))
            .collect();
        if visitor.row(&TableRow { number: row as u64 + 1, cells: &cells })?.is_break() {
            return Ok(Flow::Break(()));
        }
    }
    Ok(Flow::Continue(()))
}
