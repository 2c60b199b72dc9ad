//! Cells: single values of a row, borrowed from the block that they were
//! decoded from.

use std::borrow::Cow;

use base64::Engine;
use serde_json::Value;

/// One value of any format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Missing.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that may not fit into `Int`.
    Uint(u64),
    /// A single-precision number, kept as such because it prints shorter.
    Single(f32),
    /// A double-precision number.
    Float(f64),
    /// Text.
    Text(&'a str),
    /// Bytes. In JSON and text they become text if they are UTF-8, and base64
    /// otherwise.
    Bytes(&'a [u8]),
    /// Valid JSON of any type, on one line, not decoded yet.
    Json(&'a str),
}

impl<'a> Cell<'a> {
    /// Appends the cell as JSON. Numbers that JSON lacks become the texts `NaN`,
    /// `Infinity` and `-Infinity`.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match *self {
            Cell::Null => out.extend_from_slice(b"null"),
            Cell::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            Cell::Int(value) => append(out, &value),
            Cell::Uint(value) => append(out, &value),
            Cell::Single(value) if value.is_finite() => append(out, &value),
            Cell::Single(value) => append(out, not_finite(value.into())),
            Cell::Float(value) if value.is_finite() => append(out, &value),
            Cell::Float(value) => append(out, not_finite(value)),
            Cell::Text(text) if is_plain(text) => {
                out.push(b'"');
                out.extend_from_slice(text.as_bytes());
                out.push(b'"');
            }
            Cell::Text(text) => append(out, text),
            Cell::Bytes(bytes) => append(out, &*bytes_text(bytes)),
            Cell::Json(text) => out.extend_from_slice(text.as_bytes()),
        }
    }

    /// The cell as a JSON value. Copies it. Numbers that JSON lacks become null,
    /// so that no comparison with them is true.
    pub fn to_value(&self) -> Value {
        match *self {
            Cell::Text(text) => Value::from(text),
            Cell::Bytes(bytes) => Value::from(bytes_text(bytes)),
            Cell::Json(text) => serde_json::from_str(text).unwrap_or(Value::Null),
            Cell::Single(value) => Value::from(f64::from(value)),
            Cell::Null => Value::Null,
            Cell::Bool(value) => Value::from(value),
            Cell::Int(value) => Value::from(value),
            Cell::Uint(value) => Value::from(value),
            Cell::Float(value) => Value::from(value),
        }
    }

    /// The cell as text, as people would write it: strings without quotes,
    /// everything else as JSON. None if there is no value.
    ///
    /// ```
    /// use tarpipe::table::Cell;
    ///
    /// assert_eq!(Cell::Json(r#""a cat""#).text().as_deref(), Some("a cat"));
    /// assert_eq!(Cell::Int(7).text().as_deref(), Some("7"));
    /// assert_eq!(Cell::Null.text(), None);
    /// ```
    pub fn text(&self) -> Option<Cow<'a, str>> {
        match *self {
            Cell::Null | Cell::Json("null") => None,
            Cell::Text(text) => Some(Cow::Borrowed(text)),
            Cell::Bytes(bytes) => Some(bytes_text(bytes)),
            Cell::Json(text) => Some(json_text(text)),
            Cell::Single(value) if !value.is_finite() => Some(Cow::Borrowed(not_finite(value.into()))),
            Cell::Float(value) if !value.is_finite() => Some(Cow::Borrowed(not_finite(value))),
            other => {
                let mut out = Vec::new();
                other.write_json(&mut out);
                Some(Cow::Owned(String::from_utf8_lossy(&out).into_owned()))
            }
        }
    }

    /// The type of the value, for people: `null`, `bool`, `number`, `text`,
    /// `bytes`, `list` or `object`.
    pub fn kind(&self) -> &'static str {
        match self {
            Cell::Null => "null",
            Cell::Bool(_) => "bool",
            Cell::Int(_) | Cell::Uint(_) | Cell::Single(_) | Cell::Float(_) => "number",
            Cell::Text(_) => "text",
            Cell::Bytes(_) => "bytes",
            Cell::Json(text) => match text.as_bytes().first() {
                Some(b'"') => "text",
                Some(b'[') => "list",
                Some(b'{') => "object",
                Some(b't' | b'f') => "bool",
                Some(b'n') => "null",
                _ => "number",
            },
        }
    }

    /// Returns true if there is no value. Empty text is a value.
    pub fn is_null(&self) -> bool {
        matches!(self, Cell::Null | Cell::Json("null"))
    }
}

/// The name of a number that JSON lacks.
pub(super) fn not_finite(number: f64) -> &'static str {
    match number {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    }
}

fn bytes_text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(base64::prelude::BASE64_STANDARD.encode(bytes)),
    }
}

fn json_text(json: &str) -> Cow<'_, str> {
    match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) if !inner.contains('\\') => Cow::Borrowed(inner),
        Some(_) => Cow::Owned(serde_json::from_str(json).unwrap_or_default()),
        None => Cow::Borrowed(json),
    }
}

/// Whether JSON can contain the text unchanged. Without an early exit the loop
/// is vectorized.
fn is_plain(text: &str) -> bool {
    !text.bytes().fold(false, |special, byte| special | (byte < b' ') | (byte == b'"') | (byte == b'\\'))
}

/// Serializing numbers and text into a Vec cannot fail.
fn append<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let written = serde_json::to_writer(&mut *out, value);
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_json_whatever_they_hold() {
        let cases = [
            (Cell::Text("plain ü"), "\"plain ü\""),
            (Cell::Text("a\"b\\c\nd\u{1}"), "\"a\\\"b\\\\c\\nd\\u0001\""),
            (Cell::Single(0.3), "0.3"),
            (Cell::Float(f64::NAN), "\"NaN\""),
            (Cell::Single(f32::NEG_INFINITY), "\"-Infinity\""),
            (Cell::Int(-5), "-5"),
            (Cell::Json("[1, 2]"), "[1, 2]"),
            (Cell::Bytes(b"plain"), "\"plain\""),
            (Cell::Bytes(b"\xff\xd8"), "\"/9g=\""),
        ];
        for (cell, json) in cases {
            let mut out = Vec::new();
            cell.write_json(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), json);
        }
        assert_eq!(Cell::Json("\"a\\nb\"").text().unwrap(), "a\nb");
        assert_eq!(Cell::Json("null").text(), None);
    }
}
