//! The flags of urlcat, and the parsers of their values.

use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Parser;
use tarpipe::cli::{self, ForceFlag, Verbosity};
use tarpipe::table::TableFormat;
use tarpipe::value::expression::Expression;
use tarpipe::value::partition::Partition;
use tarpipe::value::slice::Slice;

use crate::urlcat::partition::ShardNumbers;

/// Concatenate tables of URLs into rows for fetch; pick, slice, sample and dedupe them
///
/// Reads txt (one URL per line), csv, tsv, json, jsonl, parquet and arrow or feather tables, also
/// compressed, and writes one JSON object per line. The format is detected from the content. In txt
/// and tsv, quotes are not special. Parquet is read batch by batch, and only the needed columns;
/// column-oriented json tables are held in memory.
///
/// The flags act in this order: rows are sliced (--slice), filtered (--where), sampled (--sample),
/// deduped (--unique) and numbered; the numbers make the keys and decide which rows --shard takes,
/// so the parts of a run never overlap and no key is repeated.
///
/// The columns url, caption and key come first, under these names. A URL column with lists makes
/// one sample of several files.
#[derive(Parser)]
#[command(name = "urlcat", version, after_long_help = EXAMPLES)]
pub struct Args {
    /// Tables: paths, folders, globs, http(s):// and other sources, - for stdin
    ///
    /// {0000..0147} and {a,b} expand to lists. An http(s):// URL without the suffix of a table is a
    /// row itself. Without a table, stdin is read.
    #[arg(value_name = "TABLE")]
    pub tables: Vec<String>,

    /// Read more table names from FILE, one per line
    #[arg(short = 'T', long, value_name = "FILE")]
    pub files_from: Vec<String>,

    /// Read every table as txt, csv, tsv, json, jsonl, parquet or arrow
    #[arg(long, value_name = "FORMAT", value_parser = parse_format)]
    pub format: Option<TableFormat>,

    /// Column with the URL [default: url, or the only one named URL, image_url or the like]
    #[arg(long, value_name = "COLUMN")]
    pub url_col: Option<String>,

    /// Column with the caption [default: caption, if it exists; without --url-col also TEXT]
    #[arg(long, value_name = "COLUMN")]
    pub caption_col: Option<String>,

    /// Column with the key [default: key, if it exists]
    #[arg(long, value_name = "COLUMN", conflicts_with = "key")]
    pub key_col: Option<String>,

    /// Make keys from a template of {index}, {shard} and {row}
    ///
    /// index counts all rows; shard is index / --rows-per-shard, counted from --first-shard; row is
    /// the remainder. The default is {index:09} if the table has no column key.
    #[arg(long, value_name = "TEMPLATE")]
    pub key: Option<String>,

    /// Keep only these other columns, such as 'NSFW similarity'; NEW=OLD renames one, '' keeps none
    ///
    /// A list, separated by commas or blanks.
    #[arg(long, value_name = "COLUMNS")]
    pub keep: Option<String>,

    /// Keep the rows for which a CEL expression over the columns holds
    ///
    /// For example 'similarity > 0.3 && width >= 256'. A row that lacks a value the expression needs
    /// is left out and counted as no_value. A column that no row has is an error.
    #[arg(long = "where", value_name = "EXPR", value_parser = parse_filter)]
    pub filter: Option<Arc<Expression>>,

    /// Keep only rows LO, LO+STEP, … below HI
    #[arg(long, value_name = "LO:HI[:STEP]")]
    pub slice: Option<Slice>,

    /// Keep each row with probability P
    #[arg(long, value_name = "P", value_parser = parse_share)]
    pub sample: Option<f64>,

    /// Seed of the random choices: the same number gives the same output
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,

    /// Drop rows with a repeated URL
    ///
    /// Exact for the first 8 million different URLs (about 300 MB); after that a URL is remembered
    /// for at least the next 8 million different ones.
    #[arg(long)]
    pub unique: bool,

    /// Take part I of N: every N-th row, or with --rows-per-shard every N-th shard
    ///
    /// I counts from 0. env reads both from TARPIPE_SHARD (I/N), a Slurm array or a Kubernetes
    /// Indexed Job.
    #[arg(long, value_name = "I/N|env")]
    pub shard: Option<Partition>,

    /// Make --shard take one of N ranges of equal length instead
    ///
    /// The tables are read twice, so they cannot come from stdin. For parquet tables without a
    /// filter, only the metadata is read the first time.
    #[arg(long, requires = "shard")]
    pub contiguous: bool,

    /// Rows per shard [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rows_per_shard: Option<u64>,

    /// Number the first shard N
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub first_shard: u64,

    /// Take only these shards of --rows-per-shard rows, such as 0,3,7-9
    ///
    /// A list, separated by commas or blanks.
    #[arg(long, value_name = "LIST", conflicts_with = "shard")]
    pub shards: Option<ShardNumbers>,

    /// Print only the number of shards of --rows-per-shard rows
    #[arg(long, conflicts_with_all = ["columns", "head"])]
    pub count_shards: bool,

    /// Print only the columns of the first table and their types
    #[arg(long)]
    pub columns: bool,

    /// Print only the columns of all tables, each with the type that holds all of its values
    ///
    /// The types are those of tardataset --columns: string, json, bool, int64 and double. All rows are read. Values of csv,
    /// tsv and txt tables are parsed; for json and jsonl tables, give --format, since strings that look like numbers stay strings.
    #[arg(long, conflicts_with_all = ["columns", "count_shards", "head"])]
    pub types: bool,

    /// Print only the first N rows, as they are in the table
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10", conflicts_with = "columns")]
    pub head: Option<u64>,

    /// Skip unreadable rows and tables, and count them
    #[arg(long)]
    pub skip_bad: bool,

    /// Write to NAME: a path, an http(s):// URL (PUT), pipe:COMMAND, - for stdout
    #[arg(short, long, value_name = "NAME", default_value = "-", value_parser = cli::output_name)]
    pub output: String,

    #[command(flatten)]
    pub force: ForceFlag,
    #[command(flatten)]
    pub talk: Verbosity,
}

const EXAMPLES: &str = "Examples:
  # A table of LAION, filtered, for fetch
  urlcat laion.parquet --url-col URL --caption-col TEXT --where 'similarity > 0.3' | fetch -o out.tar

  # Look at a table first
  urlcat --columns laion.parquet; urlcat --head 3 laion.parquet

  # One of 16 jobs, with keys that are unique across all of them
  urlcat 'part-*.parquet' --shard 3/16 --key '{shard:05}{row:04}' | fetch -o 3.tar

  # URLs that follow a pattern
  urlcat 'http://host/imagenet-{0000..0147}.tgz' | fetch --max-bytes 2G -o shards.tar";

impl Args {
    /// --rows-per-shard, or its default.
    pub fn rows_per_shard(&self) -> u64 {
        self.rows_per_shard.unwrap_or(10_000)
    }
}

fn parse_format(name: &str) -> Result<TableFormat> {
    match TableFormat::from_name(name) {
        Some(format) => Ok(format),
        None => bail!("unknown format (use txt, csv, tsv, json, jsonl, parquet or arrow)"),
    }
}

fn parse_filter(text: &str) -> Result<Arc<Expression>> {
    Expression::parse(text).map(Arc::new)
}

fn parse_share(text: &str) -> Result<f64> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => bail!("not a number from 0 to 1"),
    }
}
