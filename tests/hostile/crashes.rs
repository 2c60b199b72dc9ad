//! What fuzzing once broke, through the real tools: fuzz/crashes holds a small file for each bug.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::is_answer;
use crate::support::web::Web;
use crate::support::{Done, bash, dir, run};

fn kept(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/crashes").join(target);
    let kept: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    assert!(
        !kept.is_empty() || !["archive", "http", "tables", "names", "select", "scripts"].contains(&target),
        "{target}"
    );
    kept
}

fn text(path: &Path) -> (String, String) {
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let (first, second) = text.split_once('\0').unwrap_or((&text, ""));
    (first.replace('\0', ""), second.replace('\0', ""))
}

/// Runs a script with a kept file as `in`; it has a minute and 2 GB.
fn script(path: &Path, script: &str) -> Done {
    let folder = dir();
    std::fs::copy(path, folder.path().join("in")).unwrap();
    bash(&format!("ulimit -v 2000000; timeout 60 {script}")).cwd(folder.path()).done()
}

#[test]
fn archives_that_broke_a_reader_get_an_answer() {
    for path in ["archive", "samples", "compression"].into_iter().flat_map(kept) {
        for command in
            ["tarcat in", "tarcat --select true in", "tarcheck in", "tarshow --json in", "tarsort --memory 0 in"]
        {
            is_answer(&format!("{}: {command}", path.display()), &script(&path, &format!("{command} > out")));
        }
    }
}

#[test]
fn tables_that_broke_a_reader_get_an_answer() {
    let formats = ["txt", "csv", "tsv", "json", "jsonl", "parquet", "arrow"];
    for path in kept("tables") {
        let bytes = std::fs::read(&path).unwrap();
        let format = formats.get(usize::from(bytes[0])).map_or(String::new(), |format| format!("--format {format}"));
        for command in ["urlcat", "urlcat --columns", "urlcat --skip-bad --count-shards"] {
            let command = format!("tail -c +2 in > table; {command} {format} table > out");
            is_answer(&format!("{}: {command}", path.display()), &script(&path, &format!("bash -c '{command}'")));
        }
    }
}

#[test]
fn names_patterns_and_expressions_that_broke_a_parser_get_an_answer() {
    let archive = || crate::support::Archive::of_samples(2).whole();
    let mut done = Vec::new();
    for path in kept("names") {
        done.push((path.clone(), run("tarcat", ["-o", "/dev/null", "--", &text(&path).0]).done()));
    }
    for path in kept("keys") {
        for flag in ["--rekey", "--fields"] {
            done.push((path.clone(), run("tarcat", [flag, &text(&path).0]).stdin(archive()).done()));
        }
    }
    for path in kept("select") {
        done.push((path.clone(), run("tarcat", ["--select", &text(&path).0]).stdin(archive()).done()));
    }
    for path in kept("scripts") {
        let (pipeline, value) = text(&path);
        done.push((path.clone(), run("shardrun", ["--dry-run", "--", &pipeline, &value]).done()));
    }
    done.iter().for_each(|(path, done)| is_answer(&path.display().to_string(), done));
}

#[test]
fn answers_that_broke_a_client_get_an_answer() {
    for path in kept("http") {
        let said = [usize::MAX, 1].map(|piece| {
            let bytes = std::fs::read(&path).unwrap();
            let web = Web::start_raw(move |_, tcp| {
                tcp.set_nodelay(true).unwrap();
                for part in bytes.chunks(piece.min(bytes.len())) {
                    _ = tcp.write_all(part);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let done =
                run("fetch", ["--allow-private", "--retries", "0", "--timeout", "20s"]).stdin(web.url.as_str()).done();
            is_answer(&path.display().to_string(), &done);
            // The servers have different ports.
            done.stderr_text().replace(&web.url, "URL")
        });
        assert_eq!(said[0], said[1], "{}: in pieces it is another one", path.display());
    }
}
