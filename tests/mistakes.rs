//! Mistakes that new users make, and what the tools answer: what is wrong, where, and what to do.
//!
//! Each row is a command line, its exit status and parts of its last lines on stderr. None may end with status 0, and none may
//! write an output.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::web::{Web, reply};
use crate::support::{bash, dir, list, status};

/// Files to make mistakes with.
fn prepare(folder: &Path) {
    let script = r#"
        for i in 0 1 2; do echo pic$i > $i.jpg; echo $i > $i.cls; echo "{\"width\": 30$i}" > $i.json; done
        tar cf a.tar --format=ustar 0.cls 0.jpg 1.cls 1.jpg 2.cls 2.jpg
        tar cf j.tar --format=ustar 0.json 1.json 2.json
        rm ?.jpg ?.cls ?.json
        head -c 3000 a.tar > cut.tar; : > empty.tar; echo text > notes.txt; printf '\xff\xd8\xff\xe0\0JFIF' > p.jpg
        printf 'URL,TEXT,similarity\nhttp://127.0.0.1:9/x.jpg,"a photo",0.2\n' > urls.csv
        mkdir photos; echo x > photos/a.jpg; echo kept > taken.tar; echo kept > t-003.tar; mkdir e; touch e/0.jpg e/1.jpg e/2.jpg"#;
    bash(script).cwd(folder).ok();
}

/// Mistakes on the command line: nothing is read.
const USAGE: &[(&str, &str)] = &[
    ("tarcat --shufle 100 a.tar", "a similar argument exists: '--shuffle'"),
    ("tarcat --seletc true a.tar", "a similar argument exists: '--select'"),
    ("tarcat -x a.tar", "unexpected argument '-x' found (see"),
    ("tarcat -p -3 a.tar -o x.tar", "unexpected argument '-3' found; numbers cannot be negative here"),
    ("tarcat -p abc a.tar -o x.tar", "'--parallel <N>': not a whole number"),
    ("tarsplit -n 0 -o 'x-{shard}.tar' a.tar", "0 is less than 1"),
    ("tarsplit -n 10 -o x.tar a.tar", "no placeholder for the shard number; use {shard:06}"),
    ("tarsplit -n 10 -o 'x-{shrad:05}.tar' a.tar", "{shrad}"),
    ("tarsplit -o 'x-{shard:05}.tar' a.tar", "no limit for a shard; use -n SAMPLES, -s SIZE, --shards N or --by-hash"),
    ("tarsplit -s 1Q -o 'x-{shard:05}.tar' a.tar", "unknown unit 'Q'"),
    ("tarsplit --by-hash a=0.9,b=0.2 -n 5 -o '{split}-{shard}.tar' a.tar", "the shares add up to 1.1, not to 1"),
    ("tarcat --select 'json.width >' j.tar -o x.tar", "the expression ends too early: json.width ><-- HERE"),
    ("tarcat --select 'json.width = 300' j.tar -o x.tar", "json.width <-- HERE = 300; write '==' for '='"),
    ("tarcat --select 'json.a > 1 and json.b > 1' j.tar", "write '&&' for 'and'"),
    ("fetch -j 0 urls.csv -o x.tar", "expected a number from 1 to 1000000"),
    ("fetch --retry-from r --codes http5xx urls.csv -o x.tar", "unknown code 'http5xx'; did you mean 'http_5xx'?"),
    ("tarresize a.tar -o x.tar", "-s"),
    ("tarresize -s 256 -m keepratio a.tar -o x.tar", "a similar value exists: 'keep_ratio'"),
    ("tarproc a.tar -o x.tar", "no command; use -c COMMAND or -s FILE"),
    ("tarcat --compress zst a.tar -o x.tar", "zstd"),
    ("tarcat --rekey '{idx}' a.tar -o x.tar", "{idx}"),
    ("tarcat --slice 5 a.tar -o x.tar", "LO:HI"),
    ("tarcat --shard 4/4 a.tar -o x.tar", "counted from 0"),
    ("shardrun 'tarcat {}'", "-n N, ITEM…, -T FILE or --shards-of TABLE"),
    ("tarshow --sheet s.gif a.tar", ".jpg or"),
];

/// Mistakes that only the data shows.
const DATA: &[(&str, i32, &str)] = &[
    ("tarcat nosuch.tar -o x.tar", 1, "nosuch.tar: No such file or directory\n"),
    ("tarcat 'nomatch-*.tar' -o x.tar", 1, "nomatch-*.tar: no file matches"),
    ("tarcat notes.txt -o x.tar", 1, "notes.txt: byte 0: not a tar archive"),
    ("tarcat . -o x.tar", 1, ".: is a directory"),
    ("tarcat empty.tar -o x.tar", 1, "empty.tar: byte 0: empty input: expected a tar archive"),
    ("tarcat cut.tar -o x.tar", 1, "the input ends in the "),
    ("true | tarcat -o x.tar", 1, "empty input; did the command before this one fail?"),
    ("tarcat --select 'json.widht > 300' j.tar -o /dev/null", 3, "j.tar: 0: no entry 'widht'; did you mean 'width'?\n"),
    ("tarcat --select 'jsn.width > 300' j.tar -o /dev/null", 3, "no field or column 'jsn'"),
    ("tarcat --select 'json.width > \"3\"' j.tar -o /dev/null", 3, "values of different types cannot be compared"),
    (
        "urlcat urls.csv --where 'simmilarity > 0.5' -o x.jsonl",
        1,
        "no row has a column 'simmilarity'; did you mean 'similarity'?",
    ),
    (
        "urlcat urls.csv --url-col LINK -o x.jsonl",
        1,
        "no column 'LINK' (the columns are: URL, TEXT, similarity); --url-col",
    ),
    ("urlcat a.tar -o x.jsonl", 1, "a.tar: not a table: binary data"),
    ("urlcat p.jpg -o x.jsonl", 1, "p.jpg: not a table: binary data"),
    ("fetch a.tar -o x.tar", 1, "a.tar: not a list of URLs: binary data"),
    ("fetch http://127.0.0.1:9/x.jpg -o /dev/null", 3, "use --allow-private to connect to internal addresses"),
    (
        "fetch urls.csv -o /dev/null",
        3,
        "http://127.0.0.1:9/x.jpg: 127.0.0.1: 127.0.0.1 is loopback; use --allow-private",
    ),
    ("echo 127.0.0.1/x.jpg | fetch -o /dev/null", 3, "a URL begins with http:// or https://"),
    ("fetch --done 'none-*.tar' http://127.0.0.1:9/x -o /dev/null", 1, "none-*.tar: no file matches"),
    ("tarcat a.tar -o taken.tar", 1, "taken.tar: exists; use --force to replace it"),
    ("tarproc -c true a.tar -o taken.tar", 1, "taken.tar: exists; use --force to replace it"),
    ("urlcat urls.csv -o taken.tar", 1, "taken.tar: exists; use --force to replace it"),
    (
        "tarsplit -n 1 -o 't-{shard:03}.tar' a.tar",
        1,
        "1 shard of this pattern exists, such as t-003.tar; remove them, or use --force",
    ),
    (
        "tarshow --extract e a.tar",
        3,
        "exists: a.tar: 0: a file of that name exists; use --force to replace existing files",
    ),
    (
        "tarproc -c 'convrt sample.jpg x' a.tar -o x.tar",
        1,
        "a.tar: 0: exit_status: command not found (exit status 127)",
    ),
    (
        "tarproc -c 'exit 1' a.tar -o /dev/null",
        3,
        "first of 3 exit_status: a.tar: 0: the command failed with exit status 1",
    ),
    ("tarproc -c true --interpreter bsh a.tar", 1, "--interpreter bsh: command not found"),
    ("tarproc --worker 'pyhton3 w.py' a.tar -o x.tar", 1, "command not found (exit status 127)"),
    ("tarcat foo://bucket/a.tar -o x.tar", 1, "set GOPEN_FOO to a command"),
    ("tarcat --rekey same a.tar -o x.tar", 1, "use tarcat --rekey '{index:09}'"),
    ("tarcheck --require 'jpg json' a.tar", 1, "field json is missing"),
    ("shardrun -n 1 -o 'o-{}.tar' 'tarcat nope-{}.tar'", 3, "exit status 1"),
];

fn check(line: &str, expected: i32, part: &str) {
    let folder = dir();
    prepare(folder.path());
    let before = list(folder.path());
    let done = bash(line).without_force().cwd(folder.path()).done().status(expected).stderr_has(part);
    let said = done.stderr_text();
    assert!(!said.contains("os error"), "{line}: {said}");
    let mut after = list(folder.path());
    after.retain(|name| name != ".shardrun");
    assert_eq!(after, before, "{line}");
    assert_eq!(std::fs::read_to_string(folder.path().join("taken.tar")).unwrap(), "kept\n", "{line}");
}

#[test]
fn mistakes_on_the_command_line_say_what_to_write() {
    USAGE.iter().for_each(|(line, part)| check(line, 2, part));
}

#[test]
fn mistakes_in_the_data_say_where_and_what_to_do() {
    DATA.iter().for_each(|(line, status, part)| check(line, *status, part));
}

#[test]
fn shards_of_an_earlier_run_are_not_mixed_with_new_ones() {
    let folder = dir();
    prepare(folder.path());
    let split = |flags: &str| {
        let line = format!("tarsplit -o 's-{{shard:02}}.tar' a.tar {flags}");
        bash(&line).without_force().cwd(folder.path()).done()
    };
    split("-n 1").status(0).stderr("");
    split("-n 2").status(1).stderr_has("3 shards of this pattern exist, such as s-00.tar");
    split("-n 2 --force")
        .status(0)
        .stderr("tarsplit: not replaced: 1 older shard of the same pattern, such as s-02.tar");
    split("-n 2 --start 3").status(0).stderr("");
    split("-n 2 --start 5 --max-shards 1").status(0).stderr_has("stopped after 1 shard");
}

#[test]
fn a_local_pattern_in_quotes_matches_files() {
    let folder = dir();
    prepare(folder.path());
    bash("cp a.tar b-0.tar; cp j.tar b-1.tar").cwd(folder.path()).ok();
    let counted = bash("tarshow --count 'b-*.tar'").without_force().cwd(folder.path()).ok();
    assert_eq!(String::from_utf8(counted).unwrap(), "6\n");
}

#[test]
fn after_ctrl_c_the_recipe_of_the_cookbook_accounts_for_every_row() {
    let folder = dir();
    let in_folder = |name: &str| folder.path().join(name);
    // Rows 5 and 30 fail. From row 25 on the server keeps silent until the first run is over.
    let is_open = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&is_open);
    let web = Web::start(move |asked, wire| {
        let row: u32 = asked.path.trim_start_matches('/').parse().unwrap();
        while row >= 25 && !gate.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = if [5, 30].contains(&row) { "404 Not Found" } else { "200 OK" };
        reply(wire, status, "", &[b'x'; 100_000]);
    });
    let rows: String = (0..40).map(|row| format!("{}/{row}\n", web.url)).collect();
    std::fs::write(in_folder("rows.txt"), rows).unwrap();

    let first = "fetch --allow-private --report first.jsonl rows.txt | tarsplit -n 10 -o 'm-{shard}.tar'";
    let mut command = bash(first).without_force().cwd(folder.path()).into_command();
    let mut child = command.process_group(0).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while !in_folder("m-1.tar").exists() {
        assert!(started.elapsed() < Duration::from_secs(120), "the second shard is never written");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(Command::new("kill").args(["-INT", "--", &format!("-{}", child.id())]).status().unwrap().success());
    assert_eq!(status(child.wait().unwrap()), 130);
    assert!(!in_folder("m-2.tar").exists(), "an unfinished shard is not kept");
    is_open.store(true, Ordering::Relaxed);

    let rest = "fetch --allow-private --done 'm-*.tar' --report rest.jsonl rows.txt |
        tarsplit -n 10 --start \"$(ls m-*.tar | wc -l)\" -o 'm-{shard}.tar'";
    bash(rest).without_force().cwd(folder.path()).done().status(0).stderr_has("failed 2 (2 http_4xx)");
    let counts = "tarshow --keys 'm-*.tar' | sort -u | wc -l; tarshow --count 'm-*.tar'; grep -c http_4xx rest.jsonl";
    let counts = String::from_utf8(bash(counts).without_force().cwd(folder.path()).ok()).unwrap();
    assert_eq!(counts.split_whitespace().collect::<Vec<_>>(), ["38", "38", "2"]);
}
