//! Malformed and malicious archives: each gets a one-line message and bounded memory, and leaves no files.

use crate::support::{Archive, TempDir, bash, dir, list, members, names, run};

/// A folder with one hostile file called `in`.
fn with(bytes: &[u8]) -> TempDir {
    let folder = dir();
    std::fs::write(folder.path().join("in"), bytes).unwrap();
    folder
}

fn tarcat_fails(bytes: &[u8], message: &str) {
    let folder = with(bytes);
    run("tarcat", ["-o", "out.tar", "in"]).cwd(folder.path()).fails(1, &format!("tarcat: {message}"));
    assert_eq!(list(folder.path()), ["in"]);
}

#[test]
fn text_is_not_an_archive() {
    tarcat_fails(b"hello\n", "in: byte 0: not a tar archive");
    tarcat_fails(&b"hello world\n".repeat(100), "in: byte 0: not a tar archive");
}

#[test]
fn a_truncated_gzip_is_an_error() {
    let folder = with(&Archive::of_samples(100).whole());
    bash("gzip < in > whole.gz; head -c 30000 whole.gz > cut.gz").cwd(folder.path()).ok();
    let done = run("tarcat", ["cut.gz"]).cwd(folder.path()).done().status(1);
    let said = done.stderr_text();
    assert!(
        said.starts_with("tarcat: cut.gz: byte ") && said.ends_with(": the compressed data is cut off\n"),
        "{said}"
    );
}

#[test]
fn a_corrupt_gzip_is_an_error() {
    let folder = with(&Archive::of_samples(100).whole());
    let script = r"gzip < in > bad.gz; printf '\xff\xff\xff' | dd of=bad.gz bs=1 seek=40000 conv=notrunc status=none; tarcat bad.gz | wc -c";
    let done = bash(script).cwd(folder.path()).done().status(1);
    assert!(done.stderr_text().starts_with("tarcat: bad.gz: byte "), "{}", done.stderr_text());
}

#[test]
fn a_claim_of_20_gb_costs_no_memory() {
    let mut header = tar::Header::new_gnu();
    header.set_path("a.bin").unwrap();
    header.set_size(20 << 30);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(vec![1; 100_000]);
    let folder = with(&bytes);
    for flags in ["", "--max-bad 0 --select true --max-sample 100G"] {
        // 400 MB of address space is enough for threads and libraries, but not for 20 GB.
        let script = format!("ulimit -v 400000; tarcat {flags} in > out");
        bash(&script).cwd(folder.path()).fails(1, "tarcat: in: byte 100512: the input ends in the middle of a member");
    }
}

#[test]
fn a_sample_too_large_to_hold_is_left_out_and_counted() {
    let archive = Archive::new().file("a.bin", &[1; 5000]).file("b.bin", &[2; 50]).whole();
    let out = run("tarcat", ["--select", "true", "--max-sample", "1k"]).stdin(archive).done();
    let out = out.status(0).stderr("tarcat: 1 sample; failed 1 (1 too_large)").stdout();
    assert_eq!(names(&out), ["b.bin"]);
}

#[test]
fn a_bomb_passes_in_bounded_memory() {
    // 1 GB of zeros, compressed to 1 MB.
    let folder = dir();
    let script = "python3 -c \"
import tarfile, sys
archive = tarfile.open(fileobj=sys.stdout.buffer, mode='w|')
info = tarfile.TarInfo('a.bin'); info.size = 1 << 30
archive.addfile(info, open('/dev/zero', 'rb')); archive.close()\" | gzip -1 > bomb.tgz
ulimit -v 400000; tarcat bomb.tgz | wc -c";
    let out = bash(script).cwd(folder.path()).ok();
    assert_eq!(String::from_utf8(out).unwrap().trim(), ((1_u64 << 30) + 512 + 1024).to_string());
}

#[test]
fn an_endless_extended_header_is_refused() {
    let mut header = tar::Header::new_ustar();
    header.set_path("PaxHeaders/x").unwrap();
    header.set_entry_type(tar::EntryType::XHeader);
    header.set_size(1 << 33);
    header.set_cksum();
    tarcat_fails(header.as_bytes(), "in: byte 512: an extended header of 8589934592 bytes");
    let many = (0..3000)
        .fold(Archive::new(), |archive, _| archive.entry(b"././@LongLink", tar::EntryType::GNULongName, &[b'x'; 500]));
    tarcat_fails(&many.whole(), "in: byte 1050624: more than 1 MB of extended headers");
}

#[test]
fn messages_say_what_is_malformed_in_a_header() {
    let lone = [Archive::new().file("a.txt", b"a").cut(), vec![0; 512], Archive::new().file("b.txt", b"b").whole()];
    tarcat_fails(&lone.concat(), "in: byte 1536: a lone zero block");
    let orphan = Archive::new().entry(b"x", tar::EntryType::XHeader, b"12 path=abc\n").whole();
    tarcat_fails(&orphan, "in: byte 1024: an extended header without its member");
    let pax = Archive::new().entry(b"x", tar::EntryType::XHeader, b"99 path=abc\n").file("a.txt", b"a").whole();
    tarcat_fails(&pax, "in: byte 1024: a malformed PAX header");
    let trailing = [Archive::new().file("a.txt", b"a").whole(), b"garbage".repeat(100)].concat();
    tarcat_fails(&trailing, "in: byte 2048: the data after the end of the archive is not an archive");
}

#[test]
fn a_nul_in_a_pax_path_is_a_coded_failure() {
    let archive = Archive::new()
        .entry(b"x", tar::EntryType::XHeader, b"17 path=ab\0c.txt\n")
        .file("a.txt", b"a")
        .file("b.txt", b"b")
        .whole();
    let done = run("tarcat", ["-v"]).stdin(archive).done().status(0);
    let done = done.stderr(
        "tarcat: stdin: byte 0: ab\\u{0}c.txt: left out: its path contains a control character\n\
         tarcat: 1 sample; failed 1 (1 name_control)",
    );
    assert_eq!(names(&done.stdout()), ["b.txt"]);
}

#[test]
fn a_file_with_a_trailing_slash_is_a_folder_and_its_data_is_skipped() {
    let archive = Archive::new().file("a.x/", &[7; 700]).file("b.txt", b"b").whole();
    let out =
        run("tarcat", [""; 0]).stdin(archive).done().status(0).stderr("tarcat: 1 sample; dropped 1 (1 directory)");
    assert_eq!(names(&out.stdout()), ["b.txt"]);
}

#[test]
fn the_prefix_of_a_name_is_read_for_every_header_version() {
    let mut header = tar::Header::new_ustar();
    header.set_path("b.txt").unwrap();
    header.as_mut_bytes()[263..265].copy_from_slice(&[0, 0]);
    header.as_mut_bytes()[345..349].copy_from_slice(b"../a");
    header.set_size(0);
    header.set_cksum();
    let archive = [header.as_bytes().as_slice(), &Archive::new().file("c.txt", b"c").whole()].concat();
    run("tarcat", [""; 0]).stdin(archive).done().status(0).stderr("tarcat: 1 sample; failed 1 (1 name_parent)");
}

#[test]
fn sparse_files_are_reported_and_not_misread() {
    let folder = dir();
    let script = "truncate -s 10M hole.bin; printf x >> hole.bin; printf y > next.txt
for f in gnu pax; do tar -S --format=$f -cf $f.tar hole.bin next.txt; done";
    bash(script).cwd(folder.path()).ok();
    for format in ["gnu", "pax"] {
        let done = run("tarcat", [format!("{format}.tar")]).cwd(folder.path()).done().status(0);
        let out = done.stderr("tarcat: 1 sample; dropped 1 (1 sparse)").stdout();
        assert_eq!(members(&out), [("next.txt".to_owned(), b"y".to_vec())], "{format}");
    }
}

#[test]
fn concatenated_archives_are_one_stream() {
    let archive =
        [Archive::of_samples(3).whole(), vec![0; 512 * 17], Archive::new().file("z.txt", b"z").whole()].concat();
    let out = run("tarcat", ["-"]).stdin(archive).ok();
    assert_eq!(names(&out).len(), 10);
}

#[test]
fn global_headers_are_merged_into_the_headers_of_members() {
    let archive = Archive::new()
        .entry(b"g", tar::EntryType::XGlobalHeader, b"20 mtime=1234567890\n")
        .file("a.txt", b"a")
        .file("b.txt", b"b")
        .whole();
    let folder = with(&archive);
    let out = bash("tarcat --slice 1:2 in | tar tv --full-time --utc").cwd(folder.path()).ok();
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("2009-02-13 23:31:30") && out.contains("b.txt"), "{out}");
}

#[test]
fn ignore_eof_accepts_a_stream_that_ends_between_members() {
    let cut = Archive::of_samples(2).cut();
    run("tarcat", ["-"])
        .stdin(cut.clone())
        .fails(1, "tarcat: stdin: byte 7680: the input ends before the end-of-archive blocks");
    assert_eq!(names(&run("tarcat", ["--ignore-eof"]).stdin(cut.clone()).ok()).len(), 6);
    run("tarcat", ["--ignore-eof"])
        .stdin(&cut[..700])
        .fails(1, "tarcat: stdin: byte 700: the input ends in the middle of a member");
}

/// An archive with `field` at offset `at` of its first header.
fn with_field(at: usize, field: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_path("a.txt").unwrap();
    header.set_size(0);
    header.as_mut_bytes()[at..at + field.len()].copy_from_slice(field);
    header.set_cksum();
    [header.as_bytes().as_slice(), &Archive::new().file("b.txt", b"b").whole()].concat()
}

#[test]
fn binary_numbers_are_read_exactly_or_refused() {
    const SIZE: usize = 124;
    for size in
        [b"\x80\0\0\x01\0\0\0\0\0\0\0\0", b"\x81\0\0\0\0\0\0\0\0\0\0\0", &[0xff; 12], b"\xc0\0\0\0\0\0\0\0\0\0\0\0"]
    {
        tarcat_fails(&with_field(SIZE, size), "in: byte 512: an invalid size in a header");
    }
    // A binary size in range is valid.
    assert_eq!(
        names(&run("tarcat", ["-"]).stdin(with_field(SIZE, b"\x80\0\0\0\0\0\0\0\0\0\0\0")).ok()),
        ["a.txt", "b.txt"]
    );
    let (uid, mtime) = (108, 136);
    for (at, field) in [(uid, &[0xff; 8][..]), (uid, b"\xbf\0\0\0\0\0\0\0"), (mtime, &[0xff; 12]), (mtime, &[0xbf; 12])]
    {
        for flags in [&[][..], &["--rekey", "new/{key}"]] {
            let out = run("tarcat", flags).stdin(with_field(at, field)).ok();
            assert_eq!(members(&out).len(), 2, "{at} {field:?}");
        }
    }
    let pax = Archive::new().entry(b"x", tar::EntryType::XHeader, b"15 mtime=1e+99\n").file("a.txt", b"a").whole();
    assert_eq!(names(&run("tarcat", ["--rekey", "new/{key}"]).stdin(pax).ok()), ["new/a.txt"]);
}
