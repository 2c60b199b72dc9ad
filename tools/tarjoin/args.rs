//! The flags of tarjoin, and the parsers of their values.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use tarpipe::cli::{InputFlags, OutputFlags, ParallelFlags, SampleLimit, Verbosity};
use tarpipe::sample::join_on::JoinOn;
use tarpipe::sort::SortOptions;
use tarpipe::value::list::List;
use tarpipe::value::size;

use crate::tarjoin::into::IntoItem;

/// Join samples with the rows of tables, or with the samples of other streams
///
/// For each sample, finds the row with the same key (or URL, hash or other value, see --on) and
/// puts its cells into the sample's JSON or into fields; or finds the sample of another stream and
/// adds its members. The samples keep their order. Members that do not change keep their headers
/// and bytes.
///
/// Each --with is read first, and held in memory; what exceeds --memory is sorted into unnamed
/// files in --tmpdir and looked up there. With --sorted both sides are read side by side, in
/// constant memory. Otherwise there is also one bit of memory per row.
///
/// If a key is repeated in --with, its first row counts. Rows without a sample, samples without a
/// row, repeated keys and rows without a key are counted and reported at the end.
#[derive(Parser)]
#[command(name = "tarjoin", version, after_long_help = EXAMPLES)]
pub struct Args {
    /// Join with this table or stream; can be repeated
    ///
    /// Any name that SOURCE can be; for tables also a folder or a glob. Tables are csv, tsv, json,
    /// jsonl, parquet, arrow or feather, also compressed. Several are joined one after another, in
    /// this order.
    #[arg(long, value_name = "NAME", required = true)]
    pub with: Vec<String>,

    /// Join where VALUE of the sample equals COLUMN of the table
    ///
    /// VALUE is key, a field such as cls, or a value in a JSON field such as json.url. COLUMN defaults
    /// to the last part of VALUE; for streams it is key. Values are compared as text, so 7 equals "7".
    #[arg(long, value_name = "VALUE[=COLUMN]", default_value = "key")]
    pub on: JoinOn,

    /// What to put where: json, json.NAME=COLUMN or FIELD=COLUMN
    ///
    /// A list, separated by commas or blanks. json puts all columns into the sample's JSON, except
    /// the one joined on; txt=caption makes the column caption the field txt; txt alone is short for
    /// txt=txt. From a stream, FIELD=OLD takes the field OLD as FIELD. The default is json for tables
    /// and all fields for streams. Empty cells and nulls add nothing.
    #[arg(long, value_name = "LIST")]
    pub into: Option<List<IntoItem>>,

    /// Which samples to write
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Keep::Left)]
    pub keep: Keep,

    /// What to do if the sample has another value in that place
    ///
    /// Equal values are not a conflict.
    #[arg(long, value_name = "ACTION", value_enum, default_value_t = OnConflict::Fail)]
    pub on_conflict: OnConflict,

    /// Read both sides in order, in constant memory
    ///
    /// Either the keys agree one by one, as in shards that were written together, or both sides
    /// ascend, compared byte by byte, as tarsort writes them. Anything else is an error.
    #[arg(long)]
    pub sorted: bool,

    /// Hold up to SIZE of the rows in memory
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::parse)]
    pub memory: u64,

    /// Directory for data that does not fit into memory [default: TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    pub tmpdir: Option<PathBuf>,

    #[command(flatten)]
    pub held: SampleLimit,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub parallel: ParallelFlags,
    #[command(flatten)]
    pub talk: Verbosity,
}

const EXAMPLES: &str = "Examples:
  # Scores of a table into the JSON of each sample, by the column uid
  tarjoin 'shard-{000..147}.tar' --with scores.parquet --on key=uid | tarsplit -n 10000 -o 'scored-{shard:05}.tar'

  # New captions in place of the old ones
  tarjoin in.tar --with captions.jsonl --on json.url --into txt=caption --on-conflict replace -o out.tar

  # Only the samples in a list, or all others
  tarjoin in.tar --with chosen.csv --on key=uid --into '' --keep inner -o chosen.tar
  tarjoin in.tar --with opted-out.csv --on json.url --keep anti -o rest.tar

  # Pictures and their segmentation maps, from shards that were written together
  tarjoin 'rgb-{00..99}.tar' --with 'seg-{00..99}.tar' --sorted -o pairs.tar";

/// Which samples to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Keep {
    /// All samples
    Left,
    /// Samples with a row in every --with; the others are dropped as no_row
    Inner,
    /// Samples with no row in any --with, unchanged; the others are dropped as has_row
    Anti,
}

/// What happens to a value that the sample has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnConflict {
    /// Use the value of the row
    Replace,
    /// Keep the value of the sample
    Keep,
    /// Leave out the sample, and count it as conflict
    Fail,
}

impl Args {
    /// Where the rows of one --with are held.
    pub fn sort_options(&self) -> SortOptions {
        let tmpdir = self.tmpdir.clone().unwrap_or_else(std::env::temp_dir);
        SortOptions { memory: self.memory / self.with.len() as u64, tmpdir, compress: false, reverse: false }
    }
}
