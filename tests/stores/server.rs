//! SeaweedFS, started once for all tests. It ends when the test process does: its stdin closes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use crate::support::{Run, TempDir, dir, run};

pub struct Store {
    variables: Vec<(String, String)>,
    filer: String,
    _server: Child,
    _folder: TempDir,
}

/// Variables of the machine that must not reach the tools.
const FOREIGN: [&str; 9] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AWS_MAX_ATTEMPTS",
    "AWS_SKIP_SIGNATURE",
];

pub fn store() -> &'static Store {
    static STORE: OnceLock<Store> = OnceLock::new();
    STORE.get_or_init(Store::start)
}

impl Store {
    fn start() -> Self {
        let folder = dir();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/s3-serve");
        let mut server = Command::new(script);
        let mut server = server.arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut variables = Vec::new();
        for line in BufReader::new(server.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let (name, value) = line.split_once('=').unwrap();
            if name == "FILER" {
                return Store { variables, filer: value.into(), _server: server, _folder: folder };
            }
            variables.push((name.into(), value.into()));
        }
        panic!("the S3 server did not come up: {:?}", server.wait());
    }

    pub fn endpoint(&self) -> &str {
        &self.variables.iter().find(|(name, _)| name == "AWS_ENDPOINT_URL").unwrap().1
    }

    /// A tool about to run with the server's address and keys.
    pub fn run<S: AsRef<str>>(&self, tool: &str, args: impl IntoIterator<Item = S>) -> Run {
        self.with_variables(bare(tool, args))
    }

    /// A program about to run with the server's address and keys.
    pub fn with_variables(&self, run: Run) -> Run {
        self.variables.iter().fold(run, |run, (name, value)| run.env(name, value))
    }

    /// An object as the server's other side shows it.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let url = format!("{}/buckets/{}", self.filer, key.replace(' ', "%20"));
        let got = Command::new("curl").args(["-sf", &url]).output().unwrap();
        got.status.success().then_some(got.stdout)
    }

    /// Stores an object from the other side.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        let folder = dir();
        let file = folder.path().join("object");
        std::fs::write(&file, bytes).unwrap();
        let url = format!("{}/buckets/{key}", self.filer);
        let put = Command::new("curl").args(["-sf", "-o", "/dev/null", "-T"]).arg(&file).arg(&url).status().unwrap();
        assert!(put.success(), "curl -T {url}");
    }

    /// Takes an object away.
    pub fn delete(&self, key: &str) {
        let url = format!("{}/buckets/{key}", self.filer);
        assert!(Command::new("curl").args(["-sf", "-X", "DELETE", &url]).status().unwrap().success(), "{url}");
    }

    /// The uploads of a key that were neither completed nor aborted.
    pub fn unfinished(&self, key: &str) -> usize {
        let url = format!("{}/buckets/test/.uploads/?limit=1000", self.filer);
        let got = Command::new("curl").args(["-s", "-H", "Accept: application/json", &url]).output().unwrap();
        let listing: serde_json::Value = serde_json::from_slice(&got.stdout).unwrap_or_default();
        let uploads = listing["Entries"].as_array().cloned().unwrap_or_default();
        uploads.iter().filter(|upload| upload["Extended"]["key"] == encoded(key)).count()
    }
}

/// The filer shows an upload's key as the base64 of one of its attributes.
fn encoded(key: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(key)
}

/// A tool about to run without any credentials.
pub fn bare<S: AsRef<str>>(tool: &str, args: impl IntoIterator<Item = S>) -> Run {
    let run = run(tool, args).env("AWS_CONFIG_FILE", "/dev/null").env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null");
    FOREIGN.iter().fold(run.env("AWS_EC2_METADATA_DISABLED", "true"), |run, name| run.env(name, ""))
}
