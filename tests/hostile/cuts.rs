//! Compressed input that ends early: an error or all that is in it, for tables as for archives.

use std::path::Path;

use crate::support::archives::noise;
use crate::support::{Archive, bash, dir, run};

/// Rows of a table, enough for several blocks of every format.
const ROWS: usize = 4000;

/// How files are compressed, and the suffix that says so. Small blocks, so that there are many boundaries.
const PACKERS: [(&str, &str); 5] =
    [("gzip", "gz"), ("zstd -q", "zst"), ("xz -0", "xz"), ("bzip2 -1", "bz2"), ("lz4 -q -B4 -BD", "lz4")];

fn rows() -> impl Iterator<Item = (usize, String)> {
    (0..ROWS).map(|i| (i, noise(i as u64, 24).iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// The table in three formats.
fn table(suffix: &str) -> String {
    match suffix {
        "txt" => rows().map(|(_, name)| format!("http://h/{name}\n")).collect(),
        "csv" => std::iter::once("url,n\n".to_owned())
            .chain(rows().map(|(i, name)| format!("http://h/{name},{i}\n")))
            .collect(),
        _ => rows().map(|(i, name)| format!("{{\"url\":\"http://h/{name}\",\"n\":{i}}}\n")).collect(),
    }
}

fn pack(folder: &Path, packer: &str, bytes: &[u8]) -> Vec<u8> {
    bash(&format!("{packer} -c")).cwd(folder).stdin(bytes).ok()
}

/// Where the blocks of an LZ4 frame with a header of seven bytes end, and its end.
fn lz4_blocks(frame: &[u8]) -> Vec<usize> {
    let mut ends = vec![7];
    let mut at = 7;
    loop {
        let size = u32::from_le_bytes(frame[at..at + 4].try_into().unwrap()) & 0x7fff_ffff;
        at += 4 + size as usize;
        ends.push(at);
        if size == 0 {
            return ends;
        }
    }
}

/// Cuts near both ends of a file and at some places in between, as many as TARPIPE_CUTS says.
fn cuts(length: usize, seed: u64) -> Vec<usize> {
    let many = std::env::var("TARPIPE_CUTS").map_or(4, |many| many.parse().unwrap());
    let random = noise(seed, 4 * many);
    let random = random.chunks(4).map(|four| u32::from_le_bytes(four.try_into().unwrap()) as usize % length);
    [0, 5, 20, length - 9, length - 1].into_iter().chain(random).collect()
}

#[test]
fn a_table_that_is_cut_is_an_error_in_every_compression() {
    let folder = dir();
    let path = folder.path();
    for (n, (packer, suffix)) in PACKERS.iter().enumerate() {
        let format = ["txt", "csv", "jsonl"][n % 3];
        let packed = pack(path, packer, table(format).as_bytes());
        let mut cuts = cuts(packed.len(), n as u64);
        if *suffix == "lz4" {
            let blocks = lz4_blocks(&packed);
            assert!(blocks.len() > 4, "{} blocks", blocks.len());
            cuts.extend(&blocks);
        }
        let name = format!("cut.{format}.{suffix}");
        for cut in cuts {
            std::fs::write(path.join(&name), &packed[..cut]).unwrap();
            let done = run("urlcat", [&name]).cwd(path).done();
            let said = done.stderr_text();
            assert_eq!(done.status_code(), 1, "{name} at {cut} of {}: {said}", packed.len());
            assert!(said.starts_with(&format!("urlcat: {name}: ")), "{cut}: {said}");
        }
        std::fs::write(path.join(&name), &packed).unwrap();
        let out = run("urlcat", [&name]).cwd(path).done().status(0).stdout_text();
        assert_eq!(out.lines().count(), ROWS, "{name}");
    }
}

#[test]
fn a_cut_between_frames_is_no_cut_and_inside_one_it_is() {
    let folder = dir();
    let path = folder.path();
    for (packer, suffix) in PACKERS {
        let packed = pack(path, packer, table("txt").as_bytes());
        let twice = [packed.clone(), packed.clone()].concat();
        let name = format!("t.txt.{suffix}");
        for (bytes, expected) in [(packed.len(), 1), (packed.len() + 1, 0), (packed.len() + 9, 0), (twice.len(), 2)] {
            std::fs::write(path.join(&name), &twice[..bytes]).unwrap();
            let done = run("urlcat", [&name]).cwd(path).done();
            match expected {
                0 => _ = done.status(1).stderr_has("the compressed data is cut off"),
                times => assert_eq!(done.status(0).stdout_text().lines().count(), times * ROWS, "{name}"),
            }
        }
    }
}

#[test]
fn other_readers_of_tables_and_archives_notice_a_cut_between_blocks() {
    let folder = dir();
    let path = folder.path();
    let csv: String =
        std::iter::once("__key__,txt\n".into()).chain(rows().map(|(i, text)| format!("{i:05},{text}\n"))).collect();
    let archive = Archive::of_samples(400).whole();
    for (bytes, name, tool, args) in [
        (csv.as_bytes(), "t.csv.lz4", "tarcreate", &["--from", "table"][..]),
        (table("jsonl").as_bytes(), "t.jsonl.lz4", "urlcat", &[]),
        (&archive, "a.tar.lz4", "tarcat", &[]),
        (&archive, "a.tar.lz4", "tarcheck", &[]),
    ] {
        let packed = pack(path, "lz4 -q -B4 -BD", bytes);
        let blocks = lz4_blocks(&packed);
        for cut in [blocks[1], blocks[blocks.len() / 2], blocks[blocks.len() - 2]] {
            std::fs::write(path.join(name), &packed[..cut]).unwrap();
            let done = run(tool, args.iter().copied().chain([name])).cwd(path).done().status(1);
            done.stderr_has("the compressed data is cut off");
        }
    }
}
