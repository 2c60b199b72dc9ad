//! Finishes full shards in the background: syncs and renames them, writes their index and statistics, and runs the
//! post command, while the next shards are cut.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use serde_json::json;
use tarpipe::location;
use tarpipe::messages;
use tarpipe::messages::secret::mask;
use tarpipe::run::shell::{self, ShellProcess};
use tarpipe::sample::index;
use tarpipe::sink::{self, StoredBytes};
use tarpipe::tally::counted;
use tarpipe::value::size;

use crate::tarsplit::sequence::OpenShard;

/// A shard that takes no more samples, and the limit that closed it.
pub struct FullShard {
    pub open: OpenShard,
    pub limit: &'static str,
}

/// The steps that a shard needs after it is closed.
pub struct FinishSteps {
    pub post: Option<String>,
    pub delete: bool,
    pub stats: bool,
}

/// Finishes shards on threads of their own, a limited number at a time, so that neither memory nor post commands pile up.
pub struct Finisher {
    steps: Arc<FinishSteps>,
    most: usize,
    running: VecDeque<JoinHandle<Result<()>>>,
    started: u64,
}

impl Finisher {
    pub fn new(steps: FinishSteps, most: usize) -> Self {
        Finisher { steps: Arc::new(steps), most: most.max(1), running: VecDeque::new(), started: 0 }
    }

    /// Number of shards closed so far.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Starts to finish a shard. Fails if an earlier one failed.
    pub fn start(&mut self, full: FullShard) -> Result<()> {
        self.started += 1;
        if self.running.len() >= self.most {
            self.wait_for_first()?;
        }
        let steps = Arc::clone(&self.steps);
        let thread = std::thread::Builder::new().name("close".into());
        self.running.push_back(thread.spawn(move || steps.run(full))?);
        Ok(())
    }

    /// Waits until all shards are finished.
    pub fn finish(mut self) -> Result<()> {
        while !self.running.is_empty() {
            self.wait_for_first()?;
        }
        Ok(())
    }

    fn wait_for_first(&mut self) -> Result<()> {
        match self.running.pop_front() {
            Some(first) => first.join().map_err(|_| anyhow!(tarpipe::run::pool::WorkerPanicked))?,
            None => Ok(()),
        }
    }
}

impl Drop for Finisher {
    /// After an error, running uploads are completed, not cut off.
    fn drop(&mut self) {
        for thread in self.running.drain(..) {
            _ = thread.join();
        }
    }
}

impl FinishSteps {
    fn run(&self, full: FullShard) -> Result<()> {
        let FullShard { open: OpenShard { name, shard, samples, fields, index }, limit } = full;
        let bytes = shard.bytes();
        let stored = shard.finish()?;
        let closed_by = if limit == "end" { "the end of the input" } else { limit };
        let counts = format!("{}, {}", counted(samples, "sample"), size::show(bytes));
        messages::detail(&format!("{name}: {counts}, closed by {closed_by}"));
        if let Some(index) = index {
            sink::write_text(&index::sidecar(&name, "idx"), &index.dali())?;
        }
        if self.stats {
            let StoredBytes { bytes: stored_bytes, sha256 } = stored;
            let mut stats = json!({
                "shard": mask(&name), "samples": samples, "bytes": bytes, "stored_bytes": stored_bytes,
                "fields": null, "sha256": sha256, "closed_by": limit,
            });
            fields.put_into(&mut stats);
            sink::write_text(&index::sidecar(&name, "stats.json"), &format!("{stats:#}\n"))?;
        }
        match &self.post {
            Some(command) => self.post(command, &name),
            None => Ok(()),
        }
    }

    fn post(&self, command: &str, name: &str) -> Result<()> {
        let script = shell::fill(command, &["{}", "%s"], name);
        let run = ShellProcess::spawn(shell::shell(&script).stdin(Stdio::null()).stdout(std::io::stderr()));
        run.and_then(ShellProcess::wait).with_context(|| format!("{name}: --post"))?;
        if self.delete {
            std::fs::remove_file(location::path_of(name)).with_context(|| format!("{name}: cannot remove"))?;
        }
        Ok(())
    }
}
