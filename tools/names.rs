//! `tarpipe names`: lists, reads, writes and removes names of any kind, for programs that have no client of the stores.
//! The Python package uses it; people have better tools, so it is in neither the help nor the
//! completions.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use tarpipe::sink::{self, Sink};
use tarpipe::source::{self, expand};

/// List, read, write and remove names of any kind
#[derive(Parser)]
#[command(name = "tarpipe names", disable_help_subcommand = true)]
pub struct NamesArgs {
    #[command(subcommand)]
    action: NamesAction,
}

#[derive(Subcommand)]
enum NamesAction {
    /// Print the size and the name of everything whose name starts with PREFIX, one per line
    List { prefix: String },
    /// Print the names that a name with braces, wildcards or :: stands for, one per line
    Expand { name: String },
    /// Write the contents of names to stdout, one after another
    Read { names: Vec<String> },
    /// Write stdin to a name, completely or not at all
    Write { name: String },
    /// Remove everything whose name starts with PREFIX
    Remove { prefix: String },
}

/// Does what the arguments say.
pub fn run(args: NamesArgs) -> Result<()> {
    match args.action {
        NamesAction::List { prefix } => print(sink::existing(&prefix)?, |(name, size)| format!("{size}\t{name}\n")),
        NamesAction::Expand { name } => print(expand::expand(&name)?, |name| format!("{name}\n")),
        NamesAction::Read { names } => {
            let mut stdout = Sink::create("-", sink::SinkOptions::default())?;
            for name in names {
                let mut source = source::open_raw(&name).with_context(|| name.clone())?;
                io::copy(&mut source, &mut stdout).with_context(|| name)?;
            }
            stdout.finish().map(drop)
        }
        NamesAction::Write { name } => {
            let mut sink = Sink::create_as_is(&name)?;
            io::copy(&mut source::open_raw("-")?, &mut sink)?;
            sink.flush()?;
            sink.finish().map(drop)
        }
        NamesAction::Remove { prefix } => {
            let found: BTreeMap<String, u64> = sink::existing(&prefix)?;
            sink::remove(found.into_keys().collect())
        }
    }
}

fn print<T>(items: impl IntoIterator<Item = T>, line: impl FnMut(T) -> String) -> Result<()> {
    sink::write_text("-", &items.into_iter().map(line).collect::<String>())
}
