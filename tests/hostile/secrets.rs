//! Secrets reach only the servers that they are for.

use std::path::Path;

use crate::shardrun::shardrun;
use crate::support::web::{Web, reply};
use crate::support::{Archive, Done, bash, dir, run, tool};

const SECRET: &str = "hunter2secret";

/// Everything below a folder, and what a command said.
fn written(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            all.extend(written(&entry));
        } else {
            all.push((entry.display().to_string(), std::fs::read(&entry).unwrap()));
        }
    }
    all
}

#[track_caller]
fn keeps(what: &str, bytes: &[u8]) {
    let secret = SECRET.as_bytes();
    let at = bytes.windows(secret.len()).position(|part| part == secret);
    assert!(at.is_none(), "{what} tells: {}", String::from_utf8_lossy(bytes));
}

#[track_caller]
fn keeps_all(what: &str, done: Done, folder: &Path) {
    keeps(what, done.stderr_text().as_bytes());
    keeps(what, &done.stdout());
    written(folder).iter().for_each(|(name, bytes)| keeps(&format!("{what}: {name}"), bytes));
}

/// A server that requires a password, and its URL with the password in it.
fn locked() -> (Web, String) {
    let archive = Archive::of_samples(2).whole();
    let web = Web::start(move |asked, wire| match asked.path.split('?').next().unwrap_or_default() {
        "/a.tar" => reply(wire, "200 OK", "Content-Type: application/x-tar\r\n", &archive),
        "/moved" => reply(wire, "302 Found", "Location: /gone\r\n", b""),
        "/cut.tar" => _ = wire.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\nshort"),
        _ => reply(wire, "404 Not Found", "", b""),
    });
    let url = web.url.replace("http://", &format!("http://me:{SECRET}@"));
    (web, url)
}

#[test]
fn a_password_in_a_url_is_in_no_message_report_or_sample_of_fetch() {
    let (web, url) = locked();
    let rows = format!(
        "{url}/a.tar\n{url}/moved\n{url}/gone\nftp://me:{SECRET}@h/\nhttp://me:{SECRET}@/\n{{\"url\":[\"{url}/a.tar\",\"{url}/x\"]}}\n"
    );
    for report in ["r.jsonl", "r.parquet"] {
        let folder = dir();
        let args = ["-v", "--progress", "--allow-private", "--retries", "0", "--pass-failed", "--report", report];
        let done = run("fetch", args).cwd(folder.path()).stdin(rows.clone()).done().status(0);
        let asked = web.seen().iter().any(|asked| asked.head.contains("authorization: basic"));
        assert!(asked, "the password was never shown to the server");
        assert!(done.stderr_text().contains("://***@"), "{}", done.stderr_text());
        keeps_all("fetch", done, folder.path());
    }
}

#[test]
fn a_password_in_the_name_of_a_source_is_in_nothing_that_is_told() {
    let (_web, url) = locked();
    let folder = dir();
    let signed = format!("{url}/a.tar?X-Amz-Signature={SECRET}&token={SECRET}");
    for (tool, flags) in [
        ("tarcat", &["-v", "-o", "out.tar"][..]),
        ("tarproc", &["-v", "-o", "out.tar", "-c", "cat __source__ > sample.source"]),
        ("tarcheck", &["-v", "--json", "--wids", "wids.json"]),
        ("tarsort", &["-v", "-o", "out.tar"]),
        ("tarjoin", &["-v", "-o", "out.tar", "--with"]),
        ("tarsplit", &["-v", "-n", "1", "--stats", "-o", "out-{shard}.tar"]),
        ("tarshow", &["-v", "--json", "-o", "out.json"]),
        ("tarshow", &["-v", "--html", "page.html"]),
        ("tarcat", &["-v", "--progress", "--select", "nothing > 1", "-o", "out.tar"]),
    ] {
        for name in [format!("{url}/a.tar"), signed.clone(), format!("{url}/gone"), format!("pipe:false # {url}/x")] {
            let done = run(tool, flags.iter().copied().chain([name.as_str()])).cwd(folder.path()).done();
            keeps_all(tool, done, folder.path());
        }
    }
    let done = run("urlcat", [format!("{url}/gone.csv")]).cwd(folder.path()).done().status(1);
    keeps_all("urlcat", done, folder.path());
}

#[test]
fn a_password_in_an_item_is_in_no_job_log_and_no_status() {
    let (_web, url) = locked();
    let folder = dir();
    let items = [format!("{url}/a.tar"), format!("{url}/gone")];
    let pipeline = format!("{} -v {{}}", tool("tarcat").display());
    let args = ["--run", "r", "-o", "{i}.tar", "--retries", "0", "-v", &pipeline];
    let done = shardrun(folder.path(), args.into_iter().chain(items.iter().map(String::as_str))).done();
    keeps("shardrun", done.stderr_text().as_bytes());
    for (name, bytes) in written(&folder.path().join("r")) {
        // What is run has to be kept as it is.
        if !name.ends_with("/items") && !name.ends_with("plan.json") && !name.contains("/submit") {
            keeps(&name, &bytes);
        }
    }
    for words in ["status r", "status r --json", "report r --html page.html", "logs r", "logs r --failed"] {
        let done = shardrun(folder.path(), words.split(' ')).done();
        keeps(words, done.stderr_text().as_bytes());
        keeps(words, &done.stdout());
    }
    keeps("page.html", &std::fs::read(folder.path().join("page.html")).unwrap());
}

#[test]
fn a_token_of_the_hub_is_in_no_message_and_no_argument() {
    let web = Web::start(|_, wire| reply(wire, "503 Busy", "Retry-After: 0\r\n", b""));
    let folder = dir();
    let script = "tarcat -v hf://datasets/o/n/a.tar & tr '\\0' ' ' < /proc/$!/cmdline; wait $!";
    let done = bash(script).cwd(folder.path()).env("HF_ENDPOINT", &web.url).env("HF_TOKEN", SECRET).done().status(1);
    assert!(web.seen()[0].head.contains(&format!("bearer {SECRET}")), "the token was never shown");
    keeps_all("tarcat", done, folder.path());
}

/// Files that hold the secret, and of those the ones that others can read.
fn holders(folder: &Path, others_enter: bool, all: &mut Vec<String>, open: &mut Vec<String>) {
    use std::os::unix::fs::PermissionsExt;
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let others = others_enter && entry.metadata().unwrap().permissions().mode() & 0o077 != 0;
        if entry.is_dir() {
            holders(&entry, others, all, open);
        } else if std::fs::read(&entry).unwrap().windows(SECRET.len()).any(|part| part == SECRET.as_bytes()) {
            let name = entry.display().to_string();
            open.extend(others.then(|| name.clone()));
            all.push(name);
        }
    }
}

#[test]
fn what_holds_a_plan_is_for_its_owner_alone() {
    let folder = dir();
    let path = folder.path();
    let fakes = "mkdir bin; printf '#!/bin/sh\\ncat > /dev/null; echo 7\\n' > bin/sbatch; cp bin/sbatch bin/scontrol; chmod +x bin/*";
    bash(fakes).cwd(path).ok();
    let pipeline = format!("TOKEN={SECRET} true {{}}");
    let item = format!("http://me:{SECRET}@host/x");
    let engines: [(&str, &[&str], usize); 3] =
        [("local", &[], 2), ("spark", &["--on", "spark", "--launcher", "true"], 3), ("slurm", &["--on", "slurm"], 3)];
    // In a folder that shardrun created, and in an existing one that others can read.
    for (engine, flags, files) in engines {
        for (made, before) in [("new", ""), ("old", "mkdir -m 777 $2; ")] {
            let run = format!("{engine}-{made}");
            let script = format!("umask 0; PATH=$PWD/bin:$PATH; {before}shardrun \"$@\"");
            let args = ["sh", "--run", &run, "--retries", "0"].into_iter().chain(flags.iter().copied());
            bash(&script).cwd(path).args(args.chain([pipeline.as_str(), &item])).done();
            let (mut all, mut open) = (Vec::new(), Vec::new());
            holders(&path.join(&run), true, &mut all, &mut open);
            assert!(all.len() >= files, "{run}: only {all:?} hold what is run");
            assert!(open.is_empty(), "{run}: others can read {open:?}");
        }
    }
}
