//! Columns: fields of a sample and values inside its JSON fields, by name.

use std::cell::OnceCell;
use std::str::FromStr;

use anyhow::{Result, bail};
use serde_json::Value;
use tarpipe::sample::{Member, Sample};
use tarpipe::table::Datum;
use tarpipe::value::list;

/// Fields that contain an integer, as WebDataset decodes them.
const NUMBER_FIELDS: [&str; 4] = ["cls", "index", "inx", "id"];

/// One column, written `NEW=OLD;OLDER`: its name, and the fields or JSON values to try in order.
#[derive(Clone, Debug)]
pub struct FieldColumn {
    pub name: String,
    candidates: Vec<String>,
}

impl FromStr for FieldColumn {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, candidates) = text.split_once('=').unwrap_or_else(|| (text.split(';').next().unwrap_or(text), text));
        let candidates: Vec<String> = candidates.split(';').map(str::to_owned).collect();
        if name.is_empty() || candidates.iter().any(String::is_empty) || text.contains(char::is_whitespace) {
            bail!("invalid field '{text}' (write cls, json.width or new=old;older)");
        }
        Ok(FieldColumn { name: name.to_owned(), candidates })
    }
}

/// A list of columns.
#[derive(Clone, Debug)]
pub struct FieldColumns(pub Vec<FieldColumn>);

impl FromStr for FieldColumns {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let columns: Vec<FieldColumn> = list::items(text).map(str::parse).collect::<Result<_>>()?;
        if columns.is_empty() {
            bail!("empty list of fields");
        }
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|other| other.name == column.name) {
                bail!("duplicate column {} (rename one with NEW=OLD)", column.name);
            }
        }
        Ok(FieldColumns(columns))
    }
}

impl FieldColumns {
    /// The same columns with the key first, unless it is listed.
    pub fn with_key(mut self) -> Self {
        if self.0.iter().all(|column| column.name != "__key__") {
            self.0.insert(0, FieldColumn { name: "__key__".into(), candidates: vec!["__key__".into()] });
        }
        self
    }

    /// The names, in order.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|column| column.name.clone()).collect()
    }
}

/// The value of a column in a sample.
pub enum FoundValue<'a> {
    /// A whole field.
    Field(&'a Member),
    /// A value inside a JSON field, the key or the source.
    Value(Value),
}

/// Looks up columns in a sample. Each JSON field is parsed at most once, on first use.
pub struct SampleValues<'a> {
    sample: &'a Sample,
    parsed: Vec<OnceCell<Option<Value>>>,
}

/// The reason code of a sample with invalid JSON.
pub const BAD_JSON: &str = "json";

impl<'a> SampleValues<'a> {
    pub fn new(sample: &'a Sample) -> Self {
        SampleValues { sample, parsed: sample.members.iter().map(|_| OnceCell::new()).collect() }
    }

    /// The first candidate of the column that the sample has.
    pub fn find(&self, column: &FieldColumn) -> Result<Option<FoundValue<'a>>, &'static str> {
        for candidate in &column.candidates {
            if let Some(found) = self.look_up(candidate)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The value of the column as a table cell.
    pub fn datum(&self, column: &FieldColumn) -> Result<Datum, &'static str> {
        match self.find(column)? {
            None => Ok(Datum::Json(Value::Null)),
            Some(FoundValue::Value(value)) => Ok(Datum::Json(value)),
            Some(FoundValue::Field(member)) => self.whole(member),
        }
    }

    /// The value of a whole field: JSON parsed, classes as numbers, text as text, everything else as bytes.
    pub fn whole(&self, member: &Member) -> Result<Datum, &'static str> {
        if is_json(&member.field) {
            return self.parse(member).cloned().map(Datum::Json).ok_or(BAD_JSON);
        }
        let Ok(text) = std::str::from_utf8(&member.data) else { return Ok(Datum::Bytes(member.data.clone())) };
        let number = NUMBER_FIELDS.contains(&member.field.as_str()).then(|| text.trim().parse::<i64>().ok()).flatten();
        // Only if it prints back unchanged: 007 stays text.
        let number = number.filter(|number| number.to_string() == text.trim());
        Ok(Datum::Json(number.map_or_else(|| Value::from(text), Value::from)))
    }

    fn look_up(&self, candidate: &str) -> Result<Option<FoundValue<'a>>, &'static str> {
        match candidate {
            "__key__" => return Ok(Some(FoundValue::Value(self.sample.key.as_str().into()))),
            "__source__" => return Ok(Some(FoundValue::Value(self.sample.source.as_ref().into()))),
            _ => {}
        }
        if let Some(member) = self.sample.get(candidate) {
            return Ok(Some(FoundValue::Field(member)));
        }
        // meta.json.width: the longest field that exists, then a path inside it.
        let dots = candidate.char_indices().rev().filter(|(_, c)| *c == '.').map(|(at, _)| at);
        for at in dots {
            let Some(member) = self.sample.get(&candidate[..at]).filter(|member| is_json(&member.field)) else {
                continue;
            };
            let value = self.parse(member).ok_or(BAD_JSON)?;
            return Ok(value_at(value, &candidate[at + 1..]).cloned().map(FoundValue::Value));
        }
        Ok(None)
    }

    fn parse(&self, member: &Member) -> Option<&Value> {
        let at = self.sample.members.iter().position(|other| std::ptr::eq(other, member))?;
        self.parsed[at].get_or_init(|| serde_json::from_slice(&member.data).ok()).as_ref()
    }
}

/// Whether a field is JSON, by its name.
pub fn is_json(field: &str) -> bool {
    field == "json" || field.ends_with(".json")
}

/// Follows a path of names and indices, separated by dots.
fn value_at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => value.get(step),
    })
}

/// A value as plain text.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn sample() -> Sample {
        let member = |field: &str, data: &[u8]| Member::new(field, data.to_vec());
        let members = vec![
            member("json", br#"{"a": {"b": [1, 2.5]}, "url": "u"}"#),
            member("meta.json", br#"{"x": true}"#),
            member("json.raw", b"plain"),
            member("cls", b"7\n"),
            member("bad.json", b"{"),
            member("bin", &[0xff, 0]),
        ];
        Sample { key: "k".into(), mtime: 0, source: Arc::from("s"), members }
    }

    fn cell(column: &str) -> Result<String, &'static str> {
        let sample = sample();
        SampleValues::new(&sample).datum(&column.parse().unwrap()).map(|datum| match datum {
            Datum::Json(value) => value.to_string(),
            Datum::Bytes(bytes) => format!("{bytes:?}"),
        })
    }

    #[test]
    fn columns_find_fields_and_what_is_inside() {
        assert_eq!(cell("json.a.b.1").unwrap(), "2.5");
        assert_eq!(cell("meta.json.x").unwrap(), "true");
        assert_eq!(cell("json.raw").unwrap(), "\"plain\"");
        assert_eq!(cell("cls").unwrap(), "7");
        assert_eq!(cell("n=nothing;json.url").unwrap(), "\"u\"");
        assert_eq!(cell("json.a.none").unwrap(), "null");
        assert_eq!(cell("__key__").unwrap(), "\"k\"");
        assert_eq!(cell("bin").unwrap(), "[255, 0]");
        assert_eq!(cell("bad.json.x"), Err(BAD_JSON));
    }

    #[test]
    fn mistakes_are_refused() {
        for bad in ["", "a a", "=x", "a=", "a;;b"] {
            assert!(bad.parse::<FieldColumns>().is_err(), "{bad}");
        }
    }
}
