//! The drop-ins with tables and datasets in a store.

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::Ordering::Relaxed;

use super::server::{Store, store};
use crate::support::web::{Web, reply};
use crate::support::{Archive, Run, bash, dir};

/// Small texts.
fn web() -> Web {
    Web::start(|asked, wire| reply(wire, "200 OK", "", asked.path.as_bytes()))
}

fn any2dataset(store: &Store, flags: &str) -> Run {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/any2dataset");
    let words = "--allow_private --number_sample_per_shard 2 --incremental_mode incremental";
    store.with_variables(bash(&format!("exec {} {words} {flags}", script.display()))).env("no_proxy", "*")
}

fn list(store: &Store, prefix: &str) -> Vec<String> {
    let listed = store.run("tarpipe", ["names", "list", prefix]).ok();
    let names = String::from_utf8(listed).unwrap();
    names.lines().map(|line| line.split('\t').nth(1).unwrap().trim_start_matches(prefix).to_owned()).collect()
}

#[test]
fn a_dataset_in_a_store_is_that_on_disk_and_is_resumed_checked_and_replaced() {
    let (store, web, folder) = (store(), web(), dir());
    let urls: String = (0..5).map(|i| format!("{}/{i}\n", web.url)).collect();
    store.put("test/dropin/tables/urls.txt", urls.as_bytes());
    store.put("test/dropin/tables/other.csv", b"not one of them");
    let there = "s3://test/dropin/tables --output_folder s3://test/dropin/out --output_format webdataset";
    any2dataset(store, there).done().status(0).stderr("");
    let local = format!(
        "s3://test/dropin/tables/urls.txt --output_folder {}/out --output_format webdataset",
        folder.path().display()
    );
    any2dataset(store, &local).done().status(0);
    let shards = ["00000", "00001", "00002"];
    let mut expected = vec![".any2dataset/run.json".to_owned()];
    expected
        .extend(shards.iter().flat_map(|shard| [".parquet", ".tar", "_stats.json"].map(|end| format!("{shard}{end}"))));
    assert_eq!(list(store, "s3://test/dropin/out/"), expected);
    for name in shards.iter().flat_map(|shard| [format!("{shard}.tar"), format!("{shard}.parquet")]) {
        let on_disk = std::fs::read(folder.path().join("out").join(&name)).unwrap();
        assert!(store.get(&format!("test/dropin/out/{name}")).unwrap() == on_disk, "{name}");
    }
    let asked = web.seen().len();
    let said = any2dataset(store, there).done().status(0).stdout_text();
    assert!(said.contains("all 3 shards are done: 5 rows, 5 successes, 0 failures"), "{said}");
    let other = any2dataset(store, &format!("{there} --compute_md5 False")).done().status(2).stderr_text();
    assert!(other.contains("compute_md5 was True and is False"), "{other}");
    assert_eq!(web.seen().len(), asked, "nothing was left to do");
    store.delete("test/dropin/out/00001_stats.json");
    any2dataset(store, there).done().status(0);
    assert_eq!(web.seen().len(), asked + 2, "one shard was left to do");
    let files = "s3://test/dropin/tables --output_folder s3://test/dropin/out --incremental_mode overwrite";
    any2dataset(store, files).done().status(0);
    assert_eq!(store.get("test/dropin/out/00002/000020.flat").unwrap(), b"/4");
    assert!(list(store, "s3://test/dropin/out/").iter().all(|name| !name.ends_with(".tar")));
}

#[test]
fn the_command_of_the_manual_runs() {
    let (store, folder) = (store(), dir());
    let web = Web::start(|_, wire| reply(wire, "200 OK", "", b"not a picture"));
    let row = format!("{{\"URL\": \"{}/a\"}}", web.url);
    let rows = Archive::new().file("000000000.json", row.as_bytes()).whole();
    let table = ["--only-shard", "0", "--columns", "URL", "-o", "s3://test/manual/tables"];
    store.run("tardataset", table).stdin(rows).ok();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("man/tarpipe-dropins.7")).unwrap().replace("\\-", "-");
    let line = page.lines().find(|line| line.starts_with("img2dataset") && line.contains("s3://")).unwrap();
    let line = line.replace("s3://bucket", "s3://test/manual");
    let run = bash(&format!("exec {}/scripts/{line} --allow_private", root.display())).cwd(folder.path());
    store.with_variables(run).env("no_proxy", "*").done().status(0);
    let names = list(store, "s3://test/manual/laion/");
    assert_eq!(names, [".img2dataset/run.json", "00000.parquet", "00000.tar", "00000_stats.json"]);
}

/// Waits up to a minute for a condition.
fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed().as_secs() < 60, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn kill_9_of_the_driver_ends_the_pipeline_and_the_run_is_resumed() {
    let store = store();
    let released = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let release = std::sync::Arc::clone(&released);
    let web = Web::start(move |asked, wire| {
        let start = std::time::Instant::now();
        while asked.path == "/slow" && !released.load(Relaxed) && start.elapsed().as_secs() < 120 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        // Larger than the buffers between the stages: a small row waits there for the next one.
        reply(wire, "200 OK", "", &[7; 400_000]);
    });
    let paths = ["a", "b", "c", "slow", "e", "f", "g", "h"];
    let urls: String = paths.iter().map(|path| format!("{}/{path}\n", web.url)).collect();
    store.put("test/killed/urls.txt", urls.as_bytes());
    let flags =
        "s3://test/killed/urls.txt --output_folder s3://test/killed/out --output_format webdataset --timeout 600";
    let mut child = any2dataset(store, flags).into_command().stdout(Stdio::null()).spawn().unwrap();
    let listed = || list(store, "s3://test/killed/out/");
    let done = || listed().into_iter().filter(|name| name.ends_with("_stats.json")).collect::<Vec<_>>();
    // Of shards 0, 2 and 3, the one with the row that arrives last is open: only the next row shows that a row is complete.
    wait_for("two of four shards are finished", || web.count("/slow") > 0 && done().len() >= 2);
    child.kill().unwrap();
    child.wait().unwrap();
    // The stages have the name of the output or of the table in their arguments.
    wait_for("the pipeline ends", || bash("pgrep -f '[s]3://test/killed' || :").done().stdout_text().is_empty());
    assert!(!listed().iter().any(|name| name.starts_with("00001")), "{:?}", listed());
    let contents = |names: &[String]| -> Vec<Option<Vec<u8>>> {
        names.iter().map(|name| store.get(&format!("test/killed/out/{name}"))).collect()
    };
    let before = done();
    let kept = contents(&before);
    release.store(true, Relaxed);
    any2dataset(store, flags).done().status(0);
    assert_eq!((done().len(), web.count("/slow")), (4, 2));
    assert!(contents(&before) == kept, "finished shards are not made again");
}
