//! fetch and bodies that grow: what is decoded or read takes its room in memory like what comes as it is.

use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::web::{Web, reply};
use crate::support::{Run, dir, members, names, run};

const JPEG: &[u8] = b"\xff\xd8\xff\xe0 a small picture";

fn fetch(args: &str) -> Run {
    run("fetch", args.split_whitespace().chain(["--allow-private", "--retries", "0"])).env("no_proxy", "*")
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// 16 MB of zeros in 27 bytes.
const BROTLI: &[u8] =
    b"\xcb\xff\xff\x3f\xf8\x27\x00\xe2\xb1\x40\x20\xf7\xfe\x8f\xff\xff\x7f\xf0\x4f\x00\xc4\x61\x11\x80\xee\xfd\xdf";

/// The header for a body in these encodings.
fn answer(encodings: &str) -> String {
    format!("Content-Encoding: {encodings}\r\n")
}

/// The most memory that the process has had, in KB, and the CPU time it has used.
fn usage(child: &Child) -> (u64, u64) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", child.id())).unwrap_or_default();
    let peak = read("status").lines().find_map(|line| line.strip_prefix("VmHWM:").map(str::to_owned));
    let peak = peak.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
    let stat = read("stat");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    (peak, fields.iter().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum())
}

/// Runs fetch with a reader that begins to read when fetch has come to rest; the most memory until then, and the archive.
fn paused(args: &str, rows: &str) -> (u64, Vec<u8>) {
    paused_with(fetch(args), rows)
}

fn paused_with(fetch: Run, rows: &str) -> (u64, Vec<u8>) {
    let mut command = fetch.into_command();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(rows.as_bytes()).unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut archive = vec![0];
    stdout.read_exact(&mut archive).unwrap();
    let (mut last, mut since, began) = (0, Instant::now(), Instant::now());
    while since.elapsed() < Duration::from_millis(1500) {
        let now = usage(&child).1;
        if std::mem::replace(&mut last, now) != now {
            since = Instant::now();
        }
        assert!(began.elapsed() < Duration::from_secs(300), "it never rests");
        std::thread::sleep(Duration::from_millis(20));
    }
    let peak = usage(&child).0;
    stdout.read_to_end(&mut archive).unwrap();
    assert!(child.wait().unwrap().success());
    (peak, archive)
}

#[test]
fn compressed_bodies_wait_for_room_before_they_are_decoded() {
    let bomb = gzip(&vec![0; 16 << 20]);
    let twice = gzip(&bomb);
    let web = Web::start(move |asked, wire| match asked.path.trim_start_matches('/').parse::<u32>().unwrap() % 3 {
        0 => reply(wire, "200 OK", &answer("gzip, gzip"), &twice),
        1 => reply(wire, "200 OK", &answer("br"), BROTLI),
        _ => reply(wire, "200 OK", &answer("gzip"), &bomb),
    });
    let rows: String = (0..24).map(|i| format!("{}/{i}\n", web.url)).collect();
    let (peak, archive) = paused("--window-bytes 24M --per-host 24 --hash none", &rows);
    assert_eq!(names(&archive).len(), 48);
    assert!(members(&archive).iter().step_by(2).all(|member| member.1.len() == 16 << 20));
    // All together they have 384 MB.
    assert!(peak < 160 << 10, "{peak} KB");
}

#[test]
fn files_wait_for_room_before_they_are_read() {
    let folder = dir();
    std::fs::write(folder.path().join("x"), vec![7; 16 << 20]).unwrap();
    let rows = format!("file://{}/x\n", folder.path().display()).repeat(24);
    let (peak, archive) = paused("--window-bytes 24M --per-host 24 --hash none --allow-file", &rows);
    assert_eq!(names(&archive).len(), 48);
    assert!(peak < 160 << 10, "{peak} KB");
}

#[test]
fn what_a_program_fetches_waits_for_room() {
    let rows = "x://a/b\n".repeat(24);
    for command in ["head -c 16777216 /dev/zero; : {url}", "head -c 16777216 /dev/zero > {out}; : {url}"] {
        let folder = dir();
        let script = folder.path().join("get");
        std::fs::write(&script, command.replace("{url}", "$1").replace("{out}", "$2")).unwrap();
        let to_file = if command.contains("{out}") { "{out}" } else { "" };
        let via = format!("sh {} {{url}} {to_file}", script.display());
        let flags = ["--window-bytes", "24M", "--hash", "none", "--per-host", "24", "--via", via.trim()];
        let (peak, archive) = paused_with(run("fetch", flags), &rows);
        assert_eq!(names(&archive).len(), 48);
        assert!(peak < 160 << 10, "{peak} KB");
    }
}

#[test]
fn a_small_row_does_not_wait_for_large_ones_to_be_decoded() {
    const BOMBS: usize = 8;
    let bomb = gzip(&vec![0; 48 << 20]);
    let sent = Arc::new(AtomicUsize::new(0));
    let web = Web::start(move |asked, wire| {
        if asked.path != "/good" {
            reply(wire, "200 OK", &answer("gzip"), &bomb);
            _ = wire.flush();
            sent.fetch_add(1, Ordering::SeqCst);
            return;
        }
        // Answers only once all the others are there to be decoded.
        while sent.load(Ordering::SeqCst) < BOMBS {
            std::thread::sleep(Duration::from_millis(2));
        }
        reply(wire, "200 OK", "", JPEG);
    });
    let mut rows: String = (0..BOMBS).map(|i| format!("{}/{i}\n", web.url)).collect();
    rows += &format!("{}/good\n", web.url);
    let archive = fetch("--unordered --window-bytes 1G").stdin(rows).ok();
    let order = names(&archive);
    assert_eq!((order.len(), order[0].as_str()), (2 * BOMBS + 2, "000000008.jpg"));
}

#[test]
fn every_encoding_and_every_nesting_arrives_plain_or_fails_with_its_code() {
    let text = b"The quick brown fox jumps over the lazy dog. ".repeat(30_000);
    let plain = text.clone();
    // Nothing comes out of empty members, however many there are.
    let empty = gzip(&gzip(b"").repeat(1 << 20));
    // "aaaa" as brotli stores it.
    let brotli = b"\x8b\x01\x80aaaa\x03".to_vec();
    let web = Web::start(move |asked, wire| match asked.path.as_str() {
        "/gzip" => reply(wire, "200 OK", &answer("gzip"), &gzip(&text)),
        "/deflate" => reply(wire, "200 OK", &answer("deflate"), &zlib(&text)),
        "/both" => reply(wire, "200 OK", &answer("deflate, gzip"), &gzip(&zlib(&text))),
        "/lines" => reply(wire, "200 OK", &(answer("deflate") + &answer("gzip")), &gzip(&zlib(&text))),
        "/members" => reply(wire, "200 OK", &answer("gzip"), &[gzip(&text[..1000]), gzip(&text[1000..])].concat()),
        "/brotli" => reply(wire, "200 OK", &answer("br, gzip"), &gzip(&brotli)),
        "/cut" => reply(wire, "200 OK", &answer("gzip"), &gzip(&text)[..3000]),
        "/wrong" => reply(wire, "200 OK", &answer("gzip, deflate"), &gzip(&text)),
        "/large" => reply(wire, "200 OK", &answer("gzip"), &gzip(&vec![0; (4 << 20) + 1])),
        "/nested" => reply(wire, "200 OK", &answer("gzip, gzip"), &gzip(&gzip(&vec![0; (4 << 20) + 1]))),
        "/empty" => reply(wire, "200 OK", &answer("gzip, gzip"), &empty),
        "/deep" => reply(wire, "200 OK", &answer("gzip, gzip, gzip, gzip, gzip"), JPEG),
        _ => reply(wire, "200 OK", &answer("zstd"), JPEG),
    });
    let good = ["gzip", "deflate", "both", "lines", "members", "brotli"];
    let bad = ["cut", "wrong", "large", "nested", "empty", "deep", "zstd"];
    let rows: String = good.iter().chain(&bad).map(|path| format!("{}/{path}\n", web.url)).collect();
    let done = fetch("--max-bytes 4M").stdin(rows).done().status(0);
    let archive = done.stderr("fetch: 6 samples; failed 7 (2 protocol, 3 too_large, 2 truncated)").stdout();
    let bodies: Vec<Vec<u8>> = members(&archive).into_iter().step_by(2).map(|member| member.1).collect();
    bodies[..5].iter().zip(good).for_each(|(body, name)| assert!(*body == plain, "{name}"));
    assert_eq!(bodies[5], b"aaaa");
}

#[test]
fn only_regular_files_are_read_and_none_is_waited_for() {
    let folder = dir();
    let path = folder.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
    let endless = folder.path().join("large");
    std::fs::File::create(&endless).unwrap().set_len(3 << 20).unwrap();
    let rows = format!(
        "file://{}\nfile:///dev/zero\nfile://{}\nfile:///proc/self/status\nfile://{}\nfile:///none/there\n",
        path.display(),
        folder.path().display(),
        endless.display()
    );
    let done = fetch("--allow-file --max-bytes 2M --timeout 60s").stdin(rows).done().status(0);
    let archive = done.stderr("fetch: 1 sample; failed 5 (4 file, 1 too_large)").stdout();
    assert!(members(&archive)[0].1.starts_with(b"Name:"));
}
