//! One row an image: what became of it, joined to other reports by key.

use std::io::Write;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tarpipe::cli::Usage;
use tarpipe::sink::{Options, Sink};

use crate::fields::Image;

const COLUMNS: [&str; 11] = [
    "key",
    "field",
    "status",
    "code",
    "error_message",
    "width",
    "height",
    "original_width",
    "original_height",
    "format",
    "bytes",
];

/// How rows are written.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Lines,
    Csv,
}

/// A report on its way: it appears under its name when it is whole.
pub struct Report {
    sink: Sink,
    name: String,
    kind: Kind,
}

impl Report {
    /// Creates a report; its suffix (before that of a compression) is .jsonl or .csv.
    pub fn create(name: &str) -> Result<Self> {
        let plain = [".gz", ".zst", ".xz", ".bz2", ".lz4"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let kind = match plain.unwrap_or(name).rsplit('.').next() {
            Some("jsonl" | "ndjson") => Kind::Lines,
            Some("csv") => Kind::Csv,
            _ => bail!(Usage(format!("--report {name}: a report is a .jsonl or a .csv file"))),
        };
        let sink = Sink::create(name, Options::default())?;
        let mut report = Self { sink, name: name.to_owned(), kind };
        if kind == Kind::Csv {
            report.line(&COLUMNS.join(","))?;
        }
        Ok(report)
    }

    /// Writes the row of one image of the sample `key`.
    pub fn write(&mut self, key: &str, image: &Image) -> Result<()> {
        let values = row(key, image);
        let line = match self.kind {
            Kind::Lines => COLUMNS.iter().map(|&name| name.to_owned()).zip(values).collect::<Value>().to_string(),
            Kind::Csv => values.iter().map(cell).collect::<Vec<String>>().join(","),
        };
        self.line(&line)
    }

    /// Makes the report appear.
    pub fn finish(self) -> Result<()> {
        self.sink.finish().map(drop)
    }

    fn line(&mut self, text: &str) -> Result<()> {
        writeln!(self.sink, "{text}").with_context(|| self.name.clone())
    }
}

fn row(key: &str, image: &Image) -> [Value; COLUMNS.len()] {
    let field = &image.field;
    match &image.result {
        Ok(done) => [
            json!(key),
            json!(field),
            json!("success"),
            Value::Null,
            Value::Null,
            json!(done.size.width),
            json!(done.size.height),
            json!(done.original.width),
            json!(done.original.height),
            json!(done.format.name()),
            json!(done.written),
        ],
        Err(failure) => {
            let mut row = [const { Value::Null }; COLUMNS.len()];
            row[..5].clone_from_slice(&[
                json!(key),
                json!(field),
                json!("failed"),
                json!(failure.code.name()),
                json!(failure.detail),
            ]);
            row
        }
    }
}

/// A value as CSV has it: quoted where it must be, empty for nothing.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let cells = [json!("a,b"), json!("say \"x\""), json!(3), Value::Null, json!("plain")].map(|value| cell(&value));
        assert_eq!(cells, ["\"a,b\"", "\"say \"\"x\"\"\"", "3", "", "plain"]);
    }
}
