//! placeholder
use crate::args::Args;
use anyhow::Result;
use tarpipe::report::Tally;
pub fn write(_args: &Args, _file: &str) -> Result<Tally> {
    Ok(Tally::default())
}
