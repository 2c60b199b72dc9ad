//! What runs the tasks of a job: one file an engine.

mod local;

use std::io::Write;
use std::path::Path;

use anyhow::{Result, bail};
use tarpipe::cli::Outcome;
use tarpipe::messages;

use crate::folder::Folder;
use crate::job::Job;
use crate::settings::Engine;

/// Runs what is to be run, to its end or until it is handed over.
pub fn run(job: &Job) -> Result<Outcome> {
    if job.todo.is_empty() {
        messages::detail(&format!("all {} items are done", job.items.count()));
        return Ok(Outcome::default());
    }
    match job.settings.on {
        Engine::Local => local::run(job),
        other => bail!("{} is not there yet", other.name()),
    }
}

/// Prints the exact scripts or manifests.
pub fn dry_run(job: &Job) -> Result<Outcome> {
    let text = match job.settings.on {
        Engine::Local => local::script(job)?,
        other => bail!("{} is not there yet", other.name()),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Outcome::default())
}

/// Ends a run.
pub fn cancel(dir: Option<&Path>) -> Result<Outcome> {
    let folder = Folder::find(dir)?;
    local::cancel(&folder)?;
    Ok(Outcome::default())
}
