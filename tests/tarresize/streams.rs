//! The stream around the images: order, determinism, cuts.

use super::{jpeg, photo, png};
use crate::support::{Archive, members, names, words};

fn many(count: u32) -> Archive {
    (0..count).fold(Archive::new(), |archive, i| {
        let image = photo(40 + i * 7 % 50, 30 + i * 13 % 60);
        let archive = archive.file(&format!("s{i:03}.jpg"), &if i % 3 == 0 { png(image) } else { jpeg(&image) });
        archive.file(&format!("s{i:03}.cls"), b"1")
    })
}

#[test]
fn the_number_of_threads_never_shows() {
    let archive = many(40).whole();
    let outputs = ["1", "2", "8"].map(|p| words("tarresize", &format!("-s 16 -p {p}")).stdin(archive.clone()).ok());
    assert!(outputs[0] == outputs[1] && outputs[1] == outputs[2]);
    let keys: Vec<String> = names(&outputs[0]).into_iter().filter(|name| name.ends_with("cls")).collect();
    assert!(keys.is_sorted() && keys.len() == 40);
}

#[test]
fn an_empty_archive_is_an_archive() {
    assert!(members(&words("tarresize", "-s 16").stdin(Archive::new().whole()).ok()).is_empty());
}

#[test]
fn a_cut_stream_fails_and_has_no_end() {
    let archive = many(3).whole();
    for at in [0, 700, archive.len() / 2, archive.len() - 1024] {
        let done = words("tarresize", "-s 16").stdin(&archive[..at]).done().status(1);
        assert!(!done.stdout().ends_with(&[0; 1024]), "cut at {at}");
    }
}

#[test]
fn untouched_members_keep_their_headers() {
    let archive = many(1).whole();
    let out = words("tarresize", "-s 16").stdin(archive.clone()).ok();
    let header =
        |bytes: &[u8]| bytes.windows(8).position(|window| window == b"s000.cls").map(|at| bytes[at..at + 512].to_vec());
    assert_eq!(header(&out), header(&archive));
}
