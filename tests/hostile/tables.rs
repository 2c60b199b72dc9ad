//! Hostile tables through every tool that reads tables. The table says what each gets.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};

use super::is_answer;
use crate::support::{bash, dir};

fn batch() -> RecordBatch {
    let urls: arrow_array::ArrayRef = Arc::new(StringArray::from(vec!["http://127.0.0.1:1/a", "http://127.0.0.1:1/b"]));
    let widths: arrow_array::ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    RecordBatch::try_from_iter([("url", urls), ("width", widths)]).unwrap()
}

fn parquet() -> Vec<u8> {
    let mut writer = parquet::arrow::ArrowWriter::try_new(Vec::new(), batch().schema(), None).unwrap();
    writer.write(&batch()).unwrap();
    writer.into_inner().unwrap()
}

fn arrow() -> Vec<u8> {
    let mut writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch().schema()).unwrap();
    writer.write(&batch()).unwrap();
    writer.into_inner().unwrap()
}

fn with(mut bytes: Vec<u8>, from_end: usize, patch: &[u8]) -> Vec<u8> {
    let at = bytes.len() - from_end;
    bytes[at..at + patch.len()].copy_from_slice(patch);
    bytes
}

/// A file, its bytes, and the status of `urlcat` alone and with `--skip-bad`.
fn corpus() -> Vec<(&'static str, Vec<u8>, i32, i32)> {
    let line = |text: String| text.into_bytes();
    let (parquet, arrow) = (parquet(), arrow());
    let columns: String = (0..20_000).map(|i| format!(",c{i}")).collect();
    vec![
        ("magic.parquet", b"PAR1".to_vec(), 1, 3),
        ("twice.parquet", b"PAR1PAR1PAR1".to_vec(), 1, 3),
        ("cut.parquet", parquet[..parquet.len() / 2].to_vec(), 1, 3),
        ("footer-vast.parquet", with(parquet.clone(), 8, &[0xff, 0xff, 0xff, 0x7f]), 1, 3),
        ("footer-negative.parquet", with(parquet.clone(), 8, &[0xff; 4]), 1, 3),
        ("footer-noise.parquet", with(parquet.clone(), 60, &[0x5a; 50]), 1, 3),
        ("magic.arrow", b"ARROW1\0\0".to_vec(), 1, 3),
        ("cut.arrow", arrow[..arrow.len() / 2].to_vec(), 1, 3),
        ("footer-vast.arrow", with(arrow.clone(), 10, &[0xff, 0xff, 0xff, 0x7f]), 1, 3),
        ("footer-noise.arrow", with(arrow.clone(), 60, &[0x5a; 50]), 1, 3),
        ("stream-vast.arrow", [&[0xff; 4][..], &[0xff, 0xff, 0xff, 0x7f], &[0; 64]].concat(), 1, 3),
        ("nothing.csv", vec![], 0, 0),
        ("header.csv", b"url,b\n".to_vec(), 0, 0),
        ("twice.csv", b"url,url\nhttp://h/1,2\n".to_vec(), 1, 3),
        ("ragged.csv", b"url,b\nhttp://h/1\nhttp://h/2,3,4,5\nhttp://h/3,1\n".to_vec(), 1, 0),
        ("quote.csv", b"url,b\n\"http://h/1,2\nhttp://h/2,3\n".to_vec(), 1, 3),
        ("nul.csv", b"url,b\n\0,\0\nhttp://h/1,\0\n".to_vec(), 0, 0),
        ("wide.csv", line(format!("url{}\nhttp://h/1{}\n", columns, ",1".repeat(20_000))), 0, 0),
        ("long.txt", vec![b'a'; 3 << 20], 0, 0),
        ("noise.txt", crate::support::archives::noise(3, 50_000), 1, 3),
        ("deep.json", line("[".repeat(200_000)), 1, 3),
        (
            "deep.jsonl",
            line(format!("{{\"url\":{}1{}}}\n{{\"url\":\"http://h/1\"}}\n", "[".repeat(9000), "]".repeat(9000))),
            0,
            0,
        ),
        ("scalar.json", b"42".to_vec(), 0, 0),
        ("columns.json", b"{\"url\":[\"a\",\"b\"],\"b\":[1]}".to_vec(), 1, 3),
        ("cut.json", b"[{\"url\":\"http://h/1\"},{\"url\":".to_vec(), 1, 0),
        (
            "odd.jsonl",
            b"{\"url\":\"\\ud800\"}\n{\"url\":1e999}\n{\"url\":\"http://h/1\",\"url\":\"http://h/2\"}\n\xff\n".to_vec(),
            1,
            0,
        ),
        ("cut.csv.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\xffK\xcd".to_vec(), 1, 3),
    ]
}

#[test]
fn every_tool_answers_hostile_tables_as_the_table_says() {
    let mut wrong = Vec::new();
    for (name, bytes, status, skipping) in corpus() {
        let folder = dir();
        std::fs::write(folder.path().join(name), &bytes).unwrap();
        let mut check = |script: String, expected: Option<i32>| {
            // 1.5 GB of address space, and a minute.
            let limited = format!("ulimit -v 1500000; timeout 60 {script} > out");
            let done = bash(&limited).cwd(folder.path()).done();
            is_answer(&format!("{name}: {script}"), &done);
            if expected.is_some_and(|expected| expected != done.status_code()) {
                wrong.push(format!("{script}: {} {:?}", done.status_code(), done.stderr_text()));
            }
        };
        check(format!("urlcat {name}"), Some(status));
        check(format!("urlcat --skip-bad {name}"), Some(skipping));
        check(format!("urlcat --columns {name}"), None);
        check(format!("urlcat --count-shards --rows-per-shard 2 {name}"), None);
        check(format!("urlcat --where 'url != \"\"' --skip-bad {name}"), None);
        check(format!("tarcreate --from table --key '{{index}}' {name}"), None);
        check(format!("shardrun --dry-run --shards-of {name} 'echo {{}}'"), None);
        check(format!("fetch --retries 0 --connect-timeout 1s --timeout 2s {name}"), None);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
