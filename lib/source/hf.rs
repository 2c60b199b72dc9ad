//! `hf://datasets/OWNER/NAME[@REVISION]/PATH` and `hf://models/…`: files of the
//! Hugging Face hub, over HTTPS.

use std::path::PathBuf;

use anyhow::{Context, Result};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The URL of a file, and the token to send there.
pub(super) struct HubFile {
    pub(super) url: String,
    pub(super) token: Option<String>,
}

/// What is percent-encoded in a component of a path, and in a path.
const NOT_IN_NAME: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const NOT_IN_PATH: AsciiSet = NOT_IN_NAME.remove(b'/');

const FORM: &str = "expected hf://datasets/OWNER/NAME[@REVISION]/PATH";

/// Finds the URL of a name. The revision defaults to `main`, the server to
/// huggingface.co or HF_ENDPOINT. The token comes from HF_TOKEN or from the
/// file that `hf auth login` writes, never from the name. Fails if the name
/// does not have the form above.
pub(super) fn locate(name: &str) -> Result<HubFile> {
    let base = variable("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into());
    Ok(HubFile { url: url_of(name, base.trim_end_matches('/'))?, token: token() })
}

fn url_of(name: &str, base: &str) -> Result<String> {
    let mut parts = name.trim_start_matches("hf://").splitn(4, '/').filter(|part| !part.is_empty());
    let mut next = || parts.next().context(FORM);
    let (kind, owner, repository, path) = (next()?, next()?, next()?, next()?);
    let (repository, revision) = repository.split_once('@').unwrap_or((repository, "main"));
    let (revision, path) = (utf8_percent_encode(revision, &NOT_IN_NAME), utf8_percent_encode(path, &NOT_IN_PATH));
    let folder = match kind {
        "datasets" => "datasets/",
        "models" => "",
        _ => anyhow::bail!(FORM),
    };
    Ok(format!("{base}/{folder}{owner}/{repository}/resolve/{revision}/{path}"))
}

/// The token of the user, if there is one.
fn token() -> Option<String> {
    let file = || {
        let cache = || std::env::home_dir().map(|home| home.join(".cache/huggingface"));
        let home = variable("HF_HOME").map(PathBuf::from).or_else(cache)?;
        let path = variable("HF_TOKEN_PATH").map(PathBuf::from).unwrap_or_else(|| home.join("token"));
        std::fs::read_to_string(path).ok()
    };
    let token = variable("HF_TOKEN").or_else(file)?.trim().to_owned();
    (!token.is_empty()).then_some(token)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_urls_of_the_hub() {
        let url = |name| url_of(name, "https://hub").unwrap();
        assert_eq!(url("hf://datasets/o/n/a/b c.tar"), "https://hub/datasets/o/n/resolve/main/a/b%20c.tar");
        assert_eq!(url("hf://datasets/o/n@refs/x.tar"), "https://hub/datasets/o/n/resolve/refs/x.tar");
        assert_eq!(url("hf://models/o/n/x.tar"), "https://hub/o/n/resolve/main/x.tar");
        for wrong in ["hf://o/n/x.tar", "hf://datasets/o/n", "hf://spaces/o/n/x"] {
            assert!(url_of(wrong, "https://hub").is_err(), "{wrong}");
        }
    }
}
