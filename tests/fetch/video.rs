//! fetch with video: direct URLs, pages in the place of videos, and the recipe for yt-dlp with its generic
//! extractor, the one that reaches a server of ours.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::web::{Asked, Web, Wire, reply};
use crate::support::{dir, members, names, run, venv};

/// A video of two seconds with sound, its index at the end.
fn video(folder: &Path) -> Vec<u8> {
    let path = folder.join("made.mp4");
    let flags =
        "-v error -f lavfi -i testsrc=s=160x120:r=10:d=4 -f lavfi -i sine=d=4 -c:v libx264 -preset ultrafast -c:a aac";
    assert!(Command::new("ffmpeg").args(flags.split_whitespace()).arg(&path).status().unwrap().success());
    std::fs::read(path).unwrap()
}

const PAGE: &[u8] = b"<!DOCTYPE html><html><body>There is no such video</body></html>";

/// Serves the video whole and in ranges, pages, and refusals.
fn serve(video: Vec<u8>) -> Web {
    Web::start(move |asked, wire| match asked.path.split('?').next().unwrap_or_default() {
        "/good.mp4" => part(asked, wire, &video),
        "/soft.mp4" => reply(wire, "200 OK", "Content-Type: text/html\r\n", PAGE),
        "/forbidden.mp4" => reply(wire, "403 Forbidden", "", b""),
        "/busy.mp4" => reply(wire, "503 Service Unavailable", "", b""),
        "/page" => reply(wire, "200 OK", "Content-Type: text/html\r\n", PAGE),
        _ => reply(wire, "404 Not Found", "Content-Type: text/html\r\n", PAGE),
    })
}

fn part(asked: &Asked, wire: &mut dyn Wire, body: &[u8]) {
    let range = asked.head.split_once("range: bytes=").and_then(|(_, rest)| rest.split(['\r', ',']).next());
    let Some((start, end)) = range.and_then(|range| range.split_once('-')) else {
        return reply(wire, "200 OK", "Content-Type: video/mp4\r\nAccept-Ranges: bytes\r\n", body);
    };
    let start: usize = start.parse().unwrap_or(0);
    let end = end.parse().map_or(body.len(), |end: usize| (end + 1).min(body.len()));
    let head = format!("Content-Type: video/mp4\r\nContent-Range: bytes {start}-{}/{}\r\n", end - 1, body.len());
    reply(wire, "206 Partial Content", &head, &body[start.min(end)..end]);
}

fn report(path: &Path) -> Vec<(String, String, String)> {
    let lines = std::fs::read_to_string(path).unwrap();
    let rows = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or("-").to_owned();
    rows.map(|row| (text(&row, "key"), text(&row, "code"), text(&row, "error_message"))).collect()
}

fn rows(web: &Web, names: &[&str]) -> String {
    names.iter().map(|name| format!("{}/{name}\n", web.url)).collect()
}

#[test]
fn a_page_is_never_stored_as_a_video() {
    let folder = dir();
    let video = video(folder.path());
    let web = serve(video.clone());
    let rows = rows(&web, &["good.mp4", "missing.mp4", "soft.mp4", "soft.mp4?x=1#t", "page"]);
    for forced in [&[][..], &["--ext", "mp4"]] {
        let args = ["--allow-private", "--retries", "0", "--report", "r.jsonl"].iter().chain(forced);
        let done = run("fetch", args).cwd(folder.path()).stdin(rows.clone()).done().status(0);
        let stored: Vec<(String, Vec<u8>)> = members(&done.stdout());
        let videos: Vec<_> = stored.iter().filter(|member| member.0.ends_with("mp4")).collect();
        assert!(videos.len() == 1 && videos[0].1 == video, "{forced:?}");
        let told = report(&folder.path().join("r.jsonl"));
        let codes: Vec<&str> = told.iter().map(|row| row.1.as_str()).collect();
        let page = if forced.is_empty() { "-" } else { "mime" };
        assert_eq!(codes, ["-", "http_4xx", "mime", "mime", page]);
        assert_eq!(told[2].2, "expected mp4, received text/html");
    }
}

#[test]
fn the_recipe_fetches_the_video_and_what_belongs_to_it() {
    let folder = dir();
    let video = video(folder.path());
    let web = serve(video.clone());
    let program = venv(&["yt-dlp"]).with_file_name("yt-dlp");
    let via = format!("{} --socket-timeout 10", program.display());
    let names_in = ["good.mp4", "missing.mp4", "forbidden.mp4", "busy.mp4", "page"];
    let args =
        ["--allow-private", "--timeout", "60s", "--retries", "0", "-j", "2", "--report", "r.jsonl", "--via", &via];
    let args = args.into_iter().chain(["--height", "360", "--audio-rate", "44100", "--subtitles", "en"]);
    let done = run("fetch", args).cwd(folder.path()).stdin(rows(&web, &names_in)).done().status(0);
    let told = report(&folder.path().join("r.jsonl"));
    let codes: Vec<&str> = told.iter().map(|row| row.1.as_str()).collect();
    assert_eq!(codes, ["-", "http_4xx", "blocked", "http_5xx", "command"], "{told:?}");
    assert!(told[1].2.contains("Unable to download webpage: HTTP Error 404"), "{}", told[1].2);
    assert!(told[4].2.contains("Unsupported URL"), "{}", told[4].2);
    let out = members(&done.stdout());
    let stored: Vec<&str> = out.iter().map(|member| member.0.as_str()).collect();
    assert_eq!(stored, ["000000000.mp4", "000000000.info.json", "000000000.json"]);
    assert!(out[0].1 == video);
    let info: Value = serde_json::from_slice(&out[1].1).unwrap();
    assert_eq!((info["extractor"].as_str(), info["ext"].as_str()), (Some("generic"), Some("mp4")));
}

#[test]
fn only_a_section_is_fetched() {
    let folder = dir();
    let web = serve(video(folder.path()));
    let program = venv(&["yt-dlp"]).with_file_name("yt-dlp");
    let program = program.to_str().unwrap();
    let row = |key: &str, start: &str| {
        format!("{{\"key\":\"{key}\",\"url\":\"{}/good.mp4\",\"start\":{start},\"end\":\"0:00:03\"}}\n", web.url)
    };
    let rows = row("a", "1.5") + &row("b", "\"--exec id\"");
    let args = ["--allow-private", "--timeout", "60s", "--retries", "0", "--via", program, "--section", "start,end"];
    let done = run("fetch", args).cwd(folder.path()).stdin(rows).done().status(0);
    let out = members(&done.stderr("fetch: 1 sample; failed 1 (1 bad_row)").stdout());
    assert_eq!(out[0].0, "a.mp4");
    std::fs::write(folder.path().join("part.mp4"), &out[0].1).unwrap();
    let words = ["-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0", "part.mp4"];
    let said = Command::new("ffprobe").args(words).current_dir(folder.path()).output().unwrap();
    let seconds: f64 = String::from_utf8(said.stdout).unwrap().trim().parse().unwrap();
    assert!((1.4..1.75).contains(&seconds), "{seconds} s");
}

#[test]
fn subtitles_and_errors_of_a_site_are_understood() {
    // A program in the place of yt-dlp that does what it does on sites that cannot be reached from here.
    let folder = dir();
    let script = "#!/bin/bash\n\
        [ \"$1\" != --version ] || exit 0\n\
        while [ $# -gt 1 ]; do [ \"$1\" = -o ] && out=${2%%.%(ext)s}; [ \"$1\" = --sub-langs ] && langs=$2; shift; done\n\
        case $1 in\n\
        *bot*) echo \"ERROR: [youtube] x: Sign in to confirm you're not a bot. Use --cookies for the authentication\" >&2; exit 1;;\n\
        *gone*) echo 'ERROR: [youtube] x: Video unavailable' >&2; exit 1;;\n\
        *big*) head -c 3000000 /dev/zero > $out.mp4; sleep 60;;\n\
        esac\n\
        printf '\\0\\0\\0\\030ftypmp42\\0\\0\\0\\0mp42isom' > $out.mp4; echo '{}' > $out.info.json\n\
        for lang in ${langs//,/ }; do printf 'WEBVTT\\n' > $out.$lang.vtt; done\n";
    let path = folder.path().join("yt-dlp");
    std::fs::write(&path, script).unwrap();
    crate::support::bash("chmod +x yt-dlp").cwd(folder.path()).ok();
    let fetch = |more: &[&str]| {
        let via = path.to_str().unwrap();
        let args = ["--via", via, "--allow-private", "--retries", "0", "--report", "r.jsonl", "--max-bytes", "1M"];
        let rows = "http://127.0.0.1/good\nhttp://127.0.0.1/bot\nhttp://127.0.0.1/gone\nhttp://127.0.0.1/big\n";
        run("fetch", args.iter().chain(more)).cwd(folder.path()).stdin(rows).done().status(0)
    };
    let done = fetch(&["--subtitles", "en"]).stderr("fetch: 1 sample; failed 3 (1 blocked, 1 command, 1 too_large)");
    assert_eq!(
        names(&done.stdout()),
        ["000000000.mp4", "000000000.vtt", "000000000.info.json", "000000000.json"].map(str::to_owned)
    );
    let told = report(&folder.path().join("r.jsonl"));
    assert_eq!(told[1].2, "[youtube] x: Sign in to confirm you're not a bot. Use --cookies for the authentication");
    let two = names(&fetch(&["--subtitles", "en,de"]).stdout());
    assert!(two.contains(&"000000000.de.vtt".to_owned()) && two.contains(&"000000000.en.vtt".to_owned()), "{two:?}");
}

#[test]
fn the_recipe_says_what_it_needs() {
    let missing = "fetch: /nowhere/yt-dlp: not found; install it (pip install yt-dlp)";
    run("fetch", ["--via", "/nowhere/yt-dlp"]).stdin("http://h/x\n").fails(1, missing);
    let lost = "fetch: --height, --audio-rate, --subtitles and --section need --via yt-dlp";
    run("fetch", ["--via", "cat {url}", "--height", "360"]).stdin("http://h/x\n").fails(1, lost);
    run("fetch", ["--height", "360"]).done().status(2).stderr_has("--via");
}
