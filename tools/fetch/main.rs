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
mod encoding;
mod engine;
mod entry;
mod failure;
mod file;
mod flags;
mod hash;
mod hosts;
mod http1;
mod journal;
mod kind;
mod optout;
mod output;
mod pieces;
mod promise;
mod report;
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

use anyhow::{Result, anyhow};
use tarpipe::cli::{self, Outcome};
use tarpipe::messages;
use tarpipe::run::pool::Bug;
use tarpipe::run::signals;
use tokio::sync::{mpsc, watch};

use flags::Args;
use journal::Journal;
use output::Output;
use report::Report;
use rows::Extent;
use schedule::{Ends, Gauges};
use stats::Stats;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a signal waits for the report.
const LAST_WORDS: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: Args) -> Result<Outcome> {
    let source = args.source()?;
    let report = args.report.as_deref().map(|name| Report::create(name, &args.output.output)).transpose()?;
    let mut output = Output::create(&args)?;
    if args.insecure {
        messages::notice("certificates are not verified (--insecure)");
    }
    let gauges = Arc::new(Gauges::default());
    let stats = Stats::start(args.stats.as_deref(), &gauges)?;
    let extent = Arc::new(Extent::default());
    let (row_sender, rows) = mpsc::channel(rows::BATCHES);
    let (done, results) = mpsc::channel(4);
    let (stop, interrupt) = watch::channel(false);
    let reader = rows::start(source, args.retry_from.as_deref(), row_sender, Arc::clone(&extent))?;
    let engine = engine::start(&args, Ends { rows, done, interrupt, gauges })?;
    let journal = Arc::new(Journal::new(report, stats, results, stop, extent));
    listen(Arc::clone(&journal));
    let ended = write(&mut output, &journal).and_then(|()| match journal.is_stopped() {
        true => Ok(()),
        false => engine.join().and_then(|()| reader.join()),
    });
    let ended = ended.and_then(|()| journal.commit(|| output.finish()));
    match ended {
        Ok(Some(tally)) => Ok(Outcome { tally, max_failures: args.max_failures }),
        Ok(None) => {
            // The signal that stopped the run ends the process, once the report is written.
            signals::yield_to_signal();
            Err(anyhow!(Bug))
        }
        Err(err) => {
            // A failed archive is gone by now: the report may need its room on the disk.
            let reported = journal.abandon();
            if let Err(second) = reported {
                messages::error(&format!("{second:#}"));
            }
            Err(err)
        }
    }
}

/// Lets a signal stop the run, and wait for its report.
fn listen(journal: Arc<Journal>) {
    signals::before_end(move |_| {
        let (ended, wait) = std::sync::mpsc::channel();
        // On a thread of its own: no disk and no store may keep the signal from ending the process.
        let wind_up = move || {
            journal.wind_up();
            _ = ended.send(());
        };
        if std::thread::Builder::new().name("report".into()).spawn(wind_up).is_ok() {
            _ = wait.recv_timeout(LAST_WORDS);
        }
    });
}

/// Writes rows as they are done. When the output fails, those that follow are reported as interrupted.
fn write(output: &mut Output, journal: &Journal) -> Result<()> {
    let mut result = Ok(());
    while let Some(done) = journal.next(|done| output.judge(done)) {
        let written = if journal.is_stopped() { Ok(()) } else { output.write(done) };
        let settled = journal.settle(written);
        result = result.and(settled);
    }
    result
}
