//! How far a run is.

use std::path::Path;

use anyhow::Result;
use tarpipe::cli::Outcome;

pub fn show(_dir: Option<&Path>, _watch: bool, _json: bool) -> Result<Outcome> {
    anyhow::bail!("later")
}
pub fn logs(_dir: Option<&Path>, _item: &[u64], _failed: bool) -> Result<Outcome> {
    anyhow::bail!("later")
}
pub fn report(_dir: Option<&Path>, _html: &str) -> Result<Outcome> {
    anyhow::bail!("later")
}
