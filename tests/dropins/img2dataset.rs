//! scripts/img2dataset: flags, resuming and refusals. That it gives what the real one gives is tests/peers' part.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::web::{Web, reply};
use crate::support::{Run, bash, dir, list, names, status};

/// Pictures, and a few things that go wrong.
fn web() -> Web {
    let picture = jpeg();
    Web::start(move |asked, wire| match asked.path.as_str() {
        "/missing" => reply(wire, "404 Not Found", "", b"no"),
        "/page" => reply(wire, "200 OK", "Content-Type: text/html\r\n", b"<html>no picture"),
        "/noai" => reply(wire, "200 OK", "X-Robots-Tag: noai\r\n", &picture),
        "/token" => reply(wire, "200 OK", "X-Robots-Tag: me: noai\r\n", &picture),
        _ => reply(wire, "200 OK", "", &picture),
    })
}

fn jpeg() -> Vec<u8> {
    let mut out = Vec::new();
    let pixels: Vec<u8> = (0..60 * 40 * 3).map(|i| (i % 251) as u8).collect();
    jpeg_encoder::Encoder::new(&mut out, 90).encode(&pixels, 60, 40, jpeg_encoder::ColorType::Rgb).unwrap();
    out
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/img2dataset")
}

/// The script in a folder, with what every test on loopback needs.
fn img2dataset(folder: &Path, flags: &str) -> Run {
    let words = "--allow_private --url_list urls.txt --output_folder out --number_sample_per_shard 4 --image_size 32";
    bash(&format!("exec {} {words} {flags}", script().display())).cwd(folder).env("no_proxy", "*")
}

fn write_urls(folder: &Path, web: &Web, paths: &[&str]) {
    let urls: String = paths.iter().map(|path| format!("{}/{path}\n", web.url)).collect();
    std::fs::write(folder.join("urls.txt"), urls).unwrap();
}

fn stats(folder: &Path, shard: u64) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join(format!("out/{shard:05}_stats.json"))).unwrap()).unwrap()
}

fn visible(folder: &Path) -> Vec<String> {
    list(folder).into_iter().filter(|name| !name.starts_with('.')).collect()
}

#[test]
fn urls_become_shards_with_tables_and_counts() {
    let (folder, web) = (dir(), web());
    write_urls(folder.path(), &web, &["1", "missing", "page", "noai", "5", "token"]);
    let said =
        img2dataset(folder.path(), "--output_format=webdataset --user_agent_token me --enable_wandb").done().status(0);
    assert_eq!(said.stderr_text(), "");
    let said = said.stdout_text();
    assert!(said.contains("total   - success: 0.333 - failed to download: 0.500 - failed to resize: 0.167"), "{said}");
    let expected = ["00000.parquet", "00000.tar", "00000_stats.json", "00001.parquet", "00001.tar", "00001_stats.json"];
    assert_eq!(visible(&folder.path().join("out")), expected);
    let tar = std::fs::read(folder.path().join("out/00001.tar")).unwrap();
    assert_eq!(names(&tar), ["000010.jpg", "000010.json"]);
    let counts = stats(folder.path(), 0);
    assert_eq!(counts["status_dict"]["HTTP Error 404: Not Found"], json!(1));
    assert_eq!(counts["status_dict"]["Image decoding error"], json!(1));
    assert_eq!(counts["status_dict"]["Use of image disallowed by X-Robots-Tag directive"], json!(1));
    let metrics = std::fs::read_to_string(folder.path().join("out/.img2dataset/metrics.jsonl")).unwrap();
    assert!(metrics.contains("\"total/img_per_sec\"") && metrics.contains("{\"status\": [["), "{metrics}");
}

#[test]
fn only_shards_without_counts_are_made_again() {
    let (folder, web) = (dir(), web());
    write_urls(folder.path(), &web, &["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    img2dataset(folder.path(), "--output_format webdataset").done().status(0);
    let asked = web.seen().len();
    img2dataset(folder.path(), "--output_format webdataset --thread_count 3").done().status(0);
    assert_eq!(web.seen().len(), asked, "nothing was left to do");
    std::fs::remove_file(folder.path().join("out/00001_stats.json")).unwrap();
    img2dataset(folder.path(), "--output_format webdataset").done().status(0);
    let again: Vec<String> = web.seen()[asked..].iter().map(|asked| asked.path.clone()).collect();
    let mut sorted = again.clone();
    sorted.sort();
    assert_eq!(sorted, ["/e", "/f", "/g", "/h"]);
    assert_eq!(stats(folder.path(), 1)["successes"], json!(4));
    img2dataset(folder.path(), "--output_format webdataset --incremental_mode extend").done().status(0);
    assert_eq!(visible(&folder.path().join("out")).iter().filter(|name| name.ends_with(".tar")).count(), 6);
    assert_eq!(stats(folder.path(), 5)["count"], json!(1));
    img2dataset(folder.path(), "--output_format webdataset --incremental_mode overwrite").done().status(0);
    assert_eq!(visible(&folder.path().join("out")).iter().filter(|name| name.ends_with(".tar")).count(), 3);
}

#[test]
fn a_run_with_nothing_to_do_says_what_is_there() {
    let (folder, web) = (dir(), web());
    write_urls(folder.path(), &web, &["a", "missing", "page"]);
    img2dataset(folder.path(), "").done().status(0);
    let said = img2dataset(folder.path(), "").done().status(0).stdout_text();
    assert!(said.contains("all 1 shards are done: 3 rows, 1 successes, 2 failures. To start over, use"), "{said}");
}

#[test]
fn shards_are_the_same_bytes_whatever_the_threads_and_the_order_of_answers() {
    let folder = dir();
    let web = Web::start(|asked, wire| {
        // The first answers come last.
        let number: u64 = asked.path.trim_start_matches('/').parse().unwrap();
        std::thread::sleep(Duration::from_millis(if number.is_multiple_of(4) { 200 } else { 0 }));
        reply(wire, "200 OK", "", &jpeg());
    });
    let paths: Vec<String> = (0..12).map(|number| number.to_string()).collect();
    write_urls(folder.path(), &web, &paths.iter().map(String::as_str).collect::<Vec<_>>());
    for (out, flags) in [("one", "--thread_count 1"), ("many", "--thread_count 7 --processes_count 3 --timeout 30")] {
        img2dataset(folder.path(), &format!("--output_format webdataset --output_folder {out} {flags}"))
            .done()
            .status(0);
    }
    for name in (0..3).flat_map(|shard| ["tar", "parquet"].map(|end| format!("{shard:05}.{end}"))) {
        let read = |out: &str| std::fs::read(folder.path().join(out).join(&name)).unwrap();
        assert!(read("one") == read("many"), "{name} differs");
    }
    let tar = std::fs::read(folder.path().join("many/00000.tar")).unwrap();
    assert_eq!(
        names(&tar).iter().step_by(2).collect::<Vec<_>>(),
        ["000000.jpg", "000001.jpg", "000002.jpg", "000003.jpg"]
    );
}

#[test]
fn a_mistaken_first_run_does_not_lock_the_folder_and_overwrite_checks_first() {
    let (folder, web) = (dir(), web());
    let table = format!("url,text,other\n{0}/a,x,{0}/missing\n{0}/b,y,{0}/missing\n", web.url);
    std::fs::write(folder.path().join("t.csv"), table).unwrap();
    img2dataset(folder.path(), "--url_list t.csv --url_col nothing")
        .done()
        .status(2)
        .stderr_has("t.csv has no column 'nothing'");
    img2dataset(folder.path(), "--url_list t.csv --url_col other").done().status(0);
    let said = img2dataset(folder.path(), "--url_list t.csv --url_col url").done().status(0).stderr_text();
    assert!(said.contains("replacing 1 shards of an earlier run, which have no successes"), "{said}");
    assert_eq!(stats(folder.path(), 0)["successes"], json!(2));
    let wrong = "--url_list t.csv --incremental_mode overwrite --save_additional_columns '[\"text\",\"no\"]'";
    img2dataset(folder.path(), wrong)
        .done()
        .status(2)
        .stderr_has("t.csv has no column 'no' (its columns: url, text, other)");
    assert_eq!(stats(folder.path(), 0)["successes"], json!(2), "nothing was removed");
}

#[test]
fn types_hold_the_values_of_all_rows_and_the_format_is_guessed() {
    let (folder, web) = (dir(), web());
    let first: String = (0..2500).map(|n| format!("{}/a,{n},{n},\n", web.url)).collect();
    let last = format!("{}/a,1.5,id-7,true\n", web.url);
    std::fs::write(folder.path().join("t.csv"), format!("url,score,id,late\n{first}{last}")).unwrap();
    let flags = "--url_list t.csv --save_additional_columns '[\"score\",\"id\",\"late\"]' --number_sample_per_shard 2501 --output_format dummy --dry_run";
    let said = "img2dataset: t.csv: reading it as csv, since --input_format is not given";
    let shown = img2dataset(folder.path(), flags).done().status(0).stderr(said).stdout_text();
    assert!(shown.contains("'score:double id:string late:bool url:string key"), "{shown}");
}

#[test]
fn messages_name_no_hosts_so_that_they_can_be_counted() {
    let folder = dir();
    let urls: String = (1..9).map(|n| format!("http://127.0.0.{n}:1/a\n")).collect();
    std::fs::write(folder.path().join("urls.txt"), urls).unwrap();
    img2dataset(folder.path(), "--number_sample_per_shard 10").done().status(0);
    assert_eq!(stats(folder.path(), 0)["status_dict"], json!({"<urlopen error [Errno 111] Connection refused>": 8}));
    let rows =
        bash("urlcat out/00000.parquet --keep url_host --head 8").cwd(folder.path()).done().status(0).stdout_text();
    assert!(rows.contains("\"url_host\":\"127.0.0.8\""), "{rows}");
}

#[test]
fn another_size_or_another_list_is_not_resumed() {
    let (folder, web) = (dir(), web());
    write_urls(folder.path(), &web, &["a"]);
    img2dataset(folder.path(), "").done().status(0);
    let said = img2dataset(folder.path(), "--image_size 64").done().status(2).stderr_text();
    assert!(said.starts_with("img2dataset: ") && said.contains("image_size was 32 and is 64"), "{said}");
    assert_eq!(said.lines().count(), 1);
    write_urls(folder.path(), &web, &["a", "b"]);
    let said = img2dataset(folder.path(), "").done().status(2).stderr_text();
    assert!(said.contains("urls.txt has changed (rows 1 then, 2 now"), "{said}");
}

#[test]
fn a_dry_run_prints_the_pipeline_and_does_nothing() {
    let (folder, web) = (dir(), web());
    write_urls(folder.path(), &web, &["a", "b", "c", "d", "e"]);
    let shown =
        img2dataset(folder.path(), "--dry_run --resize_mode keep_ratio --retries 2").done().status(0).stdout_text();
    let stages: Vec<&str> = shown.trim().split(" |\n  ").map(|stage| stage.split(' ').next().unwrap()).collect();
    assert_eq!(stages, ["urlcat", "fetch", "tarresize", "tardataset"]);
    assert!(shown.contains("--retries 2") && shown.contains("--expect 5") && shown.contains("--short 1=1"), "{shown}");
    assert!(!folder.path().join("out").exists() && web.seen().is_empty());
    // What it prints does the work.
    bash(&shown).cwd(folder.path()).env("no_proxy", "*").done().status(0);
    assert_eq!(stats(folder.path(), 1)["successes"], json!(1));
}

#[test]
fn mistakes_are_one_line_and_status_2() {
    let folder = dir();
    std::fs::write(folder.path().join("urls.txt"), "http://h/1\n").unwrap();
    for (flags, expected) in [
        ("--image_sise 3", "img2dataset: no flag --image_sise (see --help)"),
        ("--image_size big", "img2dataset: --image_size: 'big' is not a number"),
        (
            "--resize_mode crop",
            "img2dataset: --resize_mode: 'crop' is not one of no, keep_ratio, center_crop, border, keep_ratio_largest",
        ),
        ("--url_list none.txt", "img2dataset: --url_list: none.txt: no such file"),
        (
            "--save_additional_columns '[\"url\"]'",
            "img2dataset: You cannot use in save_additional_columns the following columns: url: these names are reserved",
        ),
        (
            "--encode_format png",
            "img2dataset: For png, encode quality represents compression which must be between 0 and 9, got 95",
        ),
    ] {
        img2dataset(folder.path(), flags).fails(2, expected);
    }
}

#[test]
fn tools_that_are_not_built_are_missed_at_once() {
    let (folder, web) = (dir(), web());
    write_urls(folder.path(), &web, &["0"]);
    let debug = folder.path().join("target/debug");
    std::fs::create_dir_all(&debug).unwrap();
    std::os::unix::fs::symlink(crate::support::tool("urlcat"), debug.join("urlcat")).unwrap();
    let copy = format!("cp -r {0}/scripts {0}/python .", env!("CARGO_MANIFEST_DIR"));
    bash(&copy).cwd(folder.path()).done().status(0);
    let run = bash("exec scripts/img2dataset urls.txt").cwd(folder.path()).env("PATH", "/usr/bin:/bin");
    run.fails(
        2,
        "img2dataset: urlcat not found: install the tools (scripts/install), build them (cargo build --release), \
         or put them on the PATH",
    );
}

#[test]
fn the_counts_of_each_shard_are_its_own_however_many_digits_it_has() {
    let (folder, web) = (dir(), web());
    let paths = ["0", "missing", "2", "3", "4", "5", "6", "7", "8", "9", "missing", "missing"];
    write_urls(folder.path(), &web, &paths);
    let said =
        img2dataset(folder.path(), "--number_sample_per_shard 1 --oom_shard_count 1").done().status(0).stdout_text();
    let last = "total   - success: 0.750 - failed to download: 0.250 - failed to resize: 0.000";
    assert!(said.lines().last().is_some_and(|line| line.starts_with(last)), "{said}");
}

#[test]
fn any2dataset_keeps_files_as_they_are_and_adds_shards() {
    let (folder, web) = (dir(), web());
    write_urls(folder.path(), &web, &["page", "missing"]);
    let script = script().with_file_name("any2dataset");
    let words = "urls.txt --output_folder out --output_format webdataset --allow_private";
    for shard in 0..2 {
        let run = bash(&format!("exec {} {words}", script.display())).cwd(folder.path()).env("no_proxy", "*");
        run.done().status(0).stderr("");
        let tar = std::fs::read(folder.path().join(format!("out/{shard:05}.tar"))).unwrap();
        assert_eq!(names(&tar), [format!("{shard:05}0000.flat"), format!("{shard:05}0000.json")]);
        assert_eq!(crate::support::members(&tar)[0].1, b"<html>no picture");
        let counts = stats(folder.path(), shard);
        assert_eq!((&counts["successes"], &counts["failed_to_subsample"]), (&json!(1), &json!(0)));
    }
}

#[test]
fn a_signal_ends_the_whole_pipeline_and_leaves_nothing_half_done() {
    let folder = dir();
    let web = Web::start(|asked, wire| match asked.path.as_str() {
        "/slow" => std::thread::sleep(Duration::from_secs(60)),
        _ => reply(wire, "200 OK", "", &jpeg()),
    });
    write_urls(folder.path(), &web, &["a", "slow"]);
    let mut command = img2dataset(folder.path(), "--output_format webdataset").into_command();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while web.count("/slow") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    bash(&format!("kill -TERM {}", child.id())).ok();
    assert_eq!(status(child.wait().unwrap()), 143);
    assert_eq!(list(folder.path().join("out")), [".img2dataset"]);
}
