//! Rows in, samples out: every URL is asked for, concurrently and politely; what comes back is a
//! sample, what fails is a line in the report. It never looks into a picture.

mod address;
mod attempt;
mod body;
mod budget;
mod chunks;
mod connect;
mod connections;
mod cookies;
mod engine;
mod entry;
mod failure;
mod flags;
mod hash;
mod hosts;
mod http1;
mod kind;
mod optout;
mod output;
mod promise;
mod request;
mod resolve;
mod retry;
mod robots;
mod robots_cache;
mod row;
mod rows;
mod schedule;
mod stats;
mod tls;
mod via;
mod ytdlp;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tarpipe::cli::{self, Outcome};
use tarpipe::{messages, signals};
use tokio::sync::{mpsc, watch};

use flags::Args;
use output::Output;
use schedule::{Done, Ends, Gauges};
use stats::Stats;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a signal waits for the report.
const LAST_WORDS: Duration = Duration::from_millis(1500);

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: Args) -> Result<Outcome> {
    let source = args.source()?;
    let mut output = Output::create(&args)?;
    if args.insecure {
        messages::notice("certificates are not verified (--insecure)");
    }
    let gauges = Arc::new(Gauges::default());
    let stats = Stats::start(args.stats.as_deref(), &gauges)?;
    let (row_sender, rows) = mpsc::channel(rows::BATCHES);
    let (done, results) = mpsc::channel(4);
    let (stop, interrupt) = watch::channel(false);
    let reader = rows::start(source, args.retry_from.as_deref(), row_sender)?;
    let engine = engine::start(&args, Ends { rows, done, interrupt, gauges })?;
    let ended = listen(stop.clone());
    write(&mut output, results, &stats, &stop)?;
    if *stop.borrow() {
        // The signal that stopped the run ends the process, once it knows of the report.
        output.finish_report()?;
        drop(ended);
        signals::yield_to_signal();
    }
    engine.join()?;
    reader.join()?;
    stats.finish()?;
    Ok(Outcome { tally: output.finish()?, max_failures: args.max_failures })
}

/// Lets a signal stop the run first and wait until the report is whole.
fn listen(stop: watch::Sender<bool>) -> std::sync::mpsc::Sender<()> {
    let (ended, wait) = std::sync::mpsc::channel();
    signals::before_end(move |_| {
        _ = stop.send(true);
        _ = wait.recv_timeout(LAST_WORDS);
    });
    ended
}

/// Writes results as they come. When the output fails, the rest is reported as not done.
fn write(
    output: &mut Output,
    mut results: mpsc::Receiver<Vec<Done>>,
    stats: &Stats,
    stop: &watch::Sender<bool>,
) -> Result<()> {
    let mut broken = None;
    while let Some(batch) = results.blocking_recv() {
        for done in batch {
            let is_over = *stop.borrow();
            if let Err(err) = output.add(done, is_over, stats) {
                broken.get_or_insert(err);
                _ = stop.send(true);
            }
        }
    }
    match broken {
        Some(err) => output.finish_report().and(Err(err)),
        None => Ok(()),
    }
}
