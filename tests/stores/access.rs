//! Who may read what, and how the keys are found. No secret is ever shown.

use super::proxy::{Act, Proxy};
use super::server::{bare, store};
use crate::support::{Archive, dir};

const NO_BUCKET: &str = "HTTP/1.1 404 Not Found\r\nContent-Type: application/xml\r\nConnection: close\r\n\
    Content-Length: 41\r\n\r\n<Error><Code>NoSuchBucket</Code></Error>\r\n";

#[test]
fn each_refusal_has_a_line_of_its_own() {
    store().put("test/access/a.tar", &Archive::of_samples(1).whole());
    let read = |name: &str| store().run("tarcat", [name]);
    let name = "s3://test/access/a.tar";
    read(name).env("AWS_SECRET_ACCESS_KEY", "wrong").fails(1, &format!("tarcat: {name}: the secret key is wrong"));
    let unknown = read(name).env("AWS_ACCESS_KEY_ID", "nobody");
    unknown.fails(1, &format!("tarcat: {name}: the server does not know this access key"));
    read("s3://test/access/b.tar").fails(1, "tarcat: s3://test/access/b.tar: no such object");
    read("s3://absent/b.tar").fails(1, "tarcat: s3://absent/b.tar: no such bucket");
    read("s3://test").fails(1, "tarcat: s3://test: is a prefix, not an object");
    // SeaweedFS would make the bucket.
    let proxy = Proxy::start(store().endpoint(), |_, _| Act::Answer(NO_BUCKET));
    let write = store().run("tarcat", ["-o", "s3://absent/b.tar"]).env("AWS_ENDPOINT_URL", &proxy.url);
    write.stdin(Archive::of_samples(1).whole()).fails(1, "tarcat: s3://absent/b.tar: no such bucket");
    let nowhere = read(name).env("AWS_ENDPOINT_URL", "http://127.0.0.1:1").env("AWS_MAX_ATTEMPTS", "2").done();
    nowhere.status(1).stderr_has("s3://test/access/a.tar: cannot connect: Connection refused");
}

#[test]
fn public_buckets_need_no_keys_and_others_say_so() {
    let archive = Archive::of_samples(1).whole();
    store().put("public/a.tar", &archive);
    store().put("test/private.tar", &archive);
    let read = |name: &str| bare("tarcat", ["--endpoint", store().endpoint(), name]);
    assert!(read("s3://public/a.tar").ok() == archive);
    read("s3://test/private.tar").fails(
        1,
        "tarcat: s3://test/private.tar: access denied (no credentials found: set AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY, or AWS_PROFILE)",
    );
}

#[test]
fn a_profile_gives_keys_region_and_address() {
    let archive = Archive::of_samples(1).whole();
    store().put("test/profile.tar", &archive);
    let home = dir();
    let (config, credentials) = (home.path().join("config"), home.path().join("credentials"));
    std::fs::write(&config, format!("[profile lab]\nregion = us-east-1\nendpoint_url = {}\n", store().endpoint()))
        .unwrap();
    std::fs::write(&credentials, "[lab]\naws_access_key_id = testkey\naws_secret_access_key = testsecret\n").unwrap();
    let read = |profile: &str| {
        let run = bare("tarcat", ["s3://test/profile.tar"]).env("AWS_CONFIG_FILE", config.to_str().unwrap());
        run.env("AWS_SHARED_CREDENTIALS_FILE", credentials.to_str().unwrap()).env("AWS_PROFILE", profile)
    };
    assert!(read("lab").ok() == archive);
    read("other").fails(
        1,
        "tarcat: s3://test/profile.tar: no profile 'other' in ~/.aws/config or ~/.aws/credentials (AWS_PROFILE)",
    );
}

#[test]
fn the_flag_goes_before_the_environment() {
    let archive = Archive::of_samples(1).whole();
    store().put("test/flag.tar", &archive);
    let read = store().run("tarcat", ["--endpoint", store().endpoint(), "s3://test/flag.tar"]);
    assert!(read.env("AWS_ENDPOINT_URL", "http://127.0.0.1:1").ok() == archive);
    let done = store().run("tarcat", ["--endpoint", "localhost:9000", "s3://test/flag.tar"]).done().status(2);
    done.stderr_has("not of the form http(s)://HOST");
}

#[test]
fn no_secret_is_told_whatever_goes_wrong() {
    store().put("test/secret.tar", &Archive::of_samples(1).whole());
    for (name, value) in
        [("AWS_REGION", "us-east-1"), ("AWS_ACCESS_KEY_ID", "nobody"), ("AWS_SESSION_TOKEN", "tokentoken")]
    {
        let done = store().run("tarcat", ["-v", "s3://test/secret.tar", "-o", "s3://test/secret-copy.tar"]);
        let said = done.env(name, value).done().stderr_text();
        let told = ["testsecret", "tokentoken", "Signature", "Credential="].iter().find(|word| said.contains(**word));
        assert_eq!(told, None, "{said}");
    }
}

#[test]
fn keys_that_no_file_system_would_take_are_refused() {
    for key in ["a//b.tar", "a/../b.tar", "./b.tar"] {
        let done = store().run("tarcat", [format!("s3://test/{key}")]).done().status(1);
        done.stderr_has("keys with empty parts, '.' or '..' between their slashes are not supported");
    }
}
