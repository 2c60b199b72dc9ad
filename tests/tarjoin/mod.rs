//! tarjoin: tables of every format and streams, by key and by values, in memory, on disk and side by side.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{Archive, TempDir, bash, dir, members, names, peak_memory, run, words};

/// A folder with in.tar: three pictures, the first with JSON and the second with a caption.
fn pets() -> TempDir {
    let folder = dir();
    let archive = Archive::new()
        .file("cat.jpg", b"cat picture")
        .file("cat.json", br#"{"url": "http://h/cat", "width": 1.50, "id": 9007199254740993}"#)
        .file("dog.jpg", b"dog picture")
        .file("dog.txt", b"a dog")
        .file("cow.jpg", b"cow picture");
    std::fs::write(folder.path().join("in.tar"), archive.whole()).unwrap();
    folder
}

fn write(folder: &TempDir, name: &str, text: &str) {
    std::fs::write(folder.path().join(name), text).unwrap();
}

/// The members of the output of `tarjoin ARGS in.tar`, by name, and what it says.
fn joined(folder: &TempDir, args: &str) -> (BTreeMap<String, String>, String) {
    let done = words("tarjoin", &format!("{args} in.tar")).cwd(folder.path()).done().status(0);
    let said = done.stderr_text();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (members(&done.stdout()).into_iter().map(|(name, data)| (name, text(data))).collect(), said)
}

#[test]
fn rows_go_into_json_and_everything_else_stays_as_it_is() {
    let folder = pets();
    write(&folder, "t.csv", "uid,score,note\ncat,0.5,\"a \"\"b\"\"\"\ndog,2,\n");
    let (out, said) = joined(&folder, "--with t.csv --on key=uid");
    assert_eq!(
        out["cat.json"],
        r#"{"url": "http://h/cat", "width": 1.50, "id": 9007199254740993, "score": 0.5, "note": "a \"b\""}"#
    );
    assert_eq!(out["dog.json"], r#"{"score": 2}"#);
    assert_eq!(said, "tarjoin: t.csv: samples without a row: 1 of 3\n");
    assert_eq!(out.len(), 6);
}

#[test]
fn untouched_members_keep_their_headers() {
    let folder = pets();
    write(&folder, "t.csv", "key,txt\nnobody,x\n");
    let before = std::fs::read(folder.path().join("in.tar")).unwrap();
    let done = words("tarjoin", "--with t.csv in.tar").cwd(folder.path()).done().status(0);
    let said = done.stderr_text();
    assert_eq!(said, "tarjoin: t.csv: samples without a row: 3 of 3\ntarjoin: t.csv: rows without a sample: 1 of 1\n");
    let out = done.stdout();
    let whole = before.iter().rposition(|&byte| byte != 0).unwrap();
    assert!(out[..=whole] == before[..=whole]);
}

#[test]
fn columns_become_fields_and_values_under_other_names() {
    let folder = pets();
    write(&folder, "t.jsonl", "{\"url\":\"http://h/cat\",\"caption\":\"a cat\",\"size\":[1,2],\"n\":7}\n");
    let (out, _) = joined(&folder, "--with t.jsonl --on json.url --into txt=caption,json.count=n,size");
    assert_eq!((out["cat.txt"].as_str(), out["cat.size"].as_str()), ("a cat", "[1,2]"));
    assert!(out["cat.json"].ends_with("\"count\": 7}") && !out["cat.json"].contains("caption"), "{}", out["cat.json"]);
    assert_eq!(out["dog.txt"], "a dog");
}

#[test]
fn a_conflict_fails_the_sample_or_one_side_wins() {
    let folder = pets();
    write(&folder, "t.csv", "key,txt\ndog,a cow\ncow,new\n");
    let (out, said) = joined(&folder, "--with t.csv --into txt");
    assert!(!out.contains_key("dog.jpg") && out["cow.txt"] == "new");
    assert!(said.contains("conflict: in.tar: dog: txt has another value; use --on-conflict"), "{said}");
    assert!(said.ends_with("tarjoin: 2 samples; failed 1 (1 conflict)\n"), "{said}");
    assert_eq!(joined(&folder, "--with t.csv --into txt --on-conflict replace").0["dog.txt"], "a cow");
    assert_eq!(joined(&folder, "--with t.csv --into txt --on-conflict keep").0["dog.txt"], "a dog");
    write(&folder, "t.csv", "key,width\ncat,2\n");
    assert!(joined(&folder, "--with t.csv").1.contains("cat: json.width has another value"));
    let replaced = joined(&folder, "--with t.csv --on-conflict replace").0;
    assert!(replaced["cat.json"].contains("\"width\": 2, \"id\""), "{}", replaced["cat.json"]);
    write(&folder, "t.csv", "key,width\ncat,1.5\n");
    assert!(joined(&folder, "--with t.csv").0["cat.json"].contains("\"width\": 1.50,"), "equal values are no conflict");
}

#[test]
fn samples_with_or_without_a_row_can_be_dropped() {
    let folder = pets();
    write(&folder, "t.csv", "key\ndog\n");
    write(&folder, "u.csv", "key\ndog\ncat\n");
    for (args, keys, summary) in [
        ("--keep inner --with t.csv", "dog", "1 sample; dropped 2 (2 no_row)"),
        ("--keep anti --with t.csv", "cat cow", "2 samples; dropped 1 (1 has_row)"),
        ("--keep inner --with t.csv --with u.csv", "dog", "1 sample; dropped 2 (2 no_row)"),
        ("--keep anti --with t.csv --with u.csv", "cow", "1 sample; dropped 2 (2 has_row)"),
    ] {
        let (out, said) = joined(&folder, args);
        let mut found: Vec<&str> = out.keys().map(|name| name.split('.').next().unwrap()).collect();
        found.dedup();
        assert_eq!(found.join(" "), keys, "{args}");
        assert!(said.ends_with(&format!("tarjoin: {summary}\n")), "{said}");
    }
}

#[test]
fn repeated_keys_and_rows_without_a_key_are_reported() {
    let folder = pets();
    write(&folder, "t.jsonl", "{\"key\":\"dog\",\"n\":1}\n{\"key\":\"dog\",\"n\":2}\n{\"n\":3}\n{\"key\":null}\n");
    let (out, said) = joined(&folder, "--with t.jsonl --keep inner");
    assert_eq!(out["dog.json"], "{\"n\": 1}");
    assert_eq!(
        said,
        "tarjoin: t.jsonl: rows with a repeated key (the first row counts): 1 of 4\n\
         tarjoin: t.jsonl: rows without a key: 2 of 4\n\
         tarjoin: 1 sample; dropped 2 (2 no_row)\n"
    );
}

#[test]
fn streams_contribute_their_members_with_their_headers() {
    let folder = pets();
    let maps = Archive::new().file("cow.seg.png", b"map").file("cow.cls", b"3").file("dog.cls", b"4").whole();
    std::fs::write(folder.path().join("maps.tar"), maps).unwrap();
    let (out, said) = joined(&folder, "--with maps.tar");
    assert_eq!((out["cow.seg.png"].as_str(), out["cow.cls"].as_str(), out["dog.cls"].as_str()), ("map", "3", "4"));
    assert_eq!(said, "tarjoin: maps.tar: samples without a row: 1 of 3\n");
    let (out, _) = joined(&folder, "--with maps.tar --into label=cls");
    assert_eq!((out["dog.label"].as_str(), out.contains_key("cow.seg.png")), ("4", false));
    let grouped = bash(
        "tarsort in.tar > s.tar; tarsort --group in.tar maps.tar > a.tar; tarjoin --with maps.tar s.tar 2>&- | cmp - a.tar",
    );
    grouped.cwd(folder.path()).ok();
}

#[test]
fn mistakes_are_named() {
    let folder = pets();
    write(&folder, "t.csv", "uid,a\nx,1\n");
    std::fs::write(folder.path().join("b.tar"), Archive::of_samples(1).whole()).unwrap();
    for (args, status, said) in [
        ("--with t.csv", 1, "t.csv: no column 'key' (urlcat --columns shows the columns)"),
        ("--with t.csv --on key=uid --into txt=b", 1, "t.csv: no column 'b'"),
        ("--with gone.csv", 1, "gone.csv: No such file or directory"),
        ("--with b.tar --on key=uid", 2, "b.tar is a stream: samples are joined by key (use --on VALUE=key)"),
        ("--with b.tar --into json.x", 2, "--into json.x: b.tar is a stream, which has fields and no columns"),
        ("--with t.csv --into a/b=a", 2, "not a name that a field can have"),
        ("--with - -", 2, "stdin can be read only once"),
        ("", 2, "--with <NAME>"),
    ] {
        let done = words("tarjoin", &format!("{args} in.tar")).cwd(folder.path()).done().status(status);
        done.stderr_has(said);
    }
}

/// Samples in random order and rows in another, some without the other.
fn many(folder: &Path) {
    let script = "import json, random, tarfile, io\n\
        random.seed(3)\n\
        keys = random.sample(range(20000), 3000)\n\
        with tarfile.open('in.tar', 'w') as tar:\n\
        \x20   for key in keys:\n\
        \x20       info = tarfile.TarInfo(f's{key:05}.txt'); info.size = 3\n\
        \x20       tar.addfile(info, io.BytesIO(b'abc'))\n\
        rows = random.sample(range(20000), 15000)\n\
        open('t.jsonl', 'w').writelines(json.dumps({'key': f's{r:05}', 'v': 'x' * (r % 300)}) + '\\n' for r in rows)\n\
        rows.sort()\n\
        open('sorted.jsonl', 'w').writelines(json.dumps({'key': f's{r:05}', 'v': 'x' * (r % 300)}) + '\\n' for r in rows)\n\
        have = set(rows)\n\
        print(sum(key in have for key in keys))\n";
    let done = std::process::Command::new("python3").args(["-c", script]).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    std::fs::write(folder.join("matches"), done.stdout).unwrap();
}

#[test]
fn in_memory_on_disk_and_side_by_side_the_result_is_the_same() {
    let folder = dir();
    many(folder.path());
    let run_on = |args: &str, source: &str| {
        let done = words("tarjoin", &format!("{args} {source}")).cwd(folder.path()).done().status(0);
        (done.stderr_text().replace("sorted.jsonl", "t.jsonl"), done.stdout())
    };
    let held = run_on("--with t.jsonl", "in.tar");
    assert!(held == run_on("--with t.jsonl --memory 0", "in.tar"), "on disk");
    let matches: usize = std::fs::read_to_string(folder.path().join("matches")).unwrap().trim().parse().unwrap();
    assert_eq!(names(&held.1).iter().filter(|name| name.ends_with(".json")).count(), matches);
    assert!(held.0.contains(&format!("rows without a sample: {} of 15000", 15_000 - matches)), "{}", held.0);
    bash("tarsort in.tar -o in-order.tar").cwd(folder.path()).ok();
    let looked_up = run_on("--with t.jsonl", "in-order.tar");
    assert!(looked_up == run_on("--with sorted.jsonl --sorted", "in-order.tar"), "side by side");
    let done = words("tarjoin", "--with t.jsonl --sorted in-order.tar").cwd(folder.path()).done().status(1);
    done.stderr_has("sort both by key (tarsort), or leave out --sorted");
}

#[test]
fn aligned_shards_need_no_sorted_keys() {
    let folder = pets();
    write(&folder, "t.csv", "key,n\ncat,1\ndog,2\ncow,3\n");
    let (out, said) = joined(&folder, "--with t.csv --sorted");
    assert_eq!((out["cow.json"].as_str(), out["dog.json"].as_str(), said.as_str()), ("{\"n\": 3}", "{\"n\": 2}", ""));
    write(&folder, "t.csv", "key,n\ncat,1\ncow,3\n");
    let done = words("tarjoin", "--with t.csv --sorted in.tar").cwd(folder.path()).done().status(1);
    done.stderr_has("tarjoin: t.csv: not in the order of the samples at cow");
    write(&folder, "t.csv", "key,n\ncat,1\ncow,x,y\n");
    words("tarjoin", "--with t.csv --sorted in.tar").cwd(folder.path()).done().status(1);
}

#[test]
fn samples_with_damaged_json_are_left_out() {
    let folder = dir();
    let archive = Archive::new().file("a.json", b"{\"x\": ").file("b.json", b"[1]").file("c.json", b"{}").whole();
    std::fs::write(folder.path().join("in.tar"), archive).unwrap();
    write(&folder, "t.csv", "key,n\na,1\nb,2\nc,3\n");
    let (out, said) = joined(&folder, "--with t.csv");
    assert_eq!(out, BTreeMap::from([("c.json".to_owned(), "{\"n\": 3}".to_owned())]));
    assert!(said.ends_with("tarjoin: 1 sample; failed 2 (2 bad_json)\n"), "{said}");
}

#[test]
fn memory_is_bounded_whatever_the_size_of_the_table() {
    let folder = pets();
    let script = "seq 400000 | awk '{print \"k\" $1 \",\" $1 * 7919 \" a caption of some words\"}' | (echo key,txt; cat) > t.csv";
    bash(script).cwd(folder.path()).ok();
    let held = peak_memory(folder.path(), "tarjoin", "--with t.csv --keep inner in.tar");
    let spilled = peak_memory(folder.path(), "tarjoin", "--with t.csv --keep inner --memory 4M in.tar");
    assert!(spilled + (15 << 20) < held, "{spilled} bytes with --memory 4M, {held} bytes without");
}

#[test]
fn parquet_and_stdin_are_tables_too() {
    let folder = pets();
    words("tarshow", "--parquet p.parquet -f txt in.tar").cwd(folder.path()).ok();
    let (out, said) = joined(&folder, "--with p.parquet --on key=__key__ --into json.caption=txt,alt=txt");
    assert_eq!(
        (out["dog.json"].as_str(), out["dog.alt"].as_str(), said.as_str()),
        ("{\"caption\": \"a dog\"}", "a dog", "")
    );
    assert_eq!(out.len(), 7, "null cells add nothing");
    let out = run("tarjoin", ["--with", "-", "in.tar"]).cwd(folder.path()).stdin("key,n\ncat,1\ndog,1\ncow,1\n").ok();
    assert_eq!(names(&out).iter().filter(|name| name.ends_with(".json")).count(), 3);
}
