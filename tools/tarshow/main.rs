//! Samples in; text, tables, files, pictures or a page for people out. The stream itself is never
//! changed, and what strangers wrote into it never acts: not on the terminal, not in the page, not
//! outside of the folder that it is extracted to.

mod args;
mod block;
mod card;
mod columns;
mod extract;
mod first;
mod flow;
mod font;
mod heads;
mod html;
mod kind;
mod media;
mod output;
mod picture;
mod preview;
mod readable;
mod reservoir;
mod rows;
mod sheet;

use std::process::ExitCode;

use anyhow::Result;
use tarpipe::cli::{self, Outcome};
use tarpipe::run::panics;

use args::{Args, View};

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: Args) -> Result<Outcome> {
    panics::install();
    let tally = match args.view()? {
        View::Blocks => block::show(&args)?,
        View::Lines => block::list(&args)?,
        View::Keys => heads::keys(&args)?,
        View::Count => heads::count(&args)?,
        View::Rows(format) => rows::print(&args, format)?,
        View::Parquet(file) => rows::export(&args, file)?,
        View::First(column) => first::write(&args, column)?,
        View::Extract(folder) => extract::extract(&args, folder)?,
        View::Sheet(file) => sheet::write(&args, file)?,
        View::Preview(protocol) => preview::show(&args, protocol)?,
        View::Html(file) => html::write(&args, file)?,
    };
    Ok(tally.into())
}
