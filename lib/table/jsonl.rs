//! jsonl: one object per line. Values are passed on unparsed.

use std::borrow::Cow;
use std::fmt;
use std::io::BufRead;

use anyhow::Result;
use serde::de::{Deserializer, MapAccess, Visitor as Decode};
use serde_json::value::RawValue;

use super::text::each_line;
use super::{Cell, Flow, Projection, TableRow, Visitor};

/// Names and unparsed values of one object.
pub(super) struct JsonFields<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for JsonFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DecodeFields)
    }
}

struct DecodeFields;

impl<'de> Decode<'de> for DecodeFields {
    type Value = JsonFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonFields<'de>, A::Error> {
        let mut fields = Vec::with_capacity(8);
        while let Some(Name(name)) = map.next_key()? {
            fields.push((name, map.next_value()?));
        }
        Ok(JsonFields(fields))
    }
}

/// A name that is borrowed if it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Visits all rows. A line that is not an object is a bad row; blank lines are
/// ignored.
///
/// # Errors
///
/// Those of the stream and of the visitor. Memory is bounded by the longest
/// line.
pub fn visit(stream: impl BufRead, columns: &Projection, visitor: &mut dyn Visitor) -> Result<Flow> {
    each_line(stream, |number, line| match parse(line) {
        Ok(fields) => visit_fields(number, &fields, columns, visitor),
        Err(why) => visitor.bad_row(number, &why),
    })
}

/// Passes one object to the visitor as a row.
pub(super) fn visit_fields(
    number: u64,
    fields: &JsonFields<'_>,
    columns: &Projection,
    visitor: &mut dyn Visitor,
) -> Result<Flow> {
    let mut cells = Vec::with_capacity(fields.0.len());
    for (name, value) in &fields.0 {
        if columns.wants(name) {
            cells.push((&**name, Cell::Json(value.get())));
        }
    }
    visitor.row(&TableRow { number, cells: &cells })
}

fn parse(line: &[u8]) -> Result<JsonFields<'_>, String> {
    let line = std::str::from_utf8(line).map_err(|_| String::from("not UTF-8"))?;
    serde_json::from_str(line).map_err(|err| format!("not a JSON object: {}", without_place(&err)))
}

/// serde_json's message without `at line 1 column N`: the row is named already.
fn without_place(err: &serde_json::Error) -> String {
    let text = err.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}
