//! Tables in, rows out: one JSON object per line, with key, url, caption and the kept columns. No URL is requested.

mod args;
mod column_choice;
mod column_types;
mod inspect;
mod json_line;
mod partition;
mod rows;
mod seen_urls;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, bail};
use tarpipe::cli::{self, Outcome, Usage};
use tarpipe::sink::{Sink, SinkOptions};
use tarpipe::table::Tables;

pub(crate) use args::Args;
use column_choice::ColumnChoice;
use partition::{RowPartition, RowRange};
use rows::{RowPipeline, RowWriter};

/// Runs the tool with these arguments, its name first.
pub fn main(args: Vec<OsString>) -> ExitCode {
    cli::main(args, run)
}

fn run(args: Args) -> Result<Outcome> {
    args.force.check(&args.output)?;
    let tables = Tables::find(&args.tables, &args.files_from, args.format)?;
    if args.columns {
        return inspect::columns(&tables, &args.output);
    }
    if args.types {
        return column_types::write(&tables, args.format, &args.output);
    }
    if let Some(rows) = args.head {
        return inspect::head(&tables, rows, &args.output);
    }
    let columns = ColumnChoice::new(&args, &tables)?;
    if args.count_shards {
        let rows = rows::count(&args, &columns, &tables)?;
        return inspect::write_line(&args.output, rows.div_ceil(args.rows_per_shard()));
    }
    let partition = partition(&args, &columns, &tables)?;
    let sink = Sink::create(&args.output, SinkOptions::default())?;
    let mut pipeline = RowPipeline::new(&args, &columns, partition, Some(RowWriter::new(sink)))?;
    pipeline.read_all(&tables)?;
    pipeline.finish()
}

/// The rows that --shard or --shards select. --contiguous has to count all rows first.
fn partition(args: &Args, columns: &ColumnChoice, tables: &Tables) -> Result<RowPartition> {
    if let Some(numbers) = &args.shards {
        let (first, per_shard) = (args.first_shard, args.rows_per_shard());
        return Ok(RowPartition::Shards { numbers: numbers.clone(), first, per_shard });
    }
    let Some(part) = args.shard else { return Ok(RowPartition::All) };
    if !args.contiguous {
        return Ok(RowPartition::Stride { part, per_shard: args.rows_per_shard.unwrap_or(1) });
    }
    if tables.has_stdin() {
        bail!(Usage("--contiguous reads the tables twice and cannot use stdin; name a file".into()));
    }
    Ok(RowPartition::Range(RowRange::of(part, rows::count(args, columns, tables)?)))
}
