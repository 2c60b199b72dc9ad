//! `az://`, against Azurite: blobs are written in blocks, listed, read in ranges.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use super::round_trips::large;
use super::server::bare;
use crate::support::{Archive, Run, TempDir, dir};

/// Azurite, started once for all tests. It ends when the test process does: its stdin closes.
struct Azure {
    variables: Vec<(String, String)>,
    _server: Child,
    _folder: TempDir,
}

fn azure() -> &'static Azure {
    static AZURE: OnceLock<Azure> = OnceLock::new();
    AZURE.get_or_init(|| {
        let folder = dir();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/azure-serve");
        let mut server = Command::new(script);
        let mut server = server.arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
        let pairs = lines.map(|line| line.split_once('=').map(|(name, value)| (name.into(), value.into())).unwrap());
        let variables = pairs.take_while(|(name, _): &(String, String)| name != "READY").collect();
        Azure { variables, _server: server, _folder: folder }
    })
}

fn run(args: &[&str]) -> Run {
    azure().variables.iter().fold(bare("tarcat", args), |run, (name, value)| run.env(name, value))
}

#[test]
fn blobs_are_written_listed_and_read() {
    let (archive, small) = (large(), Archive::of_samples(2).whole());
    run(&["-o", "az://test/a/large.tar"]).stdin(archive.clone()).ok();
    assert!(run(&["az://test/a/large.tar"]).ok() == archive);
    run(&["-o", "az://test/b/small.tar"]).stdin(small.clone()).ok();
    assert!(run(&["az://test/b/*.tar"]).ok() == small);
    assert!(run(&["az://test/b/"]).ok() == small);
}

#[test]
fn each_refusal_of_azure_has_its_line() {
    run(&["az://test/none.tar"]).fails(1, "tarcat: az://test/none.tar: no such object");
    run(&["az://absent/a.tar"]).fails(1, "tarcat: az://absent/a.tar: no such bucket");
    let other_key = "bm90IHRoZSBrZXkgb2YgdGhpcyBhY2NvdW50";
    let stranger = run(&["az://test/a.tar"]).env("AZURE_STORAGE_ACCOUNT_KEY", other_key).done().status(1);
    let said = stranger.stderr_text();
    assert!(said.starts_with("tarcat: az://test/a.tar: ") && !said.contains(other_key), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_kill_leaves_no_blob() {
    let mut command = run(&["-o", "az://test/killed.tar"]).into_command();
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let archive = large();
    child.stdin.as_mut().unwrap().write_all(&archive[..archive.len() * 3 / 4]).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    run(&["az://test/killed.tar"]).fails(1, "tarcat: az://test/killed.tar: no such object");
    run(&["-o", "az://test/killed.tar"]).stdin(archive.clone()).ok();
    assert!(run(&["az://test/killed.tar"]).ok() == archive);
}
