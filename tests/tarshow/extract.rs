//! Files out of samples, and names that want elsewhere.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::gallery;
use crate::support::{Archive, dir, list, run, words};

fn extract(folder: &Path, flags: &str, archive: Archive) -> crate::support::Done {
    words("tarshow", &format!("--extract out {flags}")).cwd(folder).stdin(archive.whole()).done()
}

#[test]
fn fields_become_files_with_the_time_of_their_sample() {
    let folder = dir();
    let archive = Archive::new().file("a/b/c.txt", b"one").file("a/b/c.x.bin", &[0; 10]).file("./d.txt", b"");
    extract(folder.path(), "", archive).status(0).stderr("");
    let out = folder.path().join("out");
    assert_eq!(list(&out), ["a", "d.txt"]);
    assert_eq!(list(out.join("a/b")), ["c.txt", "c.x.bin"]);
    assert_eq!(std::fs::read(out.join("a/b/c.txt")).unwrap(), b"one");
    let time = std::fs::metadata(out.join("a/b/c.txt")).unwrap().modified().unwrap();
    assert_eq!(time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs(), 1_700_000_000);
}

#[test]
fn more_files_than_wait_at_once_all_arrive() {
    let folder = dir();
    extract(folder.path(), "", Archive::of_samples(300)).status(0).stderr("");
    assert_eq!(list(folder.path().join("out")).len(), 900);
}

#[test]
fn fields_are_chosen_and_renamed() {
    let folder = dir();
    let done = run("tarshow", ["--extract", "out", "-f", "image.jpg=jpg url=json.url cap=txt", "--slice", "4:6"]);
    done.cwd(folder.path()).stdin(gallery(6).whole()).ok();
    let out = folder.path().join("out/train");
    assert_eq!(list(&out), ["0004.image.jpg", "0004.url", "0005.cap", "0005.image.jpg", "0005.url"]);
    assert_eq!(std::fs::read(out.join("0004.url")).unwrap(), b"http://h/4");
    extract(folder.path(), "-f wav", gallery(2)).status(3).stderr("tarshow: 0 samples; failed 2 (2 no_field)");
    let up = extract(folder.path(), "-f ../../x=txt", gallery(1)).status(3);
    up.stderr("tarshow: 0 samples; failed 1 (1 name_field)");
    assert_eq!(list(folder.path()), ["out"]);
}

#[test]
fn nothing_is_replaced_unasked() {
    let folder = dir();
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("a.txt"), "mine").unwrap();
    let archive = || Archive::new().file("a.cls", b"7").file("a.txt", b"new").file("b.txt", b"b");
    extract(folder.path(), "", archive()).status(0).stderr("tarshow: 1 sample; failed 1 (1 exists)");
    // All of a sample or none of it.
    assert_eq!(list(&out), ["a.txt", "b.txt"]);
    assert_eq!(std::fs::read(out.join("a.txt")).unwrap(), b"mine");
    extract(folder.path(), "--force", archive()).status(0).stderr("");
    assert_eq!(std::fs::read(out.join("a.txt")).unwrap(), b"new");
    assert_eq!(list(&out), ["a.cls", "a.txt", "b.txt"]);
}

#[test]
fn a_key_that_comes_back_does_not_replace_itself() {
    let folder = dir();
    let archive = Archive::new().file("a.txt", b"first").file("b.txt", b"b").file("a.txt", b"second");
    extract(folder.path(), "", archive).status(0).stderr("tarshow: 2 samples; failed 1 (1 exists)");
    assert_eq!(std::fs::read(folder.path().join("out/a.txt")).unwrap(), b"first");
}

#[test]
fn links_in_the_way_are_not_followed() {
    let folder = dir();
    let (out, elsewhere) = (folder.path().join("out"), folder.path().join("elsewhere"));
    std::fs::create_dir(&out).unwrap();
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("precious.txt"), "mine").unwrap();
    symlink(&elsewhere, out.join("d")).unwrap();
    symlink(elsewhere.join("precious.txt"), out.join("f.txt")).unwrap();
    symlink(elsewhere.join("new.txt"), out.join("g.txt")).unwrap();
    let archive = || Archive::new().file("d/x.txt", b"x").file("f.txt", b"x").file("g.txt", b"x").file("h.txt", b"h");
    let summary = "tarshow: 1 sample; failed 3 (2 exists, 1 in_the_way)";
    extract(folder.path(), "", archive()).status(0).stderr(summary);
    std::fs::remove_file(out.join("h.txt")).unwrap();
    // Where files may be replaced, a link is replaced itself.
    extract(folder.path(), "--force", archive()).status(0).stderr("tarshow: 3 samples; failed 1 (1 in_the_way)");
    assert_eq!(list(&elsewhere), ["precious.txt"]);
    assert_eq!(std::fs::read(elsewhere.join("precious.txt")).unwrap(), b"mine");
    assert!(std::fs::symlink_metadata(out.join("f.txt")).unwrap().is_file());
}

#[test]
fn what_cannot_be_a_file_costs_its_sample() {
    let folder = dir();
    let long = format!("{}.txt", "k".repeat(90));
    let archive = Archive::new().file("a.txt", b"a").file("a.txt/b.txt", b"b").file(&long, b"x").file("z.txt", b"z");
    let done = extract(folder.path(), "-v", archive).status(0);
    done.stderr("tarshow: stdin: a.txt/b: left out: a link, a folder or a file is in the way\ntarshow: 3 samples; failed 1 (1 in_the_way)");
    let field = "f".repeat(300);
    let flags = ["--extract".to_owned(), "out2".into(), "-f".into(), format!("{field}=txt")];
    let done = run("tarshow", flags).cwd(folder.path()).stdin(Archive::new().file("a.txt", b"a").whole()).done();
    done.status(3).stderr("tarshow: 0 samples; failed 1 (1 name_long)");
}

#[test]
fn hostile_names_stay_out() {
    let folder = dir();
    let archive = Archive::new().file("../up.txt", b"x").file("/tmp/tarshow-abs.txt", b"x").file("ok.txt", b"x");
    let summary = "tarshow: 1 sample; failed 2 (1 name_absolute, 1 name_parent)";
    extract(folder.path(), "", archive).status(0).stderr(summary);
    assert_eq!((list(folder.path()), list(folder.path().join("out"))), (vec!["out".into()], vec!["ok.txt".into()]));
}

#[test]
fn a_cut_stream_leaves_whole_files_and_no_others() {
    let folder = dir();
    let whole = Archive::of_samples(300).whole();
    let done = words("tarshow", "--extract out").cwd(folder.path()).stdin(&whole[..whole.len() / 2]).done().status(1);
    done.stderr_has("tarshow: stdin: byte ");
    let names = list(folder.path().join("out"));
    assert!(names.iter().all(|name| name.starts_with('s')), "{names:?}");
}

#[test]
fn a_folder_that_cannot_be_made_is_said() {
    let folder = dir();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let done = words("tarshow", "--extract file/out").cwd(folder.path()).stdin(gallery(1).whole()).done().status(1);
    assert!(done.stderr_text().starts_with("tarshow: file/out: "), "{}", done.stderr_text());
}
