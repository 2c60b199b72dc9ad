//! The formats of tables, and how to tell them apart.

/// How a table is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One URL a line; nothing is special but the line end.
    Txt,
    /// Comma-separated, with a header line.
    Csv,
    /// Tab-separated, with a header line; quotes are not special.
    Tsv,
    /// An array of objects, or an object of columns.
    Json,
    /// An object a line.
    Jsonl,
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC: a file (feather 2) or a stream.
    Arrow,
}

const NAMES: [(Format, &[&str]); 7] = [
    (Format::Txt, &["txt"]),
    (Format::Csv, &["csv"]),
    (Format::Tsv, &["tsv", "tab"]),
    (Format::Json, &["json"]),
    (Format::Jsonl, &["jsonl", "ndjson"]),
    (Format::Parquet, &["parquet"]),
    (Format::Arrow, &["arrow", "feather", "ipc"]),
];

impl Format {
    /// The format with this name, as `--format` takes it.
    pub fn from_name(name: &str) -> Option<Format> {
        NAMES.iter().find(|(_, names)| names.contains(&name)).map(|&(format, _)| format)
    }

    /// The format that a file name promises, whatever compression follows it.
    pub fn from_suffix(path: &str) -> Option<Format> {
        let path = path.split(['?', '#']).next().unwrap_or(path).to_ascii_lowercase();
        let plain =
            ["gz", "zst", "xz", "bz2", "lz4"].iter().find_map(|suffix| path.strip_suffix(&format!(".{suffix}")));
        let (_, suffix) = plain.unwrap_or(&path).rsplit_once('.')?;
        Format::from_name(suffix)
    }

    /// The format of a table that starts with `head`. What it holds comes before what it is
    /// called, except between csv, tsv and txt, where one line proves nothing.
    pub fn sniff(name: &str, head: &[u8]) -> Format {
        if head.starts_with(b"PAR1") {
            return Format::Parquet;
        }
        if head.starts_with(b"ARROW1") || head.starts_with(&[0xff, 0xff, 0xff, 0xff]) {
            return Format::Arrow;
        }
        let named = Format::from_suffix(name);
        if matches!(named, Some(Format::Txt | Format::Csv | Format::Tsv | Format::Parquet | Format::Arrow)) {
            return named.unwrap_or(Format::Txt);
        }
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
        match text.first() {
            Some(b'[') => Format::Json,
            Some(b'{') => json_kind(text, named),
            _ => line_kind(text),
        }
    }

    /// Whether the format can only be read from a file that seeks.
    pub fn needs_seek(self) -> bool {
        matches!(self, Format::Parquet | Format::Arrow)
    }
}

/// One object whose every value is a column is a whole table; otherwise it is the first row of one. When
/// the first line goes on beyond `text`, its first value has to decide.
fn json_kind(text: &[u8], named: Option<Format>) -> Format {
    if named == Some(Format::Jsonl) {
        return Format::Jsonl;
    }
    let mut lines = text.split(|&b| b == b'\n');
    let first = lines.next().unwrap_or_default();
    let has_second = lines.any(|line| !line.trim_ascii().is_empty());
    let is_table = match serde_json::from_slice::<serde_json::Map<_, _>>(first) {
        Ok(row) => !has_second && !row.is_empty() && row.values().all(is_column),
        Err(_) => starts_with_column(text),
    };
    if is_table { Format::Json } else { Format::Jsonl }
}

fn starts_with_column(text: &[u8]) -> bool {
    let value = text.iter().position(|&b| b == b':').map_or(&[][..], |colon| text[colon + 1..].trim_ascii_start());
    matches!(value.first(), Some(b'[' | b'{'))
}

fn is_column(value: &serde_json::Value) -> bool {
    value.is_array() || value.is_object()
}

fn line_kind(text: &[u8]) -> Format {
    let first = text.split(|&b| b == b'\n').next().unwrap_or_default();
    let is_url = first.windows(3).take(16).any(|three| three == b"://");
    if is_url {
        Format::Txt
    } else if first.contains(&b'\t') {
        Format::Tsv
    } else if first.contains(&b',') {
        Format::Csv
    } else {
        Format::Txt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_comes_before_names_and_names_decide_between_text_formats() {
        let cases: [(&str, &[u8], Format); 15] = [
            ("x.csv", b"PAR1\x15", Format::Parquet),
            ("x", b"ARROW1\0\0", Format::Arrow),
            ("x.csv.gz", b"http://h/a,b", Format::Csv),
            ("x.txt", b"url,text\n", Format::Txt),
            ("-", b"url,text\nhttp://h/1,a", Format::Csv),
            ("-", b"url\ttext, more\n", Format::Tsv),
            ("-", b"http://h/a,b\n", Format::Txt),
            ("-", b"  [{\"url\":1}]", Format::Json),
            ("-", b"{\"url\":1}\n{\"url\":2}\n", Format::Jsonl),
            ("-", b"{\"url\":[\"a\"],\"text\":{\"0\":\"b\"}}\n", Format::Json),
            ("-", b"{\"url\":[\"a\"]}\n{\"url\":[\"b\"]}\n", Format::Jsonl),
            ("-", b"{\n  \"url\": [\n", Format::Json),
            ("-", b"{\"url\":{\"0\":\"http", Format::Json),
            ("-", b"{\"url\":\"http://h/a very long row", Format::Jsonl),
            ("x.jsonl", b"{\"url\":[\"a\"]}\n", Format::Jsonl),
        ];
        for (name, head, format) in cases {
            assert_eq!(Format::sniff(name, head), format, "{name} {}", String::from_utf8_lossy(head));
        }
    }
}
