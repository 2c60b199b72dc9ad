//! tarcheck: the faults it finds, and how it reports them.

mod loaders;

use crate::support::{Archive, TempDir, bash, dir, run, words};

/// A folder with `good.tar` and the archives of the test.
fn with(files: &[(&str, Vec<u8>)]) -> TempDir {
    let folder = dir();
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

#[test]
fn a_good_dataset_gets_a_table_and_status_0() {
    let folder = with(&[("good.tar", Archive::of_samples(3).whole())]);
    let table = String::from_utf8(words("tarcheck", "good.tar").cwd(folder.path()).ok()).unwrap();
    assert_eq!(
        table,
        "SAMPLES  MEMBERS  DROPPED     SIZE  FAULTS  SHARD     FIELDS\n\
         \x20     3        9        0  12.8 kB       0  good.tar  cls jpg json\n"
    );
}

#[test]
fn every_fault_is_named_with_shard_byte_and_sample() {
    let whole = Archive::of_samples(3).whole();
    let mut flipped = whole.clone();
    flipped[512 + 1024 + 100] ^= 1;
    let folder = with(&[
        ("cut.tar", whole[..whole.len() - 1024].to_vec()),
        ("flipped.tar", flipped),
        ("text.tar", b"not an archive".repeat(100)),
        ("twice.tar", Archive::new().file("a.txt", b"1").file("a.txt", b"2").file("b.jpg", b"3").whole()),
        ("returns.tar", Archive::new().file("x.txt", b"1").file("y.txt", b"2").file("x.txt", b"3").whole()),
    ]);
    let args = "--require txt --allow-repeats cut.tar flipped.tar text.tar twice.tar nosuch.tar";
    let said = words("tarcheck", args).cwd(folder.path()).done().status(1).stderr_text();
    assert_eq!(
        said,
        "tarcheck: cut.tar: byte 0: sample s0000: field txt is missing\n\
         tarcheck: cut.tar: byte 3584: sample s0001: field txt is missing\n\
         tarcheck: cut.tar: byte 11776: the input ends before the end-of-archive blocks\n\
         tarcheck: flipped.tar: byte 1536: the checksum of a header is wrong\n\
         tarcheck: text.tar: byte 0: not a tar archive\n\
         tarcheck: twice.tar: byte 1024: sample a: field txt appears twice\n\
         tarcheck: twice.tar: byte 2048: sample b: field txt is missing\n\
         tarcheck: nosuch.tar: byte 0: No such file or directory\n\
         tarcheck: faults in 5 of 5 shards\n"
    );
    words("tarcheck", "returns.tar").cwd(folder.path()).done().status(1).stderr(
        "tarcheck: returns.tar: byte 2048: sample x: duplicate of the key at byte 0\n\
         tarcheck: faults in 1 of 1 shard",
    );
}

#[test]
fn offsets_after_the_end_of_an_archive_are_those_of_members() {
    let one = || Archive::new().file("x.txt", b"1").whole();
    let folder = with(&[("two.tar", [one(), one()].concat())]);
    words("tarcheck", "two.tar").cwd(folder.path()).done().status(1).stderr(
        "tarcheck: two.tar: byte 2048: sample x: field txt appears twice\n\
         tarcheck: faults in 1 of 1 shard",
    );
}

#[test]
fn keys_shared_between_shards_are_found_whatever_the_number_of_threads() {
    let folder = with(&[
        ("a.tar", Archive::new().file("k.txt", b"1").file("l.txt", b"2").whole()),
        ("b.tar", Archive::new().file("m.txt", b"1").file("k.jpg", b"2").whole()),
    ]);
    for p in ["1", "4"] {
        run("tarcheck", ["-p", p, "a.tar", "b.tar"]).cwd(folder.path()).done().status(1).stderr(
            "tarcheck: b.tar: byte 1024: sample k: duplicate of the key at byte 0 of a.tar\n\
             tarcheck: faults in 1 of 2 shards",
        );
    }
    words("tarcheck", "--allow-repeats a.tar b.tar").cwd(folder.path()).ok();
}

#[test]
fn long_lists_of_faults_are_truncated_but_counted() {
    let folder = with(&[("a.tar", Archive::of_samples(30).whole())]);
    let done = words("tarcheck", "--require txt --show 2 a.tar").cwd(folder.path()).done().status(1);
    let said = done.stderr_text();
    assert!(said.contains("a.tar: 28 faults more (use --show 0 to describe all)"), "{said}");
    let done = words("tarcheck", "--require txt --show 0 a.tar").cwd(folder.path()).done().status(1);
    assert_eq!(done.stderr_text().lines().count(), 31);
}

#[test]
fn the_json_verdict_is_complete() {
    let folder = with(&[("a.tar", Archive::of_samples(4).whole()), ("b.tar", b"junk".to_vec())]);
    let script = "tarcheck --json a.tar b.tar 2>/dev/null | jq -c \
        '[.samples, .faults, .shards[0].fields.jpg, .shards[1].findings[0].code, .shards[1].findings[0].offset]'";
    let out = bash(script).cwd(folder.path()).done().status(1).stdout_text();
    assert_eq!(out.trim(), "[4,1,4,\"not_tar\",0]");
}

#[test]
fn indexes_are_written_only_for_shards_without_faults() {
    let folder = with(&[("a.tar", Archive::of_samples(4).whole()), ("b.tar", Archive::of_samples(2).cut())]);
    words("tarcheck", "--allow-repeats --index --wids w.json a.tar b.tar").cwd(folder.path()).done().status(1);
    assert!(folder.path().join("a.idx").exists() && !folder.path().join("b.idx").exists());
    let script = "jq -r '[.wids_version, .shardlist[0].url, .shardlist[0].nsamples, .shardlist[0].sha256, (.shardlist|length)] | join(\" \")' w.json; sha256sum a.tar";
    let out = String::from_utf8(bash(script).cwd(folder.path()).ok()).unwrap();
    let sum = out.lines().nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(out.lines().next().unwrap(), format!("1 a.tar 4 {sum} 1"));
}

#[test]
fn compressed_shards_are_checked_to_their_last_byte() {
    let folder = with(&[("a.tar", Archive::of_samples(40).whole())]);
    bash("gzip -k a.tar; head -c -4 a.tar.gz > cut.tar.gz").cwd(folder.path()).ok();
    words("tarcheck", "a.tar.gz").cwd(folder.path()).ok();
    let done = words("tarcheck", "cut.tar.gz").cwd(folder.path()).done().status(1);
    done.stderr_has("the compressed data is cut off");
}

#[test]
fn names_cannot_act_on_the_terminal() {
    let archive =
        Archive::new().file("a.\u{9b}31m", b"1").file("b.\u{202e}gpj", b"2").file("\u{85}c.txt", b"3").whole();
    let folder = with(&[("s.tar", archive)]);
    for args in ["s.tar", "--json s.tar", "--require none s.tar", "--json --require none s.tar"] {
        let done = words("tarcheck", args).cwd(folder.path()).done();
        let said = done.stderr_text() + &done.stdout_text();
        let acts = |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{202a}'..='\u{202e}'));
        assert!(said.contains("9b") && !said.contains(acts), "{args}: {said:?}");
    }
    // JSON has the names unchanged.
    let json = words("tarcheck", "--json s.tar").cwd(folder.path()).done().stdout();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert!(json["shards"][0]["fields"]["\u{9b}31m"].is_number(), "{json}");
}
