//! Files of the Hugging Face hub, played by a scripted server.

use crate::support::server::{Server, respond};
use crate::support::{Archive, run};

#[test]
fn a_file_of_the_hub_is_read_with_the_token_of_the_environment() {
    let archive = Archive::of_samples(30).whole();
    let body = archive.clone();
    let storage = Server::start(move |_, _, stream| respond(stream, "200 OK", "ETag: \"x\"\r\n", &body, usize::MAX));
    let elsewhere = format!("Location: {}/blob\r\n", storage.url.replace("127.0.0.1", "localhost"));
    let hub = Server::start(move |_, _, stream| respond(stream, "302 Found", &elsewhere, b"", 0));
    let read = run("tarcat", ["hf://datasets/owner/name@v1/data/a b.tar"]).env("HF_ENDPOINT", &hub.url);
    assert!(read.env("HF_TOKEN", "hf_secret").ok() == archive);
    let asked = &hub.requests()[0];
    assert_eq!(asked.path, "/datasets/owner/name/resolve/v1/data/a%20b.tar");
    assert_eq!(asked.header("authorization"), Some("Bearer hf_secret"));
    assert_eq!(storage.requests()[0].header("authorization"), None, "the token went to another host");
}

#[test]
fn a_dropped_connection_to_the_hub_is_resumed_with_the_token() {
    let archive = Archive::of_samples(100).whole();
    let body = archive.clone();
    let hub = Server::start(move |_, number, stream| {
        respond(stream, "200 OK", "ETag: \"x\"\r\n", &body, if number == 0 { 60_000 } else { usize::MAX });
    });
    let read = run("tarcat", ["hf://datasets/o/n/a.tar"]).env("HF_ENDPOINT", &hub.url).env("HF_TOKEN", "hf_secret");
    assert!(read.ok() == archive);
    assert_eq!(hub.requests()[1].header("range"), Some("bytes=60000-"));
    assert_eq!(hub.requests()[1].header("authorization"), Some("Bearer hf_secret"));
}

#[test]
fn a_dataset_that_is_not_public_says_what_to_set() {
    let hub = Server::start(|_, _, stream| respond(stream, "401 Unauthorized", "", b"", 0));
    let read = || run("tarcat", ["hf://datasets/o/n/a.tar"]).env("HF_ENDPOINT", &hub.url).env("HF_HOME", "/nowhere");
    let refused = "tarcat: hf://datasets/o/n/a.tar: the server answers 401 Unauthorized";
    read().env("HF_TOKEN", "").fails(1, &format!("{refused} (no token: set HF_TOKEN for private datasets)"));
    read().env("HF_TOKEN", "hf_secret").fails(1, refused);
    let done = run("tarcat", ["hf://owner/name/a.tar"]).done().status(1);
    done.stderr("tarcat: hf://owner/name/a.tar: expected hf://datasets/OWNER/NAME[@REVISION]/PATH");
}
