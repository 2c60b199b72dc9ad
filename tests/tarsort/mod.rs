//! tarsort: every order, in memory, spilled to disk, and by offset.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use crate::support::{Archive, archives, bash, dir, list, members, names, run, status, words};

/// Keys in the order of the output of `tarsort ARGS`, with the archive on stdin.
fn keys(args: &str, archive: &[u8]) -> Vec<String> {
    first_of_each(&words("tarsort", args).stdin(archive).ok())
}

fn first_of_each(out: &[u8]) -> Vec<String> {
    let mut keys: Vec<String> = names(out).iter().map(|name| name.split('.').next().unwrap().to_owned()).collect();
    keys.dedup();
    keys
}

/// The same through stdin, through stdin with spills, and by offset: all must agree.
fn every_way(args: &str, archive: &[u8]) -> Vec<u8> {
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), archive).unwrap();
    let held = words("tarsort", args).stdin(archive).ok();
    let spilled = words("tarsort", &format!("{args} --memory 0")).stdin(archive).ok();
    let packed = words("tarsort", &format!("{args} --memory 0 --compress-spill")).stdin(archive).ok();
    let placed = words("tarsort", &format!("{args} --memory 0 in.tar")).cwd(folder.path()).ok();
    assert!(held == spilled, "{args}: spilled");
    assert!(held == packed, "{args}: spilled, compressed");
    assert!(held == placed, "{args}: by place");
    held
}

/// 3 MB of samples with unordered keys: more than fits into the least memory.
fn large() -> Vec<u8> {
    let archive = (0..1500_u64).fold(Archive::new(), |archive, i| {
        let key = format!("part{}/s{:05}", i % 3, i * 7919 % 1500);
        let json = format!("{{\"width\": {}, \"tag\": \"t{}\"}}", i * 31 % 977, i % 40);
        archive
            .file(&format!("{key}.jpg"), &archives::noise(i, 900 + i as usize % 900))
            .file(&format!("{key}.json"), json.as_bytes())
            .file(&format!("{key}.cls"), (i % 12).to_string().as_bytes())
    });
    archive.whole()
}

#[test]
fn every_order_is_the_same_in_memory_spilled_and_by_offset() {
    let archive = large();
    let mut expected = members(&archive);
    expected.sort();
    for args in ["", "--reverse", "-k json.width", "-k json.tag --reverse", "-k cls -n", "-k cls", "--shuffle --seed 5"]
    {
        let mut out = members(&every_way(args, &archive));
        out.sort();
        assert!(out == expected, "{args}: members were lost or changed");
    }
}

#[test]
fn keys_sort_by_their_bytes() {
    let archive = Archive::new().file("b/2.txt", b"").file("b/10.txt", b"").file("a.txt", b"").file("B.txt", b"");
    let archive = archive.file("ä.txt", b"").file("a-1.txt", b"").whole();
    assert_eq!(keys("", &archive), ["B", "a", "a-1", "b/10", "b/2", "ä"]);
    assert_eq!(keys("-r", &archive), ["ä", "b/2", "b/10", "a-1", "a", "B"]);
}

#[test]
fn fields_sort_as_text_or_as_numbers_and_equal_ones_stay_in_order() {
    let values = ["10", "9", "-1", "9", "2.5", "cat"];
    let archive = values.iter().enumerate().fold(Archive::new(), |archive, (i, value)| {
        archive.file(&format!("s{i}.cls"), value.as_bytes()).file(&format!("s{i}.txt"), b"same")
    });
    let archive = archive.whole();
    assert_eq!(keys("-k cls", &archive), ["s2", "s0", "s4", "s1", "s3", "s5"]);
    assert_eq!(keys("-k txt", &archive), ["s0", "s1", "s2", "s3", "s4", "s5"]);
    assert_eq!(keys("-k txt -r", &archive), ["s0", "s1", "s2", "s3", "s4", "s5"]);
    let note = "tarsort: 1 of 6 samples have no number at cls; they sort last";
    let sorted = |args: &str| {
        let out = words("tarsort", args).stdin(archive.clone()).done().status(0).stderr(note).stdout();
        first_of_each(&out)
    };
    assert_eq!(sorted("-k cls --numeric"), ["s2", "s4", "s1", "s3", "s0", "s5"]);
    assert_eq!(sorted("-k cls --numeric --reverse"), ["s0", "s1", "s3", "s4", "s2", "s5"]);
}

#[test]
fn values_of_json_sort_by_their_type() {
    let values = ["\"b\"", "10", "9", "true", "\"a\"", "null", "1e1", "9007199254740993", "9007199254740992"];
    let archive = values.iter().enumerate().fold(Archive::new(), |archive, (i, value)| {
        archive.file(&format!("s{i}.meta.json"), format!("{{\"a\": [{{\"b\": {value}}}]}}").as_bytes())
    });
    let archive = archive.file("s9.meta.json", b"{").whole();
    let note = "tarsort: 2 of 10 samples have no value at meta.json.a.0.b; they sort last";
    let out = words("tarsort", "-k meta.json.a.0.b").stdin(archive).done().status(0).stderr(note).stdout();
    assert_eq!(first_of_each(&out), ["s3", "s2", "s1", "s6", "s8", "s7", "s4", "s0", "s5", "s9"]);
}

#[test]
fn a_duplicate_key_is_refused_or_kept_once_or_grouped() {
    let archive = Archive::new().file("b.txt", b"1").file("a.txt", b"2").file("b.jpg", b"3").whole();
    let refusal = "sample b: duplicate key; use --unique to keep the first, or --group to merge them";
    for memory in ["1G", "0"] {
        let done = run("tarsort", ["--memory", memory]).stdin(archive.clone());
        done.fails(1, &format!("tarsort: stdin: {refusal}"));
    }
    let unique = run("tarsort", ["--unique"]).stdin(archive.clone()).done().status(0);
    let unique = unique.stderr("tarsort: 2 samples; dropped 1 (1 duplicate)").stdout();
    assert_eq!(names(&unique), ["a.txt", "b.txt"]);
    assert_eq!(names(&every_way("--group", &archive)), ["a.txt", "b.txt", "b.jpg"]);
}

#[test]
fn adjacent_samples_with_the_same_key_are_refused_in_every_order() {
    let archive = Archive::new().file("b.cls", b"1").file("a.cls", b"2").file("b.txt", b"").file("b.cls", b"1").whole();
    let refusal = "sample b: the previous sample has the same key (use tarcat --rekey '{index:09}')";
    for memory in ["1G", "0"] {
        let done = run("tarsort", ["-k", "cls", "--memory", memory]).stdin(archive.clone());
        done.fails(1, &format!("tarsort: stdin: {refusal}"));
    }
    let apart = Archive::new().file("b.cls", b"1").file("a.cls", b"2").file("b.cls", b"3").whole();
    assert_eq!(names(&every_way("-k cls", &apart)), ["b.cls", "a.cls", "b.cls"]);
}

#[test]
fn unique_keeps_equal_content_once() {
    let archive = Archive::new().file("a.txt", b"x").file("b.txt", b"y").file("c.txt", b"x");
    let archive = archive.file("d.jpg", b"").file("e.jpg", b"").whole();
    let note = "tarsort: 2 of 5 samples have no value at txt; they sort last";
    let done = words("tarsort", "-k txt -u").stdin(archive).done().status(0);
    let done = done.stderr(&format!("{note}\ntarsort: 4 samples; dropped 1 (1 duplicate)"));
    assert_eq!(first_of_each(&done.stdout()), ["a", "b", "d", "e"]);
}

#[test]
fn grouping_many_scattered_members_makes_whole_samples() {
    let fields = ["jpg", "cls", "json"];
    let archive = fields.iter().fold(Archive::new(), |archive, field| {
        (0..700_u64).fold(archive, |archive, i| {
            archive.file(&format!("s{:04}.{field}", i * 311 % 700), &archives::noise(i, 700))
        })
    });
    let out = every_way("--group", &archive.whole());
    let expected: Vec<String> = (0..700).flat_map(|i| fields.map(|field| format!("s{i:04}.{field}"))).collect();
    assert_eq!(names(&out), expected);
}

#[test]
fn a_duplicate_field_in_a_group_is_an_error() {
    let archive = Archive::new().file("a.txt", b"1").file("b.txt", b"2").file("a.TXT", b"3").whole();
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), &archive).unwrap();
    let said = "sample a: field TXT appears twice (duplicate_field)";
    run("tarsort", ["--group"]).stdin(archive).fails(1, &format!("tarsort: stdin: {said}"));
    run("tarsort", ["--group", "in.tar"]).cwd(folder.path()).fails(1, &format!("tarsort: in.tar: {said}"));
}

/// Chi-square statistic of counts that should all be equal.
fn chi_square(counts: &[u64]) -> f64 {
    let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    counts.iter().map(|&n| (n as f64 - mean).powi(2) / mean).sum()
}

#[test]
fn a_shuffle_is_uniform_even_if_it_spills() {
    let n = 3600;
    let archive = (0..n).fold(Archive::new(), |archive, i| archive.file(&format!("{i:05}.bin"), &[0; 512])).whole();
    for args in ["--shuffle --seed 1 --memory 0", "--shuffle --seed 2"] {
        let order: Vec<usize> = keys(args, &archive).iter().map(|key| key.parse().unwrap()).collect();
        // Counts of moves from each sixth to each sixth: 25 degrees of freedom; 52.6 is 1 in 1000.
        let mut moves = [0; 36];
        let mut place = vec![0; n];
        for (to, &from) in order.iter().enumerate() {
            moves[from * 6 / n * 6 + to * 6 / n] += 1;
            place[from] = to;
        }
        assert!(chi_square(&moves) < 52.6, "{args}: {moves:?}");
        // Counts of the 6 orders of three neighbors: 5 degrees of freedom; 20.5 is 1 in 1000.
        let mut orders: BTreeMap<_, u64> = BTreeMap::new();
        for three in place.chunks_exact(3) {
            *orders.entry([three[0] < three[1], three[1] < three[2], three[0] < three[2]]).or_default() += 1;
        }
        let counts: Vec<u64> = orders.into_values().collect();
        assert!(counts.len() == 6 && chi_square(&counts) < 20.5, "{args}: {counts:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_order_with_any_memory() {
    let archive = large();
    let one = every_way("--shuffle --seed 7", &archive);
    assert!(one == words("tarsort", "--shuffle --seed 7").stdin(archive.clone()).ok());
    assert!(one != words("tarsort", "--shuffle --seed 8").stdin(archive).ok());
}

#[test]
fn other_members_and_global_headers_do_not_disturb_sorting_by_offset() {
    let pax = |kind: u8, records: &[u8]| {
        let archive = Archive::new().entry(b"pax", tar::EntryType::new(kind), records);
        archive.cut()
    };
    let folder = dir();
    let plain = Archive::new()
        .file("b.txt", b"1")
        .entry(b"folder/", tar::EntryType::Directory, b"")
        .file("b.jpg", b"2")
        .file("a.txt", b"3")
        .whole();
    let global = [pax(b'g', b"20 mtime=1500000000\n"), Archive::new().file("d.txt", b"4").file("c.txt", b"5").whole()];
    std::fs::write(folder.path().join("plain.tar"), plain).unwrap();
    std::fs::write(folder.path().join("global.tar"), global.concat()).unwrap();
    let done = words("tarsort", "plain.tar global.tar").cwd(folder.path()).done().status(0);
    let out = done.stderr("tarsort: 4 samples; dropped 1 (1 directory)").stdout();
    assert_eq!(names(&out), ["a.txt", "b.txt", "b.jpg", "c.txt", "d.txt"]);
    let times = bash("tar --utc -tvf - d.txt").stdin(out).done().status(0).stdout_text();
    assert!(times.contains("2017-07-14"), "{times}");
}

#[test]
fn samples_over_the_limit_are_counted_in_both_ways_of_sorting() {
    let archive = Archive::new().file("b.bin", &[1; 5000]).file("a.bin", &[1; 10]).whole();
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), &archive).unwrap();
    for source in ["-", "in.tar"] {
        let done = run("tarsort", ["--max-sample", "1K", source]).cwd(folder.path()).stdin(archive.clone()).done();
        let out = done.status(0).stderr("tarsort: 1 sample; failed 1 (1 too_large)").stdout();
        assert_eq!(names(&out), ["a.bin"]);
    }
}

#[test]
fn spills_are_no_larger_than_the_stream_and_are_removed() {
    let folder = dir();
    let archive = large();
    std::fs::create_dir(folder.path().join("tmp")).unwrap();
    std::fs::write(folder.path().join("in.tar"), &archive).unwrap();
    // The limit is a little over the size of the stream.
    let blocks = archive.len().div_ceil(1024);
    let script = |blocks: usize| {
        format!("trap '' XFSZ; ulimit -f {blocks}; cat in.tar | tarsort --memory 0 --tmpdir tmp | cat >out.tar")
    };
    bash(&script(blocks)).cwd(folder.path()).ok();
    assert_eq!(names(&std::fs::read(folder.path().join("out.tar")).unwrap()).len(), 4500);
    assert!(list(folder.path().join("tmp")).is_empty());
    let full = bash(&script(blocks / 2)).cwd(folder.path()).done().status(1);
    full.stderr_has("tarsort: tmp: cannot write a temporary file: File too large");
    assert!(list(folder.path().join("tmp")).is_empty());
}

#[test]
fn a_missing_folder_for_spills_is_named() {
    let done = words("tarsort", "--memory 0 --tmpdir /no/such").stdin(large()).done().status(1);
    done.stderr_has("tarsort: /no/such: cannot create a temporary file: No such file or directory");
}

#[test]
fn a_killed_run_leaves_no_file() {
    let folder = dir();
    std::fs::create_dir(folder.path().join("tmp")).unwrap();
    let command = words("tarsort", "--memory 0 --tmpdir tmp -o out.tar").cwd(folder.path());
    let mut child = command.into_command().stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let archive = large();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), &archive[..archive.len() - 2000]).unwrap();
    let spilled = |pid: u32| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        open.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|path| is_below(&path, folder.path()))
    };
    while !spilled(child.id()) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(bash(&format!("kill -TERM {}", child.id())).ok().is_empty());
    assert_eq!(status(child.wait().unwrap()), 143);
    assert!(list(folder.path().join("tmp")).is_empty());
    assert_eq!(list(folder.path()), ["tmp"]);
}

fn is_below(path: &Path, folder: &Path) -> bool {
    path.starts_with(folder.canonicalize().unwrap().join("tmp"))
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    for args in ["--shuffle -k cls", "--group --unique", "--group -k cls", "--numeric", "--seed 3", "--shuffle -r"] {
        words("tarsort", args).stdin(Archive::new().whole()).done().status(2);
    }
}

#[test]
fn long_values_compare_to_their_end_and_equal_ones_stay_in_order() {
    let long = "x".repeat(1024);
    // The values differ only at their ends; equal values keep the order of their numbered keys.
    let sample = |archive: Archive, i: usize| {
        archive.file(&format!("s{i:03}.txt"), format!("{long}{:02}", i * 7 % 20).as_bytes())
    };
    let archive = (0..60).fold(Archive::new(), sample).whole();
    let mut expected: Vec<usize> = (0..60).collect();
    expected.sort_by_key(|i| i * 7 % 20);
    let key = |i: &usize| format!("s{i:03}");
    assert_eq!(first_of_each(&every_way("-k txt", &archive)), expected.iter().map(key).collect::<Vec<_>>());
    expected.sort_by_key(|i| std::cmp::Reverse(i * 7 % 20));
    assert_eq!(first_of_each(&every_way("-k txt --reverse", &archive)), expected.iter().map(key).collect::<Vec<_>>());
    let unique = words("tarsort", "-k txt --unique").stdin(archive).done().status(0);
    assert_eq!(first_of_each(&unique.stdout()).len(), 20);
}
