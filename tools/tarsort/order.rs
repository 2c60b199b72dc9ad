//! The sort key of a sample: bytes that compare as the samples should.

use serde_json::Value;
use tarpipe::random::Random;
use tarpipe::sample::field_path::{FieldValue, value_at};

use crate::tarsort::number;

const BOOL: u8 = 1;
const NUMBER: u8 = 2;
const TEXT: u8 = 3;

/// Makes sort keys, and counts the samples that have no value to sort by.
pub struct SortOrder {
    by: SortBy,
    numeric: bool,
    /// The sort key of samples without a value, which puts them last.
    missing: u8,
    count: u64,
    count_missing: u64,
}

/// What samples are sorted by.
pub enum SortBy {
    /// The key of the sample.
    Key,
    /// A field, or a path in a JSON field.
    Field(String),
    /// A random number per sample.
    Chance(Random),
}

impl SortOrder {
    pub fn new(by: SortBy, numeric: bool, reverse: bool) -> Self {
        SortOrder { by, numeric, missing: if reverse { 0 } else { 0xff }, count: 0, count_missing: 0 }
    }

    /// Whether the sort key is the sample's own key.
    pub fn is_by_key(&self) -> bool {
        matches!(self.by, SortBy::Key)
    }

    /// Whether the sort key may need the data of this field.
    pub fn wants(&self, field: &str) -> bool {
        let SortBy::Field(name) = &self.by else { return false };
        name.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Writes the sort key of the next sample into `out`. `find` returns the data of its fields.
    pub fn key<'a>(&mut self, key: &str, find: impl Fn(&str) -> Option<&'a [u8]>, out: &mut Vec<u8>) {
        out.clear();
        self.count += 1;
        match &mut self.by {
            SortBy::Key => out.extend_from_slice(key.as_bytes()),
            SortBy::Chance(random) => out.extend_from_slice(&random.bits().to_be_bytes()),
            SortBy::Field(name) => {
                if append_field(out, name, self.numeric, find).is_none() {
                    out.clear();
                    out.push(self.missing);
                    self.count_missing += 1;
                }
            }
        }
    }

    /// Whether a sample with this sort key had no value to sort by.
    pub fn is_missing(&self, sort_key: &[u8]) -> bool {
        matches!(self.by, SortBy::Field(_)) && sort_key == [self.missing]
    }

    /// A message about the samples without a value, if there are any.
    pub fn notice(&self) -> Option<String> {
        let SortBy::Field(name) = &self.by else { return None };
        let what = if self.numeric { "number" } else { "value" };
        let (missing, all) = (self.count_missing, self.count);
        (missing > 0).then(|| format!("{missing} of {all} samples have no {what} at {name}; they sort last"))
    }
}

/// Appends the value that `name` leads to.
fn append_field<'a>(
    out: &mut Vec<u8>,
    name: &str,
    numeric: bool,
    find: impl Fn(&str) -> Option<&'a [u8]>,
) -> Option<()> {
    match value_at(name, find)? {
        FieldValue::Content(data) => append_content(out, data, numeric),
        FieldValue::Json(value) => append_value(out, &value, numeric),
    }
}

fn append_value(out: &mut Vec<u8>, value: &Value, numeric: bool) -> Option<()> {
    match value {
        Value::Null => None,
        Value::Number(number) => append_number(out, &number.to_string()),
        Value::String(text) => append_content(out, text.as_bytes(), numeric),
        _ if numeric => None,
        Value::Bool(value) => {
            out.extend_from_slice(&[BOOL, u8::from(*value)]);
            Some(())
        }
        other => append_content(out, other.to_string().as_bytes(), false),
    }
}

fn append_content(out: &mut Vec<u8>, data: &[u8], numeric: bool) -> Option<()> {
    if numeric {
        return append_number(out, std::str::from_utf8(data).ok()?);
    }
    out.push(TEXT);
    out.extend_from_slice(data);
    Some(())
}

fn append_number(out: &mut Vec<u8>, text: &str) -> Option<()> {
    out.push(NUMBER);
    number::append(out, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, numeric: bool, field: &str, data: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut order = SortOrder::new(SortBy::Field(name.into()), numeric, false);
        order.key("k", |wanted| (wanted == field).then_some(data.as_bytes()), &mut out);
        out
    }

    #[test]
    fn fields_come_before_paths_and_paths_lead_into_lists() {
        let json = r#"{"a": {"b": [5, "x"]}, "w": 7}"#;
        assert_eq!(key("seg.json.a.b.0", false, "seg.json", json), key("n", true, "n", "5"));
        assert_eq!(key("json.a.b.1", false, "json", json), key("txt", false, "txt", "x"));
        assert_eq!(key("json.w", false, "json.w", "7"), key("txt", false, "txt", "7"));
        assert_eq!(key("json.none", false, "json", json), [0xff]);
        assert_eq!(key("json.w", false, "json", "{"), [0xff]);
        assert_eq!(key("cls", true, "cls", "cat"), [0xff]);
    }

    #[test]
    fn long_content_compares_to_its_end() {
        let long = "x".repeat(3000);
        let [a, b] = ["a", "b"].map(|end| key("txt", false, "txt", &format!("{long}{end}")));
        assert!(a < b);
    }
}
