//! A row of the input: a JSON object as urlcat writes it, or a plain URL.

use serde_json::{Map, Value};
use url::{ParseError, Position, Url};

use crate::fetch::failure::{FailureCode, FetchFailure};

/// A row to fetch, which becomes one sample.
#[derive(Clone, Debug)]
pub struct InputRow {
    /// Its number among the rows to fetch, from 0.
    pub index: u64,
    /// The key of its sample.
    pub key: String,
    /// The URLs to fetch; several give one sample with several files.
    pub urls: Vec<RowUrl>,
    /// Whether the URLs were a list, even of one.
    pub is_list: bool,
    pub caption: Option<String>,
    /// All other columns.
    pub columns: Map<String, Value>,
    /// Why the row is invalid, if it is. It is reported like any other row.
    pub parse_failure: Option<FetchFailure>,
}

/// A URL of a row. It is parsed once, here: limits per host, robots.txt and connections all use the same reading of it.
#[derive(Clone, Debug)]
pub struct RowUrl {
    /// As the table has it.
    pub text: String,
    parsed: Result<Url, ParseError>,
}

impl RowUrl {
    fn parse(text: String) -> Self {
        let trimmed = text.trim();
        let parsed = match Url::parse(trimmed) {
            Err(ParseError::RelativeUrlWithoutBase) if is_path(trimmed) => local(trimmed),
            parsed => parsed,
        };
        RowUrl { text, parsed }
    }

    /// The parsed URL, or why it is invalid.
    pub fn parsed(&self) -> Result<&Url, FetchFailure> {
        self.parsed.as_ref().map_err(|err| FetchFailure::permanent(FailureCode::BadUrl, err.to_string()))
    }

    /// The host in the same form for every spelling, with its port unless that is the default. Empty for URLs without a host
    /// and for invalid ones.
    pub fn host(&self) -> &str {
        self.parsed.as_ref().map_or("", |url| &url[Position::BeforeHost..Position::AfterPort])
    }
}

/// Whether a URL without a scheme is a path: `/a`, `./a` or `../a`, but not `//host/a`.
fn is_path(text: &str) -> bool {
    (text.starts_with('/') && !text.starts_with("//")) || text.starts_with("./") || text.starts_with("../")
}

/// The `file:` URL of a path.
fn local(path: &str) -> Result<Url, ParseError> {
    let absolute = std::path::absolute(path).ok();
    absolute.and_then(|path| Url::from_file_path(path).ok()).ok_or(ParseError::RelativeUrlWithoutBase)
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

    fn parse_line(&mut self, line: &[u8]) -> Result<(), FetchFailure> {
        let bad = |message: &str| FetchFailure::permanent(FailureCode::BadRow, message);
        let line = std::str::from_utf8(line).map_err(|_| bad("invalid UTF-8"))?;
        if !line.starts_with('{') {
            self.urls = vec![RowUrl::parse(line.to_owned())];
            return Ok(());
        }
        self.columns = serde_json::from_str(line).map_err(|_| bad("not a JSON object"))?;
        if let Some(key) = self.columns.shift_remove("key") {
            self.key = text_of(&key).unwrap_or_default();
        }
        self.caption = self.columns.shift_remove("caption").and_then(|caption| text_of(&caption));
        let url = self.columns.shift_remove("url").ok_or_else(|| bad("missing column 'url'"))?;
        self.is_list = url.is_array();
        let texts: Vec<String> = match url {
            Value::Array(urls) => urls.iter().filter_map(text_of).collect(),
            url => text_of(&url).into_iter().collect(),
        };
        self.urls = texts.into_iter().filter(|text| !text.trim().is_empty()).map(RowUrl::parse).collect();
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
        assert_eq!((row.key.as_str(), row.urls[0].text.as_str()), ("000000007", "http://h/a,b\"c"));
        let row = InputRow::parse(0, 0, br#"{"key":"k","url":["http://h/1","http://h/2"],"caption":"c","w":3}"#);
        assert_eq!((row.key.as_str(), row.urls.len(), row.is_list), ("k", 2, true));
        assert_eq!(row.caption.as_deref(), Some("c"));
        assert_eq!(Value::Object(row.columns).to_string(), r#"{"w":3}"#);
    }

    #[test]
    fn all_spellings_of_a_host_are_one_host() {
        let host = |url: &str| InputRow::parse(0, 0, url.as_bytes()).urls[0].host().to_owned();
        for url in ["http://h.test/a", "http://H.test:80/b", "https://h.test:443/", "http://me:pw@h.test?x"] {
            assert_eq!(host(url), "h.test", "{url}");
        }
        assert_eq!(host("http://h.test:8080/"), "h.test:8080");
        assert_eq!(host("http://b\u{fc}cher.test/"), host("http://xn--bcher-kva.test/"));
        assert_eq!((host("http://[::1]:81/"), host("http://0x7f.1/")), ("[::1]:81".into(), "127.0.0.1".into()));
        assert_eq!((host("file:/etc/hosts"), host("data:,x"), host("not a URL")), Default::default());
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
