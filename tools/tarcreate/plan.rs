//! Plans: lines `NAME SOURCE`; adjacent lines with the same key are one sample.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tarpipe::location;
use tarpipe::sample::member_name;
use tarpipe::source;
use tarpipe::table::Flow;

use crate::tarcreate::content::{Content, ContentResolver};
use crate::tarcreate::inputs::Emit;
use crate::tarcreate::planned_sample::{InputPosition, ItemRefusal, PlannedItem, PlannedSample};

/// A longer line is an error: the input is probably not text.
const MAX_LINE: u64 = 64 << 20;

/// Emits the samples of a plan.
pub fn visit(name: &str, resolver: &ContentResolver, emit: Emit<'_>) -> Result<Flow> {
    let mut pending: Option<PlannedSample> = None;
    let flow = each_line(name, &mut |position, line| {
        if line.trim_ascii().is_empty() || line.starts_with(b"#") {
            return Ok(Flow::Continue(()));
        }
        let (key, field, content) = match parse(line, resolver) {
            Ok(parsed) => parsed,
            Err(refusal) => return emit(Err((position, refusal))),
        };
        match &mut pending {
            Some(sample) if sample.key == key => {
                sample.fields.push((field, content));
                Ok(Flow::Continue(()))
            }
            _ => match pending.replace(PlannedSample { position, key, fields: vec![(field, content)] }) {
                Some(sample) => emit(sample.checked()),
                None => Ok(Flow::Continue(())),
            },
        }
    })?;
    match pending {
        Some(sample) if flow.is_continue() => emit(sample.checked()),
        _ => Ok(flow),
    }
}

fn parse(line: &[u8], resolver: &ContentResolver) -> Result<(String, String, Content), ItemRefusal> {
    let line = std::str::from_utf8(line).map_err(|_| ItemRefusal::new("name_not_utf8", "the line is not UTF-8"))?;
    let Some((name, source)) = line.trim_start().split_once([' ', '\t']) else {
        return Err(ItemRefusal::new("bad_row", format!("no source after '{line}' (write NAME SOURCE)")));
    };
    let (key, field) = member_name::split(name.as_bytes()).map_err(|unfit| {
        let code = if unfit.is_harmless() { "bad_name" } else { unfit.code() };
        ItemRefusal::new(code, format!("'{name}' cannot be a member name: {unfit}"))
    })?;
    let content = resolver.resolve(source.trim_start_matches([' ', '\t']))?;
    Ok((key.to_owned(), field.to_owned(), content))
}

/// Passes each line of a source to `take`, without its line end.
pub fn each_line(name: &str, take: &mut dyn FnMut(InputPosition, &[u8]) -> Result<Flow>) -> Result<Flow> {
    let shown = location::display(name);
    let mut input = BufReader::with_capacity(256 << 10, source::open(name).with_context(|| shown.clone())?);
    let shown: Arc<str> = shown.into();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        (&mut input).take(MAX_LINE).read_until(b'\n', &mut line).with_context(|| shown.to_string())?;
        if line.is_empty() {
            break;
        }
        if line.len() as u64 >= MAX_LINE {
            bail!("{shown}: line {number} is longer than {} MB", MAX_LINE >> 20);
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if take(InputPosition { source: Arc::clone(&shown), noun: "line", number }, text)?.is_break() {
            return Ok(Flow::Break(()));
        }
    }
    Ok(Flow::Continue(()))
}

/// An item that is left out.
pub fn refuse(position: InputPosition, code: &'static str, why: String) -> PlannedItem {
    Err((position, ItemRefusal::new(code, why)))
}
