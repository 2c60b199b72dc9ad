//! Which items, and how they fill templates.

use super::{log, read, shardrun};
use crate::support::{bash, dir, list, words};

#[test]
fn numbers_names_files_and_tables_make_items() {
    let folder = dir();
    let path = folder.path();
    shardrun(path, ["--run", "r", "-n", "3", "-o", "n-{:03}", "echo {} {i} {n}"]).ok();
    assert_eq!(read(path, "n-002"), "2 2 3\n");
    shardrun(path, ["-o", "{base}.b", "echo {} {base} {dir} {ext}", "a/x-{08..09}.tar.gz", "y"]).ok();
    assert_eq!(read(path, "x-09.b"), "a/x-09.tar.gz x-09 a tar.gz\n");
    assert_eq!(read(path, "y.b"), "y y . \n");
    std::fs::write(path.join("names"), "p\n\nq{1..2}\n").unwrap();
    shardrun(path, ["-T", "names", "-o", "T-{}", "echo {i}"]).ok();
    assert_eq!(list(path).iter().filter(|name| name.starts_with("T-")).count(), 3);
    assert_eq!(read(path, "T-q2"), "2\n");
}

#[test]
fn a_table_makes_as_many_items_as_it_has_shards() {
    let folder = dir();
    let rows: String = (0..25).map(|i| format!("http://h/{i}.jpg\n")).collect();
    std::fs::write(folder.path().join("urls.txt"), rows).unwrap();
    let pipeline = "urlcat urls.txt --shard env --rows-per-shard 10";
    let flags = ["--shards-of", "urls.txt", "--rows-per-shard", "10", "-o", "{}.jsonl", pipeline];
    shardrun(folder.path(), flags).ok();
    let all: String = (0..3).map(|i| read(folder.path(), &format!("{i}.jsonl"))).collect();
    let plain = bash("urlcat urls.txt").cwd(folder.path()).ok();
    assert_eq!(all, String::from_utf8(plain).unwrap());
    assert_eq!(read(folder.path(), "2.jsonl").lines().count(), 5);
}

#[test]
fn values_are_quoted_and_in_the_environment() {
    let folder = dir();
    let path = folder.path();
    let hostile = "it's $(touch hacked) `touch hacked`; touch hacked #\"";
    let pipeline = "printf '%s\\n' {} \"$SHARD\" $SHARD_INDEX $SHARD_COUNT $TARPIPE_SHARD $SHARD_ATTEMPT";
    shardrun(path, ["-o", "o-{i}", pipeline, hostile]).ok();
    assert_eq!(read(path, "o-0"), format!("{hostile}\n{hostile}\n0\n1\n0/1\n1\n"));
    assert!(!path.join("hacked").exists());
}

#[test]
fn a_value_between_quotes_of_the_pipeline_is_refused_if_the_shell_would_see_it() {
    let folder = dir();
    for pipeline in ["echo \"{}\"", "echo '{}'", "cat <<EOF\n{}\nEOF"] {
        let done = shardrun(folder.path(), [pipeline, "$(touch hacked)"]).done().status(2);
        done.stderr("shardrun: item '$(touch hacked)' contains shell metacharacters, and its placeholder is inside quotes; write \"$SHARD\" there");
    }
    assert!(list(folder.path()).is_empty());
    shardrun(folder.path(), ["--run", "r", "tarcat --help > {base}.txt; echo \"{}\"", "plain-1.tar"]).ok();
    assert_eq!(log(folder.path())[0]["state"], "done");
}

#[test]
fn other_braces_are_the_shells() {
    let folder = dir();
    let pipeline = "x=5; echo a b | awk '{print $2}'; echo ${x} {{i}} {1..3} {p,q}; { echo group; }";
    shardrun(folder.path(), ["-n", "1", "-o", "o", pipeline]).ok();
    assert_eq!(read(folder.path(), "o"), "b\n5 {i} 1 2 3 p q\ngroup\n");
}

#[test]
fn mistakes_are_refused_before_anything_runs() {
    let folder = dir();
    let cases: [(&[&str], &str); 13] = [
        (&["touch ran"], "give the items in exactly one way: -n N, ITEM…, -T FILE or --shards-of TABLE"),
        (
            &["-n", "2", "touch ran", "x"],
            "give the items in exactly one way: -n N, ITEM…, -T FILE or --shards-of TABLE",
        ),
        (&["-n", "2", "-o", "x", "touch ran"], "items 0 and 1 would both write x; use {}, {i} or {base}"),
        (
            &["-n", "2", "-o", "{}", "--also", "y", "touch ran"],
            "items 0 and 1 would both write y; use {}, {i} or {base}",
        ),
        (&["-n", "2", "--also", "s3://b/{}", "touch ran"], "--also s3://b/0: must be a file path"),
        (
            &["-o", "{base}", "touch ran", "a/x.tar", "b/x.tgz"],
            "items 0 and 1 would both write x; use {}, {i} or {base}",
        ),
        (
            &["-n", "2", "touch ran {shard:05}"],
            "pipeline: unknown placeholder {shard:05} (known: {}, {i}, {:05}, {base}, {dir}, {ext}, {n}; write {{shard:05}} for the literal text)",
        ),
        (
            &["-n", "2", "-o", "{x}", "touch ran"],
            "-o '{x}': unknown placeholder {x} (known: {}, {i}, {:05}, {base}, {dir}, {ext}, {n}; write {{x}} for the literal text)",
        ),
        (
            &["--on", "lsf", "-n", "2", "touch ran"],
            "invalid value 'lsf' for '--on <ENGINE>'; [possible values: local, slurm, k8s, spark, ray] (see shardrun --help)",
        ),
        (&["--image", "x", "-n", "2", "touch ran"], "--image requires --on k8s"),
        (&["--on", "ray", "--config", "x", "-n", "2", "touch ran"], "--config requires --on slurm or k8s"),
        (
            &["-n", "2", "-o", "-", "touch ran"],
            "-o -: items cannot share stdout; give a name per item, such as -o 'out-{}.tar'",
        ),
        (
            &["--chunk", "0", "-n", "2", "touch ran"],
            "invalid value '0' for '--chunk <K>': not a positive number (see shardrun --help)",
        ),
    ];
    for (args, said) in cases {
        shardrun(folder.path(), args).fails(2, &format!("shardrun: {said}"));
        assert!(list(folder.path()).is_empty(), "{args:?} left {:?}", list(folder.path()));
    }
    shardrun(folder.path(), ["-n", "0", "touch ran"]).fails(1, "shardrun: no items to run");
    shardrun(folder.path(), ["touch ran", "two\nlines"])
        .fails(1, "shardrun: item 'two\\nlines': names must not contain newlines or NUL bytes");
}

#[test]
fn help_names_every_placeholder_of_a_template() {
    let help = words("shardrun", "--help").done().status(0).stdout_text();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [
        "{} is the item, {i} or {:05} its number from 0, {n} the number of items",
        "--shard {i}/{n} --rows-per-shard N",
    ] {
        assert!(help.contains(text), "{help}");
    }
}
