//! Shards in, a verdict out: whether each is complete, what is wrong and where, and what it contains.
//! Shards are never changed; indexes are written only for shards without faults.

mod args;
mod loaders;
mod repeated_keys;
mod shard;
mod verdict;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use parking_lot::Mutex;
use tarpipe::cli::{self, Outcome};
use tarpipe::messages;
use tarpipe::run::pool::{self, Cost, PoolLimits};
use tarpipe::sample::index;
use tarpipe::sink;
use tarpipe::sort::RepeatFinder;
use tarpipe::source;
use tarpipe::tally::counted;

pub(crate) use args::Args;
use shard::check;
use verdict::{Verdict, json, table};

/// Runs the tool with these arguments, its name first.
pub fn main(args: Vec<OsString>) -> ExitCode {
    cli::main(args, run)
}

fn run(args: Args) -> Result<Outcome> {
    let names = args.input.names()?;
    cli::expect_bytes(&names);
    let keys = Arc::new(Mutex::new(repeated_keys::finder()));
    let mut verdicts = check_all(&args, names, &keys)?;
    if args.checks().keys {
        let keys = std::mem::replace(&mut *keys.lock(), repeated_keys::finder());
        repeated_keys::find_repeats(keys, &mut verdicts, &args)?;
    }
    loaders::check_schema(&mut verdicts, args.checks().show);
    write_indexes(&args, &verdicts)?;
    print(&args, &verdicts)?;
    let bad = verdicts.iter().filter(|verdict| verdict.faults > 0).count() as u64;
    if bad > 0 {
        bail!("faults in {bad} of {}", counted(verdicts.len() as u64, "shard"));
    }
    Ok(Outcome::default())
}

/// Checks all shards in parallel; the verdicts come in the order of the names.
fn check_all(args: &Args, names: Vec<String>, finder: &Arc<Mutex<RepeatFinder>>) -> Result<Vec<Verdict>> {
    let checks = Arc::new(args.checks());
    let finder = Arc::clone(finder);
    let (all, threads) = (Arc::new(names.clone()), args.parallel.threads());
    let worker = move |_| {
        let (checks, finder, names) = (Arc::clone(&checks), Arc::clone(&finder), Arc::clone(&all));
        move |(number, name): (usize, String)| {
            // The next shard that this worker is likely to take.
            names.get(number + threads).into_iter().for_each(|later| source::prefetch(later));
            check(number, &name, &checks, &finder)
        }
    };
    let jobs = names.into_iter().enumerate().map(Ok);
    let mut verdicts = Vec::new();
    pool::run(PoolLimits::for_workers(args.parallel.threads()), jobs, Cost::none(), worker, |verdict: Verdict| {
        verdicts.push(verdict);
        Ok(())
    })?;
    Ok(verdicts)
}

/// Writes the indexes of shards without faults, next to each shard and for --wids.
fn write_indexes(args: &Args, verdicts: &[Verdict]) -> Result<()> {
    for verdict in verdicts.iter().filter(|verdict| verdict.faults == 0) {
        if let Some(dali) = &verdict.index {
            sink::write_text(&index::sidecar(&verdict.shard, "idx"), dali)?;
        }
    }
    let Some(file) = &args.wids else { return Ok(()) };
    let sound = verdicts.iter().filter(|verdict| verdict.faults == 0);
    let shards: Vec<_> = sound.map(Verdict::wids).collect();
    let name = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".json");
    sink::write_text(file, &format!("{:#}\n", index::wids(name, &shards)))
}

fn print(args: &Args, verdicts: &[Verdict]) -> Result<()> {
    let text = match args.json {
        true => messages::escape_json(&format!("{:#}\n", json(verdicts, &args.loaders))).into_owned(),
        false => table(verdicts),
    };
    sink::write_text("-", &text)?;
    for verdict in verdicts {
        verdict.findings.iter().for_each(|finding| messages::error(&finding.line(&verdict.shard)));
        let more = verdict.faults - verdict.findings.len() as u64;
        if more > 0 {
            messages::error(&format!(
                "{}: {} more (use --show 0 to describe all)",
                verdict.shard,
                counted(more, "fault")
            ));
        }
    }
    Ok(())
}
