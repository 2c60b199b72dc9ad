//! Samples as rows of a table: JSON lines, YAML, CSV, TSV, parquet.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tarpipe::messages;
use tarpipe::sample::Sample;
use tarpipe::table::{Datum, InferredWriter};
use tarpipe::tally::Tally;

use crate::tarshow::args::Args;
use crate::tarshow::columns::{FieldColumns, SampleValues, is_json, text_of};
use crate::tarshow::content::FieldContent;
use crate::tarshow::samples;
use crate::tarshow::text::printable::clean;
use crate::tarshow::text::text_output::{self, TextOutput};

/// The format of printed rows.
#[derive(Clone, Copy, PartialEq)]
pub enum RowFormat {
    Json,
    Yaml,
    Csv,
    Tsv,
}

/// Prints one row per sample.
pub fn print(args: &Args, format: RowFormat) -> Result<Tally> {
    let mut output = TextOutput::create(&args.output)?;
    let columns = args.fields.clone().map(FieldColumns::with_key);
    let guarded = text_output::is_terminal(&args.output);
    if let (Some(columns), RowFormat::Csv | RowFormat::Tsv) = (&columns, format) {
        let header: Vec<Value> = columns.names().into_iter().map(Value::from).collect();
        output.write(separated(&header, format, guarded).as_bytes())?;
    }
    let work = move |sample: &Sample| row(sample, columns.as_ref(), format, guarded);
    let tally = samples::prepare(args, work, |row| output.write(row.as_bytes()))?;
    if format == RowFormat::Yaml && tally.count_done() == 0 {
        output.write(b"[]\n")?;
    }
    output.finish()?;
    Ok(tally)
}

/// Writes a parquet table.
pub fn export_parquet(args: &Args, file: &str) -> Result<Tally> {
    tarpipe::cli::refuse_terminal(file)?;
    let columns = args.fields.clone().unwrap_or(FieldColumns(Vec::new())).with_key();
    let mut table = InferredWriter::create(file, columns.names())?;
    let work = move |sample: &Sample| {
        let values = SampleValues::new(sample);
        columns.0.iter().map(|column| values.datum(column)).collect::<Result<Vec<Datum>, _>>()
    };
    let tally = samples::prepare(args, work, |row| table.add(row))?;
    table.finish()?;
    Ok(tally)
}

fn row(
    sample: &Sample,
    columns: Option<&FieldColumns>,
    format: RowFormat,
    guarded: bool,
) -> Result<String, &'static str> {
    let cells = match columns {
        Some(columns) => chosen(sample, columns)?,
        None => all(sample)?,
    };
    Ok(match format {
        RowFormat::Json => format!("{}\n", safe_json(&cells.into_iter().collect::<Value>())),
        RowFormat::Yaml => yaml(&cells),
        RowFormat::Csv | RowFormat::Tsv => {
            separated(&cells.into_iter().map(|(_, value)| value).collect::<Vec<Value>>(), format, guarded)
        }
    })
}

fn chosen(sample: &Sample, columns: &FieldColumns) -> Result<Vec<(String, Value)>, &'static str> {
    let values = SampleValues::new(sample);
    let cell = |datum| match datum {
        Datum::Json(value) => value,
        Datum::Bytes(bytes) => Value::from(STANDARD.encode(bytes)),
    };
    columns.0.iter().map(|column| Ok((column.name.clone(), cell(values.datum(column)?)))).collect()
}

/// All fields. Binary ones are described, since nobody asked for their bytes.
fn all(sample: &Sample) -> Result<Vec<(String, Value)>, &'static str> {
    let values = SampleValues::new(sample);
    let mut cells = vec![("__key__".to_owned(), Value::from(sample.key.as_str()))];
    for member in &sample.members {
        let value = match FieldContent::detect(member) {
            FieldContent::Text if is_json(&member.field) => String::from_utf8_lossy(&member.data).into(),
            FieldContent::Text | FieldContent::Json => match values.whole(member)? {
                Datum::Json(value) => value,
                Datum::Bytes(_) => Value::Null,
            },
            kind => json!({"bytes": member.data.len(), "kind": kind.to_string()}),
        };
        cells.push((member.field.clone(), value));
    }
    Ok(cells)
}

/// JSON with control characters escaped, which is still the same JSON.
fn safe_json(value: &Value) -> String {
    messages::escape_json(&value.to_string()).into_owned()
}

/// An item of a YAML list. The values are JSON, which is valid YAML and unambiguous.
fn yaml(cells: &[(String, Value)]) -> String {
    let entry = |(at, (name, value)): (usize, &(String, Value))| {
        let indent = if at == 0 { "- " } else { "  " };
        format!("{indent}{}: {}\n", safe_json(&Value::from(name.as_str())), safe_json(value))
    };
    cells.iter().enumerate().map(entry).collect()
}

fn separated(values: &[Value], format: RowFormat, guarded: bool) -> String {
    let separator = if format == RowFormat::Csv { "," } else { "\t" };
    let cell = |value: &Value| {
        let text = text_of(value);
        let text = if guarded { clean(&text) } else { text };
        let must = text.contains([',', '\t', '"', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ');
        if must { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
    };
    let cells: Vec<String> = values.iter().map(cell).collect();
    // A row with a single empty cell must not be an empty line, which readers skip.
    let line = cells.join(separator);
    if line.is_empty() { "\"\"\n".into() } else { line + "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tarshow::text::printable::acts;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let values = [json!("a,b"), json!("say \"x\""), json!(3), Value::Null, json!("x\ny")];
        assert_eq!(separated(&values, RowFormat::Csv, false), "\"a,b\",\"say \"\"x\"\"\",3,,\"x\ny\"\n");
        assert_eq!(separated(&[json!("a\x1b[m")], RowFormat::Tsv, true), "a\\u{1b}[m\n");
        assert_eq!(separated(&[Value::Null], RowFormat::Csv, false), "\"\"\n");
    }

    #[test]
    fn json_is_the_same_and_does_not_act() {
        let value = json!({"a\u{9b}": "\u{7f}\u{202e}ü\n"});
        let text = safe_json(&value);
        assert!(!text.contains(acts));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
