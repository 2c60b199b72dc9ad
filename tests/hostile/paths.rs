//! Keys and fields from strangers next to a file system: nothing is made outside of the folder that was named.

use crate::support::{Archive, bash, dir, list, members, run, words};

/// Names that lead elsewhere, or would.
const ELSEWHERE: [&str; 5] = ["../up", "/tmp/tarpipe-abs", "a/../../up", "..", "a/.."];

#[test]
fn extracted_samples_stay_in_their_folder() {
    let folder = dir();
    let archive = ELSEWHERE
        .iter()
        .fold(Archive::new().file("good.txt", b"good"), |archive, name| archive.file(&format!("{name}/x.txt"), b"bad"))
        .entry(b"link.x", tar::EntryType::Symlink, b"")
        .whole();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    for (tool, flags, files) in [
        ("tarshow", "--extract in/shown", "shown"),
        ("tardataset", "--format files --only-shard 7 -o in/set", "set/00007"),
    ] {
        let done = words(tool, flags).cwd(folder.path()).stdin(archive.clone()).done().status(0);
        done.stderr(&format!("{tool}: 1 sample; failed 5 (1 name_absolute, 4 name_parent); dropped 1 (1 link)"));
        let made = list(folder.path().join("in").join(files));
        assert!(made.iter().all(|name| name.starts_with("good.")), "{made:?}");
    }
    assert_eq!(
        (list(folder.path()), list(folder.path().join("in"))),
        (vec!["in".into()], vec!["set".into(), "shown".into()])
    );
}

#[test]
fn samples_on_disk_for_a_command_stay_in_their_directory() {
    let folder = dir();
    let archive = Archive::new().file("a/b/c.x", b"1").file("good.field.with.dots", b"2").whole();
    let out = run(
        "tarproc",
        ["-o", "-", "--tmpdir", ".", "-c", "list=$(find . -type f | sort); echo \"$list\" > sample.list"],
    )
    .cwd(folder.path())
    .stdin(archive)
    .ok();
    let lists: Vec<String> = members(&out)
        .into_iter()
        .filter(|(name, _)| name.ends_with(".list"))
        .map(|(_, data)| String::from_utf8(data).unwrap())
        .collect();
    assert_eq!(lists[0].lines().collect::<Vec<_>>(), ["./__key__", "./__source__", "./sample.x"]);
    assert!(lists[1].contains("./sample.field.with.dots\n"));
    assert!(list(folder.path()).is_empty());
}

#[test]
fn a_command_cannot_name_a_sample_after_another_place() {
    for name in ELSEWHERE {
        let command = format!("printf %s '{name}' > __key__");
        let done = run("tarproc", ["-o", "-", "-c", &command])
            .stdin(Archive::new().file("a.x", b"1").whole())
            .done()
            .status(3);
        done.stderr_has("(1 bad_key)");
    }
}

#[test]
fn new_keys_are_checked_wherever_they_are_made() {
    let folder = dir();
    for name in ELSEWHERE {
        let row = serde_json::json!({"key": name, "url": "http://127.0.0.1:1/x"});
        std::fs::write(folder.path().join("rows.jsonl"), format!("{row}\n")).unwrap();
        let plan = format!("{name}.txt text:x\n");
        for script in [
            "tarcreate --from table --key-col key rows.jsonl",
            "fetch --allow-private --retries 0 --via 'echo {url}' rows.jsonl",
            "tarcreate --from plan -",
        ] {
            let done = bash(script).cwd(folder.path()).stdin(plan.clone()).done();
            let said = done.stderr_text();
            assert!((1..=3).contains(&done.status_code()), "{script}: {name}: {said}");
            assert!(
                ["bad_key", "name_parent", "name_absolute", "bad_name"].iter().any(|code| said.contains(code)),
                "{script}: {name}: {said}"
            );
        }
        let rekey = run("tarcat", ["--rekey", name]).stdin(Archive::new().file("a.x", b"1").whole()).done().status(1);
        rekey.stderr_has("into the invalid key");
    }
}

#[test]
fn temporary_directories_are_for_their_owner_alone() {
    let folder = dir();
    let look = "stat -c %a . .. > sample.mode";
    for flags in [&["-c", look][..], &["--tmpdir", ".", "-c", look]] {
        let archive = Archive::new().file("a.x", b"1").whole();
        let out = run("tarproc", flags).args(["-o", "-"]).cwd(folder.path()).stdin(archive).ok();
        let mode = members(&out).into_iter().find(|(name, _)| name.ends_with(".mode")).unwrap().1;
        assert_eq!(String::from_utf8(mode).unwrap(), "700\n700\n", "{flags:?}");
    }
    let via = "sh -c 'stat -c %a $(dirname $2) > $2' sh {url} {out}";
    let out = run("fetch", ["--allow-private", "--via", via]).stdin("http://127.0.0.1:1/x\n").ok();
    assert_eq!(members(&out)[0].1, b"700\n");
}
