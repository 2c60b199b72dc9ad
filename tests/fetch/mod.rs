//! fetch: rows to samples, reports, retries, politeness, other programs.

mod bodies;
mod connections;
mod headers;
mod protocols;
mod report;
mod video;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::support::web::{Certificate, Web, reply};
use crate::support::{Run, dir, members, names, run, status};

const JPEG: &[u8] = b"\xff\xd8\xff\xe0 a small picture";

/// A server with pictures, a text, and a few things that go wrong.
fn web() -> Web {
    Web::start(|asked, wire| match asked.path.as_str() {
        "/text" => reply(wire, "200 OK", "Content-Type: text/plain; charset=utf-8\r\n", b"hello"),
        "/missing" => reply(wire, "404 Not Found", "", b"no"),
        "/moved" => reply(wire, "302 Found", "Location: /1.jpg\r\n", b""),
        "/noai" => reply(wire, "200 OK", "X-Robots-Tag: otherbot: all, *: noai\r\n", JPEG),
        path if path.ends_with(".jpg") => reply(wire, "200 OK", "Content-Type: image/png\r\n", JPEG),
        _ => reply(wire, "500 Oh", "", b""),
    })
}

/// fetch with what every test on loopback needs.
fn fetch(args: &str) -> Run {
    run("fetch", args.split_whitespace().chain(["--allow-private", "--retry-wait", "10ms"])).env("no_proxy", "*")
}

/// The report, by key.
fn report(path: &Path) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.map(|row| (row["key"].as_str().unwrap().to_owned(), row)).collect()
}

fn json_of(archive: &[u8], name: &str) -> Value {
    let found = members(archive).into_iter().find(|member| member.0 == name).unwrap();
    serde_json::from_slice(&found.1).unwrap()
}

#[test]
fn a_row_becomes_a_sample_with_caption_columns_and_facts() {
    let web = web();
    let row = format!("{{\"key\":\"k\",\"url\":\"{}/moved\",\"caption\":\"a cat\",\"width\":7}}\n", web.url);
    let archive = fetch("").stdin(row).ok();
    assert_eq!(names(&archive), ["k.jpg", "k.txt", "k.json"]);
    assert_eq!(members(&archive)[0].1, JPEG);
    assert_eq!(members(&archive)[1].1, b"a cat");
    let json = json_of(&archive, "k.json");
    assert_eq!(json["width"], 7);
    assert_eq!(json["url"], format!("{}/moved", web.url));
    assert_eq!(json["final_url"], format!("{}/1.jpg", web.url));
    assert_eq!(json["mime"], "image/jpeg");
    assert_eq!(json["bytes"], JPEG.len());
    assert_eq!(json["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn plain_urls_are_numbered_and_an_empty_table_is_an_empty_archive() {
    let web = web();
    let archive = fetch("").stdin(format!("{0}/1.jpg\n\n{0}/text\n", web.url)).ok();
    assert_eq!(names(&archive), ["000000000.jpg", "000000000.json", "000000001.data.txt", "000000001.json"]);
    assert_eq!(names(&fetch("").ok()), [""; 0]);
}

#[test]
fn a_list_of_urls_is_one_sample_and_fails_as_one() {
    let web = web();
    let rows = format!(
        "{{\"key\":\"a\",\"url\":[\"{0}/1.jpg\",\"{0}/text\"]}}\n{{\"key\":\"b\",\"url\":[\"{0}/1.jpg\",\"{0}/missing\"]}}\n",
        web.url
    );
    let done = fetch("").stdin(rows).done().status(0).stderr("fetch: 1 sample; failed 1 (1 http_4xx)");
    let archive = done.stdout();
    assert_eq!(names(&archive), ["a.0.jpg", "a.1.txt", "a.json"]);
    assert_eq!(json_of(&archive, "a.json")["files"][1]["field"], "1.txt");
}

#[test]
fn every_row_is_in_the_report_whatever_its_format() {
    let web = web();
    let folder = dir();
    let rows = format!("{0}/1.jpg\n{0}/missing\nnot a url\n{{\n", web.url);
    for name in ["r.jsonl", "r.csv", "r.parquet"] {
        let done = fetch(&format!("--report {name}")).cwd(folder.path()).stdin(rows.clone()).done().status(0);
        done.stderr("fetch: 1 sample; failed 3 (1 bad_row, 1 bad_url, 1 http_4xx)");
        let seen = run("urlcat", [name, "--keep", "status code http_status attempts"]).cwd(folder.path()).ok();
        let seen = String::from_utf8(seen).unwrap();
        let rows: Vec<Value> = seen.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let codes: Vec<&str> = rows.iter().map(|row| row["code"].as_str().unwrap_or("")).collect();
        assert_eq!(codes, ["", "http_4xx", "bad_url", "bad_row"], "{name}");
        assert_eq!((&rows[0]["status"], &rows[1]["http_status"]), (&"handed_on".into(), &404.into()), "{name}");
    }
    fetch("--report r.txt")
        .cwd(folder.path())
        .fails(2, "fetch: r.txt: the name of a report must end in .jsonl, .csv or .parquet");
}

#[test]
fn what_failed_in_a_report_can_be_fetched_again() {
    let folder = dir();
    let broken = AtomicUsize::new(0);
    let web = Web::start(move |asked, wire| match asked.path.as_str() {
        "/2.jpg" if broken.fetch_add(1, Ordering::SeqCst) == 0 => reply(wire, "404 Not yet", "", b""),
        _ => reply(wire, "200 OK", "", JPEG),
    });
    let rows: String = (0..4).map(|i| format!("{}/{i}.jpg\n", web.url)).collect();
    fetch("--report r.csv").cwd(folder.path()).stdin(rows.clone()).done().status(0);
    let archive = fetch("--resume r.csv --report again.jsonl").cwd(folder.path()).stdin(rows).ok();
    assert_eq!(names(&archive), ["000000002.jpg", "000000002.json"]);
    assert_eq!(report(&folder.path().join("again.jsonl")).len(), 1);
}

#[test]
fn one_in_flight_and_hundreds_give_the_same_bytes() {
    let web = web();
    let folder = dir();
    let rows: String = (0..400)
        .map(|i| format!("{}/{}\n", web.url, if i % 7 == 3 { "missing".into() } else { format!("{i}.jpg") }))
        .collect();
    let fetched = |j: usize| {
        let done = fetch(&format!("-j {j} --per-host {j} --report {j}.jsonl"))
            .cwd(folder.path())
            .stdin(rows.clone())
            .done()
            .status(0);
        let text = std::fs::read_to_string(folder.path().join(format!("{j}.jsonl"))).unwrap();
        let untimed = |line: &str| {
            let mut row: Value = serde_json::from_str(line).unwrap();
            row["milliseconds"] = 0.into();
            row.to_string()
        };
        (done.stdout(), text.lines().map(untimed).collect::<Vec<_>>())
    };
    assert!(fetched(1) == fetched(512), "archives or reports differ");
}

#[test]
fn unordered_samples_do_not_wait_for_a_slow_row() {
    let web = Web::start(|asked, wire| {
        if asked.path == "/0.jpg" {
            std::thread::sleep(Duration::from_millis(700));
        }
        reply(wire, "200 OK", "", JPEG);
    });
    let rows = format!("{0}/0.jpg\n{0}/1.jpg\n", web.url);
    assert_eq!(names(&fetch("--unordered").stdin(rows.clone()).ok())[0], "000000001.jpg");
    assert_eq!(names(&fetch("").stdin(rows).ok())[0], "000000000.jpg");
}

#[test]
fn passing_failures_are_tried_again_and_retry_after_is_kept() {
    let folder = dir();
    let tries = AtomicUsize::new(0);
    let began = std::time::Instant::now();
    let web = Web::start(move |asked, wire| match asked.path.as_str() {
        "/busy" if tries.fetch_add(1, Ordering::SeqCst) == 0 => reply(wire, "429 Wait", "Retry-After: 1\r\n", b""),
        "/busy" => reply(wire, "200 OK", "", JPEG),
        "/later" => reply(wire, "503 Later", "Retry-After: 3600\r\n", b""),
        _ => reply(wire, "500 No", "", b""),
    });
    let rows = format!("{0}/busy\n{0}/never\n{0}/later\n", web.url);
    let done = fetch("--retries 2 --report r.jsonl").cwd(folder.path()).stdin(rows).done().status(0);
    done.stderr("fetch: 1 sample; failed 2 (2 http_5xx)");
    assert!(began.elapsed() >= Duration::from_secs(1), "Retry-After was not kept");
    assert_eq!((web.count("/busy"), web.count("/never"), web.count("/later")), (2, 3, 1));
    assert_eq!(report(&folder.path().join("r.jsonl"))["000000001"]["attempts"], 3);
}

#[test]
fn a_dead_host_is_not_asked_for_every_row() {
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let rows: String = (0..50).map(|i| format!("http://{dead}/{i}\n")).collect();
    let folder = dir();
    let done = fetch("-j 1 --retries 0 --max-host-failures 5 --report r.jsonl")
        .cwd(folder.path())
        .stdin(rows)
        .done()
        .status(3);
    done.stderr("fetch: 0 samples; failed 50 (50 connect)");
    let tried = report(&folder.path().join("r.jsonl")).values().filter(|row| row["attempts"] == 1).count();
    assert_eq!(tried, 5);
}

#[test]
fn hosts_are_asked_within_their_limits() {
    static NOW: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let web = Web::start(|_, wire| {
        MOST.fetch_max(NOW.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
        NOW.fetch_sub(1, Ordering::SeqCst);
        reply(wire, "200 OK", "", JPEG);
    });
    let rows: String = (0..30).map(|i| format!("{}/{i}\n", web.url)).collect();
    fetch("-j 30 --per-host 3").stdin(rows).ok();
    assert!(MOST.load(Ordering::SeqCst) <= 3, "{MOST:?} at once");
    let began = std::time::Instant::now();
    fetch("--host-rate 10").stdin(format!("{0}/a\n{0}/b\n{0}/c\n{0}/d\n", web.url)).ok();
    assert!(began.elapsed() >= Duration::from_millis(300), "too quick for 10 a second");
}

#[test]
fn bodies_are_checked_for_size_type_and_hash() {
    let web = Web::start(|asked, wire| match asked.path.as_str() {
        "/html" => {
            reply(wire, "200 OK", "Content-Type: image/jpeg\r\n", b"<!DOCTYPE html><html><body>no</body></html>")
        }
        "/empty" => reply(wire, "200 OK", "", b""),
        "/tiny" => reply(wire, "200 OK", "", b"\xff\xd8\xff"),
        "/big" => reply(wire, "200 OK", "", &[b'x'; 3000]),
        _ => reply(wire, "200 OK", "", JPEG),
    });
    let rows: String =
        ["html", "empty", "tiny", "big", "good"].iter().map(|path| format!("{}/{path}\n", web.url)).collect();
    let done = run("fetch", ["--allow-private", "--accept", "image/*", "--min-bytes", "10", "--max-bytes", "2k"])
        .stdin(rows)
        .done();
    done.status(0).stderr("fetch: 1 sample; failed 4 (1 empty, 1 mime, 1 too_large, 1 too_small)");
    let good = "183b484ed60ce39bb8f8ef23aa1b97f7";
    let rows = format!(
        "{{\"url\":\"{0}/a\",\"md5\":\"{good}\"}}\n{{\"url\":\"{0}/b\",\"md5\":\"{1}\"}}\n",
        web.url,
        "0".repeat(32)
    );
    // An empty body has a hash too.
    let empty = |hash: &str| format!("{{\"url\":\"{}/empty\",\"md5\":\"{hash}\"}}\n", web.url);
    let rows = rows + &empty(good) + &empty("d41d8cd98f00b204e9800998ecf8427e");
    let done = fetch("--hash md5 --verify md5").stdin(rows).done().status(0);
    let done = done.stderr("fetch: 1 sample; failed 3 (1 empty, 2 hash_mismatch)");
    assert_eq!(json_of(&done.stdout(), "000000000.json")["md5"], good);
}

#[test]
fn files_are_requested_and_all_else_goes_to_the_program() {
    let web = Web::start(|_, wire| reply(wire, "200 OK", "", JPEG));
    let rows = format!("{0}/a.JPG?x=1.png\n{0}/b.png\n{0}/c\n", web.url);
    let args = ["--allow-private", "--via", "printf {url}", "--direct", "jpg,jpeg"];
    let out = members(&run("fetch", args).stdin(rows).ok());
    let files: Vec<&Vec<u8>> =
        out.iter().filter(|member| !member.0.ends_with("json")).map(|member| &member.1).collect();
    assert_eq!(files, [JPEG, format!("{}/b.png", web.url).as_bytes(), format!("{}/c", web.url).as_bytes()]);
    assert_eq!(web.seen().len(), 1);
    run("fetch", ["--direct", "jpg"]).done().status(2);
    run("fetch", ["-H", "@none"]).done().status(2).stderr_has("none: No such file or directory");
}

#[test]
fn opt_outs_and_robots_are_heard() {
    let web = web();
    fetch("").stdin(format!("{}/noai\n", web.url)).fails(3, "fetch: 0 samples; failed 1 (1 opt_out)");
    fetch("--opt-out none").stdin(format!("{}/noai\n", web.url)).ok();
    let polite = Web::start(|asked, wire| match asked.path.as_str() {
        "/robots.txt" => reply(wire, "200 OK", "", b"User-agent: *\nDisallow: /private\n"),
        _ => reply(wire, "200 OK", "", JPEG),
    });
    let rows = format!("{0}/a\n{0}/private/b\n{0}/c\n", polite.url);
    let done =
        fetch("--robots obey").stdin(rows.clone()).done().status(0).stderr("fetch: 2 samples; failed 1 (1 robots)");
    assert_eq!(names(&done.stdout()).len(), 4);
    assert_eq!((polite.count("/robots.txt"), polite.count("/private/b")), (1, 0));
    fetch("").stdin(rows).ok();
}

#[test]
fn requests_say_who_asks_and_carry_cookies_through_redirects() {
    let web = Web::start(|asked, wire| match asked.path.as_str() {
        "/in" => reply(wire, "302 Found", "Location: /in?again\r\nSet-Cookie: pass=1; Path=/\r\n", b""),
        "/in?again" if asked.head.contains("cookie: pass=1") => reply(wire, "200 OK", "", JPEG),
        "/plain" => reply(wire, "200 OK", "", JPEG),
        _ => reply(wire, "403 No", "", b""),
    });
    run("fetch", ["--allow-private", "-H", "X-Mine: yes", "--contact", "https://example.org/bot"])
        .stdin(format!("{0}/in\n{0}/plain\n", web.url))
        .ok();
    let head = &web.seen().into_iter().find(|asked| asked.path == "/plain").unwrap().head;
    assert!(
        head.contains("user-agent: tarpipe/")
            && head.contains(" (+https://example.org/bot)")
            && head.contains("x-mine: yes"),
        "{head}"
    );
    assert!(!head.contains("cookie:"), "{head}");
}

#[test]
fn compressed_bodies_arrive_plain_and_odd_urls_arrive_encoded() {
    let web = Web::start(|asked, wire| match asked.path.as_str() {
        "/gz" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(JPEG).unwrap();
            reply(wire, "200 OK", "Content-Encoding: gzip\r\n", &encoder.finish().unwrap());
        }
        "/%C3%BC/%E7%8C%AB.jpg?q=%C3%A4%20b" => reply(wire, "200 OK", "", JPEG),
        _ => reply(wire, "404 No", "", b""),
    });
    let archive = fetch("").stdin(format!("{0}/gz\n{0}/ü/猫.jpg?q=ä b#part\n", web.url)).ok();
    assert_eq!(members(&archive)[0].1, JPEG);
    assert_eq!(names(&archive).len(), 4);
}

#[test]
fn certificates_are_verified_unless_told_otherwise() {
    let folder = dir();
    let certificate = Certificate::new(&["127.0.0.1"]);
    certificate.save(&folder.path().join("good.pem"));
    let web = Web::start_tls(&certificate, |_, wire| reply(wire, "200 OK", "", JPEG));
    let wrong = Certificate::new(&["example.org"]);
    let liar = Web::start_tls(&wrong, |_, wire| reply(wire, "200 OK", "", JPEG));
    wrong.save(&folder.path().join("wrong.pem"));
    let trusting = |file: &str, url: &str| {
        fetch("--retries 0")
            .env("SSL_CERT_FILE", folder.path().join(file).to_str().unwrap())
            .env("SSL_CERT_DIR", "/nonexistent")
            .stdin(format!("{url}/\n"))
    };
    trusting("good.pem", &web.url).ok();
    trusting("wrong.pem", &web.url).fails(3, "fetch: 0 samples; failed 1 (1 tls)");
    trusting("wrong.pem", &liar.url).fails(3, "fetch: 0 samples; failed 1 (1 tls)");
    let done = fetch("--insecure").stdin(format!("{}/\n", liar.url)).done().status(0);
    done.stderr("fetch: certificates are not verified (--insecure)");
}

#[test]
fn any_program_can_fetch_under_the_same_rules() {
    let folder = dir();
    let script = folder.path().join("get");
    let text = "case $1 in *good*) printf 'got %s' \"$1\" > \"$2\";; *slow*) sleep 600 & wait;; *) echo warming up >&2; echo no such video >&2; exit 4;; esac\n";
    std::fs::write(&script, text).unwrap();
    let via = format!("sh {} {{url}} {{out}}", script.display());
    let args = ["--via", &via, "--timeout", "6s", "--retries", "0", "--report", "r.jsonl", "-j", "8"];
    let rows = "mds://shot/good;$(touch pwned)\nmds://shot/bad\nmds://shot/slow\n";
    let done = run("fetch", args).cwd(folder.path()).stdin(rows).done().status(0);
    let done = done.stderr("fetch: 1 sample; failed 2 (1 command, 1 timeout)");
    assert!(members(&done.stdout())[0].1.starts_with(b"got mds://shot/good"));
    assert!(!folder.path().join("pwned").exists());
    let said = &report(&folder.path().join("r.jsonl"))["000000001"]["error_message"];
    assert_eq!(said, "exit status: 4: no such video");
}

#[test]
fn files_are_read_only_when_allowed() {
    let folder = dir();
    let path = folder.path().join("x.jpg");
    std::fs::write(&path, JPEG).unwrap();
    let row = format!("file://{}\n", path.display());
    run("fetch", [""; 0]).stdin(row.clone()).fails(3, "fetch: 0 samples; failed 1 (1 bad_url)");
    assert_eq!(members(&run("fetch", ["--allow-file"]).stdin(row).ok())[0].1, JPEG);
}

#[test]
fn a_signal_ends_it_with_a_report_of_what_was_not_done() {
    let folder = dir();
    let web = Web::start(|asked, wire| {
        if asked.path == "/slow" {
            std::thread::sleep(Duration::from_secs(600));
        }
        reply(wire, "200 OK", "", JPEG);
    });
    let mut command = fetch("-j 2 --timeout 10m --report r.jsonl -o out.tar").cwd(folder.path()).into_command();
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let rows: String = ["a", "slow", "b", "slow", "c"].iter().map(|path| format!("{}/{path}\n", web.url)).collect();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(rows.as_bytes()).unwrap();
    while web.count("/slow") < 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    assert_eq!(status(child.wait().unwrap()), 143);
    assert_eq!(crate::support::list(folder.path()), ["r.jsonl"]);
    let rows = report(&folder.path().join("r.jsonl"));
    // The last one says that the table had not come to its end.
    assert_eq!((rows.len(), &rows[""]["status"]), (6, &"unread".into()));
    assert_eq!(rows["000000000"]["code"], "not_kept");
    for key in ["000000001", "000000002", "000000003", "000000004"] {
        assert_eq!(rows[key]["code"], "interrupted", "{key}");
    }
}

#[test]
fn stats_can_be_read_by_a_dashboard() {
    let web = web();
    let folder = dir();
    let rows = format!("{0}/1.jpg\n{0}/missing\n", web.url);
    fetch("--stats s.json").cwd(folder.path()).stdin(rows).done().status(0);
    let stats: Value = serde_json::from_slice(&std::fs::read(folder.path().join("s.json")).unwrap()).unwrap();
    assert_eq!((&stats["success"], &stats["failed"], &stats["codes"]["http_4xx"]), (&1.into(), &1.into(), &1.into()));
}

#[test]
fn too_many_failures_are_an_exit_status() {
    let web = web();
    let rows = format!("{0}/1.jpg\n{0}/missing\n", web.url);
    fetch("--max-failures 1").stdin(rows.clone()).done().status(0);
    fetch("--max-failures 0").stdin(rows).fails(3, "fetch: 1 sample; failed 1 (1 http_4xx)");
}

#[test]
fn failures_can_go_on_in_the_stream() {
    let web = web();
    let rows = format!(
        "{{\"key\":\"a\",\"url\":\"{0}/missing\",\"w\":3}}\n{{\"key\":\"b\",\"url\":\"{0}/1.jpg\"}}\n",
        web.url
    );
    let done = fetch("--pass-failed").stdin(rows).done().status(0).stderr("fetch: 1 sample; failed 1 (1 http_4xx)");
    let archive = done.stdout();
    assert_eq!(names(&archive), ["a.json", "b.jpg", "b.json"]);
    let json = json_of(&archive, "a.json");
    assert_eq!(
        (&json["status"], &json["tool"], &json["code"]),
        (&"failed".into(), &"fetch".into(), &"http_4xx".into())
    );
    assert_eq!((&json["w"], &json["http_status"]), (&3.into(), &404.into()));
}

#[test]
fn opt_outs_know_us_by_the_name_we_give() {
    let web = Web::start(|_, wire| reply(wire, "200 OK", "X-Robots-Tag: mybot: noai\r\n", JPEG));
    for (flags, status) in
        [("--user-agent Browser/1", 0), ("--user-agent Browser/1 --agent mybot", 3), ("--user-agent MyBot/1", 3)]
    {
        fetch(flags).stdin(format!("{}/1.jpg\n", web.url)).done().status(status);
    }
}
