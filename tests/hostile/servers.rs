//! Hostile servers behind the names of sources, for every tool that opens one. The table says what each gets. What
//! `fetch` gets for the rows of a table is in tests/fetch_hostile.rs.

use std::path::Path;

use super::is_answer;
use crate::support::web::{Asked, Web, Wire, reply};
use crate::support::{bash, dir};

/// Tools that read an archive, and those that read a table.
const ARCHIVES: [&str; 11] = [
    "tarcat {}",
    "tarcheck {}",
    "tarcreate --from tar {}",
    "tardataset --only-shard 0 -o out {}",
    "tarproc -c true -o - {}",
    "tarresize -s 16 {}",
    "tarjoin --with 'pipe:echo key,x' --keep anti {}",
    "tarshow {}",
    "tarsort {}",
    "tarsplit -n 1 -o 'out/{shard}.tar' {}",
    "tarvideo --probe --no-media pass {}",
];
const TABLES: [&str; 4] = [
    "urlcat {}.csv",
    "fetch {}.csv",
    "shardrun --dry-run --shards-of {}.csv 'echo {i}'",
    "tarcreate --from table --key '{index}' {}.csv",
];

/// A status, and what is said.
type Answer = (i32, &'static str);

/// Tools differ: some take any text for a table.
const ANY: Answer = (-1, "");

/// A path, what archives of that name give, and what tables do.
const CASES: [(&str, Answer, Answer); 11] = [
    ("gone", (1, "the server answers 404"), (1, "the server answers 404")),
    ("forbidden", (1, "the server answers 403"), (1, "the server answers 403")),
    ("loop", (1, "too many redirects"), (1, "too many redirects")),
    ("inside", (1, ""), (1, "")),
    ("busy", (1, "given up after 6 attempts: the server answers 503"), (1, "given up after 6 attempts")),
    ("empty", (1, "empty input"), ANY),
    ("page", (1, "not a tar archive"), ANY),
    ("short", (1, "given up after 6 attempts"), (1, "given up after 6 attempts")),
    ("negative", (1, "given up after 6 attempts"), (1, "given up after 6 attempts")),
    ("heads", (1, "given up after 6 attempts"), (1, "given up after 6 attempts")),
    ("noise", (1, "given up after 6 attempts"), (1, "given up after 6 attempts")),
];

fn misbehave(asked: &Asked, wire: &mut dyn Wire) {
    let mut say = |text: &str| wire.write_all(text.as_bytes());
    match asked.path.trim_start_matches('/').trim_end_matches(".csv") {
        "forbidden" => reply(wire, "403 Forbidden", "", b"no"),
        "loop" => reply(wire, "302 Found", "Location: /loop\r\n", b""),
        "inside" => reply(wire, "302 Found", "Location: file:///etc/passwd\r\n", b""),
        "busy" => reply(wire, "503 Busy", "Retry-After: 0\r\n", b""),
        "empty" => reply(wire, "200 OK", "", b""),
        "page" => reply(wire, "200 OK", "", &b"<html>\"not found</html>\n".repeat(40)),
        "short" => _ = say("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"),
        "negative" => _ = say("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nx"),
        "heads" => _ = (0..20_000).try_for_each(|i| say(if i == 0 { "HTTP/1.1 200 OK\r\n" } else { "X: y\r\n" })),
        "noise" => _ = wire.write_all(&crate::support::archives::noise(7, 5000)),
        _ => reply(wire, "404 Not Found", "", b""),
    }
}

/// What is wrong with the answer of a tool.
fn judge(folder: &Path, script: &str, expected: Answer) -> Option<String> {
    let done = bash(&format!("ulimit -v 4000000; timeout 120 {script} > stdout")).cwd(folder).done();
    is_answer(script, &done);
    // A verdict is not a message.
    let verdict = std::fs::read(folder.join("stdout")).unwrap_or_default();
    let said = done.stderr_text() + &String::from_utf8_lossy(&verdict[..verdict.len().min(1000)]);
    let as_said = expected == ANY || (done.status_code() == expected.0 && said.contains(expected.1));
    (!as_said).then(|| format!("{script}: {} {said:?}, not {expected:?}", done.status_code()))
}

#[test]
fn every_tool_answers_hostile_servers_as_the_table_says() {
    let web = Web::start(misbehave);
    // Those that try again mostly sleep.
    let wrong: Vec<String> = std::thread::scope(|threads| {
        let mut running = Vec::new();
        for (path, archive, table) in CASES {
            let scripts =
                ARCHIVES.iter().map(|script| (script, archive)).chain(TABLES.iter().map(|script| (script, table)));
            for (script, expected) in scripts {
                let script = script.replacen("{}", &format!("{}/{path}", web.url), 1);
                running.push(threads.spawn(move || judge(dir().path(), &script, expected)));
            }
        }
        running.into_iter().filter_map(|one| one.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
