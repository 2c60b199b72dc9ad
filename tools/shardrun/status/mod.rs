//! The subcommands that show a run: `status`, `logs` and `report`.

mod html;
mod logs;
pub mod snapshot;
mod summary;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use tarpipe::cli::Outcome;
use tarpipe::messages::escape_json;

use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::status::snapshot::RunSnapshot;

pub use html::report;
pub use logs::logs;
use summary::RunSummary;

/// Interval of --watch.
const WATCH_INTERVAL: Duration = Duration::from_secs(3);

/// Prints the state of a run, once or until it ends.
pub fn show(dir: Option<&Path>, watch: bool, json: bool) -> Result<Outcome> {
    let folder = RunFolder::find(dir)?;
    loop {
        let snapshot = RunSnapshot::take(&folder)?;
        let summary = RunSummary::of(&snapshot);
        let text =
            if json { escape_json(&serde_json::to_string(&summary)?).into_owned() + "\n" } else { summary.to_string() };
        let clear = if watch && io::stdout().is_terminal() { "\x1b[H\x1b[J" } else { "" };
        tarpipe::sink::write_text("-", &format!("{clear}{text}"))?;
        if !watch || !snapshot.is_live {
            return Ok(Outcome::default());
        }
        io::stdout().flush()?;
        std::thread::sleep(WATCH_INTERVAL);
    }
}
