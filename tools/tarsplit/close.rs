//! Shards on their way to being finished: synced, renamed, described, and handed to the post
//! command, while the next ones are being cut.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use serde_json::json;
use tarpipe::location;
use tarpipe::messages;
use tarpipe::messages::secret::mask;
use tarpipe::run::shell::{self, Process};
use tarpipe::sample::index;
use tarpipe::sink::{self, Stored};
use tarpipe::tally::counted;
use tarpipe::value::size;

use crate::lane::Open;

/// A shard that takes no more samples, and the limit that closed it.
pub struct Full {
    pub open: Open,
    pub limit: &'static str,
}

/// What is done with a full shard.
pub struct Finishing {
    pub post: Option<String>,
    pub delete: bool,
    pub stats: bool,
}

/// The shards being finished: no more than a number at a time, so that neither memory nor
/// commands pile up.
pub struct Closing {
    finishing: Arc<Finishing>,
    most: usize,
    running: VecDeque<JoinHandle<Result<()>>>,
    started: u64,
}

impl Closing {
    pub fn new(finishing: Finishing, most: usize) -> Self {
        Closing { finishing: Arc::new(finishing), most: most.max(1), running: VecDeque::new(), started: 0 }
    }

    /// How many shards were closed so far.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Begins to finish a shard; reports what went wrong with those before it.
    pub fn start(&mut self, full: Full) -> Result<()> {
        self.started += 1;
        if self.running.len() >= self.most {
            self.wait_for_first()?;
        }
        let finishing = Arc::clone(&self.finishing);
        let thread = std::thread::Builder::new().name("close".into());
        self.running.push_back(thread.spawn(move || finishing.run(full))?);
        Ok(())
    }

    /// Waits for all of them.
    pub fn finish(mut self) -> Result<()> {
        while !self.running.is_empty() {
            self.wait_for_first()?;
        }
        Ok(())
    }

    fn wait_for_first(&mut self) -> Result<()> {
        match self.running.pop_front() {
            Some(first) => first.join().map_err(|_| anyhow!(tarpipe::run::pool::Bug))?,
            None => Ok(()),
        }
    }
}

impl Drop for Closing {
    /// On the way out of an error: uploads that run are not cut off.
    fn drop(&mut self) {
        for thread in self.running.drain(..) {
            _ = thread.join();
        }
    }
}

impl Finishing {
    fn run(&self, full: Full) -> Result<()> {
        let Full { open: Open { name, shard, samples, fields, index }, limit } = full;
        let bytes = shard.bytes();
        let stored = shard.finish()?;
        let closed_by = if limit == "end" { "the end of the input" } else { limit };
        let counts = format!("{}, {}", counted(samples, "sample"), size::show(bytes));
        messages::detail(&format!("{name}: {counts}, closed by {closed_by}"));
        if let Some(index) = index {
            sink::write_text(&index::sidecar(&name, "idx"), &index.dali())?;
        }
        if self.stats {
            let Stored { bytes: stored_bytes, sha256 } = stored;
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
        let run = Process::spawn(shell::shell(&script).stdin(Stdio::null()).stdout(std::io::stderr()));
        run.and_then(Process::wait).with_context(|| format!("{name}: --post"))?;
        if self.delete {
            std::fs::remove_file(location::path_of(name)).with_context(|| format!("{name}: cannot remove"))?;
        }
        Ok(())
    }
}
