//! Reads samples and writes text, tables, files, pictures or an HTML page; the flags select one of these views. The
//! content of samples is untrusted: it cannot control the terminal, run in the page, or escape the folder it is
//! extracted to.

mod args;
mod columns;
mod content;
mod extract;
mod ffprobe;
mod html;
mod pictures;
mod preview;
mod reservoir;
mod samples;
mod text;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use tarpipe::cli::{self, Outcome};
use tarpipe::run::panics;

pub(crate) use args::Args;
use args::View;

/// Runs the tool; `args` starts with the program name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    cli::main(args, run)
}

fn run(args: Args) -> Result<Outcome> {
    panics::silence();
    let tally = match args.view()? {
        View::Blocks => text::blocks::print_blocks(&args)?,
        View::Lines => text::blocks::print_lines(&args)?,
        View::Keys => text::keys::print_keys(&args)?,
        View::Count => text::keys::print_count(&args)?,
        View::Rows(format) => text::rows::print(&args, format)?,
        View::Parquet(file) => text::rows::export_parquet(&args, file)?,
        View::First(column) => text::first_field::write(&args, column)?,
        View::Extract(folder) => extract::extract(&args, folder)?,
        View::Sheet(file) => pictures::contact_sheet::write(&args, file)?,
        View::Preview(protocol) => preview::show(&args, protocol)?,
        View::Html(file) => html::write(&args, file)?,
    };
    Ok(tally.into())
}
