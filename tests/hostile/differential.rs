//! Our reader beside GNU tar, bsdtar and Python's tarfile, on archives that were changed by the dice of a seed. Where
//! two read one archive in two ways, somebody can be shown what another does not see: such cases stand in a table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Stdio};

use tarpipe::archive::{ArchiveReader, EntryKind};
use tarpipe::random::Random;

use crate::support::{Archive, dir};

/// What a program sees in an archive: the names of all members and the bytes of all files; None if it refuses.
type Seen = Option<(Vec<String>, Vec<u8>)>;

/// How one kind of change ends: `=` as with us, `x` refused, `d` taken in another way, `-` never seen.
struct Choice {
    change: &'static str,
    /// When we take the archive: what GNU tar, bsdtar and Python may do.
    taken: [&'static str; 3],
    /// When we refuse it: the same, `=` is a refusal too, `a` is none.
    refused: [&'static str; 3],
    why: &'static str,
}

const CHOICES: &[Choice] = &[
    Choice {
        change: "a bit of a header",
        taken: ["", "", ""],
        refused: ["=", "=a", "=a"],
        why: "A member is lost with its header. bsdtar goes on with the next good one, Python takes it for the end; we fail.",
    },
    Choice {
        change: "a bit of data",
        taken: ["=", "=", "="],
        refused: ["", "", ""],
        why: "Tar has no sum over data: nobody can see it. Compressed streams have one.",
    },
    Choice {
        change: "cut anywhere",
        taken: ["", "", ""],
        refused: ["=a", "=", "=a"],
        why: "Others take some cuts for the end. We ask for the end-of-archive blocks.",
    },
    Choice {
        change: "cut at a block",
        taken: ["", "", ""],
        refused: ["=a", "=a", "=a"],
        why: "The same between members, where all others see nothing wrong.",
    },
    Choice {
        change: "type",
        taken: ["=dx", "=dx", "=dx"],
        refused: ["=a", "=a", "=a"],
        why: "A type that nobody knows is a file to GNU tar and bsdtar, or an error; we drop and count it, as Python does. A volume label is no member to us, a name in the lists of the others. A member continued from another volume is an error to us alone. An extended header that is none is damage.",
    },
    Choice {
        change: "size",
        taken: ["=d", "=d", "=d"],
        refused: ["=a", "=a", "=a"],
        why: "A wrong size shifts what follows: the next header is none, and we fail where others search for one. The size of a long name cuts it, as with bsdtar; that of a folder means nothing.",
    },
    Choice {
        change: "vast size",
        taken: ["=", "=dx", "="],
        refused: ["=", "=", "=a"],
        why: "The size of a folder means nothing, as POSIX says; bsdtar reads past so much.",
    },
    Choice {
        change: "name",
        taken: ["=", "=d", "=d"],
        refused: ["", "", ""],
        why: "A name is bytes to us until it becomes a key. A file whose name ends in a slash is a folder, as old archives have them and GNU tar reads them; bsdtar and Python go by its type.",
    },
    Choice {
        change: "magic or prefix",
        taken: ["=", "=", "=d"],
        refused: ["", "", ""],
        why: "The prefix counts where the magic is ustar and a NUL, whatever the version, as with GNU tar and bsdtar; Python takes it always.",
    },
    Choice {
        change: "sum",
        taken: ["=", "=", "="],
        refused: ["=", "=a", "=a"],
        why: "Sums are octal with any padding, as POSIX says, unsigned or signed.",
    },
    Choice {
        change: "numbers",
        taken: ["=x", "=x", "=dx"],
        refused: ["", "", ""],
        why: "Owners, modes and times of noise cost nobody his data. GNU tar and bsdtar end with an error, Python takes it for the end.",
    },
    Choice {
        change: "a block lost",
        taken: ["=", "=", "="],
        refused: ["=", "=a", "=a"],
        why: "As with a bit of a header. A block of data lost moves the next header into the data.",
    },
    Choice { change: "a block twice", taken: ["=", "=", "="], refused: ["=", "=a", "=a"], why: "The same." },
    Choice { change: "two blocks swapped", taken: ["=d", "=", "=d"], refused: ["=", "=a", "=a"], why: "The same." },
    Choice {
        change: "a zero block",
        taken: ["", "", ""],
        refused: ["a", "=a", "=a"],
        why: "One zero block is no end, and no member: others stop there, with a warning at most.",
    },
    Choice {
        change: "an archive behind it",
        taken: ["d", "d", "d"],
        refused: ["", "", ""],
        why: "Archives in a row are one stream to us, as `cat` and shards need it; others stop at the first end (GNU tar -i goes on).",
    },
    Choice {
        change: "garbage behind it",
        taken: ["", "", ""],
        refused: ["a", "a", "a"],
        why: "Others never look. We fail: what follows may be a shard whose beginning was lost.",
    },
    Choice {
        change: "PAX records",
        taken: ["=dx", "=dx", "=d"],
        refused: ["=a", "=a", "=a"],
        why: "A NUL in a path ends it for GNU tar and bsdtar; we keep it, and refuse it as a key. Of two paths, GNU's and PAX's, that of PAX counts. Records that count wrong are damage.",
    },
];

fn ours(bytes: &[u8]) -> Seen {
    let mut reader = ArchiveReader::new(Box::new(Cursor::new(bytes.to_vec())), false);
    let (mut names, mut data) = (Vec::new(), Vec::new());
    while let Some(entry) = reader.next_entry().ok()? {
        names.push(shown(&entry.path));
        if entry.kind == EntryKind::File {
            data.extend(reader.read_data().ok()?);
        }
    }
    Some((names, data))
}

/// A name as a list shows it; a slash at the end is a matter of taste.
fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).trim_end_matches('/').to_owned()
}

fn program(words: &[&str], archive: &Path) -> Seen {
    let run = |flags: &str| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(flags).arg(archive).stdin(Stdio::null());
        let output = command.env("LC_ALL", "C.UTF-8").output().unwrap();
        output.status.success().then_some(output.stdout)
    };
    let list = run("-tf")?;
    // bsdtar shows a backslash as two.
    let plain = |name: String| if words[0] == "bsdtar" { name.replace("\\\\", "\\") } else { name };
    let names = list.split(|&b| b == b'\n').filter(|name| !name.is_empty()).map(shown).map(plain).collect();
    Some((names, run("-xOf")?))
}

/// One process for all archives: where each begins to differ is a line of JSON.
fn python(folder: &Path, count: usize) -> Vec<Seen> {
    let script = r"
import base64, json, sys, tarfile
for i in range(int(sys.argv[1])):
    names, data = [], b''
    try:
        with tarfile.open(f'{i}.tar', errorlevel=2) as archive:
            for member in archive:
                names.append(member.name.encode('utf-8', 'surrogateescape').decode('utf-8', 'replace').rstrip('/'))
                if member.isreg():
                    body = archive.extractfile(member).read()
                    if len(body) < member.size:
                        raise EOFError
                    data += body
        print(json.dumps([names, base64.b64encode(data).decode()]))
    except Exception as error:
        print('null')
";
    let output = Command::new("python3").args(["-c", script, &count.to_string()]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let seen = |line: &str| -> Seen {
        let (names, data): (Vec<String>, String) = serde_json::from_str::<Option<_>>(line).unwrap()?;
        use base64::Engine;
        Some((names, base64::prelude::BASE64_STANDARD.decode(data).unwrap()))
    };
    lines.lines().map(seen).collect()
}

/// An archive with members of every kind, in each of the formats that people write.
fn base(dice: &mut Random) -> Vec<u8> {
    let long = format!("{}/long.txt", "d".repeat(120));
    let archive = match dice.below(3) {
        0 => Archive::new(),
        1 => Archive::new().entry(b"././@LongLink", tar::EntryType::GNULongName, long.as_bytes()).file("cut", b"long"),
        _ => Archive::new()
            .entry(b"x", tar::EntryType::XHeader, b"23 path=dir/pax.name.x\n20 mtime=1700000000\n")
            .file("cut", b"pax"),
    };
    let archive =
        archive.file("a.jpg", &[b'j'; 700]).file("a.cls", b"7").entry(b"dir/", tar::EntryType::Directory, b"");
    archive.file("dir/b.json", b"{\"a\": 1}").file("dir/b.txt", b"").whole()
}

/// The offsets of headers in a complete archive: blocks with a valid checksum.
fn headers(bytes: &[u8]) -> Vec<usize> {
    let is_header = |at: &usize| bytes[at + 257..].starts_with(b"ustar");
    (0..bytes.len()).step_by(512).filter(is_header).collect()
}

fn resum(bytes: &mut [u8], at: usize) {
    let mut header = tar::Header::from_byte_slice(&bytes[at..at + 512]).clone();
    header.set_cksum();
    bytes[at..at + 512].copy_from_slice(header.as_bytes());
}

/// Writes over a part of a header and makes its sum hold.
fn patch(bytes: &mut [u8], dice: &mut Random, field: std::ops::Range<usize>, with: &[u8]) {
    let heads = headers(bytes);
    let at = heads[dice.below(heads.len())];
    let n = with.len().min(field.len());
    bytes[at + field.start..at + field.start + n].copy_from_slice(&with[..n]);
    resum(bytes, at);
}

const CHANGES: [&str; 18] = [
    "a bit of a header",
    "a bit of data",
    "cut anywhere",
    "cut at a block",
    "type",
    "size",
    "vast size",
    "name",
    "magic or prefix",
    "sum",
    "numbers",
    "a block lost",
    "a block twice",
    "two blocks swapped",
    "a zero block",
    "an archive behind it",
    "garbage behind it",
    "PAX records",
];

const SIZES: [&[u8]; 8] = [
    b"00000000001\0",
    b"00000001000\0",
    b"          3 ",
    b"7\0\0\0\0\0\0\0\0\0\0\0",
    b"0000000x001\0",
    b"\x80\0\0\0\0\0\0\0\0\0\0\x03",
    b"            ",
    b"-0000000001\0",
];

const VAST_SIZES: [&[u8]; 4] = [
    b"00010000000\0",
    b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
];

const MAGICS: [&[u8]; 7] =
    [b"ustar\x0000", b"ustar  \0", b"ustar\0\0\0", b"\0\0\0\0\0\0\0\0", b"USTAR\x0000", b"ustar\x0000", b"ustar 00"];

const RECORDS: [&[u8]; 14] = [
    b"14 path=p.one\n",
    b"14 path=p.one\n14 path=p.two\n",
    b"+14 path=p.one\n",
    b"014 path=p.one\n",
    b"14 path=p.onX",
    b"9 path=\n",
    b"10 size=\n",
    b"9 size=3\n",
    b"10 size=+3\n",
    b"10 size=-3\n",
    b"12 path=a\0b\n",
    b"5 =x\n",
    b"17 mtime=17.25e3\n",
    b"23 GNU.sparse.size=900\n",
];

fn changed(change: &str, dice: &mut Random) -> Vec<u8> {
    let mut bytes = base(dice);
    let blocks = bytes.len() / 512;
    let end = bytes.len() - 1024;
    let noise = |dice: &mut Random, n: usize| -> Vec<u8> { (0..n).map(|_| dice.below(256) as u8).collect() };
    match change {
        "a bit of a header" => {
            let heads = headers(&bytes);
            bytes[heads[dice.below(heads.len())] + dice.below(512)] ^= 1 << dice.below(8);
        }
        "a bit of data" => {
            let at = bytes.windows(700).position(|part| part == [b'j'; 700]).unwrap();
            bytes[at + dice.below(700)] ^= 1 << dice.below(8);
        }
        "cut anywhere" => bytes.truncate(1 + dice.below(end)),
        "cut at a block" => bytes.truncate(512 * (1 + dice.below(blocks - 1))),
        "type" => {
            let kinds = b"\x0001234567xgLKSVMDNAXZ ~";
            let kind = kinds[dice.below(kinds.len())];
            patch(&mut bytes, dice, 156..157, &[kind]);
        }
        "size" | "vast size" => {
            let choices = if change == "size" { &SIZES[..] } else { &VAST_SIZES };
            let choice = choices[dice.below(choices.len())];
            patch(&mut bytes, dice, 124..136, choice);
        }
        "name" => {
            let text: Vec<u8> = (0..100).map(|_| b"abc./\\ %$'_-"[dice.below(12)]).collect();
            let n = dice.below(101);
            let with = [&text[..n], &[0][..usize::from(n < 100)]].concat();
            patch(&mut bytes, dice, 0..100, &with);
        }
        "magic or prefix" => {
            let choice = MAGICS[dice.below(MAGICS.len())];
            patch(&mut bytes, dice, 257..265, choice);
            if dice.below(2) == 0 {
                patch(&mut bytes, dice, 345..500, b"in/the/prefix\0");
            }
        }
        "sum" => {
            let heads = headers(&bytes);
            let at = heads[dice.below(heads.len())];
            let sum = tar::Header::from_byte_slice(&bytes[at..at + 512]).cksum().unwrap();
            let text = match dice.below(6) {
                0 => format!("{sum:06o}  "),
                1 => format!("{sum:o}\0      "),
                2 => format!("  {sum:o}\0\0"),
                3 => format!("{sum:08o}"),
                4 => format!("{:06o}\0 ", sum + 1),
                _ => "        ".to_owned(),
            };
            bytes[at + 148..at + 156].copy_from_slice(&text.as_bytes()[..8]);
        }
        "numbers" => {
            let field = [100..108, 108..116, 116..124, 136..148, 329..337][dice.below(5)].clone();
            let choices: [Vec<u8>; 4] = [noise(dice, 12), vec![0; 12], vec![b' '; 12], vec![0xff; 12]];
            let choice = choices[dice.below(4)].clone();
            patch(&mut bytes, dice, field, &choice);
        }
        "a block lost" => {
            let at = 512 * dice.below(blocks - 2);
            bytes.drain(at..at + 512);
        }
        "a block twice" => {
            let at = 512 * dice.below(blocks - 2);
            let block = bytes[at..at + 512].to_vec();
            bytes.splice(at..at, block);
        }
        "two blocks swapped" => {
            let (a, b) = (512 * dice.below(blocks - 2), 512 * dice.below(blocks - 2));
            let (first, second) = (bytes[a..a + 512].to_vec(), bytes[b..b + 512].to_vec());
            bytes[a..a + 512].copy_from_slice(&second);
            bytes[b..b + 512].copy_from_slice(&first);
        }
        "a zero block" => {
            let heads = headers(&bytes);
            let at = heads[dice.below(heads.len())];
            bytes.splice(at..at, [0; 512]);
        }
        "an archive behind it" => bytes.extend(Archive::new().file("z.txt", b"behind").whole()),
        "garbage behind it" => {
            let n = 1 + dice.below(2000);
            bytes.extend(noise(dice, n));
        }
        "PAX records" => {
            let record = RECORDS[dice.below(RECORDS.len())];
            let kind = if dice.below(4) == 0 { tar::EntryType::XGlobalHeader } else { tar::EntryType::XHeader };
            let pax = Archive::new().entry(b"x", kind, record).cut();
            let heads = headers(&bytes);
            let at = heads[dice.below(heads.len())];
            bytes.splice(at..at, pax);
        }
        _ => unreachable!("{change}"),
    }
    bytes
}

fn letter(ours: &Seen, theirs: &Seen) -> char {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if ours == theirs => '=',
        (Some(_), Some(_)) => 'd',
        (Some(_), None) => 'x',
        (None, Some(_)) => 'a',
        (None, None) => '=',
    }
}

#[test]
fn where_programs_read_an_archive_in_two_ways_the_table_says_so() {
    let rounds: usize = std::env::var("TARPIPE_DIFFERENTIAL_ROUNDS").map_or(12, |rounds| rounds.parse().unwrap());
    let folder = dir();
    let mut dice = Random::new(12);
    let mut archives = Vec::new();
    for change in CHANGES {
        for _ in 0..rounds {
            let bytes = changed(change, &mut dice);
            std::fs::write(folder.path().join(format!("{}.tar", archives.len())), &bytes).unwrap();
            archives.push((change, bytes));
        }
    }
    let pythons = python(folder.path(), archives.len());
    let mut told = String::new();
    let mut seen: BTreeMap<(&str, bool), [BTreeSet<char>; 3]> = BTreeMap::new();
    for (i, (change, bytes)) in archives.iter().enumerate() {
        let path = folder.path().join(format!("{i}.tar"));
        let ours = ours(bytes);
        let gnu = program(&["tar", "--quoting-style=literal", "--no-recursion"], &path);
        let bsd = program(&["bsdtar"], &path);
        let letters = [letter(&ours, &gnu), letter(&ours, &bsd), letter(&ours, &pythons[i])];
        if letters != ['=', '=', '='] {
            let brief = |seen: &Seen| seen.as_ref().map(|(names, data)| (names.join(" "), data.len()));
            let all = [&ours, &gnu, &bsd, &pythons[i]].map(brief);
            _ = writeln!(told, "{i} {change} {letters:?} {all:?}");
        }
        let sets = seen.entry((change, ours.is_some())).or_default();
        letters.into_iter().zip(sets).for_each(|(letter, set)| _ = set.insert(letter));
    }
    if let Some(file) = std::env::var_os("TARPIPE_DIFFERENTIAL_SHOW") {
        std::fs::write(file, told).unwrap();
    }
    let mut wrong = Vec::new();
    for ((change, taken), sets) in &seen {
        let choice = CHOICES.iter().find(|choice| choice.change == *change);
        let known = choice.map_or([""; 3], |choice| if *taken { choice.taken } else { choice.refused });
        let new = sets.iter().zip(known).any(|(set, known)| set.iter().any(|letter| !known.contains(*letter)));
        if new {
            let sets = sets.each_ref().map(|set| set.iter().collect::<String>());
            wrong
                .push(format!("{change}: {}: {sets:?}, known are {known:?}", if *taken { "taken" } else { "refused" }));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(CHOICES.iter().all(|choice| CHANGES.contains(&choice.change) && !choice.why.is_empty()));
}
