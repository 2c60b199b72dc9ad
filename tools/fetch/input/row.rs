//! A row of the input: a JSON object as urlcat writes it, or a plain URL.

use serde_json::{Map, Value};

use crate::fetch::failure::{FailureCode, FetchFailure};

/// A row to fetch, which becomes one sample.
#[derive(Clone, Debug)]
pub struct InputRow {
    /// Its number among the rows to fetch, from 0.
    pub index: u64,
    /// The key of its sample.
    pub key: String,
    /// The URLs to fetch; several give one sample with several files.
    pub urls: Vec<String>,
    /// Whether the URLs were a list, even of one.
    pub is_list: bool,
    pub caption: Option<String>,
    /// All other columns.
    pub columns: Map<String, Value>,
    /// Why the row is invalid, if it is. It is reported like any other row.
    pub parse_failure: Option<FetchFailure>,
}

impl InputRow {
    /// Parses one line. The key of a row without one is its number in the input.
    pub fn parse(index: u64, number: u64, line: &[u8]) -> InputRow {
        let mut row = InputRow {
            index,
            key: format!("{number:09}"),
            urls: Vec::new(),
            is_list: false,
            caption: None,
            columns: Map::new(),
            parse_failure: None,
        };
        row.parse_failure = row.parse_line(line.trim_ascii()).err();
        row
    }

    /// The URL number `index`; empty if there is none.
    pub fn url(&self, index: usize) -> &str {
        self.urls.get(index).map_or("", String::as_str)
    }

    fn parse_line(&mut self, line: &[u8]) -> Result<(), FetchFailure> {
        let bad = |message: &str| FetchFailure::permanent(FailureCode::BadRow, message);
        let line = std::str::from_utf8(line).map_err(|_| bad("invalid UTF-8"))?;
        if !line.starts_with('{') {
            self.urls = vec![line.to_owned()];
            return Ok(());
        }
        self.columns = serde_json::from_str(line).map_err(|_| bad("not a JSON object"))?;
        if let Some(key) = self.columns.shift_remove("key") {
            self.key = text_of(&key).unwrap_or_default();
        }
        self.caption = self.columns.shift_remove("caption").and_then(|caption| text_of(&caption));
        let url = self.columns.shift_remove("url").ok_or_else(|| bad("missing column 'url'"))?;
        self.is_list = url.is_array();
        self.urls = match url {
            Value::Array(urls) => urls.iter().filter_map(text_of).collect(),
            url => text_of(&url).into_iter().collect(),
        };
        self.urls.retain(|url| !url.trim().is_empty());
        if self.urls.is_empty() {
            return Err(FetchFailure::permanent(FailureCode::BadUrl, "missing URL"));
        }
        Ok(())
    }
}

/// A string as it is, any other value as JSON; None for null.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_json_or_urls() {
        let row = InputRow::parse(0, 7, b"http://h/a,b\"c\r\n");
        assert_eq!((row.key.as_str(), row.url(0)), ("000000007", "http://h/a,b\"c"));
        let row = InputRow::parse(0, 0, br#"{"key":"k","url":["http://h/1","http://h/2"],"caption":"c","w":3}"#);
        assert_eq!((row.key.as_str(), row.urls.len(), row.is_list), ("k", 2, true));
        assert_eq!(row.caption.as_deref(), Some("c"));
        assert_eq!(Value::Object(row.columns).to_string(), r#"{"w":3}"#);
    }

    #[test]
    fn invalid_rows_have_a_reason() {
        let message = |line: &[u8]| InputRow::parse(0, 0, line).parse_failure.unwrap().message;
        assert_eq!(message(b"{\"url\": 1"), "not a JSON object");
        assert_eq!(message(b"{\"uri\": 1}"), "missing column 'url'");
        assert_eq!(message(b"{\"url\": null}"), "missing URL");
        assert_eq!(message(b"\xff"), "invalid UTF-8");
    }
}
