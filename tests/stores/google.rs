//! `gs://`: Google's requests are S3's but for the signature, so SeaweedFS answers them for a public
//! bucket. What only Google's own server does, its tokens above all, is not tested here.

use super::proxy::{Act, Proxy};
use super::round_trips::large;
use super::server::{bare, store};
use crate::support::Archive;

#[test]
fn objects_at_google_s_are_written_listed_and_read() {
    let archive = large();
    let proxy = Proxy::start(store().endpoint(), |_, _| Act::Pass);
    let run = |args: &[&str]| bare("tarcat", args).env("STORAGE_EMULATOR_HOST", &proxy.url);
    run(&["-o", "gs://public/google/large.tar"]).stdin(archive.clone()).ok();
    assert!(store().get("public/google/large.tar").unwrap() == archive);
    assert!(run(&["gs://public/google/l*.tar"]).ok() == archive);
    run(&["-o", "gs://public/google/small.tar"]).stdin(Archive::of_samples(2).whole()).ok();
    assert!(run(&["gs://public/google/small.tar"]).ok() == Archive::of_samples(2).whole());
    run(&["gs://public/google/none.tar"]).fails(1, "tarcat: gs://public/google/none.tar: no such object");
    let without_account = bare("tarcat", ["az://box/a.tar"]).env("AZURE_STORAGE_USE_EMULATOR", "false");
    without_account.fails(1, "tarcat: az://box/a.tar: missing storage account (set AZURE_STORAGE_ACCOUNT_NAME)");
}
