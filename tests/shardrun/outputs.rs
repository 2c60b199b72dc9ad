//! What is committed, and when.

use super::{log, read, shardrun};
use crate::support::{Archive, bash, dir, list, members};

/// Names in the folder other than the run's.
fn outputs(path: &std::path::Path) -> Vec<String> {
    list(path).into_iter().filter(|name| name != "r" && name != ".shardrun").collect()
}

#[test]
fn nothing_is_committed_unless_every_stage_succeeded() {
    let folder = dir();
    let path = folder.path();
    for (pipeline, code, message) in [
        ("echo x; false | cat", "exit_status", "the command failed with exit status 1"),
        ("echo x; exit 7", "exit_status", "the command failed with exit status 7"),
        ("echo x; echo $nobody", "exit_status", "the command failed with exit status 1"),
        ("echo x; kill -9 $$", "signal", "the command died of signal 9"),
        ("echo x; no-such-command", "exit_status", "command not found (exit status 127)"),
    ] {
        let done = shardrun(path, ["--redo", "--run", "r", "-n", "1", "-o", "out/{}", pipeline]).done().status(3);
        done.stderr(&format!("shardrun: item 0 (0): {message}\nshardrun: 0 items; failed 1 (1 {code})"));
        assert!(outputs(&path.join("out")).is_empty(), "{pipeline}");
        assert_eq!(log(path)[0]["code"], code);
    }
}

#[test]
fn archives_are_counted_and_must_be_whole() {
    let folder = dir();
    let path = folder.path();
    let whole = Archive::of_samples(5).whole();
    std::fs::write(path.join("in.tar"), &whole).unwrap();
    shardrun(path, ["--run", "r", "-n", "1", "-o", "{}.tar", "cat in.tar"]).ok();
    assert_eq!(std::fs::read(path.join("0.tar")).unwrap(), whole);
    let line = &log(path)[0];
    assert_eq!((line["samples"].as_u64(), line["bytes"].as_u64()), (Some(5), Some(whole.len() as u64)));
    let cut = ["--run", "c", "-n", "1", "-o", "cut-{}.tar", "head -c 3000 in.tar"];
    shardrun(path, cut).done().status(3).stderr_has("the output: byte ");
    let empty = ["--run", "e", "-n", "1", "-o", "empty-{}.tar", "true"];
    shardrun(path, empty).done().status(3).stderr_has("the pipeline wrote nothing");
    shardrun(path, ["--run", "t", "-n", "1", "-o", "empty-{}.txt", "true"]).ok();
    assert_eq!(outputs(path), ["0.tar", "c", "e", "empty-0.txt", "in.tar", "t"]);
}

#[test]
fn the_suffix_compresses_what_is_not_compressed_yet() {
    let folder = dir();
    let path = folder.path();
    std::fs::write(path.join("in.tar"), Archive::of_samples(3).whole()).unwrap();
    shardrun(path, ["-o", "{i}-a.tar.gz", "cat {}", "in.tar"]).ok();
    shardrun(path, ["-o", "{i}-b.tar.gz", "gzip -c {}", "in.tar"]).ok();
    for name in ["0-a.tar.gz", "0-b.tar.gz"] {
        let plain = bash(&format!("gzip -dc {name}")).cwd(path).ok();
        assert_eq!(members(&plain).len(), 9, "{name}");
    }
}

#[test]
fn what_has_a_compressed_name_is_compressed_whatever_its_bytes_look_like() {
    let folder = dir();
    let path = folder.path();
    std::fs::write(path.join("in.tar"), Archive::new().file("BZh91AY&SY.txt", b"x").whole()).unwrap();
    shardrun(path, ["--run", "a", "-o", "{i}-a.tar.gz", "cat {}", "in.tar"]).ok();
    assert_eq!(members(&bash("gzip -dc 0-a.tar.gz").cwd(path).ok()).len(), 1);
    let other = ["--run", "b", "-o", "{i}-b.tar.gz", "zstd -qc {}", "in.tar"];
    let said = "the pipeline wrote zstd data, but the name 0-b.tar.gz calls for gzip";
    shardrun(path, other).done().status(3).stderr_has(said);
    // What is compressed already is looked into: half of it is not an output.
    let cut = ["--run", "c", "-o", "{i}-c.tar.gz", "gzip -c {} | head -c 60", "in.tar"];
    shardrun(path, cut).done().status(3).stderr_has("the compressed data is cut off");
    let cut = ["--run", "d", "-o", "{i}-d.txt.gz", "seq 1000 | gzip -c | head -c 600", "in.tar"];
    shardrun(path, cut).done().status(3).stderr_has("the compressed data is cut off");
    assert_eq!(outputs(path), ["0-a.tar.gz", "a", "b", "c", "d", "in.tar"]);
}

#[test]
fn sinks_of_every_kind_take_outputs() {
    let folder = dir();
    let path = folder.path();
    shardrun(path, ["--run", "r", "-n", "2", "-o", "pipe:cat > piped-{}", "echo {}"]).ok();
    assert_eq!(read(path, "piped-1"), "1\n");
    // A command cannot be listed: the job log says that it is done.
    std::fs::remove_file(path.join("piped-1")).unwrap();
    shardrun(path, ["--run", "r", "-n", "2", "-o", "pipe:cat > piped-{}", "echo {}"]).ok();
    assert!(!path.join("piped-1").exists());
    let failing = ["--run", "f", "-n", "1", "-o", "pipe:cat >/dev/null; exit {}4", "echo x"];
    shardrun(path, failing).done().status(3).stderr_has("the command failed with exit status 4");
    let nowhere = ["--run", "s", "-n", "1", "-o", "nowhere://x/{}", "touch ran"];
    shardrun(path, nowhere).done().status(3).stderr_has("nowhere://x/0: no client for nowhere://");
    assert!(!path.join("ran").exists(), "an output that cannot be made was found out too late");
}

#[test]
fn a_full_disk_fails_the_item() {
    let folder = dir();
    let flags = ["--run", "r", "-n", "1", "-o", "pipe:cat > /dev/full", "head -c 100000 /dev/zero"];
    shardrun(folder.path(), flags).done().status(3);
    assert_eq!(log(folder.path())[0]["code"], "output");
}

#[test]
fn further_files_must_be_there() {
    let folder = dir();
    let path = folder.path();
    let flags = ["--run", "r", "-n", "2", "-o", "{}.txt", "--also", "{}.idx"];
    let pipeline = "echo {}; [ {} = 1 ] || echo x > {}.idx";
    let done = shardrun(path, flags.iter().copied().chain([pipeline])).done().status(3);
    done.stderr("shardrun: item 1 (1): the pipeline did not write 1.idx\nshardrun: 1 item; failed 1 (1 missing)");
    assert_eq!(outputs(path), ["0.idx", "0.txt"]);
    // An item without its further file is not done.
    std::fs::remove_file(path.join("0.idx")).unwrap();
    shardrun(path, flags.iter().copied().chain([pipeline])).done().status(3);
    assert!(path.join("0.idx").exists());
}

#[test]
fn stdout_without_an_output_goes_to_the_log() {
    let folder = dir();
    let path = folder.path();
    assert!(shardrun(path, ["--run", "r", "-n", "2", "echo out {}; echo err {} >&2"]).ok().is_empty());
    let said = String::from_utf8(shardrun(path, ["logs", "r"]).ok()).unwrap();
    assert_eq!(said, "==> item 0 (0)\nout 0\nerr 0\n==> item 1 (1)\nout 1\nerr 1\n");
}

#[test]
fn the_number_of_jobs_never_shows() {
    let folder = dir();
    let path = folder.path();
    std::fs::write(path.join("in.tar"), Archive::of_samples(20).whole()).unwrap();
    for jobs in ["1", "8"] {
        let output = format!("j{jobs}-{{:02}}.tar.gz");
        shardrun(path, ["-n", "6", "-j", jobs, "-o", &output, "tarcat --skip {} in.tar"]).ok();
    }
    for i in 0..6 {
        let read = |jobs: u32| std::fs::read(path.join(format!("j{jobs}-{i:02}.tar.gz"))).unwrap();
        assert!(read(1) == read(8), "item {i}");
    }
}

/// The pipeline of the manual, an archive a shard, beside the same by hand.
#[test]
fn a_dataset_is_the_same_as_by_hand() {
    let folder = dir();
    let path = folder.path();
    std::fs::create_dir(path.join("hand")).unwrap();
    for i in 0..4 {
        std::fs::write(path.join(format!("raw-{i:04}.tar")), Archive::of_samples(10 + i).whole()).unwrap();
    }
    let stage = "tarproc -c \"tr a-z A-Z < sample.cls > x; mv x sample.cls\" -o -";
    shardrun(path, ["-n", "4", "-o", "out-{:04}.tar", &format!("tarcat raw-{{:04}}.tar | {stage}")]).ok();
    bash(&format!("for i in 0 1 2 3; do tarcat raw-000$i.tar | {stage} > hand/out-000$i.tar; done")).cwd(path).ok();
    bash("for i in hand/*; do cmp $i ${i#hand/}; done").cwd(path).ok();
}
