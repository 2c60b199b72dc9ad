//! Samples in, samples out, their video and sound clipped, scaled, re-timed, probed and taken apart by ffmpeg:
//! one run does all that was asked. Media that cannot be processed is never passed on as if it had been.

mod args;
mod choices;
mod clips;
mod collect;
mod ffmpeg;
mod graph;
mod job;
mod media;
mod outputs;
mod probe;
mod program;
mod spans;
mod subtitles;
mod time;
mod words;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use tarpipe::cli::{self, Outcome, SharedTally};
use tarpipe::messages;
use tarpipe::pool::{self, Limits};
use tarpipe::sample::Sample;
use tarpipe::scratch::Scratch;
use tarpipe::shard::Shard;
use tarpipe::signals;

use args::Args;
use job::{Item, Work};

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: Args) -> Result<Outcome> {
    let wanted = args.wanted()?;
    program::check()?;
    let samples = args.input.samples(&args.held)?;
    let tally = samples.tally();
    let mut output = Output { shard: args.output.create(&args.parallel)?, tally: tally.clone() };
    let scratch = Arc::new(Scratch::create(args.tmpdir.as_deref(), false)?);
    let work = Arc::new(Work::new(wanted, Arc::clone(&scratch)));
    let worker = move |_| {
        let work = Arc::clone(&work);
        move |sample| Ok(work.process(sample))
    };
    let limits = Limits::for_workers(args.parallel.threads());
    let done = pool::run(limits, samples, Sample::bytes, worker, |items| output.write(items));
    if done.is_err() {
        signals::clean_up();
    }
    done?;
    output.shard.finish()?;
    scratch.finish();
    Ok(Outcome { tally: tally.take(), max_failures: args.max_failures })
}

/// Where samples and counts go, in the order of the input.
struct Output {
    shard: Shard,
    tally: SharedTally,
}

impl Output {
    fn write(&mut self, items: Vec<Item>) -> Result<()> {
        for Item { key, source, result } in items {
            match result {
                Ok(sample) => {
                    self.shard.write(&sample)?;
                    self.tally.add(|tally| tally.done());
                }
                Err(failure) => {
                    messages::detail(&format!("{source}: {key}: left out: {failure}"));
                    self.tally.add(|tally| tally.fail(failure.code));
                }
            }
        }
        Ok(())
    }
}
