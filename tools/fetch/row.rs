//! A row to fetch: a JSON object as urlcat writes it, or a plain URL.

use serde_json::{Map, Value};

use super::failure::{Code, Failure};

/// One sample to be.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its place among the rows that are fetched, from 0.
    pub index: u64,
    /// The key of its sample.
    pub key: String,
    /// What to fetch; several make one sample of several files.
    pub urls: Vec<String>,
    /// Whether the URLs came as a list, also a list of one.
    pub is_list: bool,
    /// Text that goes with it.
    pub caption: Option<String>,
    /// Every other column.
    pub columns: Map<String, Value>,
    /// What is wrong with it, if so. It is reported like any other row.
    pub fault: Option<Failure>,
}

impl Row {
    /// Reads one line. A row without a key is called by its number in the table.
    pub fn parse(index: u64, number: u64, line: &[u8]) -> Row {
        let mut row = Row {
            index,
            key: format!("{number:09}"),
            urls: Vec::new(),
            is_list: false,
            caption: None,
            columns: Map::new(),
            fault: None,
        };
        row.fault = row.fill(line.trim_ascii()).err();
        row
    }

    /// The URL at `at`.
    pub fn url(&self, at: usize) -> &str {
        self.urls.get(at).map_or("", String::as_str)
    }

    fn fill(&mut self, line: &[u8]) -> Result<(), Failure> {
        let bad = |why: &str| Failure::lasting(Code::BadRow, why);
        let line = std::str::from_utf8(line).map_err(|_| bad("not UTF-8"))?;
        if !line.starts_with('{') {
            self.urls = vec![line.to_owned()];
            return Ok(());
        }
        self.columns = serde_json::from_str(line).map_err(|_| bad("not a JSON object"))?;
        if let Some(key) = self.columns.shift_remove("key") {
            self.key = plain(&key).unwrap_or_default();
        }
        self.caption = self.columns.shift_remove("caption").and_then(|caption| plain(&caption));
        let url = self.columns.shift_remove("url").ok_or_else(|| bad("no column 'url'"))?;
        self.is_list = url.is_array();
        self.urls = match url {
            Value::Array(urls) => urls.iter().filter_map(plain).collect(),
            url => plain(&url).into_iter().collect(),
        };
        self.urls.retain(|url| !url.trim().is_empty());
        if self.urls.is_empty() {
            return Err(Failure::lasting(Code::BadUrl, "no URL"));
        }
        Ok(())
    }
}

fn plain(value: &Value) -> Option<String> {
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
        let row = Row::parse(0, 7, b"http://h/a,b\"c\r\n");
        assert_eq!((row.key.as_str(), row.url(0)), ("000000007", "http://h/a,b\"c"));
        let row = Row::parse(0, 0, br#"{"key":"k","url":["http://h/1","http://h/2"],"caption":"c","w":3}"#);
        assert_eq!((row.key.as_str(), row.urls.len(), row.is_list), ("k", 2, true));
        assert_eq!(row.caption.as_deref(), Some("c"));
        assert_eq!(Value::Object(row.columns).to_string(), r#"{"w":3}"#);
    }

    #[test]
    fn what_is_no_row_says_why() {
        let why = |line: &[u8]| Row::parse(0, 0, line).fault.unwrap().why;
        assert_eq!(why(b"{\"url\": 1"), "not a JSON object");
        assert_eq!(why(b"{\"uri\": 1}"), "no column 'url'");
        assert_eq!(why(b"{\"url\": null}"), "no URL");
        assert_eq!(why(b"\xff"), "not UTF-8");
    }
}
