//! tardataset: shards, tables and counts from a stream with failed samples.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::{Archive, Run, bash, dir, list, members, names, run, words};

/// A stream of rows: the key, and None for a success or the code of a failure.
fn stream(rows: &[(&str, Option<&str>)]) -> Vec<u8> {
    let add = |archive: Archive, (key, code): &(&str, Option<&str>)| {
        let facts = json!({"key": key, "url": format!("http://h/{key}"), "caption": format!("the {key}"), "n": "7"});
        let Value::Object(mut facts) = facts else { unreachable!() };
        match code {
            None => {
                facts.extend([
                    ("status".into(), json!("success")),
                    ("sha256".into(), json!("abc")),
                    ("width".into(), json!(12)),
                ]);
                let archive =
                    archive.file(&format!("{key}.jpg"), b"picture").file(&format!("{key}.txt"), b"the caption");
                archive.file(&format!("{key}.json"), Value::from(facts).to_string().as_bytes())
            }
            Some(code) => {
                let failed = json!({"status": "failed", "tool": "fetch", "code": code, "error_message": "why", "http_status": 404});
                facts.extend(failed.as_object().unwrap().clone());
                archive.file(&format!("{key}.json"), Value::from(facts).to_string().as_bytes())
            }
        }
    };
    rows.iter().fold(Archive::new(), add).whole()
}

const COLUMNS: &str = "n:int64 caption url key status error_message width:int32 sha256 code";

fn dataset(folder: &Path, flags: &str) -> Run {
    let flags = flags.split_whitespace().map(str::to_owned);
    let fixed = ["-o", "out", "--columns", COLUMNS, "--row-digits", "2"].map(str::to_owned);
    run("tardataset", fixed.into_iter().chain(flags)).cwd(folder)
}

/// The rows of a table, as urlcat reads them.
fn rows(folder: &Path, table: &str) -> Vec<Value> {
    let text = String::from_utf8(run("urlcat", ["--head", "100", table]).cwd(folder).ok()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn stats(folder: &Path, file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("out").join(file)).unwrap()).unwrap()
}

#[test]
fn a_shard_has_samples_a_table_and_counts() {
    let folder = dir();
    let input = stream(&[("0000000", None), ("0000001", Some("http_4xx")), ("0000002", None)]);
    dataset(folder.path(), "-n 3 --caption").stdin(input).ok();
    assert_eq!(list(folder.path().join("out")), ["00000.parquet", "00000.tar", "00000_stats.json"]);
    let tar = std::fs::read(folder.path().join("out/00000.tar")).unwrap();
    let expected = ["0000000.jpg", "0000000.json", "0000000.txt", "0000002.jpg", "0000002.json", "0000002.txt"];
    assert_eq!(names(&tar), expected);
    let json: Value = serde_json::from_slice(&members(&tar)[1].1).unwrap();
    assert_eq!((&json["n"], &json["width"], &json["error_message"]), (&json!(7), &json!(12), &Value::Null));
    assert_eq!(json.get("code"), None);
    let table = rows(folder.path(), "out/00000.parquet");
    assert_eq!(table.len(), 3);
    let failed = json!({"n": 7, "caption": "the 0000001", "url": "http://h/0000001", "key": "0000001",
        "status": "failed_to_download", "error_message": "HTTP Error 404: Not Found", "width": null, "sha256": null,
        "code": "http_4xx"});
    assert_eq!((&table[0]["status"], &table[0]["sha256"], &table[1]), (&json!("success"), &json!("abc"), &failed));
    let columns = String::from_utf8(run("urlcat", ["--columns", "out/00000.parquet"]).cwd(folder.path()).ok()).unwrap();
    assert!(columns.starts_with("n\tInt64\ncaption\tUtf8\n") && columns.contains("width\tInt32\n"), "{columns}");
    let counts = stats(folder.path(), "00000_stats.json");
    let keys: Vec<&String> = counts.as_object().unwrap().keys().collect();
    let theirs = [
        "count",
        "successes",
        "failed_to_download",
        "failed_to_resize",
        "duration",
        "start_time",
        "end_time",
        "status_dict",
    ];
    assert_eq!(keys, theirs);
    assert_eq!(
        (&counts["count"], &counts["successes"], &counts["failed_to_download"]),
        (&json!(3), &json!(2), &json!(1))
    );
    assert_eq!(counts["status_dict"], json!({"success": 2, "HTTP Error 404: Not Found": 1}));
}

#[test]
fn keys_decide_the_shard_and_a_full_shard_is_closed() {
    let folder = dir();
    let input =
        stream(&[("0000300", None), ("0000500", None), ("0000301", None), ("0000501", Some("dns")), ("0000900", None)]);
    dataset(folder.path(), "-n 2 --short 9=1 --expect 5").stdin(input).ok();
    let out = list(folder.path().join("out"));
    assert_eq!(out.iter().filter(|name| name.ends_with("_stats.json")).count(), 3, "{out:?}");
    let tar = std::fs::read(folder.path().join("out/00003.tar")).unwrap();
    assert_eq!(names(&tar), ["0000300.jpg", "0000300.json", "0000301.jpg", "0000301.json"]);
}

#[test]
fn missing_rows_leave_the_last_shard_incomplete() {
    let folder = dir();
    let input = stream(&[("0000000", None), ("0000001", None), ("0000100", None)]);
    let done = dataset(folder.path(), "-n 2 --expect 4").stdin(input.clone()).done();
    done.status(1).stderr("tardataset: expected 4 rows, got 3; incomplete shards are not written");
    assert_eq!(list(folder.path().join("out")), ["00000.parquet", "00000.tar", "00000_stats.json"]);
    let cut = dir();
    dataset(cut.path(), "-n 2").stdin(&input[..input.len() - 1024]).done().status(1);
    assert_eq!(list(cut.path().join("out")), ["00000.parquet", "00000.tar", "00000_stats.json"]);
}

#[test]
fn samples_can_be_stored_as_files_rows_records_or_not_at_all() {
    let input = stream(&[("0000000", None), ("0000001", Some("dns"))]);
    for (format, expected) in [
        ("files", vec!["00000", "00000.parquet", "00000_stats.json"]),
        ("parquet", vec!["00000.parquet", "00000_stats.json"]),
        ("tfrecord", vec!["00000.parquet", "00000.tfrecord", "00000_stats.json"]),
        ("none", vec!["00000_stats.json"]),
    ] {
        let folder = dir();
        // Leftovers of a killed run are removed.
        std::fs::create_dir_all(folder.path().join("out/00000")).unwrap();
        std::fs::write(folder.path().join("out/00000/old.jpg"), "old").unwrap();
        if format != "files" {
            std::fs::remove_dir_all(folder.path().join("out")).unwrap();
        }
        dataset(folder.path(), &format!("-n 2 --caption --format {format}")).stdin(input.clone()).ok();
        assert_eq!(list(folder.path().join("out")), expected, "{format}");
        match format {
            "files" => {
                let files = folder.path().join("out/00000");
                assert_eq!(list(&files), ["0000000.jpg", "0000000.json", "0000000.txt"]);
                assert_eq!(std::fs::read(files.join("0000000.txt")).unwrap(), b"the 0000000");
            }
            "parquet" => {
                let table = rows(folder.path(), "out/00000.parquet");
                assert_eq!((&table[0]["jpg"], &table[1]["jpg"]), (&json!("picture"), &Value::Null));
            }
            "tfrecord" => {
                let record = std::fs::read(folder.path().join("out/00000.tfrecord")).unwrap();
                let length = u64::from_le_bytes(record[..8].try_into().unwrap()) as usize;
                assert_eq!(record.len(), 8 + 4 + length + 4);
                assert!(record.windows(7).any(|window| window == b"picture"));
            }
            _ => {}
        }
    }
}

#[test]
fn video2dataset_has_words_of_its_own() {
    let folder = dir();
    let json = br#"{"status":"failed","tool":"tarvideo","code":"decode","error_message":"why"}"#;
    let input = Archive::new().file("0000000_00003.json", json).whole();
    dataset(folder.path(), "--words video2dataset").stdin(input).ok();
    let table = rows(folder.path(), "out/00000.parquet");
    assert_eq!((&table[0]["status"], &table[0]["error_message"]), (&json!("failed_to_subsample"), &json!("why")));
    let counts = stats(folder.path(), "00000_stats.json");
    assert_eq!((&counts["failed_to_subsample"], &counts["bytes_downloaded"]), (&json!(1), &json!(0)));
}

/// A stream with clips: the key, the key of the video, and whether the clip failed.
fn clips(rows: &[(&str, Option<&str>, bool)]) -> Vec<u8> {
    let add = |archive: Archive, (key, whole, failed): &(&str, Option<&str>, bool)| {
        let mut facts = json!({"url": "http://h/v", "bytes": 10, "probe": {"format": 1}, "tool": "tarvideo"});
        facts["status"] = json!(if *failed { "failed" } else { "success" });
        facts["code"] = json!("too_short");
        facts["error_message"] = json!("why");
        if let Some(whole) = whole {
            facts["clip"] = json!({"key": whole, "start": 1, "end": 2.5});
        }
        let archive = archive.file(&format!("{key}.json"), facts.to_string().as_bytes());
        if *failed { archive } else { archive.file(&format!("{key}.mp4"), b"video") }
    };
    rows.iter().fold(Archive::new(), add).whole()
}

#[test]
fn the_clips_of_a_video_are_one_row_of_the_shard() {
    let folder = dir();
    let (first, third) = (Some("0000000"), Some("0000002"));
    let input = clips(&[
        ("0000000_00000", first, true),
        ("0000000_00001", first, false),
        ("0000000_00002", first, false),
        ("0000001", None, true),
        ("0000002_00000", third, true),
        ("0000002_00001", third, true),
        ("0000100_00000", Some("0000100"), false),
    ]);
    let flags = "-n 3 --short 1=1 --expect 4 --words video2dataset --field mp4 --json";
    let done = dataset(folder.path(), flags).args(["video_metadata clips"]).stdin(input.clone()).done();
    done.status(0).stderr("");
    let counts = stats(folder.path(), "00000_stats.json");
    let told = ["count", "successes", "failed_to_subsample", "bytes_downloaded"].map(|name| counts[name].as_u64());
    assert_eq!(told, [Some(3), Some(1), Some(2), Some(30)]);
    assert_eq!(counts["status_dict"], json!({"success": 1, "why": 2}));
    assert_eq!(stats(folder.path(), "00001_stats.json")["count"], json!(1));
    assert_eq!(rows(folder.path(), "out/00000.parquet").len(), 6);
    let tar = std::fs::read(folder.path().join("out/00000.tar")).unwrap();
    let made: Value = serde_json::from_slice(&members(&tar)[1].1).unwrap();
    assert_eq!((&made["clips"], &made["video_metadata"]), (&json!([[1.0, 2.5]]), &json!({"format": 1})));
    assert_eq!(made.get("bytes"), None);
    // The row of a video is complete only when another row follows its clips.
    let cut = dir();
    let flags = "-n 3 --expect 4 --words video2dataset";
    dataset(cut.path(), flags).stdin(&input[..input.len() - 1024]).done().status(1);
    assert!(!cut.path().join("out/00001_stats.json").exists());
}

#[test]
fn only_shard_writes_one_shard_whatever_the_keys() {
    let folder = dir();
    let input = stream(&[("cat", None), ("dog/1", Some("dns")), ("0000700", None)]);
    let words = ["-o", "out", "--only-shard", "12", "--columns", "key status", "--json", "*"];
    run("tardataset", words).cwd(folder.path()).stdin(input).ok();
    assert_eq!(list(folder.path().join("out")), ["00012.parquet", "00012.tar", "00012_stats.json"]);
    let tar = std::fs::read(folder.path().join("out/00012.tar")).unwrap();
    assert_eq!(names(&tar), ["cat.jpg", "cat.json", "0000700.jpg", "0000700.json"]);
    let made: Value = serde_json::from_slice(&members(&tar)[1].1).unwrap();
    assert_eq!((&made["url"], &made["n"], made.get("code")), (&json!("http://h/cat"), &json!("7"), None));
    words_fail("--only-shard 1 -n 2");
}

fn words_fail(flags: &str) {
    words("tardataset", &format!("-o x {flags}")).done().status(2);
}

#[test]
fn column_types_can_come_from_another_table() {
    let folder = dir();
    let tar = stream(&[("0000000", None)]);
    dataset(folder.path(), "-n 1").stdin(tar.clone()).ok();
    let flags = [
        "-o",
        "again",
        "--row-digits",
        "2",
        "--types-from",
        "out/00000.parquet",
        "--columns",
        "n:=width url:=none key",
    ];
    run("tardataset", flags).cwd(folder.path()).stdin(tar).ok();
    let columns =
        String::from_utf8(run("urlcat", ["--columns", "again/00000.parquet"]).cwd(folder.path()).ok()).unwrap();
    assert_eq!(columns, "n\tInt32\nurl\tUtf8\nkey\tUtf8\n");
}

#[test]
fn timestamps_in_utc_decimals_maps_and_nan_survive() {
    use arrow_array::builder::{Int32Builder, MapBuilder, StringBuilder};
    use arrow_array::{ArrayRef, Decimal128Array, RecordBatch, TimestampMicrosecondArray};
    let mut tags = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    tags.keys().append_value("a");
    tags.values().append_value(1);
    tags.append(true).unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![1_577_840_523_456_789]).with_timezone("UTC"))),
        ("price", Arc::new(Decimal128Array::from(vec![1_234_567_890_123]).with_precision_and_scale(30, 3).unwrap())),
        ("tags", Arc::new(tags.finish())),
        ("score", Arc::new(arrow_array::Float32Array::from(vec![f32::NAN]))),
        ("length", Arc::new(arrow_array::DurationMillisecondArray::from(vec![1500]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let folder = dir();
    let table = std::fs::File::create(folder.path().join("in.parquet")).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(table, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let row = run("urlcat", ["--head", "1", "in.parquet"]).cwd(folder.path()).ok();
    assert_eq!(
        String::from_utf8_lossy(&row).trim(),
        r#"{"at":"2020-01-01T01:02:03.456789Z","price":"1234567890.123","tags":{"a":1},"score":"NaN","length":1500}"#
    );
    let input = Archive::new().file("0.json", &row).whole();
    let columns = "at:=at price:=price tags:=tags score:=score length:=length";
    let flags = ["-o", "out", "--only-shard", "0", "--types-from", "in.parquet", "--columns", columns];
    run("tardataset", flags).cwd(folder.path()).stdin(input).ok();
    let of = |view: &str, name: &str| run("urlcat", [view, name]).cwd(folder.path()).ok();
    for view in ["--columns", "--head=1"] {
        assert_eq!(of(view, "out/00000.parquet"), of(view, "in.parquet"));
    }
}

#[test]
fn invalid_keys_and_columns_are_refused() {
    let folder = dir();
    let done = dataset(folder.path(), "-n 1").stdin(stream(&[("cat", None)])).done();
    done.status(1).stderr_has("sample cat: no shard number before the 2 digits of the row");
    for flags in ["-o x --columns a:number", "-o x --columns a --short 1=2", "-o x -n 0"] {
        words("tardataset", flags).done().status(2);
    }
}

#[test]
fn a_sample_that_cannot_be_stored_is_a_failed_row() {
    let folder = dir();
    let store = |format: &str, archive: Archive| {
        words("tardataset", &format!("--only-shard 0 --format {format} -o out"))
            .cwd(folder.path())
            .stdin(archive.whole())
            .ok();
        let codes: Vec<Value> =
            rows(folder.path(), "out/00000.parquet").iter().map(|row| row["code"].clone()).collect();
        let counts = stats(folder.path(), "00000_stats.json");
        assert_eq!(counts["failed_to_resize"], codes.iter().filter(|code| !code.is_null()).count());
        codes
    };
    let archive = Archive::new().file("a/b.jpg", b"1").file("c.jpg", b"2").file("a/b.jpg", b"3");
    let codes = store("files", archive.file("c.jpg/d.jpg", b"4"));
    assert_eq!(codes, [Value::Null, Value::Null, json!("exists"), json!("in_the_way")]);
    assert_eq!(std::fs::read(folder.path().join("out/00000/a/b.jpg")).unwrap(), b"1");
    assert_eq!(list(folder.path().join("out/00000")), ["a", "c.jpg", "c.json"]);
    let codes = store("tfrecord", Archive::new().file("a.jpg", b"1").file("b.png", b"2"));
    assert_eq!(codes, [Value::Null, json!("no_field")]);
}

#[test]
fn the_time_of_a_shard_includes_that_before_its_first_row() {
    let folder = dir();
    let input = Archive::new().file("000000000.json", br#"{"url":"u"}"#).whole();
    std::fs::write(folder.path().join("in.tar"), input).unwrap();
    // The pipe opens when both ends are there; then the download takes a while.
    let script = "mkfifo pipe; timeout 60 bash -c 'exec 3>pipe; sleep 1; date +%s.%N >first; cat in.tar >&3' &
        tardataset --only-shard 0 --columns url -o out pipe";
    bash(script).cwd(folder.path()).ok();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let stats: Value = serde_json::from_str(&read("out/00000_stats.json")).unwrap();
    assert!(stats["start_time"].as_f64().unwrap() < read("first").trim().parse().unwrap(), "{stats}");
}
