//! A stream in which failures go on (fetch --pass-failed) in; a dataset as img2dataset lays it out, out: shards, beside
//! each a table of every row and its counts. A shard whose counts exist is whole.

mod body;
mod files;
mod layout;
mod part;
mod row;
mod tfrecord;
mod video;
mod words;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use tarpipe::cli::{self, Held, Input, Outcome, Talk, Usage};
use tarpipe::table::{Table, Typed};

use layout::{Layout, Short};
use part::Part;
use row::Row;
use words::Words;

/// Write a stream as a dataset: shards, a table of every row and counts beside each
///
/// Reads samples whose keys are a shard number followed by a row number (urlcat --key
/// '{shard:05}{row:04}'), and writes FOLDER/00000.tar with the successful samples,
/// FOLDER/00000.parquet with one row per sample or failure, and finally FOLDER/00000_stats.json with
/// counts: a shard that has this file is done. Failures are part of the stream, as fetch
/// --pass-failed and tarresize or tarvideo --on-error pass write them. Statuses and messages use
/// img2dataset's wording; the column code has tarpipe's codes.
///
/// The columns of the table are taken from each sample's json, in the order of --columns. The clips
/// of a video are adjacent; each has a line in the table, and together they count as one row, which
/// is a success if any of them is.
#[derive(Parser)]
#[command(name = "tardataset", version, after_long_help = EXAMPLES)]
struct Args {
    /// Write into FOLDER: a path, or a prefix in an object store
    #[arg(short, long, value_name = "FOLDER")]
    output: String,

    /// Storage format of the samples
    #[arg(long, value_name = "FORMAT", default_value = "tar")]
    format: Format,

    /// Columns of the table, such as 'id:int64 caption:=TEXT url key status'
    ///
    /// The type after the colon is string (the default), json, bool, int32, int64, float or double, or
    /// =COLUMN for the type of COLUMN in the table of --types-from.
    #[arg(long, value_name = "LIST", default_value = "url caption key status error_message code")]
    columns: String,

    /// Keep these entries of each sample's json, such as 'video_metadata cuts', or '*' for all
    ///
    /// By default the json has only the columns of the table. An entry that is also a column keeps its original
    /// value in the json, not that of the table.
    #[arg(long, value_name = "LIST", default_value = "")]
    json: String,

    /// Take column types from this parquet or arrow table
    #[arg(long, value_name = "TABLE")]
    types_from: Option<String>,

    /// Field to store in the formats parquet and tfrecord
    #[arg(long, value_name = "FIELD", default_value = "jpg")]
    field: String,

    /// Write a txt per sample: its caption, else its own txt, else empty [default: write none]
    #[arg(long)]
    caption: bool,

    /// Close a shard when it has N rows, failures included, in whatever order they arrive
    ///
    /// Without -n, the shards must arrive one after another, and each closes the one before.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rows_per_shard: Option<u64>,

    /// Shards with fewer rows than -n: SHARD=ROWS, separated by commas
    #[arg(long, value_name = "LIST", default_value = "", requires = "rows_per_shard")]
    short: Short,

    /// Fail if the stream has fewer than N rows, and drop the incomplete shards
    #[arg(long, value_name = "N", requires = "rows_per_shard")]
    expect: Option<u64>,

    /// Write everything as shard N, whatever the keys
    #[arg(long, value_name = "N", conflicts_with_all = ["rows_per_shard", "row_digits"])]
    only_shard: Option<u64>,

    /// Number of digits at the end of a key that are the row; those before are the shard
    #[arg(long, value_name = "N", default_value_t = 4)]
    row_digits: usize,

    /// Name shards with at least N digits
    #[arg(long, value_name = "N", default_value_t = 5)]
    shard_digits: usize,

    /// Use the status and count names of PROGRAM
    #[arg(long, value_name = "PROGRAM", default_value = "img2dataset")]
    words: Words,

    #[command(flatten)]
    held: Held,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    talk: Talk,
}

const EXAMPLES: &str = "Examples:
  # The job of img2dataset, step by step
  urlcat urls.parquet --caption-col TEXT --rows-per-shard 10000 --key '{shard:05}{row:04}' |
    fetch --pass-failed --ext jpg | tarresize -s 256 --on-error pass |
    tardataset -n 10000 --caption -o laion --columns 'caption url key status error_message width:int32 height:int32 code'";

/// Storage format of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// FOLDER/00000.tar
    Tar,
    /// FOLDER/00000/ with the files of each sample
    Files,
    /// A last column of FOLDER/00000.parquet
    Parquet,
    /// FOLDER/00000.tfrecord
    Tfrecord,
    /// Nowhere: only counts are written
    None,
}

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: Args) -> Result<Outcome> {
    let layout = layout(&args)?;
    let samples = args.input.samples(&args.held)?;
    let tally = samples.tally();
    let mut parts = Parts { layout: &layout, open: BTreeMap::new(), rows: 0, cut: None };
    for sample in samples {
        parts.add(sample?.into())?;
        tally.add(|tally| tally.done());
    }
    parts.finish(args.expect)?;
    Ok(tally.take().into())
}

/// The shards that are open.
struct Parts<'a> {
    layout: &'a Layout,
    open: BTreeMap<u64, Part<'a>>,
    rows: u64,
    /// The sample whose clips come, and its shard.
    cut: Option<(String, u64)>,
}

impl Parts<'_> {
    fn add(&mut self, row: Row) -> Result<()> {
        let begins = row.clip_of.is_none() || self.cut.as_ref().map(|(key, _)| key) != row.clip_of.as_ref();
        if begins {
            self.end_clips()?;
            self.rows += 1;
        }
        let number = self.layout.shard_of(&row.sample.key)?;
        if !self.open.contains_key(&number) {
            if self.layout.rows_per_shard.is_none() {
                std::mem::take(&mut self.open).into_values().try_for_each(Part::finish)?;
            }
            self.open.insert(number, Part::create(self.layout, number)?);
        }
        let Some(part) = self.open.get_mut(&number) else { return Ok(()) };
        self.cut = row.clip_of.clone().map(|key| (key, number));
        part.add(row, begins)?;
        if self.cut.is_none() { self.close_if_full(number) } else { Ok(()) }
    }

    /// A video is over when something else follows its clips.
    fn end_clips(&mut self) -> Result<()> {
        self.cut.take().map_or(Ok(()), |(_, number)| self.close_if_full(number))
    }

    fn close_if_full(&mut self, number: u64) -> Result<()> {
        let is_full = self.open.get(&number).is_some_and(|part| self.layout.is_full(number, part.rows()));
        let full = if is_full { self.open.remove(&number) } else { None };
        full.map_or(Ok(()), Part::finish)
    }

    fn finish(mut self, expected: Option<u64>) -> Result<()> {
        self.end_clips()?;
        if let Some(expected) = expected.filter(|&expected| expected != self.rows) {
            bail!("{} rows came where {expected} were expected: shards that lack some are not written", self.rows);
        }
        self.open.into_values().try_for_each(Part::finish)
    }
}

/// Checks the flags against each other.
fn layout(args: &Args) -> Result<Layout> {
    let types = args.types_from.as_deref().map(|name| Table::open(name, None)).transpose()?;
    let columns = Typed::parse(&args.columns, types.as_ref()).context(Usage("--columns".into()))?;
    if args.row_digits > 18 {
        bail!(Usage("--row-digits goes up to 18".into()));
    }
    Ok(Layout {
        folder: args.output.trim_end_matches('/').to_owned(),
        format: args.format,
        columns,
        json: args.json.split_whitespace().map(str::to_owned).collect(),
        field: args.field.clone(),
        caption: args.caption,
        rows_per_shard: args.rows_per_shard,
        short: args.short.clone(),
        only_shard: args.only_shard,
        row_digits: args.row_digits,
        shard_digits: args.shard_digits,
        words: args.words,
    })
}
