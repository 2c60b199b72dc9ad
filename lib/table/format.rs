//! The formats of tables, and how they are told apart.

/// The format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// One URL per line, in a single column `url`.
    Txt,
    /// Comma-separated, with a header line.
    Csv,
    /// Tab-separated, with a header line; quotes are not special.
    Tsv,
    /// An array of objects, or an object of columns.
    Json,
    /// One object per line.
    Jsonl,
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC: a file (feather 2) or a stream.
    Arrow,
}

/// Names in `--format` are the suffixes of files, too.
const NAMES: [(TableFormat, &[&str]); 7] = [
    (TableFormat::Txt, &["txt"]),
    (TableFormat::Csv, &["csv"]),
    (TableFormat::Tsv, &["tsv", "tab"]),
    (TableFormat::Json, &["json"]),
    (TableFormat::Jsonl, &["jsonl", "ndjson"]),
    (TableFormat::Parquet, &["parquet"]),
    (TableFormat::Arrow, &["arrow", "feather", "ipc"]),
];

impl TableFormat {
    /// The format of this name, as in `--format`; also the usual suffixes.
    pub fn from_name(name: &str) -> Option<TableFormat> {
        NAMES.iter().find(|(_, names)| names.contains(&name)).map(|&(format, _)| format)
    }

    /// The format that the suffix of a path or URL stands for, after removing a
    /// compression suffix. Queries and fragments of URLs are ignored.
    pub fn from_suffix(path: &str) -> Option<TableFormat> {
        let path = path.split(['?', '#']).next().unwrap_or(path).to_ascii_lowercase();
        let plain =
            ["gz", "zst", "xz", "bz2", "lz4"].iter().find_map(|suffix| path.strip_suffix(&format!(".{suffix}")));
        let (_, suffix) = plain.unwrap_or(&path).rsplit_once('.')?;
        TableFormat::from_name(suffix)
    }

    /// Detects the format of a table named `name` that begins with `head`. The
    /// content takes precedence over the name, except between csv, tsv and txt,
    /// which a single line cannot distinguish. Always returns a format; the
    /// least specific is txt.
    ///
    /// ```
    /// use tarpipe::table::TableFormat;
    ///
    /// assert_eq!(TableFormat::sniff("-", b"url,text\nhttp://h/1,a cat\n"), TableFormat::Csv);
    /// assert_eq!(TableFormat::sniff("urls.csv", b"PAR1"), TableFormat::Parquet);
    /// ```
    pub fn sniff(name: &str, head: &[u8]) -> TableFormat {
        if head.starts_with(b"PAR1") {
            return TableFormat::Parquet;
        }
        if head.starts_with(b"ARROW1") || head.starts_with(&[0xff, 0xff, 0xff, 0xff]) {
            return TableFormat::Arrow;
        }
        let named = TableFormat::from_suffix(name);
        if matches!(
            named,
            Some(TableFormat::Txt | TableFormat::Csv | TableFormat::Tsv | TableFormat::Parquet | TableFormat::Arrow)
        ) {
            return named.unwrap_or(TableFormat::Txt);
        }
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
        match text.first() {
            Some(b'[') => TableFormat::Json,
            Some(b'{') => json_kind(text, named),
            _ => line_kind(text),
        }
    }

    /// Whether the format can only be read from a seekable file.
    pub fn needs_seek(self) -> bool {
        matches!(self, TableFormat::Parquet | TableFormat::Arrow)
    }
}

/// A single object whose values are all columns is a whole table; otherwise it
/// is the first row. If the first line is not complete in `text`, its first
/// value decides.
fn json_kind(text: &[u8], named: Option<TableFormat>) -> TableFormat {
    if named == Some(TableFormat::Jsonl) {
        return TableFormat::Jsonl;
    }
    let mut lines = text.split(|&b| b == b'\n');
    let first = lines.next().unwrap_or_default();
    let has_second = lines.any(|line| !line.trim_ascii().is_empty());
    let is_table = match serde_json::from_slice::<serde_json::Map<_, _>>(first) {
        Ok(row) => !has_second && !row.is_empty() && row.values().all(is_column),
        Err(_) => starts_with_column(text),
    };
    if is_table { TableFormat::Json } else { TableFormat::Jsonl }
}

fn starts_with_column(text: &[u8]) -> bool {
    let value = text.iter().position(|&b| b == b':').map_or(&[][..], |colon| text[colon + 1..].trim_ascii_start());
    matches!(value.first(), Some(b'[' | b'{'))
}

fn is_column(value: &serde_json::Value) -> bool {
    value.is_array() || value.is_object()
}

/// Decides by the first line: a URL early in it means txt, then tabs, then
/// commas.
fn line_kind(text: &[u8]) -> TableFormat {
    let first = text.split(|&b| b == b'\n').next().unwrap_or_default();
    let is_url = first.windows(3).take(16).any(|three| three == b"://");
    if is_url {
        TableFormat::Txt
    } else if first.contains(&b'\t') {
        TableFormat::Tsv
    } else if first.contains(&b',') {
        TableFormat::Csv
    } else {
        TableFormat::Txt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_takes_precedence_over_names_except_between_text_formats() {
        let cases: [(&str, &[u8], TableFormat); 15] = [
            ("x.csv", b"PAR1\x15", TableFormat::Parquet),
            ("x", b"ARROW1\0\0", TableFormat::Arrow),
            ("x.csv.gz", b"http://h/a,b", TableFormat::Csv),
            ("x.txt", b"url,text\n", TableFormat::Txt),
            ("-", b"url,text\nhttp://h/1,a", TableFormat::Csv),
            ("-", b"url\ttext, more\n", TableFormat::Tsv),
            ("-", b"http://h/a,b\n", TableFormat::Txt),
            ("-", b"  [{\"url\":1}]", TableFormat::Json),
            ("-", b"{\"url\":1}\n{\"url\":2}\n", TableFormat::Jsonl),
            ("-", b"{\"url\":[\"a\"],\"text\":{\"0\":\"b\"}}\n", TableFormat::Json),
            ("-", b"{\"url\":[\"a\"]}\n{\"url\":[\"b\"]}\n", TableFormat::Jsonl),
            ("-", b"{\n  \"url\": [\n", TableFormat::Json),
            ("-", b"{\"url\":{\"0\":\"http", TableFormat::Json),
            ("-", b"{\"url\":\"http://h/a very long row", TableFormat::Jsonl),
            ("x.jsonl", b"{\"url\":[\"a\"]}\n", TableFormat::Jsonl),
        ];
        for (name, head, format) in cases {
            assert_eq!(TableFormat::sniff(name, head), format, "{name} {}", String::from_utf8_lossy(head));
        }
    }
}
