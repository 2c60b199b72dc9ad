//! Outputs: full disks, closed descriptors, names of descriptors, invalid names, and files that are also inputs.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use crate::contracts::{Output, SUBJECTS};
use crate::support::{Archive, TOOLS, TempDir, bash, dir, list, members, run, status, tool};

/// A folder with an archive `in.tar`, a table `in.txt`, and nothing else.
fn folder() -> TempDir {
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), Archive::of_samples(3).whole()).unwrap();
    std::fs::write(folder.path().join("in.txt"), "http://h/1\nhttp://h/2\n").unwrap();
    folder
}

/// Every tool with arguments that make it write to stdout.
fn writers() -> Vec<(&'static str, Vec<&'static str>)> {
    let subjects = SUBJECTS.iter().filter(|subject| subject.output != Output::Shards);
    let samples = subjects.map(|subject| (subject.tool, [subject.flags, &["in.tar"]].concat()));
    let tables = [("urlcat", vec!["in.txt"]), ("urlcat", vec!["--columns", "in.txt"]), ("fetch", vec!["empty"])];
    let help = TOOLS.iter().flat_map(|tool| [(*tool, vec!["--help"]), (*tool, vec!["--version"])]);
    let manuals = TOOLS.iter().map(|tool| (*tool, vec!["--generate", "man"]));
    samples.chain(tables).chain(help).chain(manuals).collect()
}

#[test]
fn every_tool_fails_if_stdout_is_full() {
    let folder = folder();
    std::fs::write(folder.path().join("empty"), "").unwrap();
    for (name, args) in writers() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(tool(name));
        command.args(&args).current_dir(folder.path()).stdin(Stdio::null()).stdout(full);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(status(output.status), 1, "{name} {args:?}: {said}");
        assert!(said.contains("stdout: No space left on device"), "{name} {args:?}: {said}");
    }
}

#[test]
fn a_file_cannot_be_both_input_and_stdout() {
    for (name, command) in [
        ("in.tar", "tarcat in.tar >> in.tar"),
        ("stdin", "tarcat < in.tar >> in.tar"),
        ("stdin", "cat in.tar | tarcat - < in.tar >> in.tar"),
        ("in.tar", "tarcat -o /dev/stdout in.tar >> in.tar"),
        ("in.tar", "tarcat -o /dev/fd/3 in.tar 3>> in.tar"),
        ("in.tar", "tarsort in.tar >> in.tar"),
        ("in.tar", "tarproc -c : -o - in.tar >> in.tar"),
        ("in.txt", "urlcat in.txt >> in.txt"),
    ] {
        let folder = folder();
        let before = std::fs::read(folder.path().join("in.tar")).unwrap();
        let done = bash(&format!("ulimit -f 1000; {command}")).cwd(folder.path()).done().status(1);
        done.stderr_has(&format!("{name}: is also the output (use -o, which replaces a file once it is complete)"));
        assert!(std::fs::read(folder.path().join("in.tar")).unwrap() == before, "{command}");
    }
    let done = bash("tarcat in.tar > in.tar").cwd(folder().path()).done().status(1);
    done.stderr_has("in.tar: is also the output, and the shell has truncated it");
    let folder = folder();
    let before = std::fs::read(folder.path().join("in.tar")).unwrap();
    bash("tarcat -o in.tar in.tar").cwd(folder.path()).ok();
    assert!(std::fs::read(folder.path().join("in.tar")).unwrap() == before);
}

#[test]
fn names_of_descriptors_are_written_to_and_never_replaced() {
    let folder = folder();
    let path = folder.path();
    // A link like /dev/stdout, but in a folder where a bug does no harm.
    std::os::unix::fs::symlink("/proc/self/fd/1", path.join("stdout")).unwrap();
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "./stdout"] {
        std::fs::write(path.join("out"), "before").unwrap();
        let inode = std::fs::metadata(path.join("out")).unwrap().ino();
        bash(&format!("tarcat -o {name} in.tar >> out")).cwd(path).ok();
        let out = std::fs::read(path.join("out")).unwrap();
        assert_eq!(std::fs::metadata(path.join("out")).unwrap().ino(), inode, "{name}");
        assert!(out.starts_with(b"before") && members(&out["before".len()..]).len() == 9, "{name}");
        let piped = bash(&format!("tarcat -o {name} in.tar | cat")).cwd(path).ok();
        assert_eq!(members(&piped).len(), 9, "{name}");
    }
    // Not /dev/stdout itself: a tool with a bug would replace it.
    let gone = "exec 5<>gone; rm gone; tarcat -o ./stdout in.tar >&5; cat < /proc/self/fd/5";
    assert_eq!(members(&bash(gone).cwd(path).ok()).len(), 9);
    assert!(path.join("stdout").is_symlink());
    let kept = "echo before > third; tarcat -o /dev/fd/3 in.tar 3>> third; tail -c +8 third";
    assert_eq!(members(&bash(kept).cwd(path).ok()).len(), 9);
    bash("tarcat -o /dev/fd/9 in.tar").cwd(path).done().status(1).stderr_has("tarcat: /dev/fd/9: ");
    assert_eq!(list(path), ["in.tar", "in.txt", "out", "stdout", "third"]);
}

#[test]
fn an_invalid_output_name_is_refused_before_anything_is_read() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("there")).unwrap();
    // If in.tar were read, the message would be that it is not an archive.
    std::fs::write(folder.path().join("in.tar"), "text").unwrap();
    for (tool, args) in [
        ("tarcat", &["in.tar", "-o"][..]),
        ("tarsort", &["in.tar", "-o"]),
        ("tarjoin", &["--with", "in.txt", "in.tar", "-o"]),
        ("tarproc", &["-c", ":", "in.tar", "-o"]),
        ("tarresize", &["-s", "10", "in.tar", "-o"]),
        ("tarcreate", &["--from", "tar", "in.tar", "-o"]),
        ("tarvideo", &["--probe", "in.tar", "-o"]),
        ("urlcat", &["in.tar", "-o"]),
        ("tarshow", &["in.tar", "-o"]),
        ("tarshow", &["in.tar", "--html"]),
        ("tarshow", &["in.tar", "--sheet"]),
        ("tarcheck", &["in.tar", "--wids"]),
    ] {
        for (name, why) in [
            ("nope/", "names a directory, not a file"),
            ("there", "is a directory"),
            ("there/", "is a directory"),
            ("", "the output name is empty"),
        ] {
            let done = run(tool, args.iter().copied().chain([name])).cwd(folder.path()).done();
            let said = done.stderr_text();
            assert!([1, 2].contains(&done.status_code()), "{tool} {args:?} {name:?}: {said}");
            assert!(said.contains(why), "{tool} {args:?} {name:?}: {said}");
        }
    }
    assert_eq!(list(folder.path()), ["in.tar", "in.txt", "there"]);
}

#[test]
fn a_closed_stdin_or_stdout_is_an_error() {
    let folder = folder();
    std::fs::write(folder.path().join("empty"), "").unwrap();
    for (name, args) in writers() {
        let script = "exec \"$@\" >&-";
        let done = bash(script).args(["-", name]).args(&args).cwd(folder.path()).done();
        let said = done.stderr_text();
        assert_eq!(done.status_code(), 1, "{name} {args:?}: {said}");
        assert!(said.contains("stdout: Bad file descriptor"), "{name} {args:?}: {said}");
    }
    for script in ["tarcat <&-", "urlcat <&-"] {
        bash(script).done().status(1).stderr_has("stdin: Bad file descriptor");
    }
    // Closed descriptors that are not needed do no harm, nor does /dev/null.
    bash("tarcat -o out.tar in.tar <&- >&- 2>&-").cwd(folder.path()).ok();
    assert!(folder.path().join("out.tar").exists());
    bash("tarcat in.tar 1<>/dev/null && tarcheck in.tar > /dev/null").cwd(folder.path()).ok();
}
