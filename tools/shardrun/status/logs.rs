//! What items said.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result};
use tarpipe::cli::Outcome;
use tarpipe::messages::escape;
use tarpipe::sink::{Options, Sink};

use crate::engine;
use crate::folder::Folder;
use crate::survey::{Standing, Survey};

/// The last line is within so many bytes.
const TAIL: u64 = 4096;

/// Prints what items said: those named, those that failed, or all.
pub fn logs(dir: Option<&Path>, items: &[u64], failed: bool) -> Result<Outcome> {
    let folder = Folder::find(dir)?;
    let survey = Survey::take(&folder)?;
    let wanted: Vec<u64> = match items {
        [] if failed => survey.which(Standing::Failed).collect(),
        [] => (0..survey.plan.count).collect(),
        named => named
            .iter()
            .copied()
            .filter(|&index| !failed || survey.standings.get(index as usize) == Some(&Standing::Failed))
            .collect(),
    };
    for index in wanted {
        let is_asked = failed || !items.is_empty();
        print(&survey, index, is_asked)?;
    }
    Ok(Outcome::default())
}

/// A heading and the file; silent items are passed over unless they were asked for.
fn print(survey: &Survey, index: u64, is_asked: bool) -> Result<()> {
    let record = survey.records.get(index as usize).with_context(|| format!("there is no item {index}"))?;
    let said = match File::open(survey.folder.stderr(index)) {
        Ok(file) => Some(Box::new(file) as Box<dyn Read>),
        Err(_) if is_asked => {
            engine::logs(&survey.folder, index).map(|text| Box::new(io::Cursor::new(text)) as Box<dyn Read>)
        }
        Err(_) => None,
    };
    if said.is_none() && !is_asked {
        return Ok(());
    }
    let what = record
        .as_ref()
        .and_then(|record| record.message.as_deref())
        .map_or_else(String::new, |what| format!(": {what}"));
    let mut out = Sink::create("-", Options::default())?;
    writeln!(out, "==> item {index} ({}){}", escape(&survey.items.value(index)), escape(&what))?;
    if let Some(mut said) = said {
        io::copy(&mut said, &mut out)?;
    }
    out.finish().map(drop)
}

/// The last line that an item said.
pub fn last_line(folder: &Folder, index: u64) -> Option<String> {
    let mut file = File::open(folder.stderr(index)).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
}
