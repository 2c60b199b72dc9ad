//! fetch: rows in, samples out. Requests the URL of every row, many at a time and with limits per host. A fetched file
//! becomes a sample, a failure a row of the report. fetch does not decode the files.
//!
//! A row passes through the folders in this order, on three threads:
//!
//! - `input` reads rows (thread "rows")
//! - `schedule` decides when each is fetched, and `fetcher` fetches it: with `client`, which obeys `robots`, from a local file
//!   or with a program; `content` checks the result, `memory` limits the bytes held (thread "requests")
//! - `output` writes samples, the report and the counts (main thread)
//!
//! `failure` has the reason codes that all of them use.

mod args;
mod client;
mod content;
mod failure;
mod fetcher;
mod input;
mod memory;
mod output;
mod robots;
mod schedule;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use tarpipe::cli::{self, Outcome};
use tarpipe::messages;
use tarpipe::run::pool::WorkerPanicked;
use tarpipe::run::signals;
use tokio::sync::{mpsc, watch};

pub(crate) use args::Args;
use input::{MAX_BATCHES, ReadProgress, RowReader};
use output::{FetchReport, RunJournal, RunStats, SampleWriter};
use schedule::{Gauges, ScheduleChannels};

/// How long a signal waits for the report to be completed.
const REPORT_TIME: Duration = Duration::from_secs(5);

/// Runs the tool with these arguments, its name first.
pub fn main(args: Vec<OsString>) -> ExitCode {
    cli::main(args, run)
}

fn run(args: Args) -> Result<Outcome> {
    let source = args.source()?;
    let report = args.report.as_deref().map(|name| FetchReport::create(name, &args.output.output)).transpose()?;
    let mut writer = SampleWriter::create(&args)?;
    if args.insecure {
        messages::notice("certificates are not verified (--insecure)");
    }
    let gauges = Arc::new(Gauges::default());
    let stats = RunStats::start(args.stats.as_deref(), &gauges)?;
    let progress = Arc::new(ReadProgress::default());
    let (row_sender, rows) = mpsc::channel(MAX_BATCHES);
    let (finished, results) = mpsc::channel(4);
    let (stop, interrupt) = watch::channel(false);
    let reader = RowReader::start(source, args.row_choice().read()?, row_sender, Arc::clone(&progress))?;
    let requests = schedule::start(&args, ScheduleChannels { rows, finished, interrupt, gauges })?;
    let journal = Arc::new(RunJournal::new(report, stats, results, stop, progress));
    close_on_signal(Arc::clone(&journal));
    let written = write_samples(&mut writer, &journal).and_then(|()| match journal.is_stopped() {
        true => Ok(()),
        false => requests.join().and_then(|()| reader.join()),
    });
    let committed = written.and_then(|()| journal.commit(|| writer.finish()));
    match committed {
        Ok(Some(tally)) => Ok(Outcome { tally, max_failures: args.max_failures }),
        Ok(None) => {
            // The signal that stopped the run ends the process once the report is complete.
            signals::park_if_signalled();
            Err(anyhow!(WorkerPanicked))
        }
        Err(err) => {
            // The failed archive is deleted by now: the report may need its space on the disk.
            if let Err(second) = journal.close_without_archive() {
                messages::error(&format!("{second:#}"));
            }
            Err(err)
        }
    }
}

/// Lets a signal stop the run and complete its report.
fn close_on_signal(journal: Arc<RunJournal>) {
    signals::on_signal(move |_| {
        if std::io::stderr().is_terminal() {
            messages::notice(
                "interrupted; go on with the same command and --done 'SHARDS', which skips what is in shards, or --resume REPORT",
            );
        }
        let (closed, wait) = std::sync::mpsc::channel();
        // On a separate thread: a disk or store that hangs must not keep the signal from ending the process.
        let close = move || {
            journal.close_after_signal();
            _ = closed.send(());
        };
        if std::thread::Builder::new().name("report".into()).spawn(close).is_ok() {
            _ = wait.recv_timeout(REPORT_TIME);
        }
    });
}

/// Writes rows as they finish. After an error of the output, the remaining rows are reported as interrupted.
fn write_samples(writer: &mut SampleWriter, journal: &RunJournal) -> Result<()> {
    let mut result = Ok(());
    while let Some(finished) = journal.next(|finished| writer.validate(finished)) {
        let written = if journal.is_stopped() { Ok(()) } else { writer.write(finished) };
        let recorded = journal.record(written);
        result = result.and(recorded);
    }
    result
}
