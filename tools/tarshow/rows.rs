//! Samples as rows of a table: JSON lines, YAML, CSV, TSV, parquet.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tarpipe::messages;
use tarpipe::sample::Sample;
use tarpipe::table::{Datum, Export};
use tarpipe::tally::Tally;

use crate::args::Args;
use crate::columns::{Columns, View, is_json, text_of};
use crate::flow;
use crate::kind::Kind;
use crate::output::{self, Output};
use crate::readable::clean;

/// How rows are printed.
#[derive(Clone, Copy, PartialEq)]
pub enum Format {
    Json,
    Yaml,
    Csv,
    Tsv,
}

/// Prints a row a sample.
pub fn print(args: &Args, format: Format) -> Result<Tally> {
    let mut output = Output::create(&args.output)?;
    let columns = args.fields.clone().map(Columns::with_key);
    let guarded = output::is_terminal(&args.output);
    if let (Some(columns), Format::Csv | Format::Tsv) = (&columns, format) {
        let header: Vec<Value> = columns.names().into_iter().map(Value::from).collect();
        output.write(separated(&header, format, guarded).as_bytes())?;
    }
    let work = move |sample: &Sample| row(sample, columns.as_ref(), format, guarded);
    let tally = flow::each(args, work, |row| output.write(row.as_bytes()))?;
    if format == Format::Yaml && tally.count_done() == 0 {
        output.write(b"[]\n")?;
    }
    output.finish()?;
    Ok(tally)
}

/// Writes a parquet table.
pub fn export(args: &Args, file: &str) -> Result<Tally> {
    tarpipe::cli::refuse_terminal(file)?;
    let columns = args.fields.clone().unwrap_or(Columns(Vec::new())).with_key();
    let mut table = Export::create(file, columns.names())?;
    let work = move |sample: &Sample| {
        let view = View::new(sample);
        columns.0.iter().map(|column| view.datum(column)).collect::<Result<Vec<Datum>, _>>()
    };
    let tally = flow::each(args, work, |row| table.add(row))?;
    table.finish()?;
    Ok(tally)
}

fn row(sample: &Sample, columns: Option<&Columns>, format: Format, guarded: bool) -> Result<String, &'static str> {
    let cells = match columns {
        Some(columns) => chosen(sample, columns)?,
        None => all(sample)?,
    };
    Ok(match format {
        Format::Json => format!("{}\n", safe_json(&cells.into_iter().collect::<Value>())),
        Format::Yaml => yaml(&cells),
        Format::Csv | Format::Tsv => {
            separated(&cells.into_iter().map(|(_, value)| value).collect::<Vec<Value>>(), format, guarded)
        }
    })
}

fn chosen(sample: &Sample, columns: &Columns) -> Result<Vec<(String, Value)>, &'static str> {
    let view = View::new(sample);
    let cell = |datum| match datum {
        Datum::Json(value) => value,
        Datum::Bytes(bytes) => Value::from(STANDARD.encode(bytes)),
    };
    columns.0.iter().map(|column| Ok((column.name.clone(), cell(view.datum(column)?)))).collect()
}

/// Every field: what is no text is described, for nobody asked for its bytes.
fn all(sample: &Sample) -> Result<Vec<(String, Value)>, &'static str> {
    let view = View::new(sample);
    let mut cells = vec![("__key__".to_owned(), Value::from(sample.key.as_str()))];
    for member in &sample.members {
        let value = match Kind::of(member) {
            Kind::Text if is_json(&member.field) => String::from_utf8_lossy(&member.data).into(),
            Kind::Text | Kind::Json => match view.whole(member)? {
                Datum::Json(value) => value,
                Datum::Bytes(_) => Value::Null,
            },
            kind => json!({"bytes": member.data.len(), "kind": kind.to_string()}),
        };
        cells.push((member.field.clone(), value));
    }
    Ok(cells)
}

/// JSON in which nothing acts on a terminal.
fn safe_json(value: &Value) -> String {
    messages::escape_json(&value.to_string()).into_owned()
}

/// An item of a list. JSON is YAML, so values stand as JSON: no text is taken for something else.
fn yaml(cells: &[(String, Value)]) -> String {
    let entry = |(at, (name, value)): (usize, &(String, Value))| {
        let indent = if at == 0 { "- " } else { "  " };
        format!("{indent}{}: {}\n", safe_json(&Value::from(name.as_str())), safe_json(value))
    };
    cells.iter().enumerate().map(entry).collect()
}

fn separated(values: &[Value], format: Format, guarded: bool) -> String {
    let separator = if format == Format::Csv { "," } else { "\t" };
    let cell = |value: &Value| {
        let text = text_of(value);
        let text = if guarded { clean(&text) } else { text };
        let must = text.contains([',', '\t', '"', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ');
        if must { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
    };
    let cells: Vec<String> = values.iter().map(cell).collect();
    // A row of one empty cell must not be an empty line, which readers pass over.
    let line = cells.join(separator);
    if line.is_empty() { "\"\"\n".into() } else { line + "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readable::acts;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let values = [json!("a,b"), json!("say \"x\""), json!(3), Value::Null, json!("x\ny")];
        assert_eq!(separated(&values, Format::Csv, false), "\"a,b\",\"say \"\"x\"\"\",3,,\"x\ny\"\n");
        assert_eq!(separated(&[json!("a\x1b[m")], Format::Tsv, true), "a\\u{1b}[m\n");
        assert_eq!(separated(&[Value::Null], Format::Csv, false), "\"\"\n");
    }

    #[test]
    fn json_is_the_same_and_does_not_act() {
        let value = json!({"a\u{9b}": "\u{7f}\u{202e}ü\n"});
        let text = safe_json(&value);
        assert!(!text.contains(acts));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
