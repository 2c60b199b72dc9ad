//! tarsplit: every flag, through the binary.

use std::path::Path;

use crate::support::{Archive, TempDir, bash, dir, list, members, names, run, words};

/// A folder with 20 samples in `in.tar`.
fn twenty() -> TempDir {
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), Archive::of_samples(20).whole()).unwrap();
    folder
}

/// Number of samples in each shard.
fn counts(folder: &Path, prefix: &str) -> Vec<usize> {
    let shards = list(folder).into_iter().filter(|name| name.starts_with(prefix) && name.ends_with(".tar"));
    shards.map(|name| members(&std::fs::read(folder.join(name)).unwrap()).len() / 3).collect()
}

#[test]
fn shards_have_the_given_number_of_samples() {
    let folder = twenty();
    words("tarsplit", "-n 8 -o x-{shard:03}.tar in.tar").cwd(folder.path()).ok();
    assert_eq!(list(folder.path()), ["in.tar", "x-000.tar", "x-001.tar", "x-002.tar"]);
    assert_eq!(counts(folder.path(), "x-"), [8, 8, 4]);
    words("tarsplit", "-n 10 --start 5 -o y-%d.tar in.tar").cwd(folder.path()).ok();
    assert_eq!(counts(folder.path(), "y-"), [10, 10]);
    assert!(folder.path().join("y-5.tar").exists());
}

#[test]
fn shards_close_when_they_reach_the_size() {
    let folder = twenty();
    let done = words("tarsplit", "-v -p 1 -s 20k -n 5 -o x-%d.tar in.tar").cwd(folder.path()).done().status(0);
    let said = done.stderr_text();
    assert!(said.contains("x-0.tar: 5 samples, ") && said.contains("closed by samples"), "{said}");
    for shard in (0..3).map(|i| std::fs::metadata(folder.path().join(format!("x-{i}.tar"))).unwrap().len()) {
        assert!(shard < 25_000, "{shard}");
    }
    words("tarsplit", "-s 12k -o y-%d.tar --stats in.tar").cwd(folder.path()).ok();
    let stats = std::fs::read_to_string(folder.path().join("y-0.stats.json")).unwrap();
    assert!(stats.contains("\"closed_by\": \"size\""), "{stats}");
    assert_eq!(counts(folder.path(), "y-").iter().sum::<usize>(), 20);
}

#[test]
fn samples_are_distributed_in_turn() {
    let folder = twenty();
    words("tarsplit", "--shards 3 -o x-%d.tar in.tar").cwd(folder.path()).ok();
    assert_eq!(counts(folder.path(), "x-"), [7, 7, 6]);
    let second = std::fs::read(folder.path().join("x-1.tar")).unwrap();
    assert_eq!(names(&second)[..4], ["s0001.jpg", "s0001.cls", "s0001.json", "s0004.jpg"]);
}

#[test]
fn splits_by_hash_do_not_depend_on_the_order() {
    let folder = twenty();
    words("tarsplit", "--by-hash train=0.7,val=0.3 -o {split}.tar in.tar").cwd(folder.path()).ok();
    bash("tarcat --shuffle 20 --seed 5 in.tar | tarsplit --by-hash train=0.7,val=0.3 -o 'again-{split}.tar'")
        .cwd(folder.path())
        .ok();
    for split in ["train", "val"] {
        let read = |name: String| {
            let mut names = names(&std::fs::read(folder.path().join(name)).unwrap());
            names.sort();
            names
        };
        let first = read(format!("{split}.tar"));
        assert!(!first.is_empty());
        assert_eq!(first, read(format!("again-{split}.tar")));
    }
}

#[test]
fn max_shards_stops_with_a_notice() {
    let folder = twenty();
    let done = words("tarsplit", "-n 3 --max-shards 2 -o x-%d.tar in.tar").cwd(folder.path()).done().status(0);
    done.stderr("tarsplit: stopped after 2 shards (--max-shards)");
    assert_eq!(counts(folder.path(), "x-"), [3, 3]);
}

#[test]
fn post_commands_get_each_finished_shard() {
    let folder = twenty();
    let post = "tarcheck -q {} >/dev/null && cp %s copy-{}";
    let args = ["-n", "7", "-o", "x-%d.tar", "--post", post, "--delete-after-post", "in.tar"];
    bash(&format!("tarsplit {}", args.map(|arg| format!("'{arg}'")).join(" "))).cwd(folder.path()).ok();
    assert_eq!(counts(folder.path(), "copy-x-"), [7, 7, 6]);
    assert!(counts(folder.path(), "x-").is_empty());
}

#[test]
fn a_failed_post_command_fails_the_run_and_keeps_the_shard() {
    let folder = twenty();
    let args = ["-n", "10", "-o", "x-%d.tar", "--post", "exit 4", "--delete-after-post", "in.tar"];
    let done = run("tarsplit", args).cwd(folder.path()).done().status(1);
    done.stderr("tarsplit: x-0.tar: --post: the command failed with exit status 4");
    assert!(folder.path().join("x-0.tar").exists());
}

#[test]
fn shards_can_be_written_to_commands() {
    let folder = twenty();
    for pattern in ["pipe:cat > piped-%d.tar", "|cat > piped-{shard}.tar"] {
        run("tarsplit", ["-n", "15", "-o", pattern, "in.tar"]).cwd(folder.path()).ok();
        assert_eq!(counts(folder.path(), "piped-"), [15, 5]);
    }
    let done = run("tarsplit", ["-n", "15", "-o", "|false %d", "in.tar"]).cwd(folder.path()).done().status(1);
    done.stderr_has("tarsplit: |false 0: ");
}

#[test]
fn sidecars_describe_the_shard() {
    let folder = twenty();
    words("tarsplit", "-n 10 -o x-%d.tar --index --stats in.tar").cwd(folder.path()).ok();
    let stats = "jq -r '[.samples, .bytes, .fields.jpg, .sha256, .closed_by] | join(\" \")' x-0.stats.json";
    let stats = String::from_utf8(bash(stats).cwd(folder.path()).ok()).unwrap();
    let sum = String::from_utf8(bash("stat -c %s x-0.tar; sha256sum x-0.tar").cwd(folder.path()).ok()).unwrap();
    let sum: Vec<&str> = sum.split_whitespace().collect();
    assert_eq!(stats.trim(), format!("10 {} 10 {} samples", sum[0], sum[1]));
    index_points_at_the_data(folder.path(), "x-1");
}

/// Reads each member at the offset in its line of the index.
fn index_points_at_the_data(folder: &Path, shard: &str) {
    let index = std::fs::read_to_string(folder.join(format!("{shard}.idx"))).unwrap();
    let bytes = std::fs::read(folder.join(format!("{shard}.tar"))).unwrap();
    let mut lines = index.lines();
    let count = members(&bytes).len() / 3;
    assert_eq!(lines.next().unwrap(), format!("v1.2 {count}"));
    let words: Vec<&str> = lines.flat_map(|line| line.split(' ')).collect();
    let read: Vec<(String, Vec<u8>)> = words
        .chunks(4)
        .map(|member| {
            let (offset, size): (usize, usize) = (member[1].parse().unwrap(), member[2].parse().unwrap());
            assert!(member[3].ends_with(&format!(".{}", member[0])));
            (member[3].to_owned(), bytes[offset..offset + size].to_vec())
        })
        .collect();
    assert!(read == members(&bytes));
}

#[test]
fn compressed_shards_are_complete() {
    let folder = twenty();
    words("tarsplit", "-n 10 -z -o x-%d.tgz in.tar").cwd(folder.path()).ok();
    let done = words("tarsplit", "-n 10 -o y-%d.tar.zst in.tar").cwd(folder.path()).done().status(0);
    done.stderr("tarsplit: warning: zstd: these loaders cannot read the shards: hf, webdataset, energon, wids, ray");
    let done = words("tarsplit", "-n 10 --compress xz:1 -o z-%d in.tar").cwd(folder.path()).done().status(0);
    done.stderr("tarsplit: warning: xz: these loaders cannot read the shards: energon, wids");
    let script = "tar tzf x-1.tgz | wc -l; zstd -dcq y-1.tar.zst | tar t | wc -l; xz -dc z-1 | tar t | wc -l";
    let listed = String::from_utf8(bash(script).cwd(folder.path()).ok()).unwrap();
    assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["30", "30", "30"]);
}

#[test]
fn usage_errors_are_reported_before_anything_is_written() {
    let folder = twenty();
    for (args, said) in [
        ("-o x-%d.tar in.tar", "no limit for a shard; use -n SAMPLES, -s SIZE, --shards N or --by-hash"),
        ("-n 3 -o x.tar in.tar", "-o x.tar: no placeholder for the shard number; use {shard:06} or %06d"),
        ("-n 3 -o x-{shrad}.tar in.tar", "-o x-{shrad}.tar: unknown placeholder {shrad} (known: shard, split)"),
        ("--by-hash a=1 -o x-%d.tar in.tar", "-o x-%d.tar: {split} and --by-hash need each other"),
        ("-n 3 -z --index -o x-%d in.tar", "--index needs uncompressed shards; remove --index or the compression"),
    ] {
        words("tarsplit", args).cwd(folder.path()).fails(2, &format!("tarsplit: {said}"));
    }
    for args in ["-n 0 -o x-%d in.tar", "--by-hash a=0.5 -o {split} in.tar", "-n 3 --shards 2 -o %d in.tar"] {
        words("tarsplit", args).cwd(folder.path()).done().status(2);
    }
    assert_eq!(list(folder.path()), ["in.tar"]);
}
