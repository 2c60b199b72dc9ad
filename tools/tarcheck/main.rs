//! Shards in, a verdict out: whole or not, what is wrong and where, what is in them.
//! Nothing is changed; indexes are written only for shards without a fault.

mod keys;
mod shard;
mod verdict;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use clap::Parser;
use tarpipe::cli::{self, Input, Outcome, Parallel, Talk};
use tarpipe::messages;
use tarpipe::run::pool::{self, Limits};
use tarpipe::sample::index;
use tarpipe::sink;
use tarpipe::source;
use tarpipe::tally::counted;

use keys::Ledger;
use shard::{Checks, check};
use verdict::{Verdict, json, table};

/// Verify shards: whole, well-formed, complete, without repeated keys
///
/// Reads every shard to its end and checks headers, sizes, the end of the archive (and so the
/// checksums of a compressed one), repeated fields in a sample, repeated keys within and across
/// shards, hostile names, and with --require the fields that every sample must have.
///
/// Prints a table, and for each fault the shard, the byte offset and the sample. The exit status is
/// 1 if there is any fault.
#[derive(Parser)]
#[command(name = "tarcheck", version, after_long_help = EXAMPLES)]
struct Args {
    /// Require these fields in every sample, such as 'jpg cls'
    #[arg(long, value_name = "FIELDS", default_value = "", hide_default_value = true)]
    require: String,

    /// Allow repeated keys, within and across shards
    #[arg(long)]
    allow_repeats: bool,

    /// Print the verdict as JSON
    #[arg(long)]
    json: bool,

    /// Write an index in DALI's format beside each shard (NAME.idx)
    #[arg(long)]
    index: bool,

    /// Write an index of all shards in WIDS' JSON format, with counts and SHA-256
    #[arg(long, value_name = "FILE", value_parser = cli::output_name)]
    wids: Option<String>,

    /// Describe at most N faults per shard (0: all); every fault is counted
    #[arg(long, value_name = "N", default_value_t = 20)]
    show: usize,

    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    parallel: Parallel,
    #[command(flatten)]
    talk: Talk,
}

const EXAMPLES: &str = "Examples:
  # Check that the dataset is complete, and every sample has a picture and a class
  tarcheck --require 'jpg cls' 'train-{000000..000147}.tar'

  # Indexes for random access
  tarcheck --index --wids train.json train-*.tar

  # List the damaged shards
  tarcheck --json train-*.tar | jq -r '.shards[] | select(.faults > 0) | .shard'";

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: Args) -> Result<Outcome> {
    let names = args.input.names()?;
    cli::expect_bytes(&names);
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let mut verdicts = check_all(&args, names, &ledger)?;
    if !args.allow_repeats {
        let ledger = std::mem::take(&mut *ledger.lock().unwrap_or_else(PoisonError::into_inner));
        keys::find_repeats(ledger, &mut verdicts, args.show, args.input.ignore_eof)?;
    }
    write_indexes(&args, &verdicts)?;
    print(&args, &verdicts)?;
    let bad = verdicts.iter().filter(|verdict| verdict.faults > 0).count() as u64;
    if bad > 0 {
        bail!("{} of {} at fault", bad, counted(verdicts.len() as u64, "shard"));
    }
    Ok(Outcome::default())
}

fn check_all(args: &Args, names: Vec<String>, ledger: &Arc<Mutex<Ledger>>) -> Result<Vec<Verdict>> {
    let checks = Arc::new(Checks {
        required: args.require.split_whitespace().map(str::to_owned).collect(),
        ignore_eof: args.input.ignore_eof,
        keys: !args.allow_repeats,
        index: args.index,
        digest: args.wids.is_some(),
        show: if args.show == 0 { usize::MAX } else { args.show },
    });
    let ledger = Arc::clone(ledger);
    let (all, threads) = (Arc::new(names.clone()), args.parallel.threads());
    let worker = move |_| {
        let (checks, ledger, names) = (Arc::clone(&checks), Arc::clone(&ledger), Arc::clone(&all));
        move |(number, name): (usize, String)| {
            // The one whose turn comes when all that run now are through.
            names.get(number + threads).into_iter().for_each(|later| source::prefetch(later));
            check(number, &name, &checks, &ledger)
        }
    };
    let jobs = names.into_iter().enumerate().map(Ok);
    let mut verdicts = Vec::new();
    pool::run(
        Limits::for_workers(args.parallel.threads()),
        jobs,
        |_| 0,
        worker,
        |verdict: Verdict| {
            verdicts.push(verdict);
            Ok(())
        },
    )?;
    Ok(verdicts)
}

fn write_indexes(args: &Args, verdicts: &[Verdict]) -> Result<()> {
    for verdict in verdicts.iter().filter(|verdict| verdict.faults == 0) {
        if let Some(dali) = &verdict.index {
            sink::write_text(&index::sidecar(&verdict.shard, "idx"), dali)?;
        }
    }
    let Some(file) = &args.wids else { return Ok(()) };
    let whole = verdicts.iter().filter(|verdict| verdict.faults == 0);
    let shards: Vec<_> = whole.map(Verdict::wids).collect();
    let name = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".json");
    sink::write_text(file, &format!("{:#}\n", index::wids(name, &shards)))
}

fn print(args: &Args, verdicts: &[Verdict]) -> Result<()> {
    let text = match args.json {
        true => messages::escape_json(&format!("{:#}\n", json(verdicts))).into_owned(),
        false => table(verdicts),
    };
    sink::write_text("-", &text)?;
    for verdict in verdicts {
        verdict.findings.iter().for_each(|finding| messages::error(&finding.line(&verdict.shard)));
        let more = verdict.faults - verdict.findings.len() as u64;
        if more > 0 {
            messages::error(&format!("{}: {} more (--show 0 describes all)", verdict.shard, counted(more, "fault")));
        }
    }
    Ok(())
}
