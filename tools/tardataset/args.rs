//! The flags of tardataset, and the layout they ask for.

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use tarpipe::cli::{InputFlags, SampleLimit, Usage, Verbosity};
use tarpipe::table::{Table, TypedColumns};
use tarpipe::value::list::List;

use crate::tardataset::layout::{DatasetLayout, ShortShards};
use crate::tardataset::status_names::StatusNames;

/// Write a stream as a dataset: shards, a table of every row and counts beside each
///
/// Reads samples whose keys are a shard number followed by a row number (urlcat --key
/// '{shard:05}{row:04}'), and writes FOLDER/00000.tar with the successful samples,
/// FOLDER/00000.parquet with one row per sample or failure, and finally FOLDER/00000_stats.json with
/// counts: a shard that has this file is done. Failures are part of the stream, as fetch
/// --pass-failed and tarresize or tarvideo --on-error pass write them. Statuses and messages use
/// img2dataset's wording; the column code has tarpipe's codes. With -n, the rows of a shard are
/// written in the order of their numbers, whatever the order in which they arrive; those that wait
/// for others take up to 32 MB per shard in memory, and more in a temporary file in $TMPDIR.
///
/// The columns of the table are taken from each sample's json, in the order of --columns. The clips
/// of a video are adjacent; each has a line in the table, and together they count as one row, which
/// is a success if any of them is.
#[derive(Parser)]
#[command(name = "tardataset", version, after_long_help = EXAMPLES)]
pub struct Args {
    /// Write into FOLDER: a path, or a prefix in an object store
    #[arg(short, long, value_name = "FOLDER")]
    pub output: String,

    /// Storage format of the samples
    #[arg(long, value_name = "FORMAT", default_value = "tar")]
    pub format: StorageFormat,

    /// Columns of the table, such as 'id:int64 caption:=TEXT url key status'
    ///
    /// A list, separated by commas or blanks. The type after the colon is string (the default), json, bool, int32,
    /// int64, float or double, or =COLUMN for the type of COLUMN in the table of --types-from.
    #[arg(long, value_name = "LIST", default_value = "url caption key status error_message code")]
    pub columns: String,

    /// Keep these entries of each sample's json, such as 'video_metadata cuts', or '*' for all
    ///
    /// A list, separated by commas or blanks. By default the json has only the columns of the table. An entry that is
    /// also a column keeps its original value in the json, not that of the table.
    #[arg(long, value_name = "LIST", default_value = "")]
    pub json: List,

    /// Take column types from this parquet or arrow table
    #[arg(long, value_name = "TABLE")]
    pub types_from: Option<String>,

    /// Field to store in the formats parquet and tfrecord
    #[arg(long, value_name = "FIELD", default_value = "jpg")]
    pub field: String,

    /// Write a txt per sample: its caption, else its own txt, else empty [default: write none]
    #[arg(long)]
    pub caption: bool,

    /// Close a shard when it has N rows, failures included, in whatever order they arrive
    ///
    /// Without -n, the shards must arrive one after another, and each closes the one before.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rows_per_shard: Option<u64>,

    /// Shards with fewer rows than -n, such as 7=123
    ///
    /// A list, separated by commas or blanks, of SHARD=ROWS.
    #[arg(long, value_name = "LIST", default_value = "", requires = "rows_per_shard")]
    pub short: ShortShards,

    /// Fail if the stream has fewer than N rows, and drop the incomplete shards
    #[arg(long, value_name = "N", requires = "rows_per_shard")]
    pub expect: Option<u64>,

    /// Write everything as shard N, whatever the keys
    #[arg(long, value_name = "N", conflicts_with_all = ["rows_per_shard", "row_digits"])]
    pub only_shard: Option<u64>,

    /// Number of digits at the end of a key that are the row; those before are the shard
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub row_digits: usize,

    /// Name shards with at least N digits
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub shard_digits: usize,

    /// Use the status and count names of PROGRAM
    #[arg(long = "words", value_name = "PROGRAM", default_value = "img2dataset")]
    pub status_names: StatusNames,

    #[command(flatten)]
    pub held: SampleLimit,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub talk: Verbosity,
}

/// Storage format of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StorageFormat {
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

const EXAMPLES: &str = "Examples:
  # The job of img2dataset, step by step
  urlcat urls.parquet --caption-col TEXT --rows-per-shard 10000 --key '{shard:05}{row:04}' |
    fetch --pass-failed --ext jpg | tarresize -s 256 --on-error pass |
    tardataset -n 10000 --caption -o laion --columns 'caption url key status error_message width:int32 height:int32 code'";

impl Args {
    /// The layout of the dataset. A usage error for invalid columns or digits.
    pub fn layout(&self) -> Result<DatasetLayout> {
        let types = self.types_from.as_deref().map(|name| Table::open(name, None)).transpose()?;
        let columns = TypedColumns::parse(&self.columns, types.as_ref()).context(Usage("--columns".into()))?;
        if self.row_digits > 18 {
            bail!(Usage("--row-digits: at most 18".into()));
        }
        Ok(DatasetLayout {
            folder: self.output.trim_end_matches('/').to_owned(),
            format: self.format,
            columns,
            json: self.json.to_vec(),
            field: self.field.clone(),
            caption: self.caption,
            rows_per_shard: self.rows_per_shard,
            short: self.short.clone(),
            only_shard: self.only_shard,
            row_digits: self.row_digits,
            shard_digits: self.shard_digits,
            status_names: self.status_names,
        })
    }
}
