//! Samples for people to read: a block each, or a line.

use std::fmt::Write;

use anyhow::Result;
use tarpipe::sample::{Member, Sample};
use tarpipe::tally::{Tally, counted};
use tarpipe::value::size;

use crate::args::Args;
use crate::columns::{Columns, Found, View, text_of};
use crate::flow;
use crate::kind::Kind;
use crate::media;
use crate::output::{self, Output};
use crate::readable::{clean, cut, line, width};

/// Columns where there is no terminal to ask.
const COLUMNS: usize = 100;
/// A column of field names grows no wider.
const MAX_NAME: usize = 24;

/// Prints a block a sample.
pub fn show(args: &Args) -> Result<Tally> {
    let columns = Some(()).filter(|()| output::is_terminal(&args.output)).and_then(|()| output::terminal_columns());
    let columns = columns.unwrap_or(COLUMNS);
    print(args, move |sample, chosen| block(sample, chosen, columns))
}

/// Prints a line a sample.
pub fn list(args: &Args) -> Result<Tally> {
    print(args, one_line)
}

fn print(
    args: &Args,
    text: impl Fn(&Sample, Option<&Columns>) -> Result<String, &'static str> + Send + Sync + 'static,
) -> Result<Tally> {
    let mut output = Output::create(&args.output)?;
    let chosen = args.fields.clone();
    let work = move |sample: &Sample| text(sample, chosen.as_ref());
    let tally = flow::each(args, work, |text| output.write(text.as_bytes()))?;
    output.finish()?;
    Ok(tally)
}

/// A field, or a value inside one, under the name that it is shown by.
struct Shown<'a> {
    name: String,
    found: Found<'a>,
}

fn shown<'a>(sample: &'a Sample, chosen: Option<&Columns>) -> Result<Vec<Shown<'a>>, &'static str> {
    let Some(columns) = chosen else {
        let whole = |member: &'a Member| Shown { name: member.field.clone(), found: Found::Field(member) };
        return Ok(sample.members.iter().map(whole).collect());
    };
    let view = View::new(sample);
    let mut shown = Vec::new();
    for column in &columns.0 {
        shown.extend(view.find(column)?.map(|found| Shown { name: column.name.clone(), found }));
    }
    Ok(shown)
}

fn block(sample: &Sample, chosen: Option<&Columns>, columns: usize) -> Result<String, &'static str> {
    let shown = shown(sample, chosen)?;
    let names: Vec<String> = shown.iter().map(|field| clean(&field.name)).collect();
    let name_width = names.iter().map(|name| width(name)).max().unwrap_or(0).min(MAX_NAME);
    let count = counted(sample.members.len() as u64, "field");
    let mut text = format!("{}  ({count}, {})\n", clean(&sample.key), size::show(sample.bytes()));
    for (Shown { found, .. }, name) in shown.iter().zip(names) {
        let padding = name_width.saturating_sub(width(&name));
        let start = format!("  {name}{}  {:>8}  ", " ".repeat(padding), bytes(found));
        let room = columns.saturating_sub(width(&start)).max(20);
        _ = writeln!(text, "{start}{}", head(found, room));
    }
    text.push('\n');
    Ok(text)
}

fn one_line(sample: &Sample, chosen: Option<&Columns>) -> Result<String, &'static str> {
    let mut text = format!("{:>8}  {}", size::show(sample.bytes()), clean(&sample.key));
    for Shown { name, found } in shown(sample, chosen)? {
        _ = match &found {
            Found::Field(member) => write!(text, "  {} {}", clean(&name), size::show(member.data.len() as u64)),
            Found::Value(value) => write!(text, "  {}={}", clean(&name), line(&text_of(value), COLUMNS)),
        };
    }
    text.push('\n');
    Ok(text)
}

fn bytes(found: &Found<'_>) -> String {
    match found {
        Found::Field(member) => size::show(member.data.len() as u64),
        Found::Value(_) => String::new(),
    }
}

/// What a field holds, in one line: as much of it as there is room for, or what it is.
fn head(found: &Found<'_>, room: usize) -> String {
    let member = match found {
        Found::Value(value) => return line(&text_of(value), room),
        Found::Field(member) => member,
    };
    let described = match Kind::of(member) {
        Kind::Text => line(&String::from_utf8_lossy(&member.data), room),
        Kind::Json => {
            let value: serde_json::Value = serde_json::from_slice(&member.data).unwrap_or_default();
            line(&value.to_string(), room)
        }
        Kind::Media(mime) => media::probe(&member.data).map_or_else(|| mime.to_owned(), |words| clean(&words)),
        Kind::Binary(None) => format!("binary {}", hex(&member.data)),
        kind => kind.to_string(),
    };
    cut(&described, room).to_owned()
}

/// The first bytes, for those who know their formats.
fn hex(data: &[u8]) -> String {
    let head: Vec<String> = data.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    head.join(" ") + if data.len() > 16 { " …" } else { "" }
}
