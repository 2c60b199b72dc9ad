//! Columns: fields of a sample, and values inside its JSON fields, by name.

use std::cell::OnceCell;
use std::str::FromStr;

use anyhow::{Result, bail};
use serde_json::Value;
use tarpipe::sample::{Member, Sample};
use tarpipe::table::Datum;

/// Fields that hold a whole number, as WebDataset decodes them.
const NUMBERS: [&str; 4] = ["cls", "index", "inx", "id"];

/// `NEW=OLD;OLDER`: the first of some places that a sample has, under a name.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    places: Vec<String>,
}

impl FromStr for Column {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, places) = text.split_once('=').unwrap_or_else(|| (text.split(';').next().unwrap_or(text), text));
        let places: Vec<String> = places.split(';').map(str::to_owned).collect();
        if name.is_empty() || places.iter().any(String::is_empty) || text.contains(char::is_whitespace) {
            bail!("'{text}' is no field (write cls, json.width or new=old;older)");
        }
        Ok(Column { name: name.to_owned(), places })
    }
}

/// A list of columns, separated by spaces.
#[derive(Clone, Debug)]
pub struct Columns(pub Vec<Column>);

impl FromStr for Columns {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let columns: Vec<Column> = text.split_whitespace().map(str::parse).collect::<Result<_>>()?;
        if columns.is_empty() {
            bail!("names no field");
        }
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|other| other.name == column.name) {
                bail!("names {} twice (write NEW=OLD for one of them)", column.name);
            }
        }
        Ok(Columns(columns))
    }
}

impl Columns {
    /// The same with the key as first column, unless it is there.
    pub fn with_key(mut self) -> Self {
        if self.0.iter().all(|column| column.name != "__key__") {
            self.0.insert(0, Column { name: "__key__".into(), places: vec!["__key__".into()] });
        }
        self
    }

    /// Names, in order.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|column| column.name.clone()).collect()
    }
}

/// What a column finds in a sample.
pub enum Found<'a> {
    /// A whole field.
    Field(&'a Member),
    /// A value inside a JSON field, the key or the source.
    Value(Value),
}

/// A sample whose JSON fields are parsed once, when somebody looks into them.
pub struct View<'a> {
    sample: &'a Sample,
    parsed: Vec<OnceCell<Option<Value>>>,
}

/// The reason code of a sample whose JSON cannot be read.
pub const BAD_JSON: &str = "json";

impl<'a> View<'a> {
    pub fn new(sample: &'a Sample) -> Self {
        View { sample, parsed: sample.members.iter().map(|_| OnceCell::new()).collect() }
    }

    /// What stands in the first place of the column that the sample has.
    pub fn find(&self, column: &Column) -> Result<Option<Found<'a>>, &'static str> {
        for place in &column.places {
            if let Some(found) = self.look(place)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// What the column finds, as a cell of a table.
    pub fn datum(&self, column: &Column) -> Result<Datum, &'static str> {
        match self.find(column)? {
            None => Ok(Datum::Json(Value::Null)),
            Some(Found::Value(value)) => Ok(Datum::Json(value)),
            Some(Found::Field(member)) => self.whole(member),
        }
    }

    /// A field as a value: JSON parsed, classes as numbers, text as text, bytes as they are.
    pub fn whole(&self, member: &Member) -> Result<Datum, &'static str> {
        if is_json(&member.field) {
            return self.parse(member).cloned().map(Datum::Json).ok_or(BAD_JSON);
        }
        let Ok(text) = std::str::from_utf8(&member.data) else { return Ok(Datum::Bytes(member.data.clone())) };
        let number = NUMBERS.contains(&member.field.as_str()).then(|| text.trim().parse::<i64>().ok()).flatten();
        // Only a number that prints back as it stands: 007 keeps its zeros.
        let number = number.filter(|number| number.to_string() == text.trim());
        Ok(Datum::Json(number.map_or_else(|| Value::from(text), Value::from)))
    }

    fn look(&self, place: &str) -> Result<Option<Found<'a>>, &'static str> {
        match place {
            "__key__" => return Ok(Some(Found::Value(self.sample.key.as_str().into()))),
            "__source__" => return Ok(Some(Found::Value(self.sample.source.as_ref().into()))),
            _ => {}
        }
        if let Some(member) = self.sample.get(place) {
            return Ok(Some(Found::Field(member)));
        }
        // meta.json.width: the longest field that exists, then a path inside it.
        let dots = place.char_indices().rev().filter(|(_, c)| *c == '.').map(|(at, _)| at);
        for at in dots {
            let Some(member) = self.sample.get(&place[..at]).filter(|member| is_json(&member.field)) else { continue };
            let value = self.parse(member).ok_or(BAD_JSON)?;
            return Ok(descend(value, &place[at + 1..]).cloned().map(Found::Value));
        }
        Ok(None)
    }

    fn parse(&self, member: &Member) -> Option<&Value> {
        let at = self.sample.members.iter().position(|other| std::ptr::eq(other, member))?;
        self.parsed[at].get_or_init(|| serde_json::from_slice(&member.data).ok()).as_ref()
    }
}

/// Whether a field holds JSON, by its name.
pub fn is_json(field: &str) -> bool {
    field == "json" || field.ends_with(".json")
}

/// Follows names and positions, separated by dots.
fn descend<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => value.get(step),
    })
}

/// A value as a line for people.
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
        View::new(&sample).datum(&column.parse().unwrap()).map(|datum| match datum {
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
            assert!(bad.parse::<Columns>().is_err(), "{bad}");
        }
    }
}
