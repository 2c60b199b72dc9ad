//! JSON, YAML, CSV, TSV and parquet.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};

use super::gallery;
use crate::support::{Archive, bash, dir, list, run, venv, words};

fn rows(flags: &str, archive: &Archive) -> Vec<Value> {
    let out = words("tarshow", flags).stdin(archive.clone().whole()).ok();
    String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn odd() -> Archive {
    Archive::new()
        .file("a.cls", b"7\n")
        .file("a.txt", "say \"x, y\"\nü".as_bytes())
        .file("a.meta.json", b"{\"n\": 1.5, \"big\": 18446744073709551615}")
        .file("a.bin", &[0xff, 0, 1])
        .file("b.cls", b"007")
        .file("b.meta.json", b"{\"n\": 2, \"list\": [1, {}]}")
}

#[test]
fn a_row_of_json_has_every_field() {
    let rows = rows("--json", &odd());
    assert_eq!(rows[0]["txt"], "say \"x, y\"\nü");
    assert_eq!(rows[0]["bin"], json!({"bytes": 3, "kind": "binary"}));
    assert_eq!(rows[0]["meta.json"]["n"], 1.5);
    assert_eq!((&rows[0]["cls"], &rows[1]["cls"]), (&json!(7), &json!("007")));
    assert_eq!(rows[1].as_object().unwrap().keys().collect::<Vec<_>>(), ["__key__", "cls", "meta.json"]);
}

#[test]
fn columns_are_chosen_and_named() {
    let rows = rows("--json --slice 0:1 -f bin=bin;x", &odd());
    assert_eq!(rows, [json!({"__key__": "a", "bin": "/wAB"})]);
    let flags = ["--json", "-f", "n=none;meta.json.n __key__ meta.json.list.1 __source__"];
    let text = String::from_utf8(run("tarshow", flags).stdin(odd().whole()).ok()).unwrap();
    assert_eq!(text.lines().nth(1).unwrap(), r#"{"n":2,"__key__":"b","meta.json.list.1":{},"__source__":"stdin"}"#);
}

#[test]
fn json_that_cannot_be_read_fails_its_sample() {
    let archive = Archive::new().file("a.json", b"{\"w\":").file("b.json", b"{\"w\":2}");
    let flags = ["--csv", "-f", "json.w", "-v"];
    let done = run("tarshow", flags).stdin(archive.whole()).done().status(0);
    let done =
        done.stderr("tarshow: stdin: a: left out: a field is not valid JSON\ntarshow: 1 sample; failed 1 (1 json)");
    assert_eq!(done.stdout_text(), "__key__,json.w\nb,2\n");
}

#[test]
fn csv_and_tsv_are_read_back_by_others() {
    let folder = dir();
    std::fs::write(folder.path().join("a.tar"), odd().whole()).unwrap();
    for (flag, dialect) in [("--csv", "excel"), ("--tsv", "excel-tab")] {
        let script = format!(
            "tarshow {flag} -f 'cls txt meta.json.n bin' a.tar | python3 -c \
             \"import csv, json, sys; print(json.dumps(list(csv.reader(sys.stdin, dialect='{dialect}'))))\""
        );
        let rows: Value = serde_json::from_slice(&bash(&script).cwd(folder.path()).ok()).unwrap();
        assert_eq!(
            rows,
            json!([
                ["__key__", "cls", "txt", "meta.json.n", "bin"],
                ["a", "7", "say \"x, y\"\nü", "1.5", "/wAB"],
                ["b", "007", "", "2", ""]
            ]),
            "{flag}"
        );
    }
}

#[test]
fn yaml_is_read_back_by_others() {
    let folder = dir();
    let archive = odd().file("no.txt", b"no: yes").file("no.cls", "\u{85}\u{9b}".as_bytes());
    std::fs::write(folder.path().join("a.tar"), archive.whole()).unwrap();
    words("tarshow", "--yaml a.tar -o a.yaml").cwd(folder.path()).ok();
    let python = venv(&["pyyaml"]);
    let script =
        format!("{} -c 'import yaml, json; print(json.dumps(yaml.safe_load(open(\"a.yaml\"))))'", python.display());
    let read: Value = serde_json::from_slice(&bash(&script).cwd(folder.path()).ok()).unwrap();
    let lines = words("tarshow", "--json a.tar").cwd(folder.path()).ok();
    let rows: Vec<Value> = lines.split(|&b| b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    assert_eq!(read, Value::from(rows));
    let empty = words("tarshow", "--yaml").stdin(Archive::new().whole()).ok();
    assert_eq!(empty, b"[]\n");
}

fn parquet(flags: &[&str], archive: Archive) -> RecordBatch {
    let folder = dir();
    run("tarshow", flags.iter().chain(&["--parquet", "t.parquet"])).cwd(folder.path()).stdin(archive.whole()).ok();
    assert_eq!(list(folder.path()), ["t.parquet"]);
    let file = std::fs::File::open(folder.path().join("t.parquet")).unwrap();
    let batches: Vec<RecordBatch> =
        ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().map(Result::unwrap).collect();
    assert_eq!(batches.len(), 1);
    batches[0].clone()
}

#[test]
fn parquet_columns_have_the_types_of_their_values() {
    let flags = ["-f", "w=json.width n=meta.json.n big=meta.json.big bin cls list=meta.json.list none"];
    let archive = odd().file("c.json", b"{\"width\": 3}").file("d.json", b"{\"width\": null}").file("d.bin", b"text");
    let batch = parquet(&flags, archive);
    let types: Vec<String> = batch.schema().fields().iter().map(|field| field.data_type().to_string()).collect();
    assert_eq!(types, ["Utf8", "Int64", "Float64", "Utf8", "Binary", "Utf8", "Utf8", "Utf8"]);
    let column = |name: &str| batch.column_by_name(name).unwrap().clone();
    assert_eq!(column("w").as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [None, None, Some(3), None]);
    assert_eq!(
        column("n").as_primitive::<Float64Type>().iter().collect::<Vec<_>>(),
        [Some(1.5), Some(2.0), None, None]
    );
    assert_eq!(column("big").as_string::<i32>().value(0), "18446744073709551615");
    assert_eq!(column("bin").as_binary::<i32>().value(0), [0xff, 0, 1]);
    assert_eq!(column("bin").as_binary::<i32>().value(3), b"text");
    assert_eq!(column("cls").as_string::<i32>().value(1), "007");
    assert_eq!(column("list").as_string::<i32>().value(1), "[1,{}]");
}

#[test]
fn a_parquet_table_is_all_or_nothing_and_always_the_same() {
    let folder = dir();
    let whole = gallery(30).whole();
    std::fs::write(folder.path().join("a.tar"), &whole).unwrap();
    std::fs::write(folder.path().join("cut.tar"), &whole[..whole.len() / 2]).unwrap();
    let done = words("tarshow", "--parquet t.parquet -f json.width cut.tar").cwd(folder.path()).done().status(1);
    assert!(done.stderr_text().starts_with("tarshow: cut.tar: byte "), "{}", done.stderr_text());
    assert_eq!(list(folder.path()), ["a.tar", "cut.tar"]);
    let tables = ["1", "4"].map(|p| {
        words("tarshow", &format!("--parquet t.parquet -f json.width -p {p} a.tar")).cwd(folder.path()).ok();
        std::fs::read(folder.path().join("t.parquet")).unwrap()
    });
    assert!(tables[0] == tables[1]);
    words("tarshow", "--parquet /dev/full -f json.width a.tar")
        .cwd(folder.path())
        .fails(1, "tarshow: /dev/full: No space left on device");
}
