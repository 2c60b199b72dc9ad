//! --mode: makes samples from the lines, pages, keys or rows of text, instead of reading them from archives.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;
use tarpipe::cli::SharedTally;
use tarpipe::location;
use tarpipe::sample::member_name;
use tarpipe::sample::{Member, Sample};
use tarpipe::source;

use crate::tarproc::args::InputMode;

/// An open source and its display name.
type OpenText = (Arc<str>, BufReader<Box<dyn Read + Send>>);

/// Samples made from text: one per line, page, key or row.
pub struct TextSamples {
    names: std::vec::IntoIter<String>,
    text: Option<OpenText>,
    mode: InputMode,
    index: u64,
    max_sample: u64,
    tally: SharedTally,
}

impl TextSamples {
    /// Samples from these sources. Items larger than `max_sample` bytes are left out and counted.
    pub fn new(names: Vec<String>, mode: InputMode, max_sample: u64, tally: &SharedTally) -> Self {
        TextSamples { names: names.into_iter(), text: None, mode, index: 0, max_sample, tally: tally.clone() }
    }

    fn read(&mut self) -> Result<Option<Sample>> {
        loop {
            let Some((source, text)) = &mut self.text else {
                let Some(name) = self.names.next() else { return Ok(None) };
                let shown: Arc<str> = location::display(&name).into();
                let opened = source::open(&name).with_context(|| shown.to_string())?;
                self.text = Some((shown, BufReader::new(opened)));
                continue;
            };
            let source = Arc::clone(source);
            let end = if self.mode == InputMode::Pages { b'\x0c' } else { b'\n' };
            let Some(item) = next_item(text, end, self.max_sample).with_context(|| source.to_string())? else {
                self.text = None;
                continue;
            };
            let index = self.index;
            self.index += 1;
            let made = item.map_err(|code| anyhow!(code)).and_then(|item| self.sample(index, item, &source));
            match made {
                Ok(sample) => return Ok(Some(sample)),
                Err(err) => self.leave_out(&source, index, &err),
            }
        }
    }

    fn leave_out(&self, source: &str, index: u64, err: &anyhow::Error) {
        let code = if err.to_string() == TOO_LARGE { TOO_LARGE } else { "bad_row" };
        let item = format!("{source}: item {index}");
        self.tally.add(|tally| tally.leave_out(code, &item, &format_args!("{err:#}")));
    }

    fn sample(&self, index: u64, item: Vec<u8>, source: &Arc<str>) -> Result<Sample> {
        let (key, members) = match self.mode {
            InputMode::Keys => (Some(String::from_utf8(item)?), Vec::new()),
            InputMode::Rows => (row_key(&item)?, vec![Member::new("json", item)]),
            _ => (None, vec![Member::new("txt", item)]),
        };
        let key = key.unwrap_or_else(|| format!("{index:09}"));
        member_name::check_key(&key).map_err(|unfit| anyhow!("{key} cannot be a key: {unfit}"))?;
        Ok(Sample { key, mtime: 0, source: Arc::clone(source), members })
    }
}

impl Iterator for TextSamples {
    type Item = Result<Sample>;

    fn next(&mut self) -> Option<Result<Sample>> {
        self.read().transpose()
    }
}

const TOO_LARGE: &str = "too_large";

/// The next item without its end; None after the last. The inner error is the code of an item that is too large, which
/// is skipped.
fn next_item(text: &mut impl BufRead, end: u8, limit: u64) -> Result<Option<Result<Vec<u8>, &'static str>>> {
    let mut item = Vec::new();
    if text.take(limit + 1).read_until(end, &mut item)? == 0 {
        return Ok(None);
    }
    if item.last() == Some(&end) {
        item.pop();
    } else if item.len() as u64 > limit {
        text.skip_until(end)?;
        return Ok(Some(Err(TOO_LARGE)));
    }
    if end == b'\n' && item.last() == Some(&b'\r') {
        item.pop();
    }
    Ok(Some(Ok(item)))
}

/// The key in a row, if it has one.
fn row_key(row: &[u8]) -> Result<Option<String>> {
    let row: Value = serde_json::from_slice(row)?;
    let row = row.as_object().context("not a JSON object")?;
    let key = row.get("__key__").or_else(|| row.get("key"));
    Ok(key.map(|key| key.as_str().map_or_else(|| key.to_string(), str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str, end: u8) -> Vec<String> {
        let mut text = text.as_bytes();
        let next = || next_item(&mut text, end, 5).unwrap();
        std::iter::from_fn(next)
            .map(|item| item.map_or_else(str::to_owned, |item| String::from_utf8(item).unwrap()))
            .collect()
    }

    #[test]
    fn text_is_split_into_items() {
        assert_eq!(items("a\nb\r\n\nc", b'\n'), ["a", "b", "", "c"]);
        assert_eq!(items("a\nb\x0cc", b'\x0c'), ["a\nb", "c"]);
        assert_eq!(items("12345\n123456\nx\n", b'\n'), ["12345", TOO_LARGE, "x"]);
        assert!(items("", b'\n').is_empty());
    }

    #[test]
    fn a_row_may_contain_its_key() {
        assert_eq!(row_key(br#"{"key": "a/b"}"#).unwrap().unwrap(), "a/b");
        assert_eq!(row_key(br#"{"__key__": 7, "key": "x"}"#).unwrap().unwrap(), "7");
        assert!(row_key(br#"{"url": "x"}"#).unwrap().is_none());
        assert!(row_key(b"[1]").is_err());
    }
}
