//! Runs over time: resume, retries, limits, status, logs, reports.

use serde_json::Value;

use super::{counts, is_gone, log, read, shardrun};
use crate::support::{bash, dir, list};

#[test]
fn a_second_run_does_what_is_missing() {
    let folder = dir();
    let path = folder.path();
    let flags = ["-n", "4", "-o", "o-{}", "echo ran >> runs-{}; echo {}"];
    shardrun(path, flags).ok();
    std::fs::remove_file(path.join("o-2")).unwrap();
    shardrun(path, flags).ok();
    assert_eq!(read(path, "runs-1"), "ran\n");
    assert_eq!(read(path, "runs-2"), "ran\nran\n");
    shardrun(path, ["--redo"].into_iter().chain(flags)).ok();
    assert_eq!(read(path, "runs-1"), "ran\nran\n");
    // Without an output it is the job log that knows.
    let silent = ["--run", "r", "-n", "2", "echo ran >> silent-{}"];
    shardrun(path, silent).ok();
    shardrun(path, silent).ok();
    assert_eq!(read(path, "silent-0"), "ran\n");
}

#[test]
fn outputs_of_others_count_and_folders_do_not() {
    let folder = dir();
    let path = folder.path();
    std::fs::create_dir_all(path.join("d/1")).unwrap();
    std::fs::write(path.join("d/0"), "mine").unwrap();
    shardrun(path, ["--run", "r", "-n", "2", "-o", "d/{}", "echo new"]).done().status(3);
    assert_eq!(read(path, "d/0"), "mine");
    assert_eq!(log(path).len(), 1);
    assert_eq!(counts(path), [1, 0, 1, 0]);
}

#[test]
fn another_plan_is_refused_and_says_what_differs() {
    let folder = dir();
    let path = folder.path();
    shardrun(path, ["--run", "r", "-o", "{}", "echo 1", "a", "b"]).ok();
    let cases: [(&[&str], &str); 4] = [
        (&["-o", "{}", "echo 2", "a", "b"], "the pipeline was 'echo 1' and is now 'echo 2'"),
        (&["-o", "{}.x", "echo 1", "a", "b"], "-o was '{}' and is now '{}.x'"),
        (&["-o", "{}", "echo 1", "a"], "the number of items was '2' and is now '1'"),
        (&["-o", "{}", "echo 1", "a", "c"], "the list of items was"),
    ];
    for (args, said) in cases {
        let done = shardrun(path, ["--run", "r"].iter().chain(args)).done().status(1);
        done.stderr_has(&format!("shardrun: r: the plan has changed: {said}"));
    }
    shardrun(path, ["--run", "r", "--redo", "-o", "{}", "echo 2", "a", "b"]).ok();
    assert_eq!(read(path, "a"), "2\n");
    // The rest may change from one time to the next.
    shardrun(path, ["--run", "r", "-j", "5", "--retries", "3", "-o", "{}", "echo 2", "a", "b"]).ok();
}

#[test]
fn retries_are_counted_and_the_last_attempt_decides() {
    let folder = dir();
    let path = folder.path();
    let pipeline =
        "echo attempt $SHARD_ATTEMPT >&2; [ {} = 1 ] && exit 5; [ {} = 0 ] || [ $SHARD_ATTEMPT = 3 ]; echo {}";
    let done = shardrun(path, ["--run", "r", "-n", "3", "--retries", "2", "-o", "{}", pipeline]).done().status(3);
    done.stderr(
        "shardrun: item 1 (1): the command failed with exit status 5\nshardrun: 2 items; failed 1 (1 exit_status)",
    );
    let attempts: Vec<u64> = log(path).iter().map(|line| line["attempts"].as_u64().unwrap()).collect();
    assert_eq!(attempts, [1, 3, 3]);
    assert_eq!(log(path)[1]["exit"], 5);
    let said = String::from_utf8(shardrun(path, ["logs", "r", "--failed"]).ok()).unwrap();
    let lines = "attempt 1\nattempt 2\nattempt 3\n";
    assert_eq!(said, format!("==> item 1 (1): the command failed with exit status 5\n{lines}"));
}

#[test]
fn a_timeout_ends_the_whole_attempt() {
    let folder = dir();
    let path = folder.path();
    for (run, output) in [("r", Some("{}")), ("s", None)] {
        let mut args = vec!["--run", run, "-n", "1", "--timeout", "3s"];
        args.extend(output.map(|name| ["-o", name]).into_iter().flatten());
        args.push("echo $$ > pid; echo x; sleep 1000 & sleep 1000");
        let done = shardrun(path, &args).done().status(3);
        done.stderr("shardrun: item 0 (0): timed out after 3 s\nshardrun: 0 items; failed 1 (1 timeout)");
        // Nothing of its process group is left.
        let pid = read(path, "pid");
        assert!(is_gone(pid.trim()), "something of it is left");
    }
    assert!(!path.join("0").exists());
}

#[test]
fn too_many_failures_end_the_run() {
    let folder = dir();
    let path = folder.path();
    let flags = ["--run", "r", "-n", "20", "-j", "1", "--max-failures", "2", "echo {} >> tried; exit 1"];
    shardrun(path, flags).done().status(3).stderr_has("0 items; failed 3 (3 exit_status)");
    assert_eq!(read(path, "tried"), "0\n1\n2\n");
    assert_eq!(counts(path), [0, 0, 3, 17]);
    let few = ["--run", "f", "-n", "4", "--max-failures", "25%", "[ {} != 2 ]"];
    shardrun(path, few).done().status(0).stderr_has("3 items; failed 1 (1 exit_status)");
}

#[test]
fn retry_repeats_what_failed_with_the_flags_of_the_last_time() {
    let folder = dir();
    let path = folder.path();
    let flags = ["--run", "r", "-n", "3", "--retries", "1", "-o", "{}", "[ -e good ] || [ {} = 0 ]; echo {}"];
    shardrun(path, flags).done().status(3);
    assert_eq!(counts(path), [1, 0, 2, 0]);
    std::fs::write(path.join("good"), "").unwrap();
    shardrun(path, ["retry", "r", "--failed"]).ok();
    assert_eq!(counts(path), [3, 0, 0, 0]);
    shardrun(path, ["retry", "r"]).ok();
    // From another folder too: the plan knows where it ran.
    std::fs::remove_file(path.join("1")).unwrap();
    let elsewhere = dir();
    shardrun(elsewhere.path(), ["retry", path.join("r").to_str().unwrap()]).ok();
    assert_eq!(read(path, "1"), "1\n");
    assert!(list(elsewhere.path()).is_empty());
}

#[test]
fn status_shows_the_slowest_and_the_failed() {
    let folder = dir();
    let path = folder.path();
    let pipeline = "[ {} != 2 ] || { echo 'no \x1b[31mcolour' >&2; exit 9; }; \
                    [ {} != 1 ] || { until [ -e 0.txt ] && [ -e 3.txt ]; do sleep 0.05; done; sleep 2; }; echo {}";
    shardrun(path, ["--run", "r", "-n", "4", "-j", "4", "-o", "{}.txt", pipeline]).done().status(3);
    let text = String::from_utf8(shardrun(path, ["status", "r"]).ok()).unwrap();
    assert!(text.starts_with("r: 3 of 4 done (75 %), 0 running, 1 failed, 0 left\nstored 6 B, 0 samples\n"), "{text}");
    assert!(text.contains("slowest:\n  item 1 (1): "), "{text}");
    let failed =
        "failed:\n  item 2 (2): exit_status: the command failed with exit status 9\n    no \\u{1b}[31mcolour\n";
    assert!(text.ends_with(failed), "{text}");
    let json: Value = serde_json::from_slice(&shardrun(path, ["status", "r", "--json"]).ok()).unwrap();
    assert_eq!((&json["slowest"][0]["item"], &json["failures"][0]["said"]), (&1.into(), &"no \u{1b}[31mcolour".into()));
    shardrun(path, ["status", "nowhere"]).fails(1, "shardrun: nowhere: not a run folder");
    let other = dir();
    shardrun(other.path(), ["status"]).fails(1, "shardrun: no run in this folder; name the folder of the run");
}

#[test]
fn the_run_used_last_needs_no_name() {
    let folder = dir();
    let path = folder.path();
    shardrun(path, ["-n", "1", "true"]).ok();
    shardrun(path, ["-n", "2", "true"]).ok();
    let text = String::from_utf8(shardrun(path, ["status", "--watch"]).ok()).unwrap();
    assert!(text.contains(": 2 of 2 done"), "{text}");
    assert_eq!(list(path.join(".shardrun")).len(), 2);
}

#[test]
fn a_page_shows_a_run() {
    let folder = dir();
    let path = folder.path();
    let pipeline = "echo '<script>alert(1)</script>' >&2; [ {} != 1 ]; echo {}";
    shardrun(path, ["--run", "r", "-n", "3", "-o", "{}", pipeline]).done().status(3);
    shardrun(path, ["report", "r", "--html", "page.html"]).ok();
    let page = read(path, "page.html");
    assert!(
        page.starts_with("<!doctype html>") && page.contains("2 done, 0 running, 1 failed, 0 left of 3 items"),
        "{page}"
    );
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"), "what items said is not escaped");
    let parser = "import html.parser, sys; html.parser.HTMLParser().feed(sys.stdin.read())";
    bash(&format!("python3 -c '{parser}' < page.html")).cwd(path).ok();
}

#[test]
fn a_dry_run_prints_and_does_nothing() {
    let folder = dir();
    let out = shardrun(folder.path(), ["--dry-run", "-o", "{base}.out", "cat {}", "a b.tar"]).ok();
    let line =
        "SHARD='a b.tar' SHARD_INDEX=0 SHARD_COUNT=1 bash -o pipefail -eu -c 'cat '\\''a b.tar'\\''' > 'a b.out'\n";
    assert_eq!(String::from_utf8(out).unwrap(), line);
    assert!(list(folder.path()).is_empty());
}

#[test]
fn jitter_delays_and_verbose_sums_up() {
    let folder = dir();
    let done = shardrun(folder.path(), ["-v", "--jitter", "50ms", "-n", "2", "true"]).done().status(0);
    done.stderr("shardrun: 2 items");
    shardrun(folder.path(), ["-v", "--jitter", "50ms", "-n", "2", "true"])
        .fails(0, "shardrun: all 2 items are done\nshardrun: 0 items");
}

#[test]
fn two_runs_at_once_are_refused() {
    let folder = dir();
    let path = folder.path();
    let flags = ["--run", "r", "-n", "1", "touch begun; while [ ! -e go ]; do sleep 0.05; done"];
    let mut first = shardrun(path, flags).into_command().spawn().unwrap();
    bash("while [ ! -e begun ]; do sleep 0.02; done").cwd(path).ok();
    shardrun(path, flags).done().status(1).stderr_has("/r: another shardrun is working on this run (process ");
    assert_eq!(counts(path), [0, 1, 0, 0]);
    std::fs::write(path.join("go"), "").unwrap();
    assert!(first.wait().unwrap().success());
    assert_eq!(counts(path), [1, 0, 0, 0]);
}

#[test]
fn a_record_after_a_torn_line_is_not_lost() {
    let folder = dir();
    let path = folder.path();
    shardrun(path, ["--run", "r", "-n", "3", "[ {} = 0 ]"]).done().status(3);
    let part = path.join("r/log").join(&list(path.join("r/log"))[0]);
    let text = std::fs::read_to_string(&part).unwrap();
    // As a full disk leaves it: the last record is cut off.
    std::fs::write(&part, &text[..text.len() - 30]).unwrap();
    shardrun(path, ["retry", "r", "--failed"]).done();
    shardrun(path, ["--run", "r", "-n", "3", "[ {} = 0 ]"]).done().status(3);
    let lines = std::fs::read_to_string(&part).unwrap();
    let records = |text: &str| text.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count();
    assert_eq!(lines.lines().count() - records(&lines), 1, "only the torn line is not a record:\n{lines}");
    // An older version appended the next record to the torn line.
    let torn = format!("{}{}", &text[..20], lines.lines().last().unwrap());
    std::fs::write(&part, torn + "\n").unwrap();
    assert_eq!(counts(path)[2], 1);
}
