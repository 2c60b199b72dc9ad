//! tarcat: every flag, through the binary.

use crate::support::{Archive, TempDir, bash, dir, members, names, run, words};

/// Three archives of five samples: `a/s0`…, `b/s0`…, `c/s0`….
fn three() -> TempDir {
    let folder = dir();
    for part in ["a", "b", "c"] {
        let archive = (0..5).fold(Archive::new(), |archive, i| {
            archive
                .file(&format!("{part}/s{i}.txt"), format!("{part}{i}").as_bytes())
                .file(&format!("{part}/s{i}.json"), format!("{{\"n\": {i}, \"tag\": \"{part}\"}}").as_bytes())
        });
        std::fs::write(folder.path().join(format!("{part}.tar")), archive.whole()).unwrap();
    }
    folder
}

/// The keys in the output, in order.
fn keys(folder: &TempDir, args: &str) -> String {
    let out = words("tarcat", args).cwd(folder.path()).ok();
    let mut keys: Vec<String> = names(&out).iter().map(|name| name.split('.').next().unwrap().to_owned()).collect();
    keys.dedup();
    keys.join(" ")
}

#[test]
fn sources_are_read_in_order_from_lists_ranges_and_files() {
    let folder = three();
    let all = "a/s0 a/s1 a/s2 a/s3 a/s4 b/s0 b/s1 b/s2 b/s3 b/s4";
    assert_eq!(keys(&folder, "a.tar b.tar"), all);
    assert_eq!(keys(&folder, "{a,b}.tar"), all);
    assert_eq!(keys(&folder, "a.tar::b.tar"), all);
    std::fs::write(folder.path().join("list"), "a.tar\n\nb.tar\n").unwrap();
    assert_eq!(keys(&folder, "-T list"), all);
    assert_eq!(keys(&folder, "file:a.tar file:./b.tar"), all);
}

#[test]
fn slices_select_samples_and_sources() {
    let folder = three();
    assert_eq!(keys(&folder, "--slice 1:8:3 {a,b}.tar"), "a/s1 a/s4 b/s2");
    assert_eq!(keys(&folder, "--skip 3 --count 3 {a,b}.tar"), "a/s3 a/s4 b/s0");
    assert_eq!(keys(&folder, "--shard-slice 1:3 --count 6 {a,b,c}.tar"), "b/s0 b/s1 b/s2 b/s3 b/s4 c/s0");
    assert_eq!(keys(&folder, "--count 0 a.tar"), "");
    assert_eq!(keys(&folder, "--count 1 a.tar nosuch.tar"), "a/s0");
}

#[test]
fn parts_take_sources_or_the_samples_of_a_single_source() {
    let folder = three();
    assert_eq!(keys(&folder, "--shard 1/2 {a,b,c}.tar"), "b/s0 b/s1 b/s2 b/s3 b/s4");
    assert_eq!(keys(&folder, "--shard 0/2 a.tar"), "a/s0 a/s2 a/s4");
    assert_eq!(keys(&folder, "--shard 1/2 a.tar"), "a/s1 a/s3");
    let env = words("tarcat", "--shard env a.tar").cwd(folder.path()).env("TARPIPE_SHARD", "4/5").ok();
    assert_eq!(names(&env), ["a/s4.txt", "a/s4.json"]);
    words("tarcat", "--shard 2/2 a.tar").cwd(folder.path()).done().status(2);
}

#[test]
fn a_part_from_an_array_with_gaps_is_refused() {
    let folder = three();
    let array = |id: &str, first: &str, last: &str, count: &str| {
        let run = words("tarcat", "--shard env a.tar").cwd(folder.path()).env("SLURM_ARRAY_TASK_ID", id);
        let run = run.env("SLURM_ARRAY_TASK_MIN", first).env("SLURM_ARRAY_TASK_MAX", last);
        run.env("SLURM_ARRAY_TASK_COUNT", count)
    };
    assert_eq!(names(&array("2", "1", "5", "5").ok()), ["a/s1.txt", "a/s1.json"]);
    // sbatch --array=3,5
    let done = array("3", "3", "5", "2").done().status(2);
    done.stderr_has("an array of 2 tasks from 3 to 5 does not tell how many parts there are")
        .stderr_has("TARPIPE_SHARD");
    assert_eq!(names(&array("3", "3", "5", "2").env("TARPIPE_SHARD", "3/5").ok()), ["a/s3.txt", "a/s3.json"]);
    let done =
        words("tarcat", "--shard env a.tar").cwd(folder.path()).env("JOB_COMPLETION_INDEX", "0").done().status(2);
    done.stderr_has("JOB_COMPLETION_INDEX without JOB_COMPLETIONS");
    let done = words("tarcat", "--shard env a.tar").cwd(folder.path()).env("TARPIPE_SHARD", "5/5").done().status(2);
    done.stderr_has("TARPIPE_SHARD: part 5 of 5: parts are counted from 0");
}

#[test]
fn select_sees_keys_and_contents() {
    let folder = three();
    let select = |expr: &str| {
        let out = run("tarcat", ["--select", expr, "a.tar", "b.tar"]).cwd(folder.path()).ok();
        names(&out).iter().filter_map(|name| name.strip_suffix(".txt")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(select("json.n >= 3"), "a/s3 a/s4 b/s3 b/s4");
    assert_eq!(select("json.tag == 'b' && json.n < 2"), "b/s0 b/s1");
    assert_eq!(select("key.glob('a/*') && txt == 'a2'"), "a/s2");
    assert_eq!(select("key.matches('[ab]/s4$')"), "a/s4 b/s4");
    assert_eq!(select("'txt' in fields && sample['json'].n == 0"), "a/s0 b/s0");
    assert_eq!(select("has(sample.jpg)"), "");
}

#[test]
fn a_sample_for_which_the_expression_fails_is_counted_under_a_code() {
    let folder = three();
    let done = words("tarcat", "--select json.width>1 a.tar").cwd(folder.path()).done().status(3);
    done.stderr("tarcat: 0 samples; failed 5 (5 select)");
    let done = words("tarcat", "--select json.n>>1 a.tar").cwd(folder.path()).done().status(2);
    done.stderr_has("tarcat: invalid value 'json.n>>1' for '--select <EXPR>'");
}

#[test]
fn fields_are_kept_renamed_and_dropped() {
    let folder = three();
    let out = run("tarcat", ["-f", "meta=yaml;json label=cls", "--count", "1", "a.tar"]).cwd(folder.path()).ok();
    assert_eq!(names(&out), ["a/s0.meta"]);
    let out = run("tarcat", ["--drop", "json jpg", "--count", "2", "a.tar"]).cwd(folder.path()).ok();
    assert_eq!(names(&out), ["a/s0.txt", "a/s1.txt"]);
    let done = run("tarcat", ["-f", "jpg", "a.tar"]).cwd(folder.path()).done().status(3);
    done.stderr("tarcat: 0 samples; failed 5 (5 no_field)");
}

#[test]
fn unchanged_members_keep_their_headers_and_changed_ones_get_new_ones() {
    let folder = three();
    let script = "tarcat -f 'txt meta=json' --count 1 a.tar | tar tv | cut -c1-30";
    let out = String::from_utf8(bash(script).cwd(folder.path()).ok()).unwrap();
    assert_eq!(out.lines().map(|line| &line[..10]).collect::<Vec<_>>(), ["-rw-r-----", "-r--r--r--"]);
    assert!(out.lines().nth(1).unwrap().contains("bigdata/bigdata"), "{out}");
}

#[test]
fn rekey_makes_new_keys() {
    let folder = three();
    assert_eq!(keys(&folder, "--rekey x{index:03} --count 2 a.tar"), "x000 x001");
    assert_eq!(keys(&folder, "--rekey s,/s,-, --count 2 a.tar"), "a-0 a-1");
    let done = words("tarcat", "--rekey {key}.x a.tar").cwd(folder.path()).done().status(1);
    done.stderr("tarcat: --rekey turns a/s0 into the invalid key a/s0.x: its base name has no field after a dot");
    let done = words("tarcat", "--rekey same a.tar").cwd(folder.path()).done().status(1);
    done.stderr("tarcat: a.tar: sample same: the previous sample has the same key (use tarcat --rekey '{index:09}')");
    words("tarcat", "--rekey {shard} a.tar").cwd(folder.path()).done().status(2).stderr_has("known: index, key, base");
}

#[test]
fn samples_with_the_same_key_in_adjacent_sources_are_not_merged() {
    let folder = dir();
    std::fs::write(folder.path().join("x.tar"), Archive::new().file("k.txt", b"1").whole()).unwrap();
    std::fs::write(folder.path().join("y.tar"), Archive::new().file("k.jpg", b"2").whole()).unwrap();
    let done = words("tarcat", "x.tar y.tar").cwd(folder.path()).done().status(1);
    done.stderr_has("tarcat: y.tar: sample k: the previous sample has the same key");
}

#[test]
fn a_shuffle_repeats_with_its_seed_and_loses_no_sample() {
    let folder = three();
    let shuffled = |args: &str| keys(&folder, &format!("--shuffle 6 {args} {{a,b,c}}.tar"));
    let one = shuffled("--seed 1");
    assert_eq!(one, shuffled("--seed 1"));
    assert_ne!(one, shuffled("--seed 2"));
    let sort = |keys: &str| {
        let mut keys: Vec<String> = keys.split(' ').map(str::to_owned).collect();
        keys.sort();
        keys
    };
    let plain = keys(&folder, "{a,b,c}.tar");
    assert_ne!(one, plain);
    assert_eq!(sort(&one), sort(&plain));
}

#[test]
fn sources_are_mixed_in_turn_and_by_weight() {
    let folder = three();
    assert_eq!(keys(&folder, "--mix 2 --count 6 {a,b,c}.tar"), "a/s0 b/s0 a/s1 b/s1 a/s2 b/s2");
    let all = keys(&folder, "--mix 2 {a,b,c}.tar");
    assert!(all.ends_with("a/s4 b/s4 c/s0 c/s1 c/s2 c/s3 c/s4"), "{all}");
    let weighted = keys(&folder, "--weights 1000,1 --seed 3 a.tar {b,c}.tar");
    assert!(weighted.starts_with("a/s0 a/s1 a/s2"), "{weighted}");
    assert_eq!(weighted.split(' ').count(), 15);
    let done = words("tarcat", "--weights 1 a.tar b.tar").cwd(folder.path()).done().status(2);
    done.stderr("tarcat: --weights has 1 numbers for 2 arguments");
}

#[test]
fn max_bad_tolerates_damaged_sources() {
    let folder = three();
    let whole = std::fs::read(folder.path().join("b.tar")).unwrap();
    std::fs::write(folder.path().join("b.tar"), &whole[..3000]).unwrap();
    let out = words("tarcat", "--max-bad 2 a.tar b.tar nosuch.tar c.tar").cwd(folder.path()).done().status(0);
    let out = out.stderr(
        "tarcat: b.tar: byte 3000: the input ends in the padding of a member; continuing with the next source\n\
         tarcat: nosuch.tar: No such file or directory; continuing with the next source\n\
         tarcat: 11 samples; failed 2 (2 damaged)",
    );
    assert_eq!(members(&out.stdout()).len(), 22);
    let done = words("tarcat", "--max-bad 1 b.tar nosuch.tar").cwd(folder.path()).done().status(1);
    done.stderr_has("tarcat: nosuch.tar: No such file or directory");
}

#[test]
fn an_archive_is_never_written_to_a_terminal() {
    let folder = three();
    let script = "script -qec 'tarcat a.tar' /dev/null; echo $?";
    let out = String::from_utf8(bash(script).cwd(folder.path()).ok()).unwrap();
    assert_eq!(out.replace('\r', ""), "tarcat: stdout is a terminal: use -o FILE or a pipe\n2\n");
}

#[test]
fn verbose_prints_a_summary_and_quiet_prints_nothing() {
    let folder = three();
    words("tarcat", "-v -o x.tar a.tar").cwd(folder.path()).done().status(0).stderr("tarcat: 5 samples");
    let archive = Archive::new().entry(b"d/", tar::EntryType::Directory, b"").file("a.txt", b"a").whole();
    words("tarcat", "-q").stdin(archive).ok();
}

#[test]
fn keys_are_looked_up_in_texts_tables_and_arrays() {
    let folder = dir();
    let uid = |i: u64| format!("{:016x}{:016x}", i * 7, i + (1 << 63));
    let archive = (0..6).fold(Archive::new(), |archive, i| {
        archive.file(&format!("s{i}.json"), format!("{{\"uid\": \"{}\", \"n\": {i}}}", uid(i)).as_bytes())
    });
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("in.tar", &archive.whole());
    write("keys", b"s4\r\n\ns1\nnobody");
    write("keys.csv", b"n,key,uid\n4,s4,x\n1,s1,y\n");
    write("keys.jsonl", b"{\"key\": \"s1\"}\n{\"key\": null}\n{\"other\": 1, \"key\": \"s4\"}\n");
    let mut array = b"\x93NUMPY\x01\x00".to_vec();
    let header = "{'descr': [('f0', '<u8'), ('f1', '<u8')], 'fortran_order': False, 'shape': (2,), }\n";
    array.extend_from_slice(&(header.len() as u16).to_le_bytes());
    array.extend_from_slice(header.as_bytes());
    for i in [4_u64, 1] {
        array.extend_from_slice(&(i * 7).to_le_bytes());
        array.extend_from_slice(&(i + (1 << 63)).to_le_bytes());
    }
    write("uids.npy", &array);
    write("cut.npy", &array[..array.len() - 1]);
    let text = b"{'descr': '<U2', 'fortran_order': False, 'shape': (2,), }\n";
    let chars = "s1s4".chars().flat_map(|c| u32::from(c).to_le_bytes());
    let start = b"\x93NUMPY\x01\x00".iter().copied().chain((text.len() as u16).to_le_bytes());
    write("text.npy", &start.chain(text.iter().copied()).chain(chars).collect::<Vec<u8>>());
    for list in [
        "keys",
        "keys.csv",
        "keys.jsonl",
        "text.npy",
        "pipe:cat keys",
        "uids.npy --on json.uid",
        "keys.csv --on json.n",
    ] {
        let (list, more) = list.split_once(" --on ").unwrap_or((list, "key"));
        let run_with = |flag| run("tarcat", [flag, list, "--on", more, "in.tar"]).cwd(folder.path()).ok();
        assert_eq!(names(&run_with("--keys")), ["s1.json", "s4.json"], "{list}");
        assert_eq!(names(&run_with("--not-keys")), ["s0.json", "s2.json", "s3.json", "s5.json"], "{list}");
    }
    let both = ["--keys", "keys", "--not-keys", "keys.csv", "in.tar"];
    assert!(names(&run("tarcat", both).cwd(folder.path()).ok()).is_empty());
    for (list, said) in [("cut.npy", "cut.npy: the array ends early"), ("gone", "gone: No such file")] {
        run("tarcat", ["--keys", list, "in.tar"]).cwd(folder.path()).done().status(1).stderr_has(said);
    }
    let done = run("tarcat", ["--keys", "keys.csv", "--on", "json.id", "in.tar"]).cwd(folder.path()).done();
    done.status(1).stderr_has("keys.csv: no column 'id' (urlcat --columns shows the columns)");
    run("tarcat", ["--on", "json.uid", "in.tar"])
        .cwd(folder.path())
        .fails(2, "tarcat: --on needs --keys or --not-keys");
    run("tarcat", ["--keys", "-", "-"]).done().status(2).stderr_has("stdin can be read only once");
}
