//! Archives of other programs: read without loss, and ours read by them without complaint.

use std::path::Path;
use std::process::Command;

use crate::support::{bash, dir, members, names, run};

/// Folders with files of many sizes: empty, odd, block-sized, in names short and long.
const MAKE_TREE: &str = r#"
mkdir -p tree/deep/er
for i in 1 2 3 4 5 6; do
  head -c $((i * 511)) /dev/urandom > tree/s$i.jpg
  printf %s $i > tree/s$i.cls
  : > tree/s$i.empty
done
head -c 200000 /dev/urandom > tree/deep/er/big.bin
head -c 512 /dev/urandom > tree/deep/er/block.bin
"#;
/// A name of LENGTH and some more bytes: 70 fits ustar's two fields, 110 needs a header of its own.
const LONG_NAME: &str = r#"
part() { printf "$1%.0s" $(seq LENGTH); }
long=tree/$(part d)/$(part e); mkdir -p $long; date > $long/$(part f).txt
"#;

/// Every way we know to make an archive of the tree, by the name of the result.
const MAKERS: &[(&str, &str)] = &[
    ("gnu-v7", "tar --format=v7 --no-recursion --owner=0 --group=0 -cf $out $files"),
    ("gnu-ustar", "tar --format=ustar -cf $out $files"),
    ("gnu-gnu", "tar --format=gnu -cf $out $files"),
    ("gnu-pax", "tar --format=pax -cf $out $files"),
    ("bsd-ustar", "bsdtar --format=ustar -cf $out $files"),
    ("bsd-pax", "bsdtar --format=pax -cf $out $files"),
    ("bsd-gnu", "bsdtar --format=gnutar -cf $out $files"),
    ("python-ustar", "python3 -c \"$python\" USTAR_FORMAT $out $files"),
    ("python-gnu", "python3 -c \"$python\" GNU_FORMAT $out $files"),
    ("python-pax", "python3 -c \"$python\" PAX_FORMAT $out $files"),
];
const PYTHON: &str = "import sys, tarfile
archive = tarfile.open(sys.argv[2], 'w', format=getattr(tarfile, sys.argv[1]))
[archive.add(name) for name in sys.argv[3:]]
archive.close()";

fn make(folder: &Path, name: &str, maker: &str) -> Vec<u8> {
    let long = match name {
        "gnu-v7" => String::new(),
        _ if name.ends_with("ustar") => LONG_NAME.replace("LENGTH", "70"),
        _ => LONG_NAME.replace("LENGTH", "110"),
    };
    let script =
        format!("set -e; rm -rf tree; {MAKE_TREE}{long}\nfiles=$(find tree -type f | sort); out=made.tar; {maker}");
    bash(&script).env("python", PYTHON).cwd(folder).done().status(0);
    std::fs::read(folder.join("made.tar")).unwrap()
}

/// The archive up to its last member: all but the padding after the end.
fn without_end(archive: &[u8]) -> &[u8] {
    let last = archive.iter().rposition(|&b| b != 0).map_or(0, |at| (at + 1).next_multiple_of(512));
    &archive[..last]
}

#[test]
fn split_and_cat_are_the_identity_on_everyones_archives() {
    for (name, maker) in MAKERS {
        let folder = dir();
        let made = make(folder.path(), name, maker);
        assert!(members(&[made.as_slice(), &[0; 1024]].concat()).len() >= 20, "{name}");
        for cut in ["-n 1", "-n 2", "-s 20k"] {
            let script = format!("rm -rf out; tarsplit {cut} -o out/%04d.tar made.tar && tarcat out/*.tar");
            let back = bash(&script).cwd(folder.path()).ok();
            assert!(without_end(&back) == without_end(&made), "{name} {cut}");
        }
        let passed = run("tarcat", ["--max-bad", "1", "made.tar"]).cwd(folder.path()).ok();
        assert!(without_end(&passed) == without_end(&made), "{name} through memory");
    }
}

#[test]
fn what_we_write_is_read_without_complaint() {
    let folder = dir();
    make(folder.path(), "gnu-pax", MAKERS[3].1);
    let expected = names(&run("tarcat", ["made.tar"]).cwd(folder.path()).ok());
    // New keys give every member a header of ours; one of them is too long for ustar.
    let script = "tarcat --rekey 'new/{key}' -o ours.tar made.tar";
    bash(script).cwd(folder.path()).ok();
    for lister in [
        "tar tf ours.tar",
        "bsdtar tf ours.tar",
        "python3 -c 'import tarfile; print(*tarfile.open(\"ours.tar\").getnames(), sep=\"\\n\")'",
    ] {
        let listed = String::from_utf8(bash(lister).cwd(folder.path()).ok()).unwrap();
        let expected: Vec<String> = expected.iter().map(|name| format!("new/{name}")).collect();
        assert_eq!(listed.lines().collect::<Vec<_>>(), expected, "{lister}");
    }
    bash("mkdir x && tar xf ours.tar -C x && diff -r tree x/new/tree").cwd(folder.path()).ok();
}

#[test]
fn headers_of_ours_are_the_same_for_everyone() {
    let folder = dir();
    make(folder.path(), "gnu-pax", MAKERS[3].1);
    let listing = bash("tarcat --rekey '{index}' --count 1 made.tar | tar tv --full-time").cwd(folder.path()).ok();
    let listing = String::from_utf8(listing).unwrap();
    assert!(listing.starts_with("-r--r--r-- bigdata/bigdata"), "{listing}");
}

#[test]
fn webdataset_reads_our_shards() {
    let python = crate::support::venv(&["webdataset"]);
    let folder = dir();
    let archive = crate::support::Archive::of_samples(30).whole();
    std::fs::write(folder.path().join("in.tar"), &archive).unwrap();
    bash("tarsplit -n 7 -o 'w-{shard:04}.tar' in.tar").cwd(folder.path()).ok();
    let script = "import webdataset, hashlib, glob\n\
        for s in webdataset.WebDataset(sorted(glob.glob('w-*.tar')), shardshuffle=False):\n\
        \x20   print(s['__key__'], *(f'{k}:{hashlib.sha256(s[k]).hexdigest()}' for k in sorted(s) if not k.startswith('__')))";
    let read = Command::new(python).args(["-c", script]).current_dir(folder.path()).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let mut expected = String::new();
    for chunk in members(&archive).chunks(3) {
        let mut fields: Vec<String> = chunk.iter().map(|(name, data)| field_hash(name, data)).collect();
        fields.sort();
        expected += &format!("{} {}\n", chunk[0].0.split('.').next().unwrap(), fields.join(" "));
    }
    assert_eq!(String::from_utf8(read.stdout).unwrap(), expected);
}

fn field_hash(name: &str, data: &[u8]) -> String {
    let mut digest = tarpipe::digest::Digest::new();
    digest.update(data);
    format!("{}:{}", name.split_once('.').unwrap().1, digest.hex())
}

#[test]
fn compressed_streams_are_recognised_whatever_they_are_called() {
    let folder = dir();
    let archive = crate::support::Archive::of_samples(9).whole();
    std::fs::write(folder.path().join("in.tar"), &archive).unwrap();
    for packer in ["gzip", "pigz", "zstd -q", "xz", "bzip2", "lz4 -q"] {
        let out = bash(&format!("{packer} < in.tar > packed && tarcat packed")).cwd(folder.path()).ok();
        assert!(out == archive, "{packer}");
        // Concatenated gzip members, as by `cat a.gz b.gz`; the second has other keys.
        let script = format!(
            "tarcat --rekey 'b{{key}}' in.tar | {packer} > more; {packer} < in.tar > packed; cat packed more | tarcat"
        );
        assert_eq!(members(&bash(&script).cwd(folder.path()).ok()).len(), 54, "{packer} twice");
    }
}

#[test]
fn compressed_outputs_are_read_by_the_programs_of_that_name() {
    let folder = dir();
    let archive = crate::support::Archive::of_samples(200).whole();
    std::fs::write(folder.path().join("in.tar"), &archive).unwrap();
    for (suffix, unpacker) in [
        ("tar.gz", "gzip -dc"),
        ("tgz", "pigz -dc"),
        ("tar.zst", "zstd -dcq"),
        ("tar.xz", "xz -dc"),
        ("tar.bz2", "bzip2 -dc"),
        ("tar.lz4", "lz4 -dcq"),
    ] {
        let out = bash(&format!("tarcat -o out.{suffix} in.tar && {unpacker} < out.{suffix}")).cwd(folder.path()).ok();
        assert!(out == archive, "{suffix}");
        bash(&format!("tarcat -p 1 -o one.{suffix} in.tar && cmp one.{suffix} out.{suffix}")).cwd(folder.path()).ok();
    }
    let out = bash("tarcat --compress zstd:19 in.tar | zstd -dcq; tarcat -z in.tar | gzip -t").cwd(folder.path()).ok();
    assert!(out == archive);
}

/// A frame that zstd and LZ4 readers pass over, as pzstd writes them.
fn skippable(length: usize) -> Vec<u8> {
    [&[0x50, 0x2a, 0x4d, 0x18][..], &(length as u32).to_le_bytes(), &vec![b'x'; length]].concat()
}

#[test]
fn padding_and_skippable_frames_are_passed_over() {
    let folder = dir();
    let archive = crate::support::Archive::of_samples(9).whole();
    let pack = |packer: &str| bash(packer).stdin(archive.clone()).ok();
    for (packer, before, after) in [
        ("gzip", vec![], vec![0; 10_000]),
        ("bzip2", vec![], vec![0; 512]),
        ("xz", vec![], vec![0; 512]),
        ("zstd -q", skippable(4), skippable(100_000)),
        ("lz4 -q", skippable(100_000), skippable(0)),
    ] {
        std::fs::write(folder.path().join("packed"), [before, pack(packer), after].concat()).unwrap();
        for tool in ["tarcat", "tarsort"] {
            assert!(run(tool, ["packed"]).cwd(folder.path()).ok() == archive, "{packer}: {tool}");
        }
        let garbage = [pack(packer), b"garbage".to_vec()].concat();
        let said = run("tarcat", ["-"]).stdin(garbage).done().status(1).stderr_text();
        assert!(said.lines().count() == 1 && !said.contains(['(', '{']), "{packer}: {said}");
    }
    std::fs::write(folder.path().join("in.tar"), archive.repeat(200)).unwrap();
    let out = bash("pzstd -q -p 4 -c in.tar | tarcat --rekey '{index}'").cwd(folder.path()).done().status(0).stdout();
    assert_eq!(members(&out).len(), 27 * 200);
}

#[test]
fn a_member_may_be_called_like_the_start_of_a_compressed_file() {
    let folder = dir();
    for name in ["BZh91AY&SY.txt", "BZh9.txt", "(\u{fd}/.x"] {
        let archive = crate::support::Archive::new().file(name, b"x").file("z.txt", b"z").whole();
        std::fs::write(folder.path().join("in.tar"), &archive).unwrap();
        for tool in ["tarcat", "tarsort"] {
            let done = run(tool, ["in.tar"]).cwd(folder.path()).done().status(0);
            assert!(names(&done.stdout()).contains(&"z.txt".to_owned()), "{tool} {name}");
        }
    }
    // A table as well.
    let out = run("urlcat", ["-"]).stdin("BZh9 is not a URL\nhttp://h/1\n").done().status(0).stdout_text();
    assert_eq!(out.lines().count(), 2);
}

#[test]
fn labels_and_dumps_of_gnu_tar_are_no_members() {
    let folder = dir();
    let make = "set -e; mkdir tree; printf 1 > tree/a.txt; printf 2 > tree/b.txt
        tar --format=gnu --label='My disk 1.2' -cf label.tar tree/a.txt tree/b.txt
        tar --format=pax --label='My disk 1.2' -cf pax.tar tree/a.txt tree/b.txt
        tar --format=gnu --listed-incremental=snapshot -cf dump.tar tree";
    bash(make).cwd(folder.path()).done().status(0);
    for archive in ["label.tar", "pax.tar", "dump.tar"] {
        let dumped = archive == "dump.tar";
        let summary = if dumped { "tarcat: 2 samples; dropped 1 (1 directory)" } else { "" };
        let done = run("tarcat", [archive]).cwd(folder.path()).done().status(0).stderr(summary);
        let found: Vec<(String, Vec<u8>)> = members(&done.stdout());
        let expected = [("tree/a.txt".into(), b"1".to_vec()), ("tree/b.txt".into(), b"2".to_vec())];
        assert_eq!(found, expected, "{archive}");
        let sorted = run("tarsort", [archive]).cwd(folder.path()).done().status(0).stdout();
        assert_eq!(members(&sorted), expected, "{archive} sorted");
        let split = format!("tarsplit -q -n 1 -o '{archive}-%d.tar' {archive} && tarcat {archive}-*.tar");
        assert_eq!(members(&bash(&split).cwd(folder.path()).ok()), expected, "{archive} split");
    }
    // A name that is too long for the header of a label is not that of the member after it.
    let archive = crate::support::Archive::new()
        .entry(b"././@LongLink", tar::EntryType::GNULongName, &[b'x'; 150])
        .entry(b"label", tar::EntryType::new(b'V'), b"")
        .file("a.txt", b"1")
        .whole();
    assert_eq!(names(&run("tarcat", ["-"]).stdin(archive).ok()), ["a.txt"]);
}

#[test]
fn the_second_volume_of_an_archive_is_not_read_as_a_whole_one() {
    let folder = dir();
    let make = "head -c 30000 /dev/urandom > a.bin; printf 2 > b.txt
        tar --format=gnu -cM -L 20 -f one.tar -f two.tar -f three.tar a.bin b.txt";
    bash(make).cwd(folder.path()).done().status(0);
    run("tarcat", ["two.tar"])
        .cwd(folder.path())
        .done()
        .status(1)
        .stderr_has("continues a member of another volume: join the volumes of a multi-volume archive first");
    run("tarcat", ["one.tar"]).cwd(folder.path()).done().status(1).stderr_has("the input ends ");
}
