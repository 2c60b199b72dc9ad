//! Plans, tables, lines, folders or unordered archives in, samples out, in the order of the input. Files are read in
//! parallel. A sample with an invalid key, an invalid field or an unreadable source is left out.

mod args;
mod content;
mod folder;
mod inputs;
mod keys;
mod lines;
mod output;
mod plan;
mod planned_sample;
mod preflight;
mod regroup;
mod table;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use tarpipe::cli::{self, Outcome};

pub(crate) use args::{Args, SourceKind};
use inputs::Inputs;

/// Runs the tool with these arguments, its name first.
pub fn main(args: Vec<OsString>) -> ExitCode {
    cli::main(args, run)
}

fn run(args: Args) -> Result<Outcome> {
    if let Some(names) = regroup::archives(&args)? {
        return regroup::run(&args, names);
    }
    let inputs = Inputs::new(&args)?;
    let classes = inputs.classes(&args)?;
    if args.check {
        preflight::check_all(&args, &inputs)?;
    }
    let out = args.output.create(&args.parallel)?;
    let tally = output::write_all(&args, inputs, out)?;
    if let Some((file, names)) = classes {
        tarpipe::sink::write_text(&file, &names)?;
    }
    Ok(Outcome { tally, max_failures: args.max_failures })
}
