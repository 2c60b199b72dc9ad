//! Nothing left: descriptors, processes, disk, readers. A tool then fails in words, loses no sample and leaves nothing behind.
//! `scripts/test --faults` looks for more of this kind; here is what it found.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::web::{Web, reply};
use crate::support::{Archive, bash, dir, list, names, run, tool};

/// A tool with a limit on open files.
fn with_files(most: u32, tool_and_args: &str) -> String {
    let (name, args) = tool_and_args.split_once(' ').unwrap();
    format!("prlimit --nofile={most}:{most} {} {args}", tool(name).display())
}

fn folder_with_input(samples: usize) -> crate::support::TempDir {
    let folder = dir();
    std::fs::create_dir(folder.path().join("tmp")).unwrap();
    std::fs::write(folder.path().join("in.tar"), Archive::of_samples(samples).whole()).unwrap();
    folder
}

#[test]
fn tarproc_blames_no_sample_for_a_machine_that_is_exhausted() {
    let folder = folder_with_input(6);
    let (tmp, out) = (folder.path().join("tmp"), folder.path().join("out.tar"));
    for way in ["-c true", "--each cls -c cat", "--worker cat", "--fast-shell -c true"] {
        for most in 5..26 {
            let script = with_files(most, &format!("tarproc -p 2 --tmpdir tmp {way} in.tar -o out.tar"));
            let done = bash(&script).cwd(folder.path()).done();
            let said = format!("{script}: {}", done.stderr_text());
            assert!(!said.contains("panicked"), "{said}");
            assert_eq!(list(&tmp), [""; 0], "{said}");
            if done.status_code() == 0 {
                done.stderr("");
                assert_eq!(names(&std::fs::read(&out).unwrap()).len(), 6 * FIELDS, "{said}");
                std::fs::remove_file(&out).unwrap();
            } else {
                done.status(1).stderr_has("Too many open files");
            }
            assert_eq!(list(folder.path()), ["in.tar", "tmp"], "{said}");
        }
    }
}

/// Of the samples that [`Archive::of_samples`] makes.
const FIELDS: usize = 3;

#[test]
fn fetch_says_how_many_files_it_needs_and_lives_with_those() {
    let web = Web::start(|_, wire| reply(wire, "200 OK", "", b"\xff\xd8\xff some bytes"));
    let folder = dir();
    let rows: String = (0..80).map(|i| format!("{}/{i}.jpg\n", web.url)).collect();
    std::fs::write(folder.path().join("rows"), rows).unwrap();
    for most in [6, 8, 10, 12, 14, 20, 31] {
        let done = bash(&with_files(most, "fetch -j 64 --per-host 64 --allow-private rows -o out.tar"));
        let done = done.cwd(folder.path()).done().status(1);
        assert!(!done.stderr_text().contains("panicked"), "{most}: {}", done.stderr_text());
        assert_eq!(list(folder.path()), ["rows"], "{most}");
    }
    for most in [32, 40, 64] {
        bash(&with_files(most, "fetch -j 64 --per-host 64 --allow-private rows -o out.tar")).cwd(folder.path()).ok();
        assert_eq!(names(&std::fs::read(folder.path().join("out.tar")).unwrap()).len(), 160, "{most}");
    }
}

#[test]
fn a_report_that_does_not_fit_says_so_in_every_format() {
    let folder = dir();
    std::fs::create_dir(folder.path().join("out")).unwrap();
    for name in ["full.jsonl", "full.csv", "full.parquet", "out/00000.parquet"] {
        std::os::unix::fs::symlink("/dev/full", folder.path().join(name)).unwrap();
    }
    let said = |tool: &str, name: &str| format!("{tool}: {name}: No space left on device");
    for name in ["full.jsonl", "full.csv", "full.parquet"] {
        let fetch = run("fetch", ["--report", name, "-o", "out.tar"]).cwd(folder.path());
        fetch.stdin("http://127.0.0.1/x\n").fails(1, &said("fetch", name));
    }
    let table = run("tardataset", ["-o", "out", "--only-shard", "0"]).cwd(folder.path());
    table.stdin(Archive::of_samples(2).whole()).fails(1, &said("tardataset", "out/00000.parquet"));
}

#[test]
fn fetch_runs_as_many_programs_as_there_are_files_for() {
    let folder = dir();
    let rows: String = (0..40).map(|i| format!("http://127.0.0.1/{i}\n")).collect();
    std::fs::write(folder.path().join("rows"), rows).unwrap();
    for most in [32, 40, 64] {
        let flags = "-j 64 --per-host 64 --allow-private --via 'sh -c \"sleep 0.02; echo x\" {url}'";
        bash(&with_files(most, &format!("fetch {flags} rows -o out.tar"))).cwd(folder.path()).ok();
        assert_eq!(names(&std::fs::read(folder.path().join("out.tar")).unwrap()).len(), 80, "{most}");
    }
}

#[test]
fn fetch_blames_no_row_for_a_program_that_does_not_start() {
    let folder = dir();
    let path = folder.path();
    std::fs::write(path.join("plain"), "echo x\n").unwrap();
    std::fs::write(path.join("lost"), "#!/no/such/interpreter\n").unwrap();
    bash("chmod +x lost").cwd(path).ok();
    let none = |program| format!("{program}: no such executable; use a path or a program on the PATH");
    for (program, said) in [
        ("nosuchprogram", none("nosuchprogram")),
        ("./plain", none("./plain")),
        (".", none(".")),
        ("./lost", "cannot start ./lost: No such file or directory".to_owned()),
    ] {
        let via = format!("{program} {{url}}");
        let args = ["--allow-private", "--via", &via, "--report", "r.jsonl", "-o", "out.tar"];
        let rows = "http://127.0.0.1/a\nhttp://127.0.0.1/b\n";
        run("fetch", args).cwd(path).stdin(rows).fails(1, &format!("fetch: --via: {said}"));
        assert!(!path.join("out.tar").exists(), "{program}");
    }
    // What was not done can be asked for again.
    let report = std::fs::read_to_string(path.join("r.jsonl")).unwrap();
    assert_eq!(report.matches(r#""code":"interrupted""#).count(), 2, "{report}");
}

/// Root has no limit on processes: another user runs the tool. Without root there is nobody to be.
#[test]
fn fetch_blames_no_row_for_a_lack_of_processes() {
    if bash("id -u").ok() != b"0\n" {
        return;
    }
    let folder = dir();
    let path = folder.path();
    std::fs::copy(tool("fetch"), path.join("fetch")).unwrap();
    bash("chmod 755 . fetch; mkdir -m 777 tmp").cwd(path).ok();
    let rows: String = (0..64).map(|i| format!("http://127.0.0.1/{i}\n")).collect();
    let user = "setpriv --reuid=61247 --clear-groups prlimit --nproc=30:30";
    let flags = "-j 64 --per-host 64 --allow-private --via 'sh -c \"exec sleep 300\" {url}'";
    let done = bash(&format!("TMPDIR=$PWD/tmp {user} ./fetch {flags}")).cwd(path).stdin(rows).done();
    done.status(1).stderr("fetch: --via: cannot start sh: Resource temporarily unavailable");
    assert_eq!(list(path.join("tmp")), [""; 0]);
    // Some may be dying, or wait for init to take notice of their end.
    bash("for i in {1..1200}; do ps -u 61247 -o stat= | grep -qv ^Z || exit 0; sleep 0.05; done; exit 1").ok();
}

/// What a stage leaves in its temporary folder when its output fails first, last, or not at all.
#[test]
fn a_failed_output_leaves_no_scratch_behind() {
    let folder = folder_with_input(3);
    let tmp = folder.path().join("tmp");
    for script in [
        "tarproc --tmpdir tmp -c true in.tar -o /proc/nope/x",
        "tarproc --tmpdir tmp -c true in.tar -o /dev/full",
        "tarproc --tmpdir tmp -c true in.tar --failed /proc/nope/x -o out.tar",
        "tarproc --tmpdir tmp -c true in.tar -o - | true",
        "tarvideo --tmpdir tmp --probe --no-media pass in.tar -o /dev/full",
        "tarvideo --tmpdir tmp --probe --no-media pass in.tar -o - | true",
    ] {
        bash(&format!("{script}; true")).cwd(folder.path()).done();
        assert_eq!(list(&tmp), [""; 0], "{script}");
    }
}

#[test]
fn the_scratch_of_a_dead_process_that_nobody_waited_for_is_garbage() {
    let folder = folder_with_input(3);
    let mut zombie = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
    let stat = format!("/proc/{}/stat", zombie.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let host = host(folder.path());
    std::fs::create_dir(folder.path().join(format!("tmp/tarproc-{host}-{}-0", zombie.id()))).unwrap();
    run("tarproc", ["--tmpdir", "tmp", "-c", "true", "in.tar", "-o", "out.tar"]).cwd(folder.path()).ok();
    assert_eq!(list(folder.path().join("tmp")), [""; 0]);
    zombie.wait().unwrap();
}

/// The name of this machine as tools write it into names.
fn host(folder: &Path) -> String {
    let script = "basename $(tarproc --tmpdir tmp -c pwd --count 1 in.tar | xargs dirname)";
    let name = bash(script).cwd(folder).done().status(0).stdout_text();
    name.split('-').nth(1).unwrap().to_owned()
}

#[test]
fn a_store_without_descriptors_is_told_in_words() {
    let folder = folder_with_input(2);
    for most in 5..20 {
        let script = with_files(most, "tarcat in.tar -o s3://test/out.tar --endpoint http://127.0.0.1:9");
        let keys = "AWS_ACCESS_KEY_ID=k AWS_SECRET_ACCESS_KEY=s AWS_MAX_ATTEMPTS=1";
        let done = bash(&format!("{keys} {script}")).cwd(folder.path()).done().status(1);
        assert!(!done.stderr_text().contains("panicked"), "{most}: {}", done.stderr_text());
    }
}
