//! Plans: lines `name source`, those of one sample after each other.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tarpipe::location;
use tarpipe::sample::member_name;
use tarpipe::source;

use crate::content::{Content, Reading};
use crate::item::{Item, Job, Place, Refusal};
use crate::recipe::{Flow, Give};

/// A longer line is no line of a plan.
const LONGEST: u64 = 64 << 20;

/// Gives the samples of a plan.
pub fn visit(name: &str, reading: &Reading, give: Give<'_>) -> Result<Flow> {
    let mut pending: Option<Job> = None;
    let flow = each_line(name, &mut |place, line| {
        if line.trim_ascii().is_empty() || line.starts_with(b"#") {
            return Ok(Flow::Continue(()));
        }
        let (key, field, content) = match parse(line, reading) {
            Ok(parsed) => parsed,
            Err(refusal) => return give(Err((place, refusal))),
        };
        match &mut pending {
            Some(job) if job.key == key => {
                job.fields.push((field, content));
                Ok(Flow::Continue(()))
            }
            _ => match pending.replace(Job { place, key, fields: vec![(field, content)] }) {
                Some(job) => give(job.checked()),
                None => Ok(Flow::Continue(())),
            },
        }
    })?;
    match pending {
        Some(job) if flow.is_continue() => give(job.checked()),
        _ => Ok(flow),
    }
}

fn parse(line: &[u8], reading: &Reading) -> Result<(String, String, Content), Refusal> {
    let line = std::str::from_utf8(line).map_err(|_| Refusal::new("name_not_utf8", "the line is not UTF-8"))?;
    let Some((name, source)) = line.trim_start().split_once([' ', '\t']) else {
        return Err(Refusal::new("bad_row", format!("no source after '{line}' (write NAME SOURCE)")));
    };
    let (key, field) = member_name::split(name.as_bytes()).map_err(|unfit| {
        let code = if unfit.is_harmless() { "bad_name" } else { unfit.code() };
        Refusal::new(code, format!("'{name}' cannot be a member: {unfit}"))
    })?;
    let content = reading.content(source.trim_start_matches([' ', '\t']))?;
    Ok((key.to_owned(), field.to_owned(), content))
}

/// Hands over the lines of a source without their ends.
pub fn each_line(name: &str, take: &mut dyn FnMut(Place, &[u8]) -> Result<Flow>) -> Result<Flow> {
    let shown = location::display(name);
    let mut input = BufReader::with_capacity(256 << 10, source::open(name).with_context(|| shown.clone())?);
    let shown: Arc<str> = shown.into();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        (&mut input).take(LONGEST).read_until(b'\n', &mut line).with_context(|| shown.to_string())?;
        if line.is_empty() {
            break;
        }
        if line.len() as u64 >= LONGEST {
            bail!("{shown}: line {number} is longer than {} MB", LONGEST >> 20);
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if take(Place { source: Arc::clone(&shown), noun: "line", number }, text)?.is_break() {
            return Ok(Flow::Break(()));
        }
    }
    Ok(Flow::Continue(()))
}

/// For what gives items.
pub fn refuse(place: Place, code: &'static str, why: String) -> Item {
    Err((place, Refusal::new(code, why)))
}
