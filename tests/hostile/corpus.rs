//! Hostile archives through every tool that reads archives. The table says what each gets.

use super::is_answer;
use crate::contracts::{Output, SUBJECTS, Subject};
use crate::support::{Archive, bash, dir, names, run};

/// What becomes of an archive: the status of filters, what they say, and the tools that have another one.
pub struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    status: i32,
    said: &'static str,
    others: &'static [(&'static str, i32, &'static str)],
}

fn header(path: &[u8], kind: u8, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..path.len()].copy_from_slice(path);
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_size(size);
    header.set_mtime(1_700_000_000);
    header.set_mode(0o644);
    header.set_cksum();
    header
}

/// A header with some bytes changed and a sum that holds.
fn changed(path: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut header = header(path, b'0', 0);
    header.as_mut_bytes()[at..at + bytes.len()].copy_from_slice(bytes);
    header.set_cksum();
    header.as_bytes().to_vec()
}

fn pax(record: &str) -> Archive {
    let body = record.as_bytes();
    let mut length = body.len() + 3;
    while length != format!("{length} ").len() + body.len() + 1 {
        length = format!("{length} ").len() + body.len() + 1;
    }
    Archive::new().entry(b"x", tar::EntryType::XHeader, format!("{length} {record}\n").as_bytes())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Tools that change what they read, so that the contracts do not apply to them.
const MORE: &[Subject] = &[
    Subject { tool: "tardataset", flags: &["--only-shard", "0", "-o", "out"], output: Output::Shards },
    Subject {
        tool: "tardataset",
        flags: &["--only-shard", "0", "-o", "out", "--format", "files"],
        output: Output::Shards,
    },
    Subject {
        tool: "tardataset",
        flags: &["--only-shard", "0", "-o", "out", "--format", "parquet"],
        output: Output::Shards,
    },
    Subject {
        tool: "tardataset",
        flags: &["--only-shard", "0", "-o", "out", "--format", "tfrecord"],
        output: Output::Shards,
    },
];

fn good() -> Archive {
    Archive::new().file("good.txt", b"good")
}

/// The corpus. Where the tools agree, and they nearly always do, one row is enough.
pub fn corpus() -> Vec<Case> {
    let case = |name, bytes, status, said| Case { name, bytes, status, said, others: &[] };
    let with = |name, bytes, status, said, others| Case { name, bytes, status, said, others };
    let long_key = format!("{}.txt", "k".repeat(70_000));
    let long_field = format!("a.{}", "f".repeat(300));
    let deep = "[".repeat(100_000);
    vec![
        case("text", b"<html>not found</html>\n".repeat(40), 1, "byte 0: not a tar archive"),
        case("zeros, less than a block", vec![0; 511], 1, "byte 0: not a tar archive"),
        case("one zero block", vec![0; 512], 1, "the input ends after the first of two end-of-archive blocks"),
        case("a lone zero block", [good().cut(), vec![0; 512], good().whole()].concat(), 1, "a lone zero block"),
        case("cut in the end", good().whole()[..1536].to_vec(), 1, "the input ends after the first of two"),
        case(
            "garbage behind the end",
            [good().whole(), vec![7; 700]].concat(),
            1,
            "the data after the end of the archive is not an archive",
        ),
        case("gzip in gzip", gzip(&gzip(&good().whole())), 1, "byte 0: not a tar archive"),
        case("gzip of nothing", gzip(b""), 1, "byte 0: empty input"),
        case("gzip with garbage behind it", [gzip(&good().whole()), vec![7; 700]].concat(), 1, "byte 2048: "),
        case("zstd that ends in its header", vec![0x28, 0xb5, 0x2f, 0xfd, 0], 1, "byte 0: "),
        case("zstd with a window of 2 TB", vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0xff, 1, 0, 0, 0], 1, "byte 0: "),
        case("xz that is noise", [&b"\xfd7zXZ\0"[..], &[0x5a; 600]].concat(), 1, "byte 0: "),
        case("bzip2 that is noise", [&b"BZh9"[..], &[0x5a; 600]].concat(), 1, "byte 0: "),
        case("lz4 that is noise", [&b"\x04\x22\x4d\x18"[..], &[0x5a; 600]].concat(), 1, "byte 0: "),
        case(
            "a size of letters",
            [changed(b"a.x", 124, b"a lot of it "), vec![0; 1024]].concat(),
            1,
            "an invalid size in a header",
        ),
        case(
            "a size below zero",
            [changed(b"a.x", 124, &[0xff; 12]), vec![0; 1024]].concat(),
            1,
            "an invalid size in a header",
        ),
        case(
            "a size of 2^63",
            [changed(b"a.x", 124, b"\x80\0\0\0\x80\0\0\0\0\0\0\0"), vec![0; 1024]].concat(),
            1,
            "an invalid size in a header",
        ),
        case(
            "a size of 2^64 - 1 in PAX",
            pax("size=18446744073709551615").file("a.x", b"").whole(),
            1,
            "an invalid size in a header",
        ),
        case(
            "two sizes that sum to zero",
            [good().cut(), pax("size=18446744073709551612").file("good.x", b"").whole()].concat(),
            1,
            "an invalid size in a header",
        ),
        case(
            "a size of 9 EB",
            [good().cut(), pax("size=9223372036854775807").file("good.x", b"").whole()].concat(),
            1,
            "byte ",
        ),
        case(
            "a size in PAX that is not a number",
            pax("size=-5").file("a.x", b"").whole(),
            1,
            "a malformed PAX header",
        ),
        case(
            "PAX that counts wrong",
            Archive::new().entry(b"x", tar::EntryType::XHeader, b"3 path=a\n").file("a.x", b"").whole(),
            1,
            "a malformed PAX header",
        ),
        case(
            "PAX that counts to the moon",
            Archive::new()
                .entry(b"x", tar::EntryType::XHeader, b"99999999999999999999 path=a\n")
                .file("a.x", b"")
                .whole(),
            1,
            "a malformed PAX header",
        ),
        case("PAX without its member", pax("path=a.x").whole(), 1, "an extended header without its member"),
        case(
            "a PAX header of 8 GB",
            header(b"x", b'x', 1 << 33).as_bytes().to_vec(),
            1,
            "an extended header of 8589934592 bytes",
        ),
        case(
            "a long name of 8 GB",
            header(b"x", b'L', 1 << 33).as_bytes().to_vec(),
            1,
            "an extended header of 8589934592 bytes",
        ),
        case(
            "a long name of NULs",
            Archive::new()
                .entry(b"x", tar::EntryType::GNULongName, &[0; 100])
                .file("a.x", b"1")
                .file("good.txt", b"good")
                .whole(),
            0,
            "dropped 1 (1 no_field)",
        ),
        case(
            "a sparse map without end",
            {
                let mut bytes = header(b"a.x", b'S', 0).as_bytes().to_vec();
                bytes[482] = 1;
                let mut sum = tar::Header::from_byte_slice(&bytes).clone();
                sum.set_cksum();
                [sum.as_bytes().as_slice(), &[1; 512 * 50]].concat()
            },
            1,
            "the input ends in a sparse header",
        ),
        case(
            "a type that nobody knows",
            good().entry(b"a.x", tar::EntryType::new(b'~'), b"1").whole(),
            0,
            "dropped 1 (1 unknown_type)",
        ),
        case("no name", good().entry(b"", tar::EntryType::Regular, b"1").whole(), 0, "dropped 1 (1 no_field)"),
        with(
            "a key of 70,000 bytes",
            pax(&format!("path={long_key}")).file("a.x", b"1").file("good.txt", b"good").whole(),
            0,
            "",
            &[],
        ),
        with(
            "a field of 300 bytes",
            pax(&format!("path={long_field}")).file("a.x", b"1").file("good.txt", b"good").whole(),
            0,
            "",
            &[],
        ),
        case("a time in the year 292277026596", pax("mtime=9223372036854775807").file("a.x", b"1").whole(), 0, ""),
        case("a time before all times", good().raw(&changed(b"a.x", 136, &[0xff; 12])).whole(), 0, ""),
        case("a time of letters", good().raw(&changed(b"a.x", 136, b"yesterday   ")).whole(), 0, ""),
        case("an owner of noise", good().raw(&changed(b"a.x", 108, &[0xfe; 16])).whole(), 0, ""),
        case("a mode of noise", good().raw(&changed(b"a.x", 100, &[0xfe; 8])).whole(), 0, ""),
        case("JSON without end", good().file("good.json", deep.as_bytes()).whole(), 0, ""),
        case(
            "JSON with numbers beyond numbers",
            good().file("good.json", b"{\"width\":1e999,\"a\":-1e-999,\"b\":123456789012345678901234567890}").whole(),
            0,
            "",
        ),
        case(
            "names of dots",
            good().file("./././a.x", b"1").file("a//b.x", b"1").file("...x", b"1").whole(),
            0,
            "dropped 1 (1 dot_file)",
        ),
        case(
            "colours and bells in a name",
            good().file("a\x1b[31m.x", b"1").file("b\x07.x", b"1").whole(),
            0,
            "failed 2 (2 name_control)",
        ),
    ]
}

#[test]
fn every_tool_answers_hostile_archives_as_the_table_says() {
    let mut wrong = Vec::new();
    for case in corpus() {
        for subject in SUBJECTS.iter().chain(MORE) {
            let folder = dir();
            let done = subject.run(folder.path(), &[]).stdin(case.bytes.clone()).done();
            let what = format!("{}: {} {:?}", case.name, subject.tool, subject.flags);
            is_answer(&what, &done);
            let other = case.others.iter().find(|(tool, ..)| *tool == subject.tool);
            let (mut status, said) = other.map_or((case.status, case.said), |&(_, status, said)| (status, said));
            // Tools that run commands of the user tolerate no failure unless they are told to.
            let runs_commands = matches!(subject.tool, "tarproc" | "tarvideo");
            if status == 0 && runs_commands && done.stderr_text().contains("; failed ") {
                status = 3;
            }
            // A verdict counts hostile names as faults, and lists what filters sum up.
            let is_verdict = subject.output == Output::Text && other.is_none() && status == 0;
            let as_said = done.status_code() == status && done.stderr_text().contains(said);
            if !as_said && !is_verdict {
                wrong.push(format!("{what}: {} {:?}", done.status_code(), done.stderr_text()));
            }
            assert!(
                done.stderr_text().len() < 2000 || case.name.starts_with("a key"),
                "{what}: a message of {} bytes",
                done.stderr_text().len()
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_other_tools_answer_hostile_archives_too() {
    for case in corpus() {
        let folder = dir();
        std::fs::write(folder.path().join("in.tar"), &case.bytes).unwrap();
        let mut scripts = vec![
            "tarcheck --json --index --wids w.json in.tar",
            "tarshow --extract out in.tar",
            "tarshow -f json --parquet out.parquet in.tar",
            "tarsort -k json:width in.tar",
            "printf 'w,x\\n3,4\\n' | tarjoin --with - --on json.width=w in.tar",
            "tarjoin --with in.tar --keep anti in.tar",
            "tarcat --select 'json.width > 3' --rekey '{index:05}' --shuffle 10 in.tar",
            "tarproc -o - --each txt -c cat in.tar",
            "tarsplit --by-hash a=0.5,b=0.5 --index --stats -n 1 -o '{split}-{shard}.tar' in.tar",
            "tardataset --only-shard 0 --json '*' --caption --columns 'url width:int32 a:json txt' -o out in.tar",
        ];
        if cfg!(feature = "tarresize") {
            scripts.push("tarresize -s 16 --fields 'txt x' in.tar");
        }
        for script in scripts {
            let limited = format!("ulimit -v 4000000 -t 60; {script} > stdout");
            let done = bash(&limited).cwd(folder.path()).done();
            is_answer(&format!("{}: {script}", case.name), &done);
            assert!(case.status != 1 || done.status_code() == 1, "{}: {script}: a broken stream passed", case.name);
        }
    }
}

#[test]
fn no_archive_makes_a_tool_hold_what_it_only_claims() {
    for case in corpus() {
        let folder = dir();
        std::fs::write(folder.path().join("in"), &case.bytes).unwrap();
        for flags in ["", "--max-bad 0 --select true --max-sample 100G"] {
            let done = bash(&format!("ulimit -v 400000; tarcat {flags} in > out")).cwd(folder.path()).done();
            is_answer(case.name, &done);
        }
    }
    run("tarcat", [""; 0]).stdin(good().whole()).ok();
}

/// A comparison of each member with all others would take minutes.
#[test]
fn a_sample_of_40000_members_takes_seconds() {
    let archive = (0..40_000).fold(good(), |archive, i| archive.file(&format!("a.{i:06}.x"), b"")).whole();
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), &archive).unwrap();
    let mut scripts = vec![
        "tarcat in.tar",
        "tarcat --select true in.tar",
        "tarcheck in.tar",
        "tarcreate --from tar in.tar",
        "tardataset --only-shard 0 -o out in.tar",
        "tardataset --only-shard 0 --format files -o files in.tar",
        "tarproc -o - -c true in.tar",
        "tarproc -o - --each 000000.x -c cat in.tar || [ $? = 3 ]",
        "tarproc -o - --worker cat in.tar",
        "tarshow in.tar",
        "tarshow --json in.tar",
        "tarshow --html page.html in.tar",
        "tarshow --extract shown in.tar",
        "tarsort in.tar",
        "tarsort --group in.tar",
        "tarjoin --with in.tar in.tar",
        "tarsplit -n 1 --stats -o 'out-{shard}.tar' in.tar",
        "tarvideo --probe --no-media pass in.tar",
    ];
    if cfg!(feature = "tarresize") {
        scripts.push("tarresize -s 16 --fields 000000.x in.tar || [ $? = 3 ]");
    }
    for script in scripts {
        let done = bash(&format!("ulimit -v 4000000 -t 15; {script} > stdout")).cwd(folder.path()).done().status(0);
        is_answer(script, &done);
    }
    assert_eq!(names(&std::fs::read(folder.path().join("out-1.tar")).unwrap()).len(), 40_000);
}
