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
/// Reads samples whose keys are the number of a shard followed by that of a row (urlcat --key
/// '{shard:05}{row:04}'), and writes FOLDER/00000.tar with what succeeded, FOLDER/00000.parquet
/// with a row for each sample and each failure, and FOLDER/00000_stats.json with counts, last: a
/// shard that has it is done. Failures come in the stream, as fetch --pass-failed and tarresize
/// or tarvideo --on-error pass write them. Statuses and messages are worded as img2dataset has
/// them; the column code has ours.
///
/// The columns of the table are taken from each sample's json, in the order of --columns. The clips
/// of a video follow each other; each has a line in the table, and together they count as one row,
/// which is a success when one of them is.
#[derive(Parser)]
#[command(name = "tardataset", version, after_long_help = EXAMPLES)]
struct Args {
    /// Write into FOLDER, which may be anything that can be written
    #[arg(short, long, value_name = "FOLDER")]
    output: String,

    /// How samples are stored
    #[arg(long, value_name = "FORMAT", default_value = "tar")]
    format: Format,

    /// The columns of the table, such as 'id:int64 caption:=TEXT url key status'
    ///
    /// After a colon stands string (the default), json, bool, int32, int64, float or double, or
    /// =COLUMN for the type that COLUMN has in the table of --types-from.
    #[arg(long, value_name = "LIST", default_value = "url caption key status error_message code")]
    columns: String,

    /// Keep these of what the json of a sample says, such as 'video_metadata cuts', or '*' for all
    ///
    /// Otherwise it has the columns of the table alone. A name that is a column too has in the json the value as
    /// it came, not that of the table.
    #[arg(long, value_name = "LIST", default_value = "")]
    json: String,

    /// Take types from this parquet or arrow table
    #[arg(long, value_name = "TABLE")]
    types_from: Option<String>,

    /// The field that the formats parquet and tfrecord store
    #[arg(long, value_name = "FIELD", default_value = "jpg")]
    field: String,

    /// Write a txt for each sample: its caption, else its own, empty where there is neither; without it, none
    #[arg(long)]
    caption: bool,

    /// A shard has N rows, failures included: close it when it has them, in whatever order they come
    ///
    /// Without it the shards must come one after another, and the next closes the one before.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rows_per_shard: Option<u64>,

    /// These shards have fewer rows: SHARD=ROWS, separated by commas
    #[arg(long, value_name = "LIST", default_value = "", requires = "rows_per_shard")]
    short: Short,

    /// The stream must have N rows: with fewer, the shards that lack some are dropped and the run fails
    #[arg(long, value_name = "N", requires = "rows_per_shard")]
    expect: Option<u64>,

    /// Write all as shard N, whatever the keys are
    #[arg(long, value_name = "N", conflicts_with_all = ["rows_per_shard", "row_digits"])]
    only_shard: Option<u64>,

    /// How many digits of a key number the row; those before them number the shard
    #[arg(long, value_name = "N", default_value_t = 4)]
    row_digits: usize,

    /// Name shards with at least N digits
    #[arg(long, value_name = "N", default_value_t = 5)]
    shard_digits: usize,

    /// Whose words statuses and counts use
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
  # What img2dataset does, by hand
  urlcat urls.parquet --caption-col TEXT --rows-per-shard 10000 --key '{shard:05}{row:04}' |
    fetch --pass-failed --ext jpg | tarresize -s 256 --on-error pass |
    tardataset -n 10000 --caption -o laion --columns 'caption url key status error_message width:int32 height:int32 code'";

/// How samples are stored.
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
