//! A stream with failed samples (fetch --pass-failed) in; a dataset in img2dataset's layout out: shards, and beside each
//! a table of all its rows and a file with counts, which is written last. A shard with counts is complete.

mod args;
mod files;
mod layout;
mod objects;
mod open_shards;
mod row;
mod row_order;
mod shard;
mod status_names;
mod storage;
mod tfrecord;
mod video;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use tarpipe::cli::{self, Outcome};

pub(crate) use args::{Args, StorageFormat};
use open_shards::OpenShards;

/// Runs the tool with these arguments, its name first.
pub fn main(args: Vec<OsString>) -> ExitCode {
    cli::main(args, run)
}

fn run(args: Args) -> Result<Outcome> {
    let layout = args.layout()?;
    // Before the input is opened, which waits for its first bytes.
    let mut shards = OpenShards::new(&layout);
    let samples = args.input.samples(&args.held)?;
    let tally = samples.tally();
    for sample in samples {
        shards.add(sample?.into())?;
        tally.add(|tally| tally.done());
    }
    shards.finish(args.expect)?;
    Ok(tally.take().into())
}
