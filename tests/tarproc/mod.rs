//! tarproc: the published contract, the flags, all runners, and real programs.

use std::path::Path;

use crate::support::{Archive, Run, bash, dir, list, members, names, run};

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

fn three() -> Vec<u8> {
    let sample = |archive: Archive, key: &str| {
        let archive = archive.file(&format!("{key}.cls"), b"7").file(&format!("{key}.jpg"), key.as_bytes());
        archive.file(&format!("{key}.json"), br#"{"caption": "A cat"}"#)
    };
    ["train/a", "train/b", "c"].into_iter().fold(Archive::new(), sample).whole()
}

fn tarproc(args: &[&str]) -> Run {
    run("tarproc", args).stdin(three())
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// The fields of sample `c`, as text.
fn fields_of_c(archive: &[u8]) -> Vec<(String, String)> {
    let ours = members(archive).into_iter().filter(|member| member.0.starts_with("c."));
    ours.map(|(name, data)| (name, text(data))).collect()
}

#[test]
fn the_published_notebook_gives_the_same_output() {
    let listing = "__key__\n__source__\nsample.cls\nsample.jpg\nsample.json\n";
    assert_eq!(text(tarproc(&["-c", "ls", "--count", "3"]).ok()), listing.repeat(3));
    assert_eq!(text(tarproc(&["-c", "cat __key__; echo"]).ok()), "train/a\ntrain/b\nc\n");
}

#[test]
fn the_environment_names_the_sample() {
    let script = "echo $TARPROC_KEY $TARPROC_SOURCE $TARPROC_INDEX $(cat __source__) $(cat sample.jpg)";
    let said = text(tarproc(&["-c", script, "--slice", "1:"]).ok());
    assert_eq!(said, "train/b stdin 1 stdin train/b\nc stdin 2 stdin c\n");
}

#[test]
fn the_remaining_files_are_the_new_sample() {
    let script =
        "echo new > sample.zzz; echo ppm > sample.ppm; rm sample.jpg; echo 8 > sample.cls; touch other; echo said";
    let out = tarproc(&["-c", script, "-o", "-", "--slice", "2:"]).done().status(0);
    let out = out.stderr("said\ntarproc: 1 sample; dropped 1 (1 ignored_file)").stdout();
    let expected = [("c.cls", "8\n"), ("c.json", r#"{"caption": "A cat"}"#), ("c.ppm", "ppm\n"), ("c.zzz", "new\n")];
    assert_eq!(fields_of_c(&out), expected.map(|(name, data)| (name.to_owned(), data.to_owned())));
}

#[test]
fn keys_can_be_changed_and_samples_dropped() {
    let rekeyed = tarproc(&["-c", "echo x/$TARPROC_INDEX > __key__; rm sample.cls sample.json", "-o", "-"]).ok();
    assert_eq!(names(&rekeyed), ["x/0.jpg", "x/1.jpg", "x/2.jpg"]);
    let script = "[ $TARPROC_INDEX = 1 ] || rm sample.*";
    let out = tarproc(&["-c", script, "-o", "-"]).done().status(0).stderr("tarproc: 1 sample; dropped 2 (2 emptied)");
    assert_eq!(names(&out.stdout()), ["train/b.cls", "train/b.jpg", "train/b.json"]);
    tarproc(&["-c", "echo same > __key__", "-o", "-"]).done().stderr("tarproc: 1 sample; failed 2 (2 same_key)");
}

#[test]
fn the_base_name_and_the_fields_can_be_chosen() {
    let said = text(tarproc(&["-b", "x", "-f", "jpg json", "-c", "echo x*", "--count", "1"]).ok());
    assert_eq!(said, "x.jpg x.json\n");
}

#[test]
fn scripts_and_other_interpreters_run() {
    let folder = dir();
    std::fs::write(folder.path().join("s.py"), "import os; print(sorted(os.listdir())[2])").unwrap();
    let said = tarproc(&["-s", "s.py", "--interpreter", "python3 -I", "--count", "1"]).cwd(folder.path()).ok();
    assert_eq!(text(said), "sample.cls\n");
    tarproc(&["-o", "-"]).fails(2, "tarproc: no command; use -c COMMAND or -s FILE");
    tarproc(&["--each", "jpg", "-c", "cat"]).done().status(2);
}

#[test]
fn the_output_is_the_same_for_any_number_of_workers() {
    let archive = Archive::of_samples(40).whole();
    let script = "sleep 0.0$((RANDOM % 5)); tr -d x < sample.jpg > sample.out; echo $TARPROC_KEY";
    let outputs = ["1", "2", "16"].map(|p| {
        let packed =
            run("tarproc", ["-p", p, "-c", &format!("({script}) >/dev/null"), "-o", "-"]).stdin(archive.clone()).ok();
        let printed = run("tarproc", ["-p", p, "-c", script]).stdin(archive.clone()).ok();
        (packed, printed)
    });
    assert!(outputs[0] == outputs[1] && outputs[1] == outputs[2]);
    assert_eq!(text(outputs[0].1.clone()).lines().count(), 40);
    let unordered = run("tarproc", ["-p", "4", "--unordered", "-c", script]).stdin(archive).ok();
    let mut lines: Vec<String> = text(unordered).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines.join("\n") + "\n", text(outputs[0].1.clone()));
}

#[test]
fn failures_are_skipped_ignored_or_end_the_run() {
    let script = "echo left > sample.txt; exit $TARPROC_INDEX";
    let skipped = tarproc(&["-c", script, "-o", "-"]).done().status(3);
    assert_eq!(names(&skipped.stderr("tarproc: 1 sample; failed 2 (2 exit_status)").stdout()).len(), 4);
    let ignored = tarproc(&["-c", script, "-e", "ignore", "-o", "-"]).ok();
    assert_eq!(names(&ignored).len(), 12);
    let aborted = "tarproc: stdin: train/b: exit_status: the command failed with exit status 1";
    tarproc(&["-c", script, "-e", "abort", "-o", "-"]).fails(1, aborted);
    let over = "tarproc: 1 sample; failed 2 (2 exit_status)";
    tarproc(&["-c", script, "--max-failures", "1", "-o", "-"]).fails(3, over);
    tarproc(&["-c", script, "--max-failures", "70%", "-o", "-"]).fails(0, over);
    tarproc(&["-c", "false", "-o", "-"]).fails(3, "tarproc: 0 samples; failed 3 (3 exit_status)");
}

#[test]
fn failed_samples_can_be_run_again() {
    let folder = dir();
    let script = "[ $TARPROC_INDEX != 1 ] || { echo because >&2; exit 5; }";
    let args = ["-c", script, "--failed", "f.tar", "-o", "o.tar"];
    let done = tarproc(&args).cwd(folder.path()).done().status(3);
    done.stderr("because\ntarproc: 2 samples; failed 1 (1 exit_status)");
    let failed = std::fs::read(folder.path().join("f.tar")).unwrap();
    assert_eq!(names(&failed), ["train/b.cls", "train/b.jpg", "train/b.json", "train/b.tarproc.log"]);
    let log = members(&failed).pop().unwrap().1;
    assert_eq!(text(log), "exit_status: the command failed with exit status 5\nbecause\n");
    let again = run("tarproc", ["-c", "true", "f.tar", "-o", "-"]).cwd(folder.path()).ok();
    assert_eq!(names(&again), ["train/b.cls", "train/b.jpg", "train/b.json"]);
}

#[test]
fn retries_start_from_the_original_sample() {
    let folder = dir();
    let tries = folder.path().join("tries");
    let script = format!("echo x >> {0}; [ -e sample.jpg ] && rm sample.jpg; [ $(wc -l < {0}) = 3 ]", tries.display());
    let out = tarproc(&["--count", "1", "--retries", "2", "-c", &script, "-o", "-"]).ok();
    assert_eq!(names(&out), ["train/a.cls", "train/a.json"]);
    assert_eq!(std::fs::read_to_string(tries).unwrap(), "x\nx\nx\n");
}

#[test]
fn logs_and_output_go_where_the_flags_say() {
    let folder = dir();
    let args = ["-c", "echo out; echo err >&2", "--add-log", "log", "-o", "o.tar", "--slice", "2:"];
    tarproc(&args).cwd(folder.path()).fails(0, "out\nerr");
    let packed = std::fs::read(folder.path().join("o.tar")).unwrap();
    assert_eq!(fields_of_c(&packed).pop().unwrap(), ("c.log".to_owned(), "out\nerr\n".to_owned()));
    let done =
        tarproc(&["-c", "echo out; echo err >&2", "-O", "-o", "o.tar", "--count", "2"]).cwd(folder.path()).done();
    assert_eq!(text(done.status(0).stderr("err\nerr").stdout()), "out\nout\n");
}

#[test]
fn keep_dirs_keeps_the_directories() {
    let folder = dir();
    let place = folder.path().to_str().unwrap();
    let done = tarproc(&["-c", "touch seen", "--keep-dirs", "--tmpdir", place, "--count", "1"]).done().status(0);
    let kept = list(place).pop().unwrap();
    done.stderr(&format!("tarproc: {place}/{kept}: directories kept"));
    assert!(folder.path().join(kept).join("000000000/seen").exists());
}

#[test]
fn one_sample_can_become_many() {
    let multi = "echo 1 > sample-1.txt; echo 10 > sample-10.txt; echo 2 > sample-2.txt; echo -n own > sample-2.__key__; rm sample.*";
    let out = tarproc(&["-m", "-c", multi, "-o", "-", "--slice", "2:"]).ok();
    assert_eq!(names(&out), ["c/1.txt", "own.txt", "c/10.txt"]);
    let subdirs = "mkdir b a; echo 1 > b/sample.txt; echo 2 > a/sample.txt; echo own > a/__key__; rm sample.j*";
    let out = tarproc(&["-S", "-c", subdirs, "-o", "-", "--slice", "2:"]).ok();
    assert_eq!(names(&out), ["c.cls", "own.txt", "c/b.txt"]);
}

#[test]
fn a_command_gets_a_batch_of_samples() {
    let script = "echo $TARPROC_COUNT $TARPROC_INDEX *; for d in 0*; do cp $d/__key__ $d/sample.key; done";
    let folder = dir();
    let done = tarproc(&["--batch", "2", "-O", "-c", script, "-o", "o.tar"]).cwd(folder.path()).done();
    assert_eq!(text(done.status(0).stderr("").stdout()), "2 0 000000 000001\n1 2 000000\n");
    let out = std::fs::read(folder.path().join("o.tar")).unwrap();
    let keys = members(&out).into_iter().filter(|member| member.0.ends_with(".key")).map(|member| text(member.1));
    assert_eq!(keys.collect::<Vec<_>>(), ["train/a", "train/b", "c"]);
    let one_bad = "ln -s /etc/passwd 000001/sample.pw";
    let done = tarproc(&["--batch", "3", "-c", one_bad, "-o", "-"]).done();
    done.status(3).stderr("tarproc: 2 samples; failed 1 (1 link_outside)");
}

#[test]
fn text_becomes_samples() {
    let mode = |mode: &str, input: &str| {
        let script = "echo $(cat __key__): $(cat sample.* 2>/dev/null)";
        text(run("tarproc", ["--mode", mode, "-c", script]).stdin(input).ok())
    };
    assert_eq!(mode("lines", "one\ntwo\n"), "000000000: one\n000000001: two\n");
    assert_eq!(mode("pages", "a\nb\x0cc"), "000000000: a b\n000000001: c\n");
    assert_eq!(mode("keys", "x/y\nz\n"), "x/y:\nz:\n");
    assert_eq!(mode("rows", "{\"key\":\"k\"}\n{}\n"), "k: {\"key\":\"k\"}\n000000001: {}\n");
    let bad = run("tarproc", ["--mode", "keys", "-c", "echo 1 > sample.n", "-o", "-"]).stdin("../x\ny\n").done();
    assert_eq!(names(&bad.status(3).stderr("tarproc: 1 sample; failed 1 (1 bad_row)").stdout()), ["y.n"]);
}

#[test]
fn a_forking_shell_leaks_nothing_between_samples() {
    let script = "echo ${x-unset} $PWD >&2; x=1; set -e; trap 'echo bye' EXIT; cd /; false; echo never";
    let both = [&[][..], &["--fast-shell"][..]].map(|flags| {
        let args = [&["-c", script, "-e", "ignore", "-p", "2"][..], flags].concat();
        text(tarproc(&args).done().status(0).stdout())
    });
    assert_eq!(both[0], "bye\nbye\nbye\n");
    assert_eq!(both[0], both[1]);
    let packed = |flags: &[&str]| tarproc(&[&["-c", "cp sample.cls sample.n", "-o", "-"], flags].concat()).ok();
    assert_eq!(packed(&[]), packed(&["--fast-shell"]));
    let failed = tarproc(&["--fast-shell", "-c", "exec sh -c 'exit 9'", "-v"]).done().status(3);
    failed.stderr_has("c: left out: exit_status: the command failed with exit status 9");
    tarproc(&["--fast-shell", "-c", "sleep 100", "--timeout", "0.2"])
        .fails(3, "tarproc: 0 samples; failed 3 (3 timeout)");
}

#[test]
fn a_command_that_never_stops_writing_is_ended_in_time() {
    let endless = "while :; do echo spam >&2; done";
    tarproc(&["-c", endless, "--timeout", "0.2"]).done().status(3).stderr_has("failed 3 (3 timeout)");
    let left = format!("{{ {endless}; }} & true");
    tarproc(&["-c", &left, "--slice", ":1"]).done().status(3).stderr_has("failed 1 (1 left_running)");
}

#[test]
fn each_filters_a_field() {
    let out = tarproc(&["--each", "json:caption.txt", "-c", "jq -j .caption", "-o", "-", "--slice", "2:"]).ok();
    assert_eq!(fields_of_c(&out)[2], ("c.caption.txt".to_owned(), "A cat".to_owned()));
    assert_eq!(
        tarproc(&["--each", "jpg", "-c", "cat", "-p", "3", "-o", "-"]).ok(),
        tarproc(&["-c", ":", "-o", "-"]).ok()
    );
    tarproc(&["--each", "png", "-c", "cat", "-o", "-"]).fails(3, "tarproc: 0 samples; failed 3 (3 no_field)");
    tarproc(&["--each", "jpg:cls", "-c", "cat", "-o", "-"])
        .fails(3, "tarproc: 0 samples; failed 3 (3 duplicate_field)");
    let large = Archive::new().file("a.bin", &vec![7; 3 << 20]).whole();
    let out = run("tarproc", ["--each", "bin", "-c", "tee /dev/null | cat", "-o", "-"]).stdin(large.clone()).ok();
    assert_eq!(members(&out), members(&large));
}

fn worker(folder: &Path, body: &str) -> String {
    let program = format!("import os, sys, time, tarworker\nfor sample in tarworker.samples():\n    {body}\n");
    std::fs::write(folder.join("worker.py"), program).unwrap();
    format!("PYTHONPATH={REPOSITORY}/python python3 {}/worker.py", folder.display())
}

#[test]
fn a_python_worker_returns_results_in_order() {
    let folder = dir();
    let identity = worker(folder.path(), "print('hello'); tarworker.write(sample)");
    let long = format!("{}/{}.jpg", "d".repeat(120), "k".repeat(140));
    let archive = run("tarcat", ["--rekey", &long.replace(".jpg", "-{key}")]).stdin(three()).ok();
    for p in ["1", "3"] {
        let done = run("tarproc", ["-p", p, "--worker", &identity, "-o", "-"]).stdin(archive.clone()).done();
        assert_eq!(done.status(0).stderr_has("hello").stdout(), archive);
    }
    let changing = "sample['n'] = str(len(sample)); sample['__key__'] += '-x'; tarworker.write(sample); del sample['jpg']; \
                    sample['__key__'] += 'y'; sample['cls'] == b'7' and tarworker.write(sample)";
    let out = tarproc(&["--worker", &worker(folder.path(), changing), "-o", "-", "--slice", "2:"]).ok();
    let expected = ["c-x.cls", "c-x.jpg", "c-x.json", "c-x.n", "c-xy.cls", "c-xy.json", "c-xy.n"];
    assert_eq!(names(&out), expected);
}

#[test]
fn a_worker_that_dies_hangs_or_reports_an_error_fails_one_sample() {
    let folder = dir();
    for (body, code) in [
        ("sample['__key__'] != 'train/b' or os._exit(7); tarworker.write(sample)", "worker_died"),
        ("sample['__key__'] != 'train/b' or os.kill(os.getpid(), 11); tarworker.write(sample)", "worker_died"),
        ("sample['__key__'] != 'train/b' or time.sleep(1000); tarworker.write(sample)", "timeout"),
        ("tarworker.fail('no') if sample['__key__'] == 'train/b' else tarworker.write(sample)", "worker_error"),
        (
            "sample['__key__'] != 'train/b' or os.write(tarworker._output, b'x' * 512); tarworker.write(sample)",
            "worker_answer",
        ),
    ] {
        let args = ["--worker", &worker(folder.path(), body), "--timeout", "10", "-o", "-"];
        let done = tarproc(&args).done().status(3).stderr(&format!("tarproc: 2 samples; failed 1 (1 {code})"));
        assert_eq!(names(&done.stdout()).len(), 6);
    }
    assert_eq!(names(&tarproc(&["--worker", "cat", "-o", "-"]).ok()).len(), 9);
}

#[test]
fn a_command_that_cannot_work_for_any_sample_ends_the_run() {
    for how in ["-c", "--worker"] {
        let done = tarproc(&[how, "no-such-program", "--retries", "9", "-o", "-"]).done().status(1);
        let said = done.stderr_text();
        assert_eq!(said.matches("no-such-program: command not found").count(), 1, "{said}");
        assert!(
            said.ends_with("tarproc: stdin: train/a: exit_status: command not found (exit status 127)\n"),
            "{said}"
        );
    }
    let no_module = "python3 -c 'import a_module_that_nobody_has'";
    let done = tarproc(&["--worker", no_module, "--retries", "9", "-o", "-"]).done().status(1);
    let said = done.stderr_text();
    assert_eq!(said.matches("Traceback").count(), 3, "{said}");
    let last = "no worker has returned a result in 3 starts; \
                its last line on stderr: ModuleNotFoundError: No module named 'a_module_that_nobody_has'\n";
    assert!(said.ends_with(last), "{said}");
    tarproc(&["-c", "true", "--interpreter", "no-such-shell"])
        .fails(1, "tarproc: --interpreter no-such-shell: command not found");
}

#[test]
fn real_programs_convert_real_pictures_and_films() {
    let folder = dir();
    let script = "set -e
        for i in 0 1 2; do
          /usr/bin/convert -size 64x4$i plasma:red-blue $i.jpg
          ffmpeg -nostdin -v error -f lavfi -i testsrc=size=64x48:rate=5 -t 1 $i.mp4
          echo '{\"width\": 64}' > $i.json
        done
        tar -cf in.tar 0.jpg 0.json 0.mp4 1.jpg 1.json 1.mp4 2.jpg 2.json 2.mp4
        tarproc -p 2 -c '/usr/bin/convert sample.jpg sample.ppm; rm sample.jpg' in.tar -o im.tar
        tarproc -p 2 -c 'gm convert sample.jpg sample.ppm; rm sample.jpg' in.tar -o gm.tar
        tarproc --each mp4:wav.jpg -c 'ffmpeg -nostdin -v error -i - -frames:v 1 -f mjpeg -' in.tar -o ff.tar
        tarproc --each json -c 'jq -c .width' in.tar -o jq.tar
        for f in im gm; do tar -xOf $f.tar 1.ppm > $f.ppm; head -c 9 $f.ppm | tr '\\n' ' '; done
        tar -xOf ff.tar 2.wav.jpg | /usr/bin/identify -format '%wx%h ' -
        tar -xOf jq.tar 0.json
        tar -tf im.tar | tr '\\n' ' '";
    let said = text(bash(script).cwd(folder.path()).ok());
    assert_eq!(said, "P6 64 41 P6 64 41 64x48 64\n0.json 0.mp4 0.ppm 1.json 1.mp4 1.ppm 2.json 2.mp4 2.ppm ");
}

/// Hardened machines mount the memory file system noexec.
#[test]
fn scripts_in_a_sample_directory_run_if_the_tmpfs_is_noexec() {
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), three()).unwrap();
    let mount = "mount -t tmpfs -o noexec,size=2g none /dev/shm";
    let line = "printf \"#!/bin/sh\\\\npwd\\\\n\" > run; chmod +x run; ./run";
    let script = format!("unshare -rm bash -c '{mount} && exec tarproc --count 1 -c \"$LINE\" in.tar'");
    let place = text(bash(&script).env("LINE", &line.replace("\\\\", "\\")).cwd(folder.path()).ok());
    assert!(!place.starts_with("/dev/shm"), "{place}");
}

/// All tools with time limits use the same syntax.
#[test]
fn time_limits_take_units() {
    let archive = Archive::new().file("a.txt", b"x").whole();
    for time in ["90", "90s", "1.5m", "1h"] {
        run("tarproc", ["--timeout", time, "-c", "true", "-o", "-"]).stdin(archive.clone()).ok();
        run("tarvideo", ["--timeout", time, "--no-media", "pass", "--probe"]).stdin(archive.clone()).ok();
        run("fetch", ["--timeout", time]).ok();
    }
    for (time, why) in [("0", "must be more than 0 s"), ("soon", "unknown unit 'soon' (use ms, s, m, h)")] {
        run("tarproc", ["--timeout", time, "-c", "true"]).done().status(2).stderr_has(why);
        run("tarvideo", ["--timeout", time, "--probe"]).done().status(2).stderr_has(why);
    }
}
