//! urlcat: the same table in every format, selection and partition of rows, and damaged tables.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, StringArray};

use crate::support::{dir, run, words};

const ROWS: &str = r#"{"key":"000000000","url":"http://h/a,b.jpg","caption":"A \"cat\"","width":300,"similarity":0.25}
{"key":"000000001","url":"http://h/2.jpg","caption":"zwei: ü","width":200,"similarity":0.5}
{"key":"000000002","url":"http://h/3.jpg","caption":"","width":100,"similarity":0.75}
"#;

const CSV: &str = "URL,TEXT,width,similarity\n\
    \"http://h/a,b.jpg\",\"A \"\"cat\"\"\",300,0.25\nhttp://h/2.jpg,zwei: ü,200,0.5\nhttp://h/3.jpg,,100,0.75\n";

const JSONL: &str = r#"{"URL":"http://h/a,b.jpg","TEXT":"A \"cat\"","width":300,"similarity":0.25}
{"URL":"http://h/2.jpg","TEXT":"zwei: ü","width":200,"similarity":0.5}
{"URL":"http://h/3.jpg","TEXT":"","width":100,"similarity":0.75}
"#;

fn batch() -> RecordBatch {
    let columns: [(&str, ArrayRef); 4] = [
        ("URL", Arc::new(StringArray::from(vec!["http://h/a,b.jpg", "http://h/2.jpg", "http://h/3.jpg"]))),
        ("TEXT", Arc::new(StringArray::from(vec!["A \"cat\"", "zwei: ü", ""]))),
        ("width", Arc::new(Int64Array::from(vec![300, 200, 100]))),
        ("similarity", Arc::new(Float64Array::from(vec![0.25, 0.5, 0.75]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn parquet_bytes(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = parquet::arrow::ArrowWriter::try_new(Vec::new(), batches[0].schema(), None).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
        writer.flush().unwrap();
    }
    writer.into_inner().unwrap()
}

fn arrow_file() -> Vec<u8> {
    let mut writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch().schema()).unwrap();
    writer.write(&batch()).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn arrow_stream() -> Vec<u8> {
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch().schema()).unwrap();
    writer.write(&batch()).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn all_formats() -> Vec<(&'static str, Vec<u8>)> {
    let array = format!("[{}]", JSONL.trim_end().replace('\n', ",\n  "));
    let columns = r#"{"URL":["http://h/a,b.jpg","http://h/2.jpg","http://h/3.jpg"],"TEXT":["A \"cat\"","zwei: ü",""],
        "width":{"0":300,"1":200,"2":100},"similarity":[0.25,0.5,0.75]}"#;
    // Quotes are not special in the tab-separated table.
    let tsv = "URL\tTEXT\twidth\tsimilarity\nhttp://h/a,b.jpg\tA \"cat\"\t300\t0.25\nhttp://h/2.jpg\tzwei: ü\t200\t0.5\nhttp://h/3.jpg\t\t100\t0.75\n";
    vec![
        ("t.csv", CSV.into()),
        ("t.tsv", tsv.into()),
        ("t.jsonl", JSONL.into()),
        ("array.json", array.into()),
        ("columns.json", columns.into()),
        ("t.parquet", parquet_bytes(&[batch()])),
        ("t.feather", arrow_file()),
        ("stream.arrow", arrow_stream()),
    ]
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const COLUMNS: [&str; 4] = ["--url-col", "URL", "--caption-col", "TEXT"];

fn urlcat(folder: &Path, args: &[&str]) -> crate::support::Run {
    run("urlcat", args.iter().chain(&COLUMNS)).cwd(folder)
}

#[test]
fn every_format_gives_the_same_rows_even_compressed_and_from_stdin() {
    let folder = dir();
    for (name, bytes) in all_formats() {
        std::fs::write(folder.path().join(name), &bytes).unwrap();
        std::fs::write(folder.path().join(format!("{name}.gz")), gzip(&bytes)).unwrap();
        for name in [name.to_owned(), format!("{name}.gz")] {
            let rows = urlcat(folder.path(), &[&name]).ok();
            assert_eq!(String::from_utf8(rows).unwrap(), ROWS, "{name}");
        }
        let rows = run("urlcat", COLUMNS).stdin(bytes).ok();
        assert_eq!(String::from_utf8(rows).unwrap(), ROWS, "{name} on stdin");
    }
}

#[test]
fn a_text_file_has_one_url_per_line_without_quoting() {
    let rows = words("urlcat", "--keep= -").stdin("http://h/a,\"b\".jpg\r\n\n  http://h/2.jpg  \n").ok();
    let expected = "{\"key\":\"000000000\",\"url\":\"http://h/a,\\\"b\\\".jpg\"}\n{\"key\":\"000000001\",\"url\":\"http://h/2.jpg\"}\n";
    assert_eq!(String::from_utf8(rows).unwrap(), expected);
}

#[test]
fn columns_are_kept_or_left_out() {
    let folder = dir();
    std::fs::write(folder.path().join("t.parquet"), parquet_bytes(&[batch()])).unwrap();
    let rows = urlcat(folder.path(), &["t.parquet", "--keep", "width", "--slice", "1:2"]).ok();
    assert_eq!(
        rows,
        b"{\"key\":\"000000000\",\"url\":\"http://h/2.jpg\",\"caption\":\"zwei: \xc3\xbc\",\"width\":200}\n"
    );
    let rows = urlcat(folder.path(), &["t.parquet", "--keep", "wide=width", "--slice", "1:2"]).ok();
    assert!(rows.ends_with(b",\"wide\":200}\n"), "{}", String::from_utf8_lossy(&rows));
    let rows = urlcat(folder.path(), &["t.parquet", "--keep", "wide=width width", "--slice", "1:2"]).ok();
    assert!(rows.ends_with(b",\"wide\":200,\"width\":200}\n"), "{}", String::from_utf8_lossy(&rows));
    let typo = urlcat(folder.path(), &["t.parquet", "--keep", "width witdh n=none"]).done().status(2);
    typo.stderr("urlcat: --keep: no column 'witdh'; did you mean 'width'?");
    for wrong in ["a=", "=a", "a=b a=c"] {
        urlcat(folder.path(), &["t.parquet", "--keep", wrong]).done().status(2);
    }
    let columns = urlcat(folder.path(), &["t.parquet", "--columns"]).ok();
    assert_eq!(columns, b"URL\tUtf8\nTEXT\tUtf8\nwidth\tInt64\nsimilarity\tFloat64\n");
    let head = urlcat(folder.path(), &["t.parquet", "--head", "1"]).ok();
    assert_eq!(head, JSONL.lines().next().map(|line| format!("{line}\n")).unwrap().as_bytes());
}

#[test]
fn urlcat_of_its_own_rows_is_the_identity() {
    assert_eq!(words("urlcat", "").stdin(ROWS).ok(), ROWS.as_bytes());
}

#[test]
fn keys_come_from_a_column_or_a_template() {
    let table = "url,id\nhttp://h/1,x\nhttp://h/2,y\nhttp://h/3,z\n";
    let rows = words("urlcat", "--key-col id").stdin(table).ok();
    assert!(rows.starts_with(b"{\"key\":\"x\",\"url\":\"http://h/1\"}\n{\"key\":\"y\""));
    let rows = words("urlcat", "--rows-per-shard 2 --keep= --key {shard:05}{row:04}").stdin(table).ok();
    let keys: Vec<String> = String::from_utf8(rows).unwrap().lines().map(|line| line[8..17].to_owned()).collect();
    assert_eq!(keys, ["000000000", "000000001", "000010000"]);
    let said = "urlcat: stdin: row 1: 'a.b' cannot be a key: its base name has no field after a dot";
    words("urlcat", "--key-col id").stdin("url,id\nhttp://h/1,a.b\n").fails(1, said);
}

#[test]
fn rows_are_filtered_by_an_expression() {
    let rows = words("urlcat", "--keep= --where similarity>0.3&&width>=150").stdin(CSV.replace("URL", "url")).ok();
    assert_eq!(rows, b"{\"key\":\"000000000\",\"url\":\"http://h/2.jpg\"}\n");
    let gaps = "url,width\nhttp://h/1,\nhttp://h/2,5\n";
    let done = words("urlcat", "--keep= --where width>1").stdin(gaps).done().status(0);
    done.stderr("urlcat: 1 row; dropped 1 (1 no_value)");
}

#[test]
fn sampling_repeats_with_its_seed_and_unique_drops_duplicates() {
    let table: String = (0..1000).map(|i| format!("http://h/{}\n", i % 700)).collect();
    let sample = |seed: &str| words("urlcat", &format!("--sample 0.1 --seed {seed}")).stdin(table.clone()).ok();
    assert_eq!(sample("1"), sample("1"));
    assert_ne!(sample("1"), sample("2"));
    let lines = sample("3").split(|&b| b == b'\n').count();
    assert!((50..200).contains(&lines), "{lines}");
    let done = words("urlcat", "--unique").stdin(table).done().status(0);
    let done = done.stderr("urlcat: 700 rows; dropped 300 (300 duplicate)");
    assert_eq!(done.stdout().split(|&b| b == b'\n').count(), 701);
}

#[test]
fn the_parts_of_a_table_are_disjoint_complete_and_keep_their_keys() {
    let folder = dir();
    let table: String = (0..103).map(|i| format!("http://h/{i}\n")).collect();
    std::fs::write(folder.path().join("t.txt"), table).unwrap();
    let whole = words("urlcat", "t.txt").cwd(folder.path()).ok();
    for flags in ["", "--contiguous", "--rows-per-shard 10"] {
        let mut lines = Vec::new();
        for part in 0..4 {
            let rows = words("urlcat", &format!("t.txt --shard {part}/4 {flags}")).cwd(folder.path()).ok();
            lines.extend(rows.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec));
        }
        lines.sort();
        assert_eq!(lines.concat(), whole, "{flags}");
    }
    let shards = words("urlcat", "t.txt --rows-per-shard 10 --count-shards").cwd(folder.path()).ok();
    assert_eq!(shards, b"11\n");
}

#[test]
fn patterns_folders_and_globs_name_rows_and_tables() {
    let rows = run("urlcat", ["http://h/{08..10}.tgz", "--keep", ""]).ok();
    let urls: Vec<String> = String::from_utf8(rows).unwrap().lines().map(|line| line[26..].to_owned()).collect();
    assert_eq!(urls, ["http://h/08.tgz\"}", "http://h/09.tgz\"}", "http://h/10.tgz\"}"]);
    let folder = dir();
    for name in ["b.txt", "a.txt", "ignored.log"] {
        std::fs::write(folder.path().join(name), format!("http://h/{name}\n")).unwrap();
    }
    let whole =
        "{\"key\":\"000000000\",\"url\":\"http://h/a.txt\"}\n{\"key\":\"000000001\",\"url\":\"http://h/b.txt\"}\n";
    for name in [".", "*.txt", "{a,b}.txt"] {
        assert_eq!(run("urlcat", [name]).cwd(folder.path()).ok(), whole.as_bytes(), "{name}");
    }
}

#[test]
fn a_list_of_urls_stays_a_list() {
    let mut builder = arrow_array::builder::ListBuilder::new(arrow_array::builder::StringBuilder::new());
    builder.append_value([Some("http://h/1"), Some("http://h/2")]);
    let list: ListArray = builder.finish();
    let batch = RecordBatch::try_from_iter([("url", Arc::new(list) as ArrayRef)]).unwrap();
    let rows = words("urlcat", "").stdin(parquet_bytes(&[batch])).ok();
    assert_eq!(rows, b"{\"key\":\"000000000\",\"url\":[\"http://h/1\",\"http://h/2\"]}\n");
}

#[test]
fn bad_rows_end_the_run_or_are_counted() {
    let cases: [(&str, &[u8], &str); 5] = [
        (
            "t.csv",
            b"url,w\nhttp://h/1,1\nhttp://h/2\nhttp://h/3,3\n",
            "row 2: wrong number of cells: 1, the header has 2",
        ),
        ("t.csv", b"url,w\nhttp://h/1,1\nhttp://h/2,\xff\nhttp://h/3,3\n", "row 2: column 'w' is not UTF-8"),
        (
            "t.jsonl",
            b"{\"url\":\"http://h/1\"}\n{\"url\":\n{\"url\":\"http://h/3\"}\n",
            "row 2: not a JSON object: EOF while parsing a value",
        ),
        (
            "t.jsonl",
            b"{\"url\":\"http://h/1\"}\n{\"uri\":1}\n{\"url\":\"http://h/3\"}\n",
            "row 2: no column 'url' (the columns are: uri); --url-col and --caption-col name other columns",
        ),
        ("t.txt", b"http://h/1\nhttp://\xff\nhttp://h/3\n", "row 2: not UTF-8"),
    ];
    let folder = dir();
    for (name, table, why) in cases {
        std::fs::write(folder.path().join(name), table).unwrap();
        words("urlcat", name).cwd(folder.path()).fails(1, &format!("urlcat: {name}: {why}"));
        let done = words("urlcat", &format!("--skip-bad {name}")).cwd(folder.path()).done().status(0);
        let done = done.stderr("urlcat: 2 rows; failed 1 (1 bad_row)");
        assert_eq!(done.stdout().iter().filter(|&&b| b == b'\n').count(), 2, "{why}");
    }
}

#[test]
fn a_damaged_table_is_named_and_can_be_skipped() {
    let folder = dir();
    let whole = parquet_bytes(&[batch()]);
    std::fs::write(folder.path().join("cut.parquet"), &whole[..whole.len() - 10]).unwrap();
    std::fs::write(folder.path().join("good.csv"), "url\nhttp://h/1\n").unwrap();
    let done = words("urlcat", "cut.parquet good.csv").cwd(folder.path()).done().status(1);
    done.stderr_has("urlcat: cut.parquet: ");
    let done = words("urlcat", "--skip-bad cut.parquet good.csv").cwd(folder.path()).done().status(0);
    let done = done.stderr("urlcat: 1 row; failed 1 (1 bad_table)");
    assert_eq!(done.stdout(), b"{\"key\":\"000000000\",\"url\":\"http://h/1\"}\n");
    words("urlcat", "missing.csv").cwd(folder.path()).fails(1, "urlcat: missing.csv: No such file or directory");
}

#[test]
fn row_groups_are_read_one_after_another() {
    let folder = dir();
    std::fs::write(folder.path().join("t.parquet"), parquet_bytes(&vec![batch(); 5])).unwrap();
    let rows = urlcat(folder.path(), &["t.parquet", "--slice", "13:"]).ok();
    let text = String::from_utf8(rows).unwrap();
    assert_eq!(text.lines().count(), 2);
    assert!(text.lines().next().unwrap().contains("zwei"));
}

#[test]
fn shards_can_be_selected_and_numbered() {
    let folder = dir();
    let list: String = (0..10).map(|i| format!("http://h/{i}\n")).collect();
    std::fs::write(folder.path().join("urls.txt"), list).unwrap();
    let flags = "urls.txt --rows-per-shard 3 --first-shard 7 --shards 8,10-12 --key {shard:02}{row:01}";
    let out = String::from_utf8(words("urlcat", flags).cwd(folder.path()).ok()).unwrap();
    let expected = ["080 3", "081 4", "082 5", "100 9"].map(|row| {
        let (key, n) = row.split_once(' ').unwrap();
        format!("{{\"key\":\"{key}\",\"url\":\"http://h/{n}\"}}\n")
    });
    assert_eq!(out, expected.concat());
    words("urlcat", "urls.txt --shards 3-1").cwd(folder.path()).done().status(2);
}
