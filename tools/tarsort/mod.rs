//! Samples in, the same samples out in another order. Streams larger than memory are sorted on disk; for uncompressed
//! files only the order is held in memory, and samples are copied from their offsets.

mod args;
mod by_offset;
mod duplicates;
mod number;
mod order;
mod whole_samples;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use tarpipe::cli::{self, Outcome};
use tarpipe::messages::progress;

pub(crate) use args::Args;
use by_offset::SourceFiles;

/// Runs the tool with these arguments, its name first.
pub fn main(args: Vec<OsString>) -> ExitCode {
    cli::main(args, run)
}

fn run(args: Args) -> Result<Outcome> {
    let names = args.input.names()?;
    let mut out = args.output.create(&args.parallel)?;
    progress::begin_phase("reading", None);
    cli::expect_bytes(&names);
    let index = match SourceFiles::open(&names)? {
        Some(files) => files.index(&args)?,
        None => None,
    };
    let tally = match index {
        Some(index) => index.write(&mut out)?,
        None => whole_samples::sort(&args, names, &mut out)?,
    };
    out.finish()?;
    Ok(tally.into())
}
