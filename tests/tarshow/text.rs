//! Blocks, lines, keys, counts, and single fields.

use std::io::Read;
use std::process::Stdio;

use super::{gallery, jpeg, photo, png};
use crate::support::{Archive, bash, dir, run, status, words};

fn shown(flags: &str, archive: &Archive) -> String {
    String::from_utf8(words("tarshow", flags).stdin(archive.clone().whole()).ok()).unwrap()
}

#[test]
fn a_block_says_what_each_field_holds() {
    let archive = Archive::new()
        .file("a/b.jpg", &jpeg(&photo(50, 40)))
        .file("a/b.seg.png", &png(&photo(8, 6)))
        .file("a/b.json", b"{\n  \"width\": 50,\n  \"tags\": [1, 2]\n}")
        .file("a/b.txt", "a black cat\n  on a mat, naïve".as_bytes())
        .file("a/b.npy", b"\x93NUMPY\x01\x00")
        .file("a/b.bad.jpg", b"\xff\xd8\xff\xe0 not really");
    let text = shown("", &archive);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    assert!(lines[0].starts_with("a/b  (6 fields, "), "{text}");
    assert!(lines[1].starts_with("  jpg      ") && lines[1].ends_with("B  JPEG 50x40"), "{text}");
    assert!(lines[2].starts_with("  seg.png  ") && lines[2].ends_with(" B  PNG 8x6"), "{text}");
    assert_eq!(lines[3], r#"  json         35 B  {"width":50,"tags":[1,2]}"#);
    assert_eq!(lines[4], "  txt          30 B  a black cat on a mat, naïve");
    assert_eq!(lines[5], "  npy           8 B  binary 93 4e 55 4d 50 59 01 00");
    assert_eq!(lines[6], "  bad.jpg      15 B  JPEG, unreadable");
    assert_eq!(lines[7..], [""]);
}

#[test]
fn long_text_is_cut_to_the_line() {
    let archive = Archive::new().file("a.txt", "word ".repeat(1000).as_bytes());
    let text = shown("", &archive);
    assert!(text.lines().all(|line| line.chars().count() <= 100) && text.contains('…'), "{text}");
}

#[test]
fn fields_and_values_inside_them_can_be_chosen() {
    let archive = Archive::new().file("a.json", b"{\"w\": {\"h\": 3}}").file("a.cls", b"7").file("a.txt", b"no");
    assert_eq!(shown("-f cls;class", &archive), "a  (3 fields, 18 B)\n  cls       1 B  7\n\n");
    assert_eq!(shown("-l -f json.w.h", &archive), "    18 B  a  json.w.h=3\n");
}

#[test]
fn a_line_has_sizes() {
    let archive = Archive::new().file("a/b.cls", b"7").file("a/b.bin", &[0; 2048]).file("c.cls", b"10");
    assert_eq!(shown("-l", &archive), "  2.0 kB  a/b  cls 1 B  bin 2.0 kB\n     2 B  c  cls 2 B\n");
}

#[test]
fn keys_and_counts_are_those_of_the_slice() {
    let archive = gallery(12);
    assert_eq!(shown("--keys --slice 9:", &archive), "train/0009\ntrain/0010\ntrain/0011\n");
    assert_eq!(shown("--count", &archive), "12\n");
    assert_eq!(shown("--count --slice ::5", &archive), "3\n");
    let select = ["--keys", "--select", "json.width > 90 && 'txt' in fields", "--slice", "1:3"];
    let keys = run("tarshow", select).stdin(archive.whole()).ok();
    assert_eq!(String::from_utf8(keys).unwrap(), "train/0010\ntrain/0011\n");
}

#[test]
fn a_count_of_several_sources_is_their_sum() {
    let folder = dir();
    for name in ["a.tar", "b.tar"] {
        std::fs::write(folder.path().join(name), gallery(3).whole()).unwrap();
    }
    assert_eq!(words("tarshow", "--count {a,b}.tar").cwd(folder.path()).ok(), b"6\n");
}

#[test]
fn an_expression_that_cannot_be_decided_fails_its_sample() {
    let archive = Archive::new().file("a.json", b"{}").file("b.json", b"{\"w\": 1}");
    let done = run("tarshow", ["--keys", "--select", "json.w == 1"]).stdin(archive.whole()).done();
    assert_eq!(done.status(0).stderr("tarshow: 1 sample; failed 1 (1 select)").stdout(), b"b\n");
}

#[test]
fn the_first_field_comes_out_as_it_is() {
    let archive = gallery(6).whole();
    let picture = jpeg(&photo(72, 69));
    let found = run("tarshow", ["--first", "png;jpg", "--select", "json.width == 72"]).stdin(archive.clone()).ok();
    assert_eq!(found, picture);
    assert_eq!(words("tarshow", "--first json.tags.1 --slice 4:").stdin(archive.clone()).ok(), b"4");
    words("tarshow", "--first wav").stdin(archive.clone()).fails(1, "tarshow: no sample has wav");
    let folder = dir();
    assert!(words("tarshow", "--first jpg -o x.jpg").cwd(folder.path()).stdin(archive).ok().is_empty());
    assert_eq!(std::fs::read(folder.path().join("x.jpg")).unwrap(), jpeg(&photo(60, 60)));
}

#[test]
fn control_characters_are_escaped_on_a_terminal() {
    let archive = Archive::new()
        .file("a\u{9b}31m.txt", "x\x1b[2J\x07y\u{202e}z".as_bytes())
        .file("a\u{9b}31m.f\u{202e}.json", "{\"k\u{9b}\": \"\u{7f}\u{1b}\"}".as_bytes());
    for flags in ["", "-l", "--keys", "--json", "--yaml", "--preview=blocks"] {
        let text = shown(flags, &archive).replace("\x1b[0m", "");
        let acts = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!text.contains(acts), "{flags}: {text:?}");
        assert!(text.contains("u009b") || text.contains("u{9b}"), "{flags}: {text:?}");
    }
}

/// In a pseudo-terminal, which script(1) makes.
#[test]
fn a_terminal_gets_no_raw_bytes() {
    let folder = dir();
    let archive = Archive::new().file("a.txt", b"x\x1b]0;title\x07y").file("a.bin", &[0, 1, 2]);
    std::fs::write(folder.path().join("a.tar"), archive.whole()).unwrap();
    let seen = |flags: &str| {
        let done = bash(&format!("script -qec 'tarshow {flags} a.tar' /dev/null")).cwd(folder.path()).done();
        String::from_utf8_lossy(&done.stdout()).into_owned()
    };
    for flags in ["--csv -f txt", "--tsv -f txt", "-f txt"] {
        let text = seen(flags);
        assert!(text.contains("x\\u{1b}]0;title\\u{7}y") && !text.contains('\x07'), "{flags}: {text:?}");
    }
    for flags in ["--first bin", "--first txt"] {
        assert!(seen(flags).contains("stdout is a terminal and the field is not plain text"), "{flags}");
    }
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let folder = dir();
    std::fs::write(folder.path().join("a.tar"), gallery(400).whole()).unwrap();
    for flags in ["", "--json", "--preview=kitty"] {
        let mut command = words("tarshow", &format!("{flags} a.tar")).cwd(folder.path()).into_command();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 10]).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((status(output.status), output.stderr), (0, vec![]), "{flags}");
    }
}

#[test]
fn a_missing_flag_is_named() {
    words("tarshow", "--csv").fails(
        2,
        "tarshow: the following required arguments were not provided: --fields <FIELDS> (see tarshow --help)",
    );
}

#[test]
fn flags_that_do_not_go_together_are_refused() {
    for flags in [
        "--json --csv",
        "--csv",
        "--parquet x",
        "--force",
        "-n 3",
        "--random --sheet x.jpg",
        "--random -n 3 --html x.html",
        "--report r.csv",
        "--count -f cls",
        "--html x.html -o y",
        "--sheet x.gif",
        "--sheet x.jpg -n 0",
        "--sheet x.jpg -n 9999",
        "--html x.html -n 9999",
        "--preview=tek",
        "--side 5 --sheet x.jpg",
        "-f a=",
        "--slice 5",
    ] {
        let folder = dir();
        let done = words("tarshow", flags).cwd(folder.path()).stdin(gallery(1).whole()).done().status(2);
        assert_eq!(done.stderr_text().lines().count(), 1, "{flags}: {}", done.stderr_text());
        assert!(crate::support::list(folder.path()).is_empty(), "{flags}");
    }
}
