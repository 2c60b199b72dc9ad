//! How far a run is, for people and programs.

mod html;
mod logs;
mod summary;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use tarpipe::cli::Outcome;
use tarpipe::messages::escape_json;

use crate::folder::Folder;
use crate::survey::Survey;

pub use html::report;
pub use logs::logs;
use summary::Summary;

/// Between two looks of --watch.
const EVERY: Duration = Duration::from_secs(3);

/// Says how far a run is, once or until it is over.
pub fn show(dir: Option<&Path>, watch: bool, json: bool) -> Result<Outcome> {
    let folder = Folder::find(dir)?;
    loop {
        let survey = Survey::take(&folder)?;
        let summary = Summary::of(&survey);
        let text =
            if json { escape_json(&serde_json::to_string(&summary)?).into_owned() + "\n" } else { summary.to_string() };
        let clear = if watch && io::stdout().is_terminal() { "\x1b[H\x1b[J" } else { "" };
        tarpipe::sink::write_text("-", &format!("{clear}{text}"))?;
        if !watch || !survey.is_live {
            return Ok(Outcome::default());
        }
        io::stdout().flush()?;
        std::thread::sleep(EVERY);
    }
}
