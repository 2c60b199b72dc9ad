//! Samples for people to read: as blocks, or as one line each.

use std::fmt::Write;

use anyhow::Result;
use tarpipe::sample::{Member, Sample};
use tarpipe::tally::{Tally, counted};
use tarpipe::value::size;

use crate::tarshow::args::Args;
use crate::tarshow::columns::{FieldColumns, FoundValue, SampleValues, text_of};
use crate::tarshow::content::FieldContent;
use crate::tarshow::ffprobe;
use crate::tarshow::samples;
use crate::tarshow::text::printable::{clean, one_line, truncate, width};
use crate::tarshow::text::text_output::{self, TextOutput};

/// Columns if stdout is not a terminal.
const COLUMNS: usize = 100;
/// The widest column of field names.
const MAX_NAME: usize = 24;

/// Prints one block per sample.
pub fn print_blocks(args: &Args) -> Result<Tally> {
    let columns =
        Some(()).filter(|()| text_output::is_terminal(&args.output)).and_then(|()| text_output::terminal_columns());
    let columns = columns.unwrap_or(COLUMNS);
    print(args, move |sample, chosen| block(sample, chosen, columns))
}

/// Prints one line per sample.
pub fn print_lines(args: &Args) -> Result<Tally> {
    print(args, sample_line)
}

fn print(
    args: &Args,
    text: impl Fn(&Sample, Option<&FieldColumns>) -> Result<String, &'static str> + Send + Sync + 'static,
) -> Result<Tally> {
    let mut output = TextOutput::create(&args.output)?;
    let chosen = args.fields.clone();
    let work = move |sample: &Sample| text(sample, chosen.as_ref());
    let tally = samples::prepare(args, work, |text| output.write(text.as_bytes()))?;
    output.finish()?;
    Ok(tally)
}

/// A field or a value inside one, and the name to show it under.
struct ShownField<'a> {
    name: String,
    found: FoundValue<'a>,
}

fn fields_to_show<'a>(sample: &'a Sample, chosen: Option<&FieldColumns>) -> Result<Vec<ShownField<'a>>, &'static str> {
    let Some(columns) = chosen else {
        let whole = |member: &'a Member| ShownField { name: member.field.clone(), found: FoundValue::Field(member) };
        return Ok(sample.members.iter().map(whole).collect());
    };
    let values = SampleValues::new(sample);
    let mut shown = Vec::new();
    for column in &columns.0 {
        shown.extend(values.find(column)?.map(|found| ShownField { name: column.name.clone(), found }));
    }
    Ok(shown)
}

fn block(sample: &Sample, chosen: Option<&FieldColumns>, columns: usize) -> Result<String, &'static str> {
    let shown = fields_to_show(sample, chosen)?;
    let names: Vec<String> = shown.iter().map(|field| clean(&field.name)).collect();
    let name_width = names.iter().map(|name| width(name)).max().unwrap_or(0).min(MAX_NAME);
    let count = counted(sample.members.len() as u64, "field");
    let mut text = format!("{}  ({count}, {})\n", clean(&sample.key), size::show(sample.bytes()));
    for (ShownField { found, .. }, name) in shown.iter().zip(names) {
        let padding = name_width.saturating_sub(width(&name));
        let start = format!("  {name}{}  {:>8}  ", " ".repeat(padding), size_of(found));
        let room = columns.saturating_sub(width(&start)).max(20);
        _ = writeln!(text, "{start}{}", describe(found, room));
    }
    text.push('\n');
    Ok(text)
}

fn sample_line(sample: &Sample, chosen: Option<&FieldColumns>) -> Result<String, &'static str> {
    let mut text = format!("{:>8}  {}", size::show(sample.bytes()), clean(&sample.key));
    for ShownField { name, found } in fields_to_show(sample, chosen)? {
        _ = match &found {
            FoundValue::Field(member) => write!(text, "  {} {}", clean(&name), size::show(member.data.len() as u64)),
            FoundValue::Value(value) => write!(text, "  {}={}", clean(&name), one_line(&text_of(value), COLUMNS)),
        };
    }
    text.push('\n');
    Ok(text)
}

fn size_of(found: &FoundValue<'_>) -> String {
    match found {
        FoundValue::Field(member) => size::show(member.data.len() as u64),
        FoundValue::Value(_) => String::new(),
    }
}

/// One line about a field: as much of its content as fits, or a description.
fn describe(found: &FoundValue<'_>, room: usize) -> String {
    let member = match found {
        FoundValue::Value(value) => return one_line(&text_of(value), room),
        FoundValue::Field(member) => member,
    };
    let described = match FieldContent::detect(member) {
        FieldContent::Text => one_line(&String::from_utf8_lossy(&member.data), room),
        FieldContent::Json => {
            let value: serde_json::Value = serde_json::from_slice(&member.data).unwrap_or_default();
            one_line(&value.to_string(), room)
        }
        FieldContent::Media(mime) => {
            ffprobe::describe(&member.data).map_or_else(|| mime.to_owned(), |words| clean(&words))
        }
        FieldContent::Binary(None) => format!("binary {}", hex(&member.data)),
        kind => kind.to_string(),
    };
    truncate(&described, room).to_owned()
}

/// The first bytes, for readers who know their formats.
fn hex(data: &[u8]) -> String {
    let head: Vec<String> = data.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    head.join(" ") + if data.len() > 16 { " …" } else { "" }
}
