//! tarcheck --for: what loaders would fail on or lose. tests/loaders compares the same with the real loaders.

use super::with;
use crate::support::{Archive, words};

/// The verdict of one loader on `a.tar`, as JSON, and the status.
fn verdict(loader: &str, archive: Vec<u8>) -> (String, serde_json::Value) {
    let folder = with(&[("a.tar", archive)]);
    let done = words("tarcheck", &format!("--json --for {loader} a.tar")).cwd(folder.path()).done();
    let json: serde_json::Value = serde_json::from_slice(&done.stdout()).unwrap();
    let found = &json["loaders"][loader];
    (found["verdict"].as_str().unwrap().to_owned(), found["lost"].clone())
}

const LOADERS: [&str; 5] = ["hf", "webdataset", "energon", "wids", "ray"];

#[test]
fn good_shards_are_loaded_by_all_loaders() {
    let folder = with(&[("a.tar", Archive::new().file("a.txt", b"x").file("b.txt", b"y").whole())]);
    words("tarcheck", "--for hf,webdataset,energon,wids,ray a.tar").cwd(folder.path()).ok();
}

#[test]
fn what_a_loader_loses_is_named_with_shard_byte_sample_and_repair() {
    let sample =
        |archive: Archive, key: &str| archive.file(&format!("{key}.txt"), b"x").file(&format!("{key}.cls"), b"1");
    let mut two = sample(Archive::new(), "a").whole();
    two.extend(sample(Archive::new(), "b").whole());
    let folder = with(&[
        ("two.tar", two),
        ("bad.tar", Archive::new().file("a.cls", b"1").file("b.cls", b"cat").whole()),
        ("mixed.tar", Archive::new().file("a.jpg", b"1").file("b.png", b"2").whole()),
    ]);
    words("tarcheck", "--for webdataset two.tar").cwd(folder.path()).done().status(1).stderr(
        "tarcheck: two.tar: byte 3072: webdataset: stops at the first end-of-archive marker: samples from here on are lost; \
         repair: tarcat two.tar -o fixed.tar\n\
         tarcheck: faults in 1 of 1 shard",
    );
    words("tarcheck", "--for hf bad.tar").cwd(folder.path()).done().status(1).stderr(
        "tarcheck: bad.tar: byte 1024: sample b: hf: fails on field cls, which is not an integer; \
         repair: tarcat --select 'key != \"b\"' bad.tar -o fixed.tar\n\
         tarcheck: faults in 1 of 1 shard",
    );
    words("tarcheck", "--for hf mixed.tar").cwd(folder.path()).done().status(1).stderr_has(
        "mixed.tar: byte 1024: sample b: hf: fails because the first 5 samples differ: fields png here, jpg in the first sample",
    );
    words("tarcheck", "--allow-repeats --for webdataset bad.tar mixed.tar").cwd(folder.path()).ok();
}

#[test]
fn loaders_differ_in_what_they_take() {
    let parts =
        || Archive::new().file("a.txt", b"1").file("b.txt", b"2").file("a.cls", b"3").file("b.cls", b"4").whole();
    let lists = LOADERS.map(|loader| verdict(loader, parts()).0);
    assert_eq!(lists, ["fails", "loses", "fails", "loses", "fails"], "parts of samples that are apart");

    let hidden = || Archive::new().file("x/a.txt", b"1").file("x/._a.cls", b"?").file("x/a.cls", b"3").whole();
    let lists = LOADERS.map(|loader| verdict(loader, hidden()).0);
    assert_eq!(lists, ["loads", "loses", "fails", "loses", "fails"], "a dot-file between the members of a sample");
}

#[test]
fn values_of_json_must_fit_the_columns_of_the_first_samples() {
    let archive = |last: &[u8]| {
        let names: Vec<String> = (0..6).map(|i| format!("s{i}.json")).collect();
        let first = names.iter().fold(Archive::new(), |archive, name| archive.file(name, b"{\"a\": 1}"));
        first.file("s9.json", last).whole()
    };
    assert_eq!(verdict("hf", archive(b"{\"a\": 2.5, \"b\": 1}")).0, "loads");
    assert_eq!(verdict("hf", archive(b"{\"a\": \"x\"}")).0, "fails");
    assert_eq!(verdict("webdataset", archive(b"{\"a\": \"x\"}")).0, "loads");
}

#[test]
fn lost_samples_are_counted() {
    let mut archive = Archive::of_samples(3).whole();
    archive.extend(Archive::of_samples(5).whole());
    assert_eq!(verdict("webdataset", archive), ("loses".to_owned(), 5.into()));
}

#[test]
fn names_from_shards_never_become_part_of_a_command() {
    let folder = with(&[("a.tar", Archive::new().file("x'; touch pwned;'.cls", b"cat").whole())]);
    let done = words("tarcheck", "--for hf a.tar").cwd(folder.path()).done().status(1);
    assert!(!done.stderr_text().contains("repair"), "{}", done.stderr_text());
}

#[test]
fn unknown_loaders_are_refused() {
    words("tarcheck", "--for hf,keras a.tar").done().status(2).stderr_has("unknown loader (known: hf, webdataset,");
}
