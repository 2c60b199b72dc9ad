//! The flags of tarsort, and the order they ask for.

use std::path::PathBuf;

use clap::Parser;
use tarpipe::cli::{InputFlags, OutputFlags, ParallelFlags, SampleLimit, Verbosity};
use tarpipe::random::Random;
use tarpipe::sort::{SortOptions, Sorter};
use tarpipe::value::size;

use crate::tarsort::order::{SortBy, SortOrder};

/// Sort or shuffle a stream of samples that need not fit into memory
///
/// Sorts by key, by the content of a field, or by a value in a JSON field; or shuffles, with every
/// order equally likely. Samples that compare equal keep their input order. Members keep their
/// headers and bytes.
///
/// A stream larger than --memory is sorted in pieces, which are written to an unnamed file in
/// --tmpdir and merged from there; that file is at most as large as the stream plus the fields
/// sorted by. For uncompressed files, only the order is held in memory and samples are copied from
/// their offsets; if seeking is slow, pipe the files in.
///
/// Keys in the output are unique: when sorting by key, a repeated key is an error unless --unique
/// or --group is given.
#[derive(Parser)]
#[command(name = "tarsort", version, after_long_help = EXAMPLES)]
pub struct Args {
    /// Sort by the content of a field, or by a value in a JSON field
    ///
    /// cls is a field; json.width is the value width of the field json, and json.boxes.0 the
    /// first of a list. Content compares byte by byte, to its end; values of JSON by their
    /// type: false, true, numbers, text. Samples without it come last.
    #[arg(short = 'k', long, value_name = "FIELD[.PATH]")]
    pub by: Option<String>,

    /// Compare values as numbers; non-numeric values sort last
    #[arg(short, long, requires = "by")]
    pub numeric: bool,

    /// Sort in descending order
    #[arg(short, long)]
    pub reverse: bool,

    /// Put the samples in random order
    #[arg(long, conflicts_with_all = ["by", "reverse", "unique", "group"])]
    pub shuffle: bool,

    /// Seed of the random order: the same number gives the same order
    #[arg(long, value_name = "S", default_value_t = 0, requires = "shuffle")]
    pub seed: u64,

    /// Keep the first of samples that compare equal; count the others as duplicate
    #[arg(short, long, conflicts_with = "group")]
    pub unique: bool,

    /// Merge samples that share a key into one; a repeated field is an error
    #[arg(long, conflicts_with = "by")]
    pub group: bool,

    /// Hold up to SIZE in memory
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::parse)]
    pub memory: u64,

    /// Directory for data that does not fit into memory [default: TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    pub tmpdir: Option<PathBuf>,

    /// Compress the data in --tmpdir, for slow or small disks
    #[arg(long)]
    pub compress_spill: bool,

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
  # A full shuffle of a dataset, repeatable, into new shards
  tarsort --shuffle --seed 7 'raw-{000..147}.tar' | tarsplit -n 10000 -o 'train-{shard:05}.tar'

  # The widest pictures first
  tarsort -k json.width --reverse in.tar -o by-width.tar

  # Bring scattered members of a sample together
  tarsort --group scattered.tar -o whole.tar

  # Each caption once, with little memory
  cat *.tar | tarsort -k txt --unique --memory 256M --tmpdir /scratch -o captions.tar";

impl Args {
    pub fn order(&self) -> SortOrder {
        let by = match &self.by {
            _ if self.shuffle => SortBy::Chance(Random::new(self.seed)),
            Some(field) => SortBy::Field(field.clone()),
            None => SortBy::Key,
        };
        SortOrder::new(by, self.numeric, self.reverse)
    }

    pub fn sorter(&self) -> Sorter {
        let tmpdir = self.tmpdir.clone().unwrap_or_else(std::env::temp_dir);
        Sorter::new(SortOptions { memory: self.memory, tmpdir, compress: self.compress_spill, reverse: self.reverse })
    }
}
