//! What is worked on: samples off archives, or made from the lines, pages, keys or rows of a text.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use serde_json::Value;
use tarpipe::cli::SharedTally;
use tarpipe::location;
use tarpipe::messages;
use tarpipe::sample::member_name;
use tarpipe::sample::{Member, Sample};
use tarpipe::source;
use tarpipe::value::slice::Slice;

use crate::budget::Budget;
use crate::job::Job;
use crate::outlet::LOG_FIELD;

/// What the sources hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Archives of samples.
    Tar,
    /// Text; each line is a sample with the field txt.
    Lines,
    /// Text; each page, up to a form feed, is a sample with the field txt.
    Pages,
    /// Text; each line is the key of a sample without fields.
    Keys,
    /// JSON lines; each is a sample with the field json, its key from __key__ or key.
    Rows,
}

/// A source by its name.
type Text = (Arc<str>, BufReader<Box<dyn Read + Send>>);

/// Samples made from text, one for each piece.
pub struct Pieces {
    names: std::vec::IntoIter<String>,
    text: Option<Text>,
    mode: Mode,
    index: u64,
    max_sample: u64,
    tally: SharedTally,
}

impl Pieces {
    /// The pieces of these sources; pieces over `max_sample` bytes are left out.
    pub fn new(names: Vec<String>, mode: Mode, max_sample: u64, tally: &SharedTally) -> Self {
        Pieces { names: names.into_iter(), text: None, mode, index: 0, max_sample, tally: tally.clone() }
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
            let end = if self.mode == Mode::Pages { b'\x0c' } else { b'\n' };
            let Some(piece) = next_piece(text, end, self.max_sample).with_context(|| source.to_string())? else {
                self.text = None;
                continue;
            };
            let index = self.index;
            self.index += 1;
            let made = piece.map_err(|code| anyhow!(code)).and_then(|piece| self.sample(index, piece, &source));
            match made {
                Ok(sample) => return Ok(Some(sample)),
                Err(err) => self.leave_out(&source, index, &err),
            }
        }
    }

    fn leave_out(&self, source: &str, index: u64, err: &anyhow::Error) {
        messages::detail(&format!("{source}: item {index}: left out: {err:#}"));
        let too_large = err.to_string() == TOO_LARGE;
        self.tally.add(|tally| tally.fail(if too_large { TOO_LARGE } else { "bad_row" }));
    }

    fn sample(&self, index: u64, piece: Vec<u8>, source: &Arc<str>) -> Result<Sample> {
        let (key, members) = match self.mode {
            Mode::Keys => (Some(String::from_utf8(piece)?), Vec::new()),
            Mode::Rows => (row_key(&piece)?, vec![Member::new("json", piece)]),
            _ => (None, vec![Member::new("txt", piece)]),
        };
        let key = key.unwrap_or_else(|| format!("{index:09}"));
        member_name::check_key(&key).map_err(|unfit| anyhow!("{key} cannot be a key: {unfit}"))?;
        Ok(Sample { key, mtime: 0, source: Arc::clone(source), members })
    }
}

impl Iterator for Pieces {
    type Item = Result<Sample>;

    fn next(&mut self) -> Option<Result<Sample>> {
        self.read().transpose()
    }
}

const TOO_LARGE: &str = "too_large";

/// The next piece without its end; None after the last. One that is too large is read past.
fn next_piece(text: &mut impl BufRead, end: u8, limit: u64) -> Result<Option<Result<Vec<u8>, &'static str>>> {
    let mut piece = Vec::new();
    if text.take(limit + 1).read_until(end, &mut piece)? == 0 {
        return Ok(None);
    }
    if piece.last() == Some(&end) {
        piece.pop();
    } else if piece.len() as u64 > limit {
        text.skip_until(end)?;
        return Ok(Some(Err(TOO_LARGE)));
    }
    if end == b'\n' && piece.last() == Some(&b'\r') {
        piece.pop();
    }
    Ok(Some(Ok(piece)))
}

/// The key that a row brings along.
fn row_key(row: &[u8]) -> Result<Option<String>> {
    let row: Value = serde_json::from_slice(row)?;
    let row = row.as_object().context("not a JSON object")?;
    let key = row.get("__key__").or_else(|| row.get("key"));
    Ok(key.map(|key| key.as_str().map_or_else(|| key.to_string(), str::to_owned)))
}

/// Which samples become jobs, and what of them.
pub struct Choice {
    /// By their position in the input.
    pub slice: Slice,
    /// The fields that are unpacked; None: all.
    pub fields: Option<Vec<String>>,
    /// So many samples a job.
    pub batch: usize,
}

/// Jobs for the workers, made as there is room for them.
pub struct Jobs<I> {
    samples: I,
    choice: Choice,
    budget: Arc<Budget>,
    position: u64,
}

impl<I: Iterator<Item = Result<Sample>>> Jobs<I> {
    /// Makes jobs of the samples that are chosen.
    pub fn new(samples: I, choice: Choice, budget: Arc<Budget>) -> Self {
        Jobs { samples, choice, budget, position: 0 }
    }

    /// The next sample that is chosen, and its position.
    fn next_sample(&mut self) -> Option<Result<(u64, Sample)>> {
        while !self.choice.slice.is_over(self.position) {
            let sample = self.samples.next()?;
            self.position += 1;
            match sample {
                Err(err) => return Some(Err(err)),
                Ok(mut sample) if self.choice.slice.has(self.position - 1) => {
                    let wanted =
                        |field: &String| self.choice.fields.as_ref().is_none_or(|fields| fields.contains(field));
                    sample.members.retain(|member| wanted(&member.field) && member.field != LOG_FIELD);
                    return Some(Ok((self.position - 1, sample)));
                }
                Ok(_) => {}
            }
        }
        None
    }
}

impl<I: Iterator<Item = Result<Sample>>> Iterator for Jobs<I> {
    type Item = Result<Job>;

    fn next(&mut self) -> Option<Result<Job>> {
        self.budget.wait_for_room();
        let mut first = None;
        let mut samples = Vec::with_capacity(self.choice.batch.min(64));
        while samples.len() < self.choice.batch {
            match self.next_sample() {
                None => break,
                Some(Err(err)) => return Some(Err(err)),
                Some(Ok((position, sample))) => {
                    first.get_or_insert(position);
                    samples.push(sample);
                }
            }
        }
        let held = self.budget.hold(samples.iter().map(Sample::bytes).sum());
        first.map(|index| Ok(Job { index, samples, held }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str, end: u8) -> Vec<String> {
        let mut text = text.as_bytes();
        let next = || next_piece(&mut text, end, 5).unwrap();
        std::iter::from_fn(next)
            .map(|piece| piece.map_or_else(str::to_owned, |p| String::from_utf8(p).unwrap()))
            .collect()
    }

    #[test]
    fn texts_fall_into_pieces() {
        assert_eq!(pieces("a\nb\r\n\nc", b'\n'), ["a", "b", "", "c"]);
        assert_eq!(pieces("a\nb\x0cc", b'\x0c'), ["a\nb", "c"]);
        assert_eq!(pieces("12345\n123456\nx\n", b'\n'), ["12345", TOO_LARGE, "x"]);
        assert!(pieces("", b'\n').is_empty());
    }

    #[test]
    fn rows_may_bring_their_key() {
        assert_eq!(row_key(br#"{"key": "a/b"}"#).unwrap().unwrap(), "a/b");
        assert_eq!(row_key(br#"{"__key__": 7, "key": "x"}"#).unwrap().unwrap(), "7");
        assert!(row_key(br#"{"url": "x"}"#).unwrap().is_none());
        assert!(row_key(b"[1]").is_err());
    }
}
