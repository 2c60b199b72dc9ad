//! What samples are sorted by: bytes that compare as the samples shall.

use serde_json::Value;
use tarpipe::random::Random;

use crate::number;

const BOOL: u8 = 1;
const NUMBER: u8 = 2;
const TEXT: u8 = 3;

/// An order of samples.
pub struct Order {
    by: By,
    numeric: bool,
    /// The first byte of the keys of samples without a value: it puts them last.
    missing: u8,
    count: u64,
    count_missing: u64,
}

/// What decides.
pub enum By {
    /// The key of the sample.
    Key,
    /// A field, or a path in a field with JSON.
    Field(String),
    /// Chance.
    Chance(Random),
}

impl Order {
    pub fn new(by: By, numeric: bool, reverse: bool) -> Self {
        Order { by, numeric, missing: if reverse { 0 } else { 0xff }, count: 0, count_missing: 0 }
    }

    /// Whether samples are sorted by their own keys.
    pub fn is_by_key(&self) -> bool {
        matches!(self.by, By::Key)
    }

    /// Whether the data of this field is needed.
    pub fn wants(&self, field: &str) -> bool {
        let By::Field(name) = &self.by else { return false };
        name.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Puts what the next sample is sorted by into `out`. `find` gives the data of its fields.
    pub fn key<'a>(&mut self, key: &str, find: impl Fn(&str) -> Option<&'a [u8]>, out: &mut Vec<u8>) {
        out.clear();
        self.count += 1;
        match &mut self.by {
            By::Key => out.extend_from_slice(key.as_bytes()),
            By::Chance(random) => out.extend_from_slice(&random.bits().to_be_bytes()),
            By::Field(name) => {
                if put_field(out, name, self.numeric, find).is_none() {
                    out.clear();
                    out.push(self.missing);
                    self.count_missing += 1;
                }
            }
        }
    }

    /// Whether a sample with this sort key had no value to sort by.
    pub fn is_missing(&self, sort_key: &[u8]) -> bool {
        matches!(self.by, By::Field(_)) && sort_key == [self.missing]
    }

    /// What to tell about samples without a value.
    pub fn note(&self) -> Option<String> {
        let By::Field(name) = &self.by else { return None };
        let what = if self.numeric { "number" } else { "value" };
        let (missing, all) = (self.count_missing, self.count);
        (missing > 0).then(|| format!("{missing} of {all} samples have no {what} at {name}; they come last"))
    }
}

/// The field called `name`, or else the longest part of `name` that is a field, and a path in it.
fn put_field<'a>(out: &mut Vec<u8>, name: &str, numeric: bool, find: impl Fn(&str) -> Option<&'a [u8]>) -> Option<()> {
    if let Some(data) = find(name) {
        return put_content(out, data, numeric);
    }
    let dots = name.rmatch_indices('.').map(|(at, _)| at);
    let (data, path) = dots.filter_map(|dot| Some((find(&name[..dot])?, &name[dot..]))).next()?;
    let value: Value = serde_json::from_slice(data).ok()?;
    let pointer = path.replace('~', "~0").replace('/', "~1").replace('.', "/");
    put_value(out, value.pointer(&pointer)?, numeric)
}

fn put_value(out: &mut Vec<u8>, value: &Value, numeric: bool) -> Option<()> {
    match value {
        Value::Null => None,
        Value::Number(number) => put_number(out, &number.to_string()),
        Value::String(text) => put_content(out, text.as_bytes(), numeric),
        _ if numeric => None,
        Value::Bool(value) => {
            out.extend_from_slice(&[BOOL, u8::from(*value)]);
            Some(())
        }
        other => put_content(out, other.to_string().as_bytes(), false),
    }
}

fn put_content(out: &mut Vec<u8>, data: &[u8], numeric: bool) -> Option<()> {
    if numeric {
        return put_number(out, std::str::from_utf8(data).ok()?);
    }
    out.push(TEXT);
    out.extend_from_slice(data);
    Some(())
}

fn put_number(out: &mut Vec<u8>, text: &str) -> Option<()> {
    out.push(NUMBER);
    number::put(out, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, numeric: bool, field: &str, data: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut order = Order::new(By::Field(name.into()), numeric, false);
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
